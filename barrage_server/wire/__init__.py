"""Bytes to values and back: Barrage flatbuffers, schemas, record batches, tickets. No sockets, threads or clocks."""
