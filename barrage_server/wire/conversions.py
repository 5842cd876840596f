"""Conversions of columns to types that a client can read.

Each function takes an array, which may be a slice, and returns an array of the same length. Nulls stay null. Dates and
times outside of the range of the new type become null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types

from barrage_server.wire.buffers import Numbers, bitmap_of, cells_of, valid_of, validity_of
from barrage_server.wire.nulls import to_deephaven_nulls
from barrage_server.wire.variable import byte_runs, list_runs, offsets_buffer, view_runs

__all__ = [
    "DAY_MILLISECONDS",
    "NANOSECONDS",
    "Convert",
    "hex_text",
    "in_a_day",
    "lists",
    "maps",
    "scaled",
    "unsized",
    "whole_days",
    "with_null_values",
]

Convert = Callable[[pa.Array], pa.Array]

NANOSECONDS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds of each of Arrow's units of time."""
DAY_MILLISECONDS: Final = 86_400_000
"""Milliseconds of a day."""

_INT64_MAX: Final = (1 << 63) - 1
_DAY_NANOSECONDS: Final = 86_400 * NANOSECONDS["s"]
_HEX: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)


def scaled(array: pa.Array, target: pa.DataType, factor: int) -> pa.Array:
    """Convert dates or times to 64 bits with a unit ``factor`` times finer.

    Values that exceed 64 bits become null. No copy if the factor is 1.
    """
    if factor == 1:
        return array.view(target)
    count, nulls = len(array), array.null_count
    narrow = array.type.bit_width == 32
    values = cells_of(array, np.int32 if narrow else np.int64)
    data = pa.py_buffer(values * np.int64(factor))  # arbitrary where it overflows, because the value is null there
    limit = _INT64_MAX // factor
    if narrow or _are_within(values, -limit, limit):
        return pa.Array.from_buffers(target, count, [validity_of(array), data], null_count=nulls)
    return pa.Array.from_buffers(target, count, [_valid_within(array, values, -limit, limit), data])


def in_a_day(array: pa.Array) -> pa.Array:
    """Make times outside of a day null; Arrow forbids them, but does not check."""
    last = _DAY_NANOSECONDS // NANOSECONDS[array.type.unit] - 1
    values = cells_of(array, np.int32 if array.type.bit_width == 32 else np.int64)
    if _are_within(values, 0, last):
        return array
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(array.type, len(array), [_valid_within(array, values, 0, last), data])


def whole_days(array: pa.Array) -> pa.Array:
    """Round date64 down to whole days, which Arrow requires, but does not check."""
    values = cells_of(array, np.int64)
    beyond = values % DAY_MILLISECONDS
    if not beyond.any():
        return array
    days = pa.py_buffer(values - beyond)
    return pa.Array.from_buffers(array.type, len(array), [validity_of(array), days], null_count=array.null_count)


def unsized(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert strings or binary of any kind to ``target``, plain string or binary.

    Contiguous bytes are not copied.
    """
    offsets, data = byte_runs(array)
    buffers = [validity_of(array), offsets_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(target, len(array), buffers, null_count=array.null_count)


def hex_text(array: pa.Array) -> pa.Array:
    """Write binary of any kind as lower-case hexadecimal digits, two for each byte."""
    offsets, data = byte_runs(array)
    buffers = [validity_of(array), offsets_buffer(offsets * 2), pa.py_buffer(_HEX[data])]
    return pa.Array.from_buffers(pa.string(), len(array), buffers, null_count=array.null_count)


def lists(array: pa.Array, target: pa.DataType, convert: Convert | None) -> pa.Array:
    """Convert lists of any kind to ``target``, plain lists of converted elements."""
    valid = valid_of(array) if types.is_fixed_size_list(array.type) else None
    if types.is_list_view(array.type) or types.is_large_list_view(array.type):
        offsets, elements = view_runs(array)
    elif valid is None:
        offsets, first, last = list_runs(array)
        elements = array.values.slice(first, last - first)
    else:  # clients on the C++ core read a null list as an empty one, by its offsets
        offsets = np.concatenate(([0], np.cumsum(valid * array.type.list_size)))
        elements = array.flatten()
    if convert is not None:
        elements = convert(elements)
    buffers = [validity_of(array), offsets_buffer(offsets)]
    return pa.Array.from_buffers(target, len(array), buffers, null_count=array.null_count, children=[elements])


def maps(array: pa.Array, target: pa.DataType, key: Convert | None, item: Convert | None) -> pa.Array:
    """Convert maps to ``target``, maps of converted keys and items."""
    offsets, first, last = list_runs(array)
    keys, items = array.keys.slice(first, last - first), array.items.slice(first, last - first)
    entries = pa.StructArray.from_arrays(
        [keys if key is None else key(keys), items if item is None else item(items)],
        fields=[target.key_field, target.item_field],
    )
    buffers = [validity_of(array), offsets_buffer(offsets)]
    return pa.Array.from_buffers(target, len(array), buffers, null_count=array.null_count, children=[entries])


def _are_within(values: Numbers, first: int, last: int) -> bool:
    return not len(values) or bool(values.min() >= first and values.max() <= last)


def _valid_within(array: pa.Array, values: Numbers, first: int, last: int) -> pa.Buffer:
    """Make the validity bitmap of values from ``first`` to ``last``."""
    fits = (values >= first) & (values <= last)
    valid = valid_of(array)
    if valid is not None:
        fits &= valid
    return bitmap_of(fits)


def with_null_values(array: pa.Array) -> pa.Array:
    """Put Deephaven's null values under nulls, for readers of either form."""
    encoded = to_deephaven_nulls(array)
    if encoded is array or types.is_nested(array.type):
        return array
    buffers = [validity_of(array), encoded.buffers()[1]]
    return pa.Array.from_buffers(array.type, len(array), buffers, null_count=array.null_count)
