"""The shared code of both ends of a Flight connection.

It has errors, staging, retries and sockets.
"""
