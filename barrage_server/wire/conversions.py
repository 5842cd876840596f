"""Columns in other types: what a client gets where it cannot read a column's own type.

Every function takes an array, which may be a slice, and gives a new one of the same length; nulls stay null. Values
that the new type cannot hold become null, which happens only to times out of its range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types

from barrage_server.wire.nulls import to_deephaven_nulls
from barrage_server.wire.variable import bits, byte_runs, cells, list_runs, offsets_buffer, validity

__all__ = ["Convert", "hex_text", "lists", "maps", "scaled", "unsized", "with_null_values"]

Convert = Callable[[pa.Array], pa.Array]

_INT64_MAX: Final = (1 << 63) - 1
_HEX: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)


def scaled(array: pa.Array, target: pa.DataType, factor: int) -> pa.Array:
    """A date, time, timestamp or duration array as one of 64 bits whose unit is ``factor`` times as fine.

    Null where that is beyond 64 bits. No copy if the factor is 1.
    """
    if factor == 1:
        return array.view(target)
    count, nulls = len(array), array.null_count
    narrow = array.type.bit_width == 32
    values = cells(array, np.int32 if narrow else np.int64)
    data = pa.py_buffer(values * np.int64(factor))  # of what does not fit, some number: it is null
    limit = _INT64_MAX // factor
    if narrow or not count or (values.min() >= -limit and values.max() <= limit):
        return pa.Array.from_buffers(target, count, [validity(array), data], null_count=nulls)
    fits = (values >= -limit) & (values <= limit)
    valid = bits(array)
    if valid is not None:
        fits &= valid
    return pa.Array.from_buffers(target, count, [pa.py_buffer(np.packbits(fits, bitorder="little")), data])


def unsized(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A string or binary array of any kind as ``target``: plain string or binary. The bytes are not copied."""
    offsets, data = byte_runs(array)
    buffers = [validity(array), offsets_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(target, len(array), buffers, null_count=array.null_count)


def hex_text(array: pa.Array) -> pa.Array:
    """A binary array of any kind as text: two lower-case hexadecimal digits for each byte."""
    offsets, data = byte_runs(array)
    buffers = [validity(array), offsets_buffer(offsets * 2), pa.py_buffer(_HEX[data])]
    return pa.Array.from_buffers(pa.string(), len(array), buffers, null_count=array.null_count)


def lists(array: pa.Array, target: pa.DataType, convert: Convert | None) -> pa.Array:
    """A list array of any kind as ``target``, a plain list of converted elements."""
    valid = bits(array) if types.is_fixed_size_list(array.type) else None
    if valid is None:
        offsets, first, last = list_runs(array)
        elements = array.values.slice(first, last - first)
    else:  # clients on the C++ core look at offsets only: to them a null list is one without elements
        offsets = np.concatenate(([0], np.cumsum(valid * array.type.list_size)))
        elements = array.flatten()
    if convert is not None:
        elements = convert(elements)
    buffers = [validity(array), offsets_buffer(offsets)]
    return pa.Array.from_buffers(target, len(array), buffers, null_count=array.null_count, children=[elements])


def maps(array: pa.Array, target: pa.DataType, key: Convert | None, item: Convert | None) -> pa.Array:
    """A map array as ``target``, a map of converted keys and items."""
    offsets, first, last = list_runs(array)
    keys, items = array.keys.slice(first, last - first), array.items.slice(first, last - first)
    entries = pa.StructArray.from_arrays(
        [keys if key is None else key(keys), items if item is None else item(items)],
        fields=[target.key_field, target.item_field],
    )
    buffers = [validity(array), offsets_buffer(offsets)]
    return pa.Array.from_buffers(target, len(array), buffers, null_count=array.null_count, children=[entries])


def with_null_values(array: pa.Array) -> pa.Array:
    """The same array with Deephaven's null values under its nulls, for readers that look at either."""
    encoded = to_deephaven_nulls(array)
    if encoded is array or types.is_nested(array.type):
        return array
    buffers = [validity(array), encoded.buffers()[1]]
    return pa.Array.from_buffers(array.type, len(array), buffers, null_count=array.null_count)
