"""Durability: a journal of cycles, checkpoints of tables, and recovery from both.

A pure room: no threads, no clocks. Files are behind :mod:`barrage_server.journal.files`. ``docs/journal.md`` has the
format, byte by byte.
"""
