"""Functions of rows in the order of their group: ``update_by``."""
