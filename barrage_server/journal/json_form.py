"""Checks of the JSON in a data directory.

A valid checksum proves that the text was written so, and not that its values make sense.
"""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

from barrage_server.errors import BarrageError

__all__ = ["MALFORMED", "whole_number"]

MALFORMED: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    EOFError,  # of pyarrow
    RecursionError,
    AssertionError,
    struct.error,
    pa.ArrowException,
    OSError,  # of pyarrow
    BarrageError,
)
"""Errors of code that reads JSON of another form, or values out of range."""
_LIMIT: Final = 1 << 62
"""The bound of numbers, steps, ids and row keys, and of sums of a few of them."""


def whole_number(value: object) -> int:
    """``value``, if it is an int from 0 on, such as a record's number or a row key.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LIMIT:
        raise ValueError(f"{str(value)[:40]} is no number from 0 on")
    return value
