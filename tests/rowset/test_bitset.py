"""Bit sets are those of java.util.BitSet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import InvalidRequestError, WireFormatError
from barrage_server.rowset import decode_bit_set, encode_bit_set


@pytest.mark.parametrize(
    ("indices", "data"),
    [([], b""), ([0], b"\x01"), ([0, 1, 2, 3, 4, 5], b"\x3f"), ([8], b"\x00\x01"), ([15, 3], b"\x08\x80")],
)
def test_bytes_of_known_sets(indices: list[int], data: bytes) -> None:
    assert encode_bit_set(indices) == data
    assert decode_bit_set(data) == tuple(sorted(indices))


@given(st.sets(st.integers(0, 3000)))
def test_what_is_written_is_read(indices: set[int]) -> None:
    data = encode_bit_set(indices)
    assert decode_bit_set(data) == tuple(sorted(indices))
    assert int.from_bytes(data, "little") == sum(1 << index for index in indices)
    assert not data.endswith(b"\x00")
    assert decode_bit_set(memoryview(data + b"\x00\x00")) == tuple(sorted(indices))


def test_what_cannot_be_a_set_of_columns_is_refused() -> None:
    for index in (-1, 1 << 30):
        with pytest.raises(InvalidRequestError, match="column numbers"):
            encode_bit_set([index])
    with pytest.raises(WireFormatError, match="longer than"):
        decode_bit_set(bytes(1 << 18))
