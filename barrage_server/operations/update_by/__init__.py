"""Functions that move along the rows of each group: ``update_by``."""
