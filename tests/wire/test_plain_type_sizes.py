"""A damaged schema may claim what no type can be; it is refused by name."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from barrage_server.errors import UnsupportedTypeError
from barrage_server.wire.plain_type import plain_type


def test_a_fixed_size_list_of_less_than_nothing_is_refused() -> None:
    size = 1_234_567
    stream = pa.schema([("l", pa.list_(pa.list_(pa.int8(), size)))]).serialize().to_pybytes()
    damaged = stream.replace(struct.pack("<i", size), struct.pack("<i", -5))
    assert damaged != stream
    with pytest.raises(UnsupportedTypeError, match="-5"):
        plain_type(pa.ipc.read_schema(pa.py_buffer(damaged)).field("l").type)
