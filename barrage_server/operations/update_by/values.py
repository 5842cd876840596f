"""The values of columns as numbers, and back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.engine.plan import Int64Array
from barrage_server.engine.storage import from_storage, to_storage
from barrage_server.operations.row_places import check_copies
from barrage_server.operations.update_by.segments import Flags, Numbers
from barrage_server.wire.buffers import is_valid
from barrage_server.wire.conversions import NANOSECONDS

__all__ = [
    "DOUBLE",
    "LONG",
    "is_number",
    "is_ordered",
    "is_summed",
    "is_time",
    "moments",
    "numbers",
    "ranks_of",
    "storage_of",
    "taken",
    "written",
]

LONG: Final = pa.int64()
DOUBLE: Final = pa.float64()


def is_number(data_type: pa.DataType) -> bool:
    """Whether a column has integers or floating-point numbers."""
    return bool(pat.is_integer(data_type) or pat.is_floating(data_type))


def is_summed(data_type: pa.DataType) -> bool:
    """Whether a column has numbers or booleans."""
    return is_number(data_type) or bool(pat.is_boolean(data_type))


def is_ordered(data_type: pa.DataType) -> bool:
    """Whether a column has numbers, text, or moments."""
    return (
        is_number(data_type)
        or bool(pat.is_string(data_type) or pat.is_large_string(data_type))
        or bool(pat.is_timestamp(data_type) or pat.is_date(data_type) or pat.is_time(data_type))
    )


def numbers(array: pa.Array, dtype: npt.DTypeLike) -> tuple[Numbers, Flags]:
    """The values as numbers of a dtype, 0 for null, and their validity."""
    stored = to_storage(array)
    valid = np.asarray(is_valid(stored))
    if pat.is_boolean(stored.type):
        stored = stored.cast(pa.uint8())
    if not (pat.is_integer(stored.type) or pat.is_floating(stored.type)):
        width = pa.int32() if stored.type.bit_width == 32 else pa.int64()
        stored = stored.view(width)
    plain = stored.fill_null(0).to_numpy(zero_copy_only=False) if stored.null_count else stored.to_numpy()
    return plain.astype(dtype), valid


def moments(array: pa.Array) -> tuple[Int64Array, Flags]:
    """Instants in nanoseconds, or 64-bit integers, and their validity.

    Instants beyond 64 bits of nanoseconds, before 1677 and after 2262, are not valid.
    """
    values, valid = numbers(array, np.int64)
    factor = NANOSECONDS[array.type.unit] if pat.is_timestamp(array.type) else 1
    if factor == 1:
        return values, valid
    most = np.iinfo(np.int64).max // factor
    valid = valid & (values >= -most) & (values <= most)
    return np.where(valid, values, 0) * factor, valid


def is_time(data_type: pa.DataType) -> bool:
    """Whether a column of this type can contain the times of rows."""
    return bool(pat.is_timestamp(data_type)) or data_type == LONG


def written(values: npt.NDArray[Any], valid: Flags, data_type: pa.DataType) -> pa.Array:
    """An array of these values, null where they are not valid.

    All NaN get the same bits.
    """
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.nan, values)
    array = pa.array(values, mask=None if valid.all() else ~valid)
    if array.type == data_type:
        return array
    stored = storage_of(data_type)
    if stored is not None:
        return from_storage(array.cast(stored).view(data_type), data_type)
    return array.cast(data_type, safe=False)


def storage_of(data_type: pa.DataType) -> pa.DataType | None:
    """The integer type of moments of a type; ``None`` for other types."""
    if pat.is_timestamp(data_type) or pat.is_date(data_type) or pat.is_time(data_type):
        return pa.int32() if data_type.bit_width == 32 else pa.int64()
    return None


def ranks_of(array: pa.Array) -> tuple[Numbers, Flags, Int64Array]:
    """The ranks of texts.

    The texts are sorted, since a client can make texts with equal hashes in Arrow.

    Returns:
        The rank of each value, from 0; the validity; and for each rank the place of a value.

    """
    valid = np.asarray(is_valid(array))
    ranks = pc.rank(array, tiebreaker="dense").to_numpy().astype(np.int64) - 1
    where = np.zeros(int(ranks.max(initial=-1)) + 1, np.int64)
    where[ranks] = np.arange(len(ranks))
    return np.where(valid, ranks, 0), valid, where


def taken(array: pa.Array, places: Int64Array) -> pa.Array:
    """The values at places; null at -1.

    Raises:
        LimitError: they take too much memory.

    """
    check_copies(array, places)
    stored = to_storage(array)
    return from_storage(stored.take(pa.array(places, mask=places < 0)), array.type)
