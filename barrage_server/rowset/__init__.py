"""Ordered sets of 64-bit row keys, shift data, and their encoding on the wire.

Everything here is an immutable value; nothing knows of sockets, threads or clocks.
"""

from __future__ import annotations

from barrage_server.rowset._ranges import MAX_KEY
from barrage_server.rowset.bitset import decode_bit_set, encode_bit_set
from barrage_server.rowset.codec import (
    decode_row_set,
    decode_shift_data,
    encode_keys,
    encode_range,
    encode_row_set,
    encode_shift_data,
)
from barrage_server.rowset.row_set import RowSet
from barrage_server.rowset.shift_data import RowSetShiftData

__all__ = [
    "MAX_KEY",
    "RowSet",
    "RowSetShiftData",
    "decode_bit_set",
    "decode_row_set",
    "decode_shift_data",
    "encode_bit_set",
    "encode_keys",
    "encode_range",
    "encode_row_set",
    "encode_shift_data",
]
