"""Which Arrow types a table can hold, how each is stored, and how incoming arrays are brought to them.

Tables hold *plain* types: every value stands for itself. Encodings of the same values (dictionary, run-end, views) are
undone on the way in by :func:`normalise`, because a live table has no place for a dictionary that would have to grow
with every update.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.errors import LimitError, SchemaMismatchError, UnsupportedTypeError

__all__ = [
    "StorageKind",
    "cell_dtype",
    "check_key_type",
    "check_type",
    "normalise",
    "plain_type",
    "storage_kind",
    "storage_type",
]

_INTEGER_CELLS: dict[int, np.dtype[Any]] = {
    8: np.dtype(np.int8),
    16: np.dtype(np.int16),
    32: np.dtype(np.int32),
    64: np.dtype(np.int64),
}


class StorageKind(Enum):
    """How the values of a type are kept."""

    NULL = "null"  # nothing is kept
    BOOL = "bool"  # one byte per value, bits on the way out
    FIXED = "fixed"  # the bytes of the value itself in a cell
    HEAP = "heap"  # an index in a cell, the value in a heap of Arrow arrays


def storage_type(data_type: pa.DataType) -> pa.DataType:
    """The type of the stored values: of an extension type its storage, of others the type itself."""
    while isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    return data_type


def storage_kind(data_type: pa.DataType) -> StorageKind:
    """How values of ``data_type`` are stored. The type must have passed :func:`check_type`."""
    stored = storage_type(data_type)
    if pat.is_null(stored):
        return StorageKind.NULL
    if pat.is_boolean(stored):
        return StorageKind.BOOL
    if _is_fixed_width(stored):
        return StorageKind.FIXED
    return StorageKind.HEAP


def cell_dtype(data_type: pa.DataType) -> np.dtype[Any]:
    """The numpy type of the cells of a bool or fixed-width type: its bytes, taken as an integer of that width or as raw
    bytes.

    Bytes and not values, so that moving a value never changes a bit of it (such as the payload of a NaN).
    """
    stored = storage_type(data_type)
    if pat.is_boolean(stored):
        return np.dtype(np.uint8)
    width = stored.bit_width
    return _INTEGER_CELLS.get(width) or np.dtype(f"V{width // 8}")


def check_type(data_type: pa.DataType) -> None:
    """Raise :class:`UnsupportedTypeError` unless a column of a table can have ``data_type``."""
    plain = plain_type(data_type)
    if plain != data_type:
        raise UnsupportedTypeError(
            f"A table column cannot have the type {data_type}. Declare it as {plain}, which takes such data, too."
        )


def check_key_type(data_type: pa.DataType) -> None:
    """Raise :class:`UnsupportedTypeError` unless a key column can have ``data_type``.

    Structs can be keys, to any depth, of what can be a key; lists and maps cannot.
    """
    check_type(data_type)
    if not _can_be_key(data_type):
        raise UnsupportedTypeError(
            f"A key column cannot have the type {data_type}. Use numbers, times, booleans, strings, binary, or structs "
            "of these as keys; of a list or map, make the parts that identify a row columns of their own."
        )


def _can_be_key(data_type: pa.DataType) -> bool:
    stored = storage_type(data_type)
    if pat.is_struct(stored):
        return all(_can_be_key(stored.field(index).type) for index in range(stored.num_fields))
    return storage_kind(stored) is not StorageKind.HEAP or _is_bytes_like(stored)


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """The plain type that holds the values of ``data_type``, at every depth of nesting.

    Raises:
        UnsupportedTypeError: there is none (unions).

    """
    if isinstance(data_type, pa.BaseExtensionType):
        plain_type(data_type.storage_type)
        return data_type
    if pat.is_dictionary(data_type) or pat.is_run_end_encoded(data_type):
        return plain_type(data_type.value_type)
    if pat.is_string_view(data_type):
        return pa.string()
    if pat.is_binary_view(data_type):
        return pa.binary()
    if pat.is_map(data_type):
        return _plain_map(data_type)
    if pat.is_list(data_type):
        return _keep(data_type, pa.list_(_plain_field(data_type.value_field)))
    if pat.is_large_list(data_type):
        return _keep(data_type, pa.large_list(_plain_field(data_type.value_field)))
    if pat.is_list_view(data_type):
        return pa.list_(_plain_field(data_type.value_field))
    if pat.is_large_list_view(data_type):
        return pa.large_list(_plain_field(data_type.value_field))
    if pat.is_fixed_size_list(data_type):
        return _keep(data_type, pa.list_(_plain_field(data_type.value_field), data_type.list_size))
    if pat.is_struct(data_type):
        fields = [data_type.field(index) for index in range(data_type.num_fields)]
        return _keep(data_type, pa.struct([_plain_field(field) for field in fields]))
    if pat.is_null(data_type) or pat.is_boolean(data_type) or _is_fixed_width(data_type) or _is_bytes_like(data_type):
        return data_type
    if pat.is_fixed_size_binary(data_type):  # of width zero
        return data_type
    raise UnsupportedTypeError(
        f"Tables cannot hold the type {data_type}. Convert it before publishing; "
        "a union can become a struct with one field per member."
    )


def normalise(values: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array:
    """``values`` as one array of exactly the type ``target``.

    Undone are chunks, dictionaries, run ends, views and 64-bit offsets; a column of type null fits every type. Nothing
    else is converted: an int32 for an int64 is refused, so that a publisher hears of a mistake instead of a subscriber.

    Raises:
        SchemaMismatchError: the type differs; the text names both.
        LimitError: the chunks are too large for one array of this type.

    """
    if isinstance(values, pa.ChunkedArray):
        values = _combine([_normalise_array(chunk, target) for chunk in values.chunks], target)
    return _normalise_array(values, target)


def _normalise_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type == target:
        return array
    if pat.is_null(array.type):
        return pa.nulls(len(array), target)
    if isinstance(array, pa.ExtensionArray) and array.type.storage_type == target:
        return array.storage
    if isinstance(target, pa.BaseExtensionType) and not isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(target, _normalise_array(array, target.storage_type))
    if not _holds_same_values(array.type, target):
        raise SchemaMismatchError(f"Expected values of type {target}, got {array.type}. Cast them before publishing.")
    try:
        array = _decode(array)
        return array if array.type == target else array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaMismatchError(f"Values of type {array.type} could not be decoded to {target}: {error}") from None


def _decode(array: pa.Array) -> pa.Array:
    """Undo the outermost encodings, where a cast does not do it."""
    if pat.is_run_end_encoded(array.type):
        return _decode(pc.run_end_decode(array))
    if pat.is_dictionary(array.type):
        # Arrow takes from no views, which polars has in its dictionaries: they are decoded first.
        return _decode(_plain_views(array.dictionary).take(array.indices))
    if pat.is_list_view(array.type) or pat.is_large_list_view(array.type):
        return _decode_list_view(array)
    return array


def _plain_views(array: pa.Array) -> pa.Array:
    if pat.is_string_view(array.type) or pat.is_binary_view(array.type):
        return array.cast(plain_type(array.type))
    return array


def _decode_list_view(array: pa.Array) -> pa.Array:
    large = pat.is_large_list_view(array.type)
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, np.int64 if large else np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = pc.is_null(array) if array.null_count else None
    kind = pa.LargeListArray if large else pa.ListArray
    plain = pa.large_list(array.type.value_field) if large else pa.list_(array.type.value_field)
    return kind.from_arrays(pa.array(offsets), array.flatten(), type=plain, mask=mask)


def _combine(chunks: list[pa.Array], target: pa.DataType) -> pa.Array:
    if len(chunks) == 1:
        return chunks[0]
    if not chunks:
        return pa.nulls(0, target)
    try:
        return pa.concat_arrays(chunks)
    except pa.ArrowInvalid as error:
        raise LimitError(
            f"A column of type {target} is too large for one batch ({error}). Publish it in smaller batches."
        ) from error


# Types that differ only in the width of their offsets: data frames and pyarrow choose either for the same values.
_OFFSET_WIDTHS = (
    {pat.lib.Type_STRING, pat.lib.Type_LARGE_STRING},
    {pat.lib.Type_BINARY, pat.lib.Type_LARGE_BINARY},
    {pat.lib.Type_LIST, pat.lib.Type_LARGE_LIST},
)


def _is_same_kind(given: pa.DataType, target: pa.DataType) -> bool:
    return given.id == target.id or any(given.id in pair and target.id in pair for pair in _OFFSET_WIDTHS)


def _holds_same_values(given: pa.DataType, target: pa.DataType) -> bool:
    """Whether ``given`` is ``target`` up to encodings, offset widths, and names and nullability of nested fields."""
    try:
        given = plain_type(given)
    except UnsupportedTypeError:
        return False
    if given == target or pat.is_null(given):
        return True
    if not _is_same_kind(given, target):
        return False
    if not pat.is_nested(target):
        return bool(given.id != target.id)
    if given.num_fields != target.num_fields:
        return False
    if pat.is_fixed_size_list(target) and given.list_size != target.list_size:
        return False
    pairs = [(given.field(index), target.field(index)) for index in range(target.num_fields)]
    if pat.is_struct(target) and any(ours.name != theirs.name for ours, theirs in pairs):
        return False
    return all(_holds_same_values(ours.type, theirs.type) for ours, theirs in pairs)


def _is_fixed_width(data_type: pa.DataType) -> bool:
    if pat.is_fixed_size_binary(data_type):
        return bool(data_type.byte_width > 0)
    return bool(
        pat.is_integer(data_type)
        or pat.is_floating(data_type)
        or pat.is_decimal(data_type)
        or pat.is_temporal(data_type)  # dates, times, timestamps, durations, intervals
    )


def _is_bytes_like(data_type: pa.DataType) -> bool:
    return bool(
        pat.is_string(data_type)
        or pat.is_large_string(data_type)
        or pat.is_binary(data_type)
        or pat.is_large_binary(data_type)
        or pat.is_fixed_size_binary(data_type)
    )


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))


def _plain_map(data_type: pa.DataType) -> pa.DataType:
    plain = pa.map_(
        _plain_field(data_type.key_field), _plain_field(data_type.item_field), keys_sorted=data_type.keys_sorted
    )
    return _keep(data_type, plain)


def _keep(data_type: pa.DataType, plain: pa.DataType) -> pa.DataType:
    """The given type itself when nothing in it had to change: rebuilding could lose details such as metadata of nested
    fields.
    """
    return data_type if plain == data_type else plain
