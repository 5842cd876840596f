"""Checks of received arrays, so that no use reads outside of their buffers.

Arrow's functions trust their arrays: with wrong offsets they read other memory of the process, or crash it. Each array
from outside is therefore checked once, in full and at every depth, before any other use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import lib, types

from barrage_server.errors import UnsupportedTypeError, WireFormatError
from barrage_server.wire.buffers import codes_of, offsets_of, places_of, sizes_of_views
from barrage_server.wire.schema import unwrapped_type

__all__ = [
    "MAX_DEPTH",
    "check_batch",
    "check_readable",
    "check_schema",
    "check_sound",
    "check_storage",
]

MAX_DEPTH: Final = 64
"""The greatest depth of nested types."""

_UNREADABLE: Final = frozenset({lib.Type_INTERVAL_MONTHS, lib.Type_INTERVAL_DAY_TIME})
"""Types without arrays in pyarrow."""

_BLOCK: Final = 1 << 16
"""Offsets compared at a time, so that they and the result stay in the processor's cache."""

_PIECE: Final = 1 << 19
"""Bytes of texts checked at a time, so that a text that is not ASCII is found early."""


def check_schema(schema: pa.Schema) -> None:
    """Raise unless a received schema can be read.

    Raises:
        WireFormatError: a name or a time zone is not UTF-8.
        UnsupportedTypeError: types are nested too deep, or :func:`check_storage` refuses one.

    """
    try:
        for field in schema:
            _texts_of(field, 0)
    except UnicodeDecodeError as error:
        raise WireFormatError("damaged schema: a text in it is not UTF-8") from error


def _texts_of(field: pa.Field, depth: int) -> list[str]:
    """Return the texts in a field, which decodes them."""
    if depth > MAX_DEPTH:
        raise UnsupportedTypeError(f"types nested deeper than {MAX_DEPTH} levels are not supported")
    texts, data_type = [field.name], field.type
    check_storage(data_type)
    while isinstance(data_type, pa.BaseExtensionType):
        texts.append(data_type.extension_name)
        data_type = data_type.storage_type
    if types.is_timestamp(data_type):
        texts.append(data_type.tz or "")
    if types.is_dictionary(data_type):
        texts += _texts_of(pa.field("", data_type.value_type), depth + 1)
    for number in range(data_type.num_fields):
        texts += _texts_of(data_type.field(number), depth + 1)
    return texts


def check_readable(data_type: pa.DataType) -> None:
    """Check that pyarrow has arrays for a type, at each depth.

    Raises:
        UnsupportedTypeError: it has not.

    """
    data_type = unwrapped_type(data_type)
    if data_type.id in _UNREADABLE:
        raise UnsupportedTypeError(f"columns of type {data_type} cannot be read; convert them to another interval")
    if types.is_dictionary(data_type):
        check_readable(data_type.value_type)
    for number in range(data_type.num_fields):
        check_readable(data_type.field(number).type)


def check_storage(data_type: pa.DataType) -> None:
    """Refuse unions that crash pyarrow, or are ambiguous.

    Raises:
        UnsupportedTypeError: a union is the storage of an extension type, has no members, or has a type code twice.

    """
    if types.is_union(data_type):
        codes = data_type.type_codes
        if not codes:
            raise UnsupportedTypeError("Unions without members are not supported: they have no values.")
        if len(set(codes)) < len(codes):
            raise UnsupportedTypeError(f"Unions with a type code twice are not supported: {data_type}.")
    stored = unwrapped_type(data_type)
    if stored is not data_type and types.is_union(stored):
        raise UnsupportedTypeError(
            f"Extension types that are stored as unions are not supported: {data_type}. Publish the unions."
        )


def check_batch(batch: pa.RecordBatch, left_out: Collection[int] = ()) -> list[pa.Array]:
    """Check the columns of a batch as :func:`check_sound` does, and return them.

    Args:
        batch: the batch.
        left_out: numbers of the columns that are not checked.

    Raises:
        WireFormatError: a column is damaged, or its length differs from that of the batch.

    """
    try:
        batch.validate()
    except (pa.ArrowException, ValueError) as error:
        raise WireFormatError("damaged record batch: its columns do not fit their data") from error
    columns: list[pa.Array] = batch.columns
    for number, column in enumerate(columns):
        if number not in left_out:
            _check(column)
    return columns


def check_sound(array: pa.Array) -> None:
    """Check that an array can be read and computed with.

    Buffers are long enough at every depth; offsets, sizes, indices, run ends and type codes refer to existing values;
    null counts are right; texts are UTF-8; keys of maps are not null. No other data is read. Arrow's full validation
    also refuses harmless values, such as Deephaven's null of a date, which is out of the range of dates.

    Raises:
        WireFormatError: the array is damaged.

    """
    try:
        array.validate()
    except (pa.ArrowException, ValueError) as error:
        raise _damaged(array.type, "its buffers do not fit its length") from error
    _check(array)


def _check(array: pa.Array) -> None:
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    kind = array.type.id
    if kind not in _WITHOUT_VALIDITY:
        _check_null_count(array)
    check = _CHECKS.get(kind)
    if check is not None:
        check(array)


def _check_null_count(array: pa.Array) -> None:
    count, nulls = len(array), array.null_count
    validity = array.buffers()[0]
    if validity is None or count == 0:
        is_true = nulls == 0
    else:
        bits = pa.Array.from_buffers(pa.bool_(), count, [None, validity], 0, array.offset)
        is_true = nulls == count - bits.true_count
    if not is_true:
        raise _damaged(array.type, "it has another number of nulls than it says")


def _check_offsets(array: pa.Array, size: int) -> npt.NDArray[Any]:
    """Return the offsets of an array into ``size`` elements or bytes, checked."""
    offsets = offsets_of(array)
    if offsets[0] < 0 or offsets[-1] > size or not _is_rising(offsets):
        raise _damaged(array.type, "its offsets overlap or overrun")
    return offsets


def _is_rising(numbers: npt.NDArray[Any]) -> bool:
    for start in range(0, len(numbers) - 1, _BLOCK):
        block = numbers[start : start + _BLOCK + 1]
        if (block[1:] < block[:-1]).any():
            return False
    return True


def _check_bytes(array: pa.Array) -> None:
    data = array.buffers()[2]
    _check_offsets(array, 0 if data is None else data.size)


def _check_text(array: pa.Array) -> None:
    data = array.buffers()[2]
    offsets = _check_offsets(array, 0 if data is None else data.size)
    first, last = int(offsets[0]), int(offsets[-1])
    if data is None or first == last:
        return
    if not _is_ascii(np.frombuffer(data, np.int8, last - first, first)):
        _validate_fully(array)


def _is_ascii(characters: npt.NDArray[np.int8]) -> bool:
    return all(characters[start : start + _PIECE].min() >= 0 for start in range(0, len(characters), _PIECE))


def _validate_fully(array: pa.Array) -> None:
    """Have Arrow check that texts are UTF-8, and that views lie inside their buffers."""
    try:
        array.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise _damaged(array.type, "its values lie outside of its buffers, or are not UTF-8") from error


def _check_views(array: pa.Array) -> None:
    """Check views, with sizes under nulls.

    Arrow does not validate sizes under nulls, but its casts read them.
    """
    _validate_fully(array)
    if len(array) and (sizes_of_views(array) < 0).any():
        raise _damaged(array.type, "its values have negative sizes")


def _check_list(array: pa.Array) -> None:
    values = array.values
    _check_offsets(array, len(values))
    _check(values)


def _check_map(array: pa.Array) -> None:
    entries = array.values
    _check_offsets(array, len(entries))
    _check(entries)
    if entries.null_count or entries.field(0).null_count:
        raise _damaged(array.type, "a key or an entry is null")


def _check_fixed_size_list(array: pa.Array) -> None:
    _check(array.values)


def _check_struct(array: pa.Array) -> None:
    for number in range(array.type.num_fields):
        _check(array.field(number))


def _check_list_view(array: pa.Array) -> None:
    if len(array):
        starts = array.offsets.to_numpy().astype(np.int64, copy=False)
        sizes = array.sizes.to_numpy().astype(np.int64, copy=False)
        room = len(array.values)
        # Sizes are compared before they are subtracted, so that nothing overflows.
        if starts.min() < 0 or sizes.min() < 0 or sizes.max() > room or (starts > room - sizes).any():
            raise _damaged(array.type, "its offsets and sizes overrun")
    _check(array.values)


def _check_dictionary(array: pa.Array) -> None:
    indices = array.indices
    _check_null_count(indices)
    bounds = pc.min_max(indices)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and (low < 0 or high >= len(array.dictionary)):
        raise _damaged(array.type, "its indices lead outside of its dictionary")
    _check(array.dictionary)


def _check_run_ends(array: pa.Array) -> None:
    ends, values = array.run_ends, array.values
    _check_null_count(ends)
    if ends.null_count or len(ends) > len(values):
        raise _damaged(array.type, "it has runs without a value, or without an end")
    numbers = ends.to_numpy()
    covered = int(numbers[-1]) if len(numbers) else 0
    rises = not len(numbers) or (numbers[0] > 0 and bool((numbers[1:] > numbers[:-1]).all()))
    if not rises or covered < array.offset + len(array):
        raise _damaged(array.type, "its run ends do not rise, or do not reach its end")
    _check(values)


def _check_union(array: pa.Array) -> None:
    codes = codes_of(array)
    known: Sequence[int] = array.type.type_codes
    if not np.isin(codes, np.array(known, np.int8)).all():
        raise _damaged(array.type, "it has type codes that its type does not have")
    is_dense = array.type.mode == "dense"
    offsets = places_of(array) if is_dense else None
    for number, code in enumerate(known):
        child = array.field(number)
        if offsets is not None:
            chosen = offsets[codes == code]
            if len(chosen) and (chosen.min() < 0 or chosen.max() >= len(child)):
                raise _damaged(array.type, "its offsets overrun")
        _check(child)


def _damaged(data_type: pa.DataType, reason: str) -> WireFormatError:
    return WireFormatError(f"damaged record batch: a column with values of type {data_type}: {reason}")


_WITHOUT_VALIDITY: Final = frozenset(
    {
        lib.Type_NA,
        lib.Type_SPARSE_UNION,
        lib.Type_DENSE_UNION,
        lib.Type_RUN_END_ENCODED,
        lib.Type_DICTIONARY,  # its indices have the validity
    }
)
_CHECKS: Final[dict[int, Callable[[pa.Array], None]]] = {
    lib.Type_BINARY: _check_bytes,
    lib.Type_LARGE_BINARY: _check_bytes,
    lib.Type_STRING: _check_text,
    lib.Type_LARGE_STRING: _check_text,
    lib.Type_STRING_VIEW: _check_views,
    lib.Type_BINARY_VIEW: _check_views,
    lib.Type_LIST: _check_list,
    lib.Type_LARGE_LIST: _check_list,
    lib.Type_MAP: _check_map,
    lib.Type_FIXED_SIZE_LIST: _check_fixed_size_list,
    lib.Type_STRUCT: _check_struct,
    lib.Type_LIST_VIEW: _check_list_view,
    lib.Type_LARGE_LIST_VIEW: _check_list_view,
    lib.Type_DICTIONARY: _check_dictionary,
    lib.Type_RUN_END_ENCODED: _check_run_ends,
    lib.Type_SPARSE_UNION: _check_union,
    lib.Type_DENSE_UNION: _check_union,
}
