"""Measurements of this server beside the limit: a bare pyarrow.flight server on the same machine, in the same run."""
