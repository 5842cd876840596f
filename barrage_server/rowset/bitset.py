"""Bit sets as ``java.util.BitSet.toByteArray`` writes them: how the protocol names columns.

Bit ``i`` is bit ``i % 8`` of byte ``i // 8``, and zero bytes at the end are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np

from barrage_server.errors import InvalidRequestError, WireFormatError

__all__ = ["decode_bit_set", "encode_bit_set"]

MAX_BIT_SET_BYTES: Final = 1 << 17
"""The longest bit set that is read: a million columns."""
_SHORT_BYTES: Final = 32
"""The longest bit set whose columns are kept: the same few come again and again."""


def encode_bit_set(indices: Iterable[int]) -> bytes:
    """Give the bytes of the set of ``indices`` (in any order).

    InvalidRequestError when one is negative or beyond a million.
    """
    return _encode(tuple(indices))


@lru_cache(maxsize=256)  # a table's subscribers ask for the same few sets again and again
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
    """Give the indices of the bits that are set, increasing. Zero bytes at the end are allowed.

    WireFormatError when too long.
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
