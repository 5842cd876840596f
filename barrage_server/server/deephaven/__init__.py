"""The endpoint for stock Deephaven clients: their services, over two transports.

The transports are gRPC and websockets.
"""
