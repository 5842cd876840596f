"""Conversion of arrays to the plain form of tables, with one contiguous layout.

Arrow has many layouts of the same values, and some of its functions are unsafe with some of the layouts: they read
beyond the buffers of sliced nested lists, or of empty arrays without offsets. A *plain* array has no dictionaries, run
ends or views; nested arrays are not slices, and their children have exactly the needed length; offsets are present.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import lib, types

from barrage_server.errors import LimitError
from barrage_server.wire.array_bound import MOST_ITEMS
from barrage_server.wire.buffers import LARGE, bitmap_of, bits_of, codes_of, offsets_of, places_of, validity_of
from barrage_server.wire.empty import empty_array
from barrage_server.wire.plain_size import plain_size
from barrage_server.wire.variable import view_moves

__all__ = ["check_item_counts", "is_plain", "to_plain"]

_MOST: Final = (1 << 31) - 1
_PIECE: Final = 1 << 20
"""Elements that are gathered at a time, which bounds the memory of their positions."""


def to_plain(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert an array to plain form; a plain array is returned unchanged.

    Args:
        array: a sound array (:mod:`barrage_server.wire.soundness`), which may be a slice.
        target: the plain type of the array. Names of list items and nullability may differ; for an array of type null
            it may be any type.

    Raises:
        LimitError: the values are too large for one array.

    """
    if array.type == target and is_plain(array):
        return array
    return _convert(array, target)


def is_plain(array: pa.Array) -> bool:
    """Whether an array of a plain type has the plain layout.

    An array of a type that is not nested may be a slice.
    """
    return _is_plain(array, is_top=True)


def check_item_counts(array: pa.Array) -> None:
    """Check that offsets of lists, at any depth, can count their items.

    Arrow's functions do not check it.

    Raises:
        pa.ArrowInvalid: there are too many items.

    """
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    kind = array.type.id
    if kind in (lib.Type_LIST, lib.Type_MAP):
        if len(array.values) > _MOST:
            raise pa.ArrowInvalid(f"there are {len(array.values)} items in lists of type {array.type}")
        check_item_counts(array.values)
    elif kind in (lib.Type_LARGE_LIST, lib.Type_FIXED_SIZE_LIST, lib.Type_LIST_VIEW, lib.Type_LARGE_LIST_VIEW):
        check_item_counts(array.values)
    elif kind in (lib.Type_STRUCT, lib.Type_SPARSE_UNION, lib.Type_DENSE_UNION):
        for index in range(array.type.num_fields):
            check_item_counts(array.field(index))


def _is_plain(array: pa.Array, *, is_top: bool = False) -> bool:
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    data_type, count = array.type, len(array)
    kind = data_type.id
    if kind in _ENCODED:
        return False
    if kind in _WITH_OFFSETS and not _has_offsets(array):
        return False
    if not types.is_nested(data_type):
        return is_top or array.offset == 0
    if array.offset:
        return False
    if kind in _LISTS:
        offsets = offsets_of(array)
        return bool(offsets[0] == 0 and offsets[-1] == len(array.values)) and _is_plain(array.values)
    if kind == lib.Type_FIXED_SIZE_LIST:
        return len(array.values) == count * data_type.list_size and _is_plain(array.values)
    if kind != lib.Type_STRUCT:
        return False  # list views and unions are always converted
    return all(_is_plain(array.field(number)) for number in range(data_type.num_fields))


def _has_offsets(array: pa.Array) -> bool:
    offsets = array.buffers()[1]
    return offsets is not None and offsets.size >= 4 * (len(array) + 1)


def _convert(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert an array to plain form, also a plain one; the result is not a slice."""
    if len(array) == 0:
        return empty_array(target)
    if types.is_null(array.type) and not types.is_null(target):
        return _child(pa.nulls(len(array), target), target)
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if isinstance(target, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(target, _child(array, target.storage_type))
    convert = _CONVERSIONS.get(array.type.id, _cut)
    return convert(array, target)


def _child(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert an array to plain form; the result is not a slice."""
    return array if array.type == target and _is_plain(array) else _convert(array, target)


def _cut(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert an array of a type that is not nested to offset 0."""
    kind, count, first = target.id, len(array), array.offset
    buffers = array.buffers()
    if kind == lib.Type_NA:
        return pa.nulls(count)
    if kind == lib.Type_BOOL:
        body = [bitmap_of(bits_of(buffers[1], first, count))]
    elif kind in _WITH_OFFSETS:
        offsets = offsets_of(array)
        start, stop = int(offsets[0]), int(offsets[-1])
        data = pa.py_buffer(b"") if buffers[2] is None else buffers[2].slice(start, stop - start)
        body = [_offsets_buffer(offsets - start, target), data]
    else:
        width = target.bit_width // 8
        body = [buffers[1].slice(first * width, count * width) if width else pa.py_buffer(b"")]
    return pa.Array.from_buffers(target, count, [validity_of(array), *body], array.null_count)


def _dictionary(array: pa.Array, target: pa.DataType) -> pa.Array:
    _check_size(array, target)
    return _taken(to_plain(array.dictionary, target), array.indices)


def _runs(array: pa.Array, target: pa.DataType) -> pa.Array:
    _check_size(array, target)
    run_ends = array.run_ends
    values = to_plain(array.values.slice(0, len(run_ends)), target)
    if not types.is_nested(values.type) and not isinstance(values.type, pa.BaseExtensionType):
        data_type = pa.run_end_encoded(run_ends.type, values.type)
        children = [run_ends, values]
        return pc.run_end_decode(
            pa.Array.from_buffers(data_type, len(array), [None], 0, array.offset, children=children)
        )
    ends = run_ends.to_numpy().astype(np.int64, copy=False)
    return _gathered(values, array.offset, array.offset + len(array), lambda places: ends.searchsorted(places, "right"))


def _view(array: pa.Array, target: pa.DataType) -> pa.Array:
    _check_size(array, target)
    return array.cast(target)


def _list_view(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Lay out a list view in order, with each item once per list that has it."""
    offsets, moves = view_moves(array)
    laid_out = _list_buffers(offsets, target)  # before the items, because it refuses too many of them
    total, item = int(offsets[-1]), target.field(0).type
    if (moves == moves[:1]).all():  # the lists are contiguous
        items = _child(array.values.slice(int(moves[0]), total), item)
    else:

        def origins(places: _Places) -> _Places:
            result: _Places = places + moves[offsets.searchsorted(places, "right") - 1]
            return result

        items = _gathered(to_plain(array.values, item), 0, total, origins)
    return pa.Array.from_buffers(
        target, len(array), [validity_of(array), *laid_out], array.null_count, children=[items]
    )


def _list(array: pa.Array, target: pa.DataType) -> pa.Array:
    offsets = offsets_of(array)
    first, last = int(offsets[0]), int(offsets[-1])
    item = pa.struct([target.key_field, target.item_field]) if types.is_map(target) else target.field(0).type
    items = _child(array.values.slice(first, last - first), item)
    buffers = [validity_of(array), *_list_buffers(offsets - first, target)]
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, children=[items])


def _list_buffers(offsets: npt.NDArray[Any], target: pa.DataType) -> list[pa.Buffer]:
    """Make the buffers of a list or list view after its validity, by offsets from 0."""
    whole = _offsets_buffer(offsets, target)
    if target.id in _LISTS:
        return [whole]
    width = whole.size // len(offsets)
    return [whole.slice(0, whole.size - width), _offsets_buffer(np.diff(offsets), target)]


def _offsets_buffer(offsets: npt.NDArray[Any], target: pa.DataType) -> pa.Buffer:
    """Make a buffer of offsets from 0, or of sizes, with the width of the type."""
    if target.id in LARGE:
        return pa.py_buffer(np.ascontiguousarray(offsets, np.int64))
    if offsets[-1] > _MOST:
        raise _too_large(target)
    return pa.py_buffer(np.ascontiguousarray(offsets, np.int32))


def _fixed_size_list(array: pa.Array, target: pa.DataType) -> pa.Array:
    size = target.list_size
    items = _child(array.values.slice(array.offset * size, len(array) * size), target.field(0).type)
    return pa.Array.from_buffers(target, len(array), [validity_of(array)], array.null_count, children=[items])


def _struct(array: pa.Array, target: pa.DataType) -> pa.Array:
    children = [_child(array.field(number), target.field(number).type) for number in range(target.num_fields)]
    return pa.Array.from_buffers(target, len(array), [validity_of(array)], array.null_count, children=children)


def _sparse_union(array: pa.Array, target: pa.DataType) -> pa.Array:
    children = [_child(array.field(number), target.field(number).type) for number in range(target.num_fields)]
    codes = pa.py_buffer(codes_of(array).copy())
    return pa.Array.from_buffers(target, len(array), [None, codes], children=children)


def _dense_union(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert a dense union so that each child has exactly the used values, in order."""
    codes, origins = codes_of(array), places_of(array)
    offsets = np.zeros(len(array), np.int32)
    children = []
    for number, code in enumerate(target.type_codes):
        chosen = codes == code
        count = int(np.count_nonzero(chosen))
        offsets[chosen] = np.arange(count, dtype=np.int32)
        values = to_plain(array.field(number), target.field(number).type)
        children.append(_taken(values, pa.array(origins[chosen])) if count else empty_array(values.type))
    buffers = [None, pa.py_buffer(codes.copy()), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(target, len(array), buffers, children=children)


def _gathered(values: pa.Array, start: int, stop: int, origins: Callable[[_Places], _Places]) -> pa.Array:
    """Gather the values at ``origins`` of the positions from ``start`` to ``stop``."""
    pieces = [
        _taken(values, pa.array(origins(np.arange(first, min(first + _PIECE, stop), dtype=np.int64))))
        for first in range(start, stop, _PIECE)
    ]
    return pieces[0] if len(pieces) == 1 else _concatenated(pieces, values.type)


def _taken(values: pa.Array, positions: pa.Array) -> pa.Array:
    try:
        taken = values.take(positions)
        check_item_counts(taken)
    except pa.ArrowInvalid as error:
        raise _too_large(values.type) from error
    return taken


def _concatenated(pieces: list[pa.Array], data_type: pa.DataType) -> pa.Array:
    try:
        whole = pa.concat_arrays(pieces)
        check_item_counts(whole)
    except pa.ArrowInvalid as error:
        raise _too_large(data_type) from error
    return whole


def _check_size(array: pa.Array, target: pa.DataType) -> None:
    """Raise LimitError when the bytes exceed 32-bit offsets."""
    if target.id in (lib.Type_STRING, lib.Type_BINARY) and plain_size(array, target) - 4 * len(array) > _MOST:
        raise _too_large(target)


def _too_large(data_type: pa.DataType) -> LimitError:
    return LimitError(
        f"Values of type {data_type} are too large for one array, which holds {MOST_ITEMS:,} bytes of "
        "texts or items of lists. Publish them in smaller batches."
    )


_Places: TypeAlias = npt.NDArray[np.int64]

_LISTS: Final = frozenset({lib.Type_LIST, lib.Type_LARGE_LIST, lib.Type_MAP})
_WITH_OFFSETS: Final = _LISTS | {lib.Type_BINARY, lib.Type_STRING, lib.Type_LARGE_BINARY, lib.Type_LARGE_STRING}
_CONVERSIONS: Final[dict[int, Callable[[pa.Array, pa.DataType], pa.Array]]] = {
    lib.Type_DICTIONARY: _dictionary,
    lib.Type_RUN_END_ENCODED: _runs,
    lib.Type_STRING_VIEW: _view,
    lib.Type_BINARY_VIEW: _view,
    lib.Type_LIST_VIEW: _list_view,
    lib.Type_LARGE_LIST_VIEW: _list_view,
    lib.Type_LIST: _list,
    lib.Type_LARGE_LIST: _list,
    lib.Type_MAP: _list,
    lib.Type_FIXED_SIZE_LIST: _fixed_size_list,
    lib.Type_STRUCT: _struct,
    lib.Type_SPARSE_UNION: _sparse_union,
    lib.Type_DENSE_UNION: _dense_union,
}
_ENCODED: Final = frozenset({lib.Type_DICTIONARY, lib.Type_RUN_END_ENCODED, lib.Type_STRING_VIEW, lib.Type_BINARY_VIEW})
