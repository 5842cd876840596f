"""Conversion of values to types that Arrow fully supports, and back.

The engine takes, concatenates and compares values, and Arrow does not support all of that for every type. Values of
some types are therefore stored as values of another type that carries the same information:

===================  ==============================================================================
type                 stored as
===================  ==============================================================================
extension type       its storage type
list view            a list of the same items
union                a struct of the type code and one field per member, null except for the chosen one
===================  ==============================================================================

This applies at every depth of nesting. All other types are stored without conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.wire.buffers import codes_of, places_of, validity_of
from barrage_server.wire.variable import list_runs, view_runs

__all__ = ["from_storage", "is_stored_as_itself", "storage_type", "to_storage"]

_FLAT: Final = frozenset(
    each.id
    for each in (
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.timestamp("ns"), pa.date32(), pa.string(), pa.binary()),
    )
)
"""Ids of usual types that are stored as they are: :func:`storage_type` is asked often."""
_CODE = pa.field("code", pa.int8(), nullable=False)


def storage_type(data_type: pa.DataType) -> pa.DataType:
    """The type that values of ``data_type`` are stored as.

    This is ``data_type`` itself, the same object, unless a part of it has another storage type.
    """
    if data_type.id in _FLAT:
        return data_type
    while isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    if not pat.is_nested(data_type):
        return data_type
    given = _fields(data_type)
    fields = [_stored_field(field) for field in given]
    if pat.is_union(data_type):
        return pa.struct([_CODE, *(field.with_name(str(place)) for place, field in enumerate(fields))])
    if pat.is_list_view(data_type):
        return pa.list_(fields[0])
    if pat.is_large_list_view(data_type):
        return pa.large_list(fields[0])
    if all(stored is field for stored, field in zip(fields, given, strict=True)):
        return data_type
    if pat.is_list(data_type):
        return pa.list_(fields[0])
    if pat.is_large_list(data_type):
        return pa.large_list(fields[0])
    if pat.is_fixed_size_list(data_type):
        return pa.list_(fields[0], data_type.list_size)
    if pat.is_map(data_type):
        return pa.map_(*fields, keys_sorted=data_type.keys_sorted)
    return pa.struct(fields)


def is_stored_as_itself(data_type: pa.DataType) -> bool:
    """Whether values of ``data_type`` are stored without conversion."""
    return storage_type(data_type) is data_type


def to_storage(array: pa.Array) -> pa.Array:
    """Convert ``array`` to its :func:`storage_type`.

    Returns ``array`` itself if it has that type. Slices are allowed. Buffers of values are shared where possible.
    """
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    data_type = array.type
    target = storage_type(data_type)
    if target is data_type:
        return array
    if pat.is_union(data_type):
        return _union_to_struct(array, target)
    if pat.is_list_view(data_type) or pat.is_large_list_view(data_type):
        offsets, items = view_runs(array)
        buffers = [validity_of(array), _offsets(offsets, target)]
        return pa.Array.from_buffers(target, len(array), buffers, array.null_count, children=[to_storage(items)])
    return _rebuild(array, target, lambda child, _: to_storage(child))


def from_storage(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert ``array`` back to ``data_type``: the inverse of :func:`to_storage`."""
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(data_type, from_storage(array, data_type.storage_type))
    if is_stored_as_itself(data_type):
        return array
    if pat.is_union(data_type):
        return _struct_to_union(array, data_type)
    if pat.is_list_view(data_type) or pat.is_large_list_view(data_type):
        offsets, first, last = list_runs(array)
        items = from_storage(array.values.slice(first, last - first), data_type.value_type)
        sizes = _offsets(np.diff(offsets), data_type)
        buffers = [validity_of(array), _offsets(offsets[:-1], data_type), sizes]
        return pa.Array.from_buffers(data_type, len(array), buffers, array.null_count, children=[items])
    return _rebuild(array, data_type, from_storage)


def _rebuild(array: pa.Array, target: pa.DataType, convert: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.Array:
    """The part of a list, map or struct array in its slice, with converted children."""
    count, nulls = len(array), array.null_count
    if pat.is_struct(target):
        parts = [convert(array.field(place), field.type) for place, field in enumerate(_fields(target))]
        return pa.Array.from_buffers(target, count, [validity_of(array)], nulls, children=parts)
    if pat.is_fixed_size_list(target):
        size = target.list_size
        items = array.values.slice(array.offset * size, count * size)
        return pa.Array.from_buffers(
            target, count, [validity_of(array)], nulls, children=[convert(items, target.value_type)]
        )
    offsets, first, last = list_runs(array)
    if pat.is_map(target):
        keys, items = array.keys.slice(first, last - first), array.items.slice(first, last - first)
        entries = pa.struct([target.key_field, target.item_field])
        pairs = [convert(keys, target.key_type), convert(items, target.item_type)]
        children = [pa.Array.from_buffers(entries, last - first, [None], 0, children=pairs)]
    else:
        children = [convert(array.values.slice(first, last - first), target.value_type)]
    return pa.Array.from_buffers(
        target, count, [validity_of(array), _offsets(offsets, target)], nulls, children=children
    )


def _union_to_struct(array: pa.Array, target: pa.DataType) -> pa.Array:
    data_type, count = array.type, len(array)
    codes = codes_of(array)
    places = places_of(array) if data_type.mode == "dense" else np.arange(count, dtype=np.int32)
    members = []
    for place, code in enumerate(data_type.type_codes):
        chosen = codes == code
        members.append(to_storage(array.field(place)).take(pa.array(places, mask=~chosen)))
    children = [pa.Array.from_buffers(pa.int8(), count, [None, pa.py_buffer(codes)], 0), *members]
    return pa.Array.from_buffers(target, count, [None], 0, children=children)


def _struct_to_union(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    count = len(array)
    # The placeholder beneath a null of the outer type is a null of the first member.
    codes = array.field(0).fill_null(data_type.type_codes[0]).to_numpy(zero_copy_only=False)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(codes))]
    children = []
    offsets = np.zeros(count, np.int32)
    for place, (code, field) in enumerate(zip(data_type.type_codes, _fields(data_type), strict=True)):
        member = array.field(1 + place)
        if data_type.mode == "dense":
            rows = np.flatnonzero(codes == code)
            offsets[rows] = np.arange(len(rows), dtype=np.int32)
            member = member.take(pa.array(rows))
        children.append(from_storage(member, field.type))
    if data_type.mode == "dense":
        buffers.append(pa.py_buffer(offsets))
    return pa.Array.from_buffers(data_type, count, buffers, 0, children=children)


def _offsets(numbers: npt.NDArray[Any], data_type: pa.DataType) -> pa.Buffer:
    """Offsets or sizes in the width of a list type."""
    large = pat.is_large_list(data_type) or pat.is_large_list_view(data_type)
    return pa.py_buffer(np.ascontiguousarray(numbers, np.int64 if large else np.int32))


def _stored_field(field: pa.Field) -> pa.Field:
    """``field`` with its storage type; ``field`` itself if that is the same."""
    given = field.type
    stored = storage_type(given)
    return field if stored is given else field.with_type(stored)


def _fields(data_type: pa.DataType) -> list[pa.Field]:
    """The child fields of a nested type; the key and the item of a map."""
    if pat.is_map(data_type):
        return [data_type.key_field, data_type.item_field]
    return [data_type.field(place) for place in range(data_type.num_fields)]
