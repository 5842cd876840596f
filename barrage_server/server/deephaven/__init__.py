"""The endpoint for stock Deephaven clients: Deephaven's gRPC services, over gRPC and over websockets."""
