"""Messages of the Deephaven endpoint, compiled from schema/*.proto."""
