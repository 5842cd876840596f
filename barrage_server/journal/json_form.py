"""Reading the JSON of a data directory. A checksum says that it was written so, and not that it makes sense."""

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
"""Errors of code that is given JSON of another form, or values out of their range."""
_LIMIT: Final = 1 << 62
"""Numbers, steps, ids and row keys are below; so are sums of a few."""


def whole_number(value: object) -> int:
    """A number of a record, a step, an id, a row key, or a count: an int from 0 on. ValueError when it is none."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LIMIT:
        raise ValueError(f"{str(value)[:40]} is no number from 0 on")
    return value
