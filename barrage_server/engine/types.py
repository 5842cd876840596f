"""The Arrow types that tables can hold, and conversion of incoming arrays.

Tables hold *plain* types, without encodings. :func:`normalise` decodes dictionaries, run ends and views on arrival,
because the dictionary of a live table would have to grow with every update.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.engine.storage import from_storage, storage_type, to_storage
from barrage_server.errors import LimitError, SchemaMismatchError, UnsupportedTypeError
from barrage_server.wire.array_bound import MOST_ITEMS
from barrage_server.wire.empty import empty_array
from barrage_server.wire.plain_form import check_item_counts, to_plain
from barrage_server.wire.plain_type import is_bytes_like, is_fixed_width, plain_type
from barrage_server.wire.schema import unwrapped_type

__all__ = [
    "StorageKind",
    "cell_dtype",
    "check_key_type",
    "check_type",
    "normalise",
    "plain_type",
    "storage_kind",
]

_INTEGER_CELLS: dict[int, np.dtype[Any]] = {
    8: np.dtype(np.int8),
    16: np.dtype(np.int16),
    32: np.dtype(np.int32),
    64: np.dtype(np.int64),
}


class StorageKind(Enum):
    """The kinds of storage of values."""

    NULL = "null"  # nothing is kept
    BOOL = "bool"  # one byte per value, bits on the way out
    FIXED = "fixed"  # the bytes of the value itself in a cell
    HEAP = "heap"  # an index in a cell, the value in a heap of Arrow arrays


def storage_kind(data_type: pa.DataType) -> StorageKind:
    """The kind of storage for ``data_type``, which :func:`check_type` must accept."""
    stored = storage_type(data_type)
    if pat.is_null(stored):
        return StorageKind.NULL
    if pat.is_boolean(stored):
        return StorageKind.BOOL
    if is_fixed_width(stored):
        return StorageKind.FIXED
    return StorageKind.HEAP


def cell_dtype(data_type: pa.DataType) -> np.dtype[Any]:
    """The numpy type of the cells of a bool or fixed-width type.

    It is an integer of the width of a value, or raw bytes: a cell holds the bytes of a value, so that moving it never
    changes a bit (such as the payload of a NaN).
    """
    stored = storage_type(data_type)
    if pat.is_boolean(stored):
        return np.dtype(np.uint8)
    width = stored.bit_width
    return _INTEGER_CELLS.get(width) or np.dtype(f"V{width // 8}")


def check_type(data_type: pa.DataType) -> None:
    """Raise UnsupportedTypeError unless a column can have ``data_type``."""
    plain = plain_type(data_type)
    if plain != data_type:
        raise UnsupportedTypeError(
            f"A table column cannot have the type {data_type}. Declare it as {plain}, which takes such data, too."
        )


def check_key_type(data_type: pa.DataType, name: str = "") -> None:
    """Raise UnsupportedTypeError unless a key column can have ``data_type``.

    A struct can be a key if its fields can, to any depth; lists, maps and unions cannot. ``name`` is the column's name,
    for the text.
    """
    check_type(data_type)
    if not _can_be_key(data_type):
        column = f"Column {name!r}" if name else "A key column"
        raise UnsupportedTypeError(
            f"{column} cannot have the type {data_type} as a key. Use numbers, times, booleans, strings, binary, or "
            "structs of these as keys; of a list, map or union, make the parts that identify a row columns of their "
            "own."
        )


def _can_be_key(data_type: pa.DataType) -> bool:
    data_type = unwrapped_type(data_type)
    if pat.is_struct(data_type):
        return all(_can_be_key(data_type.field(index).type) for index in range(data_type.num_fields))
    stored = storage_type(data_type)
    return storage_kind(stored) is not StorageKind.HEAP or is_bytes_like(data_type)


def normalise(values: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array:
    """Convert ``values`` to one plain array of exactly the type ``target``.

    This removes chunks, dictionaries, run ends, views, 64-bit offsets and slices of nested values
    (:mod:`barrage_server.wire.plain_form`); a column of type null fits every type. Nothing else is converted: an int32
    for an int64 is refused, so that a mistake is an error for the publisher.

    Args:
        values: valid arrays.
        target: a type that :func:`check_type` allows.

    Raises:
        SchemaMismatchError: the type differs; the text names both.
        LimitError: the values are too large for one array of this type.
    """
    if isinstance(values, pa.ChunkedArray):
        return _combine([_normalise_array(chunk, target) for chunk in values.chunks], target)
    return _normalise_array(values, target)


def _normalise_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type == target or pat.is_null(array.type):
        return to_plain(array, target)
    if not _fits(array.type, target):
        is_storage = isinstance(target, pa.BaseExtensionType) and not isinstance(array.type, pa.BaseExtensionType)
        wanted = target.storage_type if is_storage else target
        raise SchemaMismatchError(f"Expected values of type {wanted}, got {array.type}. Cast them before publishing.")
    try:
        return to_plain(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaMismatchError(f"Values of type {array.type} could not be decoded to {target}: {error}") from None


def _fits(given: pa.DataType, target: pa.DataType) -> bool:
    """Whether a column of type ``target`` accepts values of type ``given``."""
    try:
        plain = plain_type(given)
    except UnsupportedTypeError:
        return False
    if isinstance(plain, pa.BaseExtensionType) != isinstance(target, pa.BaseExtensionType):
        plain, target = storage_type(plain), storage_type(target)
    return _holds_same_values(plain, target)


def _combine(chunks: list[pa.Array], target: pa.DataType) -> pa.Array:
    if len(chunks) == 1:
        return chunks[0]
    if not chunks:
        return empty_array(target)
    try:
        whole = pa.concat_arrays(list(map(to_storage, chunks)))
        check_item_counts(whole)
        return from_storage(whole, target)
    except pa.ArrowInvalid as error:
        raise LimitError(
            f"A column of type {target} is too large for one array, which holds {MOST_ITEMS:,} bytes of "
            "texts or items of lists. Publish it in smaller batches."
        ) from error


# Types that differ only in how their offsets are written: data frames and pyarrow choose any for the same values.
_OFFSETS = (
    {pat.lib.Type_STRING, pat.lib.Type_LARGE_STRING},
    {pat.lib.Type_BINARY, pat.lib.Type_LARGE_BINARY},
    {pat.lib.Type_LIST, pat.lib.Type_LARGE_LIST, pat.lib.Type_LIST_VIEW, pat.lib.Type_LARGE_LIST_VIEW},
)


def _is_same_kind(given: pa.DataType, target: pa.DataType) -> bool:
    return given.id == target.id or any(given.id in kinds and target.id in kinds for kinds in _OFFSETS)


def _holds_same_values(given: pa.DataType, target: pa.DataType) -> bool:
    """Whether both types have the same values.

    They may differ in encodings, kinds of offsets, and names and nullability of nested fields.
    """
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
    named = pat.is_struct(target) or pat.is_union(target)
    if named and any(ours.name != theirs.name for ours, theirs in pairs):
        return False
    if pat.is_union(target) and given.type_codes != target.type_codes:
        return False
    return all(_holds_same_values(ours.type, theirs.type) for ours, theirs in pairs)
