"""Messages of the gRPC door, compiled from schema/*.proto."""
