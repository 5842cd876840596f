"""Bytes to values and back: Barrage flatbuffers, schemas, batches, tickets.

No sockets, threads or clocks.
"""
