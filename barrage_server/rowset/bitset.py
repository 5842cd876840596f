"""Bit sets in the form of ``java.util.BitSet.toByteArray``, for column numbers.

Bit ``i`` is bit ``i % 8`` of byte ``i // 8``. Zero bytes at the end are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np

from barrage_server.errors import InvalidRequestError, WireFormatError

__all__ = ["decode_bit_set", "encode_bit_set"]

MAX_BIT_SET_BYTES: Final = 1 << 17
"""The most bytes of a bit set that is read: a million columns."""
_SHORT_BYTES: Final = 32
"""The most bytes of a bit set whose decoded columns are cached."""


def encode_bit_set(indices: Iterable[int]) -> bytes:
    """Encode the set of ``indices``, in any order.

    Raises:
        InvalidRequestError: an index is negative or beyond a million.

    """
    return _encode(tuple(indices))


@lru_cache(maxsize=256)  # subscribers of a table request the same few sets
def _encode(indices: tuple[int, ...]) -> bytes:
    wanted = {int(index) for index in indices}
    if not wanted:
        return b""
    if min(wanted) < 0 or max(wanted) >= 8 * MAX_BIT_SET_BYTES:
        raise InvalidRequestError(f"column numbers lie within 0 and {8 * MAX_BIT_SET_BYTES - 1}")
    bits = np.zeros(max(wanted) + 1, np.uint8)
    bits[list(wanted)] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def decode_bit_set(data: bytes | bytearray | memoryview) -> tuple[int, ...]:
    """Decode a bit set to increasing indices. Zero bytes at the end are allowed.

    Raises:
        WireFormatError: the bit set is too long.

    """
    if len(data) > MAX_BIT_SET_BYTES:
        raise WireFormatError(f"a bit set of {len(data)} bytes is longer than any number of columns needs")
    return _decode_short(bytes(data)) if len(data) <= _SHORT_BYTES else _decode(data)


@lru_cache(maxsize=256)
def _decode_short(data: bytes) -> tuple[int, ...]:
    return _decode(data)


def _decode(data: bytes | bytearray | memoryview) -> tuple[int, ...]:
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    return tuple(np.flatnonzero(bits).tolist())
