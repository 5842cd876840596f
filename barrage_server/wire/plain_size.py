"""The size of a received array in plain form, computed without decoding it.

Dictionaries, run ends, views and overlapping lists can encode gigabytes in a few bytes. Limits for senders are
therefore in bytes of the plain form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import lib, types

from barrage_server.wire.buffers import codes_of, offsets_of, places_of, sizes_of_views
from barrage_server.wire.schema import unwrapped_type

__all__ = ["FIXED", "SMALL_OFFSET", "fixed_width", "held_size", "plain_batch_size", "plain_size"]

_Positions: TypeAlias = npt.NDArray[np.int64]
_Sizes: TypeAlias = npt.NDArray[np.float64]  # exact below 2**53, and without overflow above

NO_WIDTH: Final = 8
"""Bytes counted for a value of a type without bytes, such as null, because its row and key take memory."""

SMALL_OFFSET: Final = 4
"""Bytes of an offset of 32 bits."""
_LARGE_OFFSET: Final = 8
_UNION_CODE: Final = 5  # a type code and an offset


def plain_size(array: pa.Array, target: pa.DataType | None = None) -> int:
    """Compute the bytes of an array in plain form, without padding.

    Args:
        array: a sound array (:mod:`barrage_server.wire.soundness`), which may be a slice.
        target: the plain type of the array. It matters for an array of type null, whose values take the size of nulls
            of that type.

    """
    count, kind = len(array), array.type.id
    if count == 0:
        return 0
    if kind in FIXED:
        return int(np.ceil(count * (fixed_width(array.type) + (1 / 8 if array.null_count else 0))))
    if kind == lib.Type_LIST and count == 1 and array.null_count == 0 and target is None:  # a column as one list
        first, last = offsets_of(array).tolist()
        return SMALL_OFFSET + plain_size(array.values.slice(first, last - first))
    whole = _spans(array, target, np.zeros(1, np.int64), np.array([count], np.int64))
    return int(np.ceil(whole[0]))


def plain_batch_size(batch: pa.RecordBatch) -> int:
    """:func:`plain_size` of all columns together."""
    return sum(plain_size(column) for column in batch.columns)


def held_size(arrays: Iterable[pa.Array]) -> int:
    """Compute the bytes that plain arrays keep in memory.

    The whole message counts where an array is a view of a message.
    """
    held: dict[int, int] = {}
    for array in arrays:
        for buffer in array.buffers():
            whole = buffer
            while whole is not None and whole.parent is not None:
                whole = whole.parent
            if whole is not None:
                held[whole.address] = whole.size
    return sum(held.values())


def _spans(array: pa.Array, target: pa.DataType | None, starts: _Positions, stops: _Positions) -> _Sizes:
    """Compute the bytes of the elements ``[start, stop)`` of each span of an array."""
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    while isinstance(target, pa.BaseExtensionType):
        target = target.storage_type
    data_type = array.type
    kind = data_type.id
    counts = (stops - starts).astype(np.float64)
    if kind == lib.Type_NA:
        return counts * _null_width(data_type if target is None else target)
    if kind == lib.Type_DICTIONARY:
        return _dictionary(array, target, starts, stops)
    if kind == lib.Type_RUN_END_ENCODED:
        return _runs(array, target, starts, stops)
    if types.is_union(data_type):
        return _union(array, target, starts, stops)
    total = counts / 8 if array.null_count else np.zeros(len(counts))
    if kind in _LISTS:
        bounds = offsets_of(array)
        firsts, lasts = bounds[starts].astype(np.int64), bounds[stops].astype(np.int64)
        items = _spans(array.values, _child(target, 0, data_type), firsts, lasts)
        return total + items + counts * (_LARGE_OFFSET if kind == lib.Type_LARGE_LIST else SMALL_OFFSET)
    if kind == lib.Type_FIXED_SIZE_LIST:
        size, first = data_type.list_size, array.offset
        if size == 0:
            return total + counts * NO_WIDTH
        return total + _spans(array.values, _child(target, 0), (starts + first) * size, (stops + first) * size)
    if kind == lib.Type_STRUCT:
        for number in range(data_type.num_fields):
            total = total + _spans(array.field(number), _child(target, number), starts, stops)
        return total if data_type.num_fields else total + counts * NO_WIDTH
    if kind in _LIST_VIEWS:
        each, full = _list_view_sizes(array, target)
        return total + _between(each, starts, stops) + counts * _LARGE_OFFSET + full
    if kind in (lib.Type_STRING_VIEW, lib.Type_BINARY_VIEW):
        return total + _between(_view_sizes(array), starts, stops) + counts * SMALL_OFFSET
    if kind in _BYTES:
        offsets = offsets_of(array)
        width = _LARGE_OFFSET if offsets.itemsize == _LARGE_OFFSET else SMALL_OFFSET
        return total + (offsets[stops].astype(np.float64) - offsets[starts]) + counts * width
    return total + counts * fixed_width(data_type)


def _between(each: _Sizes, starts: _Positions, stops: _Positions) -> _Sizes:
    """Sum ``each`` over the spans."""
    if len(starts) == 1:
        return np.array([each[starts[0] : stops[0]].sum()])
    sums = np.zeros(len(each) + 1)
    np.cumsum(each, out=sums[1:])
    result: _Sizes = sums[stops] - sums[starts]
    return result


def _each(array: pa.Array, target: pa.DataType | None) -> _Sizes:
    """Compute the bytes of each element of an array."""
    positions = np.arange(len(array), dtype=np.int64)
    return _spans(array, target, positions, positions + 1)


def _dictionary(array: pa.Array, target: pa.DataType | None, starts: _Positions, stops: _Positions) -> _Sizes:
    values = array.dictionary
    counts = (stops - starts).astype(np.float64)
    width = _uniform_width(values.type)
    if width is not None:
        return counts * (width + 1 / 8)
    indices = array.indices
    null_size = _null_width(values.type if target is None else target)
    each, full = np.full(len(indices), null_size), 0.0
    if len(values):
        places = indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        each, full = _spans_and_all(values, target, places, places + 1)
        if indices.null_count:
            each[~indices.is_valid().to_numpy(zero_copy_only=False)] = null_size
    return _between(each, starts, stops) + counts / 8 + full


def _spans_and_all(
    values: pa.Array, target: pa.DataType | None, starts: _Positions, stops: _Positions
) -> tuple[_Sizes, float]:
    """Compute :func:`_spans`, and the bytes that decoding needs besides the result.

    Nested encoded values are decoded in full, used or not. Both sizes come from one walk, because two walks would
    double the work at each level of nesting.
    """
    if not len(values) or not _has_encoding(values.type):
        return _spans(values, target, starts, stops), 0.0
    sizes = _spans(values, target, np.append(starts, 0), np.append(stops, len(values)))
    return sizes[:-1], float(sizes[-1])


def _has_encoding(data_type: pa.DataType) -> bool:
    data_type = unwrapped_type(data_type)
    if data_type.id in _VARIABLE_WIDTH and data_type.id not in _BYTES and data_type.id not in _LISTS:
        return True
    return types.is_run_end_encoded(data_type) or any(
        _has_encoding(data_type.field(number).type) for number in range(data_type.num_fields)
    )


def _runs(array: pa.Array, target: pa.DataType | None, starts: _Positions, stops: _Positions) -> _Sizes:
    values, first = array.values, array.offset
    ends = array.run_ends.to_numpy().astype(np.int64, copy=False)
    if not len(ends):
        return np.zeros(len(starts))
    each = _each(values.slice(0, len(ends)), target)
    bounds = np.concatenate(([0], ends))
    sums = np.concatenate(([0.0], np.cumsum(np.diff(bounds) * each)))

    def before(positions: _Positions) -> _Sizes:
        """Compute the bytes of all elements before each position."""
        runs = np.minimum(ends.searchsorted(positions, "left"), len(ends) - 1)
        result: _Sizes = sums[runs] + (positions - bounds[runs]) * each[runs]
        return result

    return before(stops + first) - before(starts + first)


def _union(array: pa.Array, target: pa.DataType | None, starts: _Positions, stops: _Positions) -> _Sizes:
    data_type = array.type
    counts = (stops - starts).astype(np.float64)
    if data_type.mode == "sparse":
        total = counts
        for number in range(data_type.num_fields):
            total = total + _spans(array.field(number), _child(target, number), starts, stops)
        return total
    codes, offsets = codes_of(array), places_of(array).astype(np.int64)
    # A table keeps a null of each member that a row does not use (engine/storage.py).
    nulls = [_null_width(data_type.field(number).type) for number in range(data_type.num_fields)]
    each = np.full(len(array), _UNION_CODE + sum(nulls))
    full = 0.0
    for number, code in enumerate(data_type.type_codes):
        chosen = codes == code
        places = offsets[chosen]
        child = array.field(number)
        sizes, whole = _spans_and_all(child, _child(target, number), places, places + 1)
        each[chosen] += np.maximum(sizes - nulls[number], 0)
        full += whole
    return _between(each, starts, stops) + full


def _list_view_sizes(array: pa.Array, target: pa.DataType | None) -> tuple[_Sizes, float]:
    firsts = array.offsets.to_numpy().astype(np.int64, copy=False)
    sizes = array.sizes.to_numpy().astype(np.int64, copy=False)
    if array.null_count:
        sizes = sizes * array.is_valid().to_numpy(zero_copy_only=False)
    return _spans_and_all(array.values, _child(target, 0), firsts, firsts + sizes)


def _view_sizes(array: pa.Array) -> _Sizes:
    each: _Sizes = sizes_of_views(array).astype(np.float64)
    if array.null_count:
        each *= array.is_valid().to_numpy(zero_copy_only=False)
    return each


def _child(target: pa.DataType | None, number: int, given: pa.DataType | None = None) -> pa.DataType | None:
    """Return the plain type of a child, if known."""
    if target is None or number >= target.num_fields:
        return None
    if types.is_map(target):
        wanted = pa.struct([target.key_field, target.item_field])
        return wanted if given is not None and types.is_map(given) else None
    child: pa.DataType = target.field(number).type
    return child


def _null_width(data_type: pa.DataType) -> float:
    """Return the bytes of a null of a type."""
    data_type = unwrapped_type(data_type)
    if types.is_fixed_size_list(data_type) and data_type.list_size:
        return 1 / 8 + int(data_type.list_size) * _null_width(data_type.value_type)
    if types.is_struct(data_type) and data_type.num_fields:
        return 1 / 8 + sum(_null_width(data_type.field(number).type) for number in range(data_type.num_fields))
    if types.is_dictionary(data_type) or types.is_run_end_encoded(data_type):
        return _null_width(data_type.value_type)
    if types.is_union(data_type):
        return _UNION_CODE + sum(_null_width(data_type.field(number).type) for number in range(data_type.num_fields))
    return 1 / 8 + fixed_width(data_type)


def _uniform_width(data_type: pa.DataType) -> float | None:
    """Return the bytes of a value of a type of uniform size; None for other types."""
    data_type = unwrapped_type(data_type)
    return None if types.is_nested(data_type) or data_type.id in _VARIABLE_WIDTH else fixed_width(data_type)


def fixed_width(data_type: pa.DataType) -> float:
    """Return the bytes of the fixed-width part of a value."""
    if types.is_null(data_type):
        return float(NO_WIDTH)
    try:
        width = float(int(data_type.bit_width) / 8)
    except ValueError:
        return float(_LARGE_OFFSET)  # offsets
    return width if width > 0 else float(NO_WIDTH)


FIXED: Final = frozenset(
    {
        *(lib.Type_BOOL, lib.Type_INT8, lib.Type_INT16, lib.Type_INT32, lib.Type_INT64),
        *(lib.Type_UINT8, lib.Type_UINT16, lib.Type_UINT32, lib.Type_UINT64),
        *(lib.Type_HALF_FLOAT, lib.Type_FLOAT, lib.Type_DOUBLE),
        *(lib.Type_DATE32, lib.Type_DATE64, lib.Type_TIME32, lib.Type_TIME64, lib.Type_TIMESTAMP, lib.Type_DURATION),
    }
)
"""Types whose values have a fixed number of bits."""
_BYTES: Final = frozenset({lib.Type_BINARY, lib.Type_STRING, lib.Type_LARGE_BINARY, lib.Type_LARGE_STRING})
_LISTS: Final = frozenset({lib.Type_LIST, lib.Type_LARGE_LIST, lib.Type_MAP})
_LIST_VIEWS: Final = frozenset({lib.Type_LIST_VIEW, lib.Type_LARGE_LIST_VIEW})
_VARIABLE_WIDTH: Final[frozenset[Any]] = (
    _BYTES | _LISTS | _LIST_VIEWS | {lib.Type_STRING_VIEW, lib.Type_BINARY_VIEW, lib.Type_DICTIONARY}
)
