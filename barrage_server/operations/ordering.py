"""The order of rows by the values of columns.

Null comes first, NaN last, and -0.0 equals 0.0; descending is the exact reverse. Rows that are equal in all columns are
in the order of their keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.engine.order_fences import Codes
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.sorting import sorted_positions
from barrage_server.engine.values import to_cells
from barrage_server.wire.buffers import is_valid

__all__ = ["Key", "code_of", "comes_before", "has_codes", "is_sortable", "order_of", "rough_codes"]

_NULL, _VALUE, _NAN = range(3)


@dataclass(frozen=True, slots=True)
class Key:
    """A column that rows are ordered by.

    Attributes:
        number: its number.
        descending: whether the largest values come first.
        absolute: whether the sizes of numbers count, without their signs.

    """

    number: int
    descending: bool = False
    absolute: bool = False


def is_sortable(data_type: pa.DataType) -> bool:
    """Whether a type has an order: numbers, times, booleans, text and bytes."""
    return bool(
        pat.is_integer(data_type)
        or pat.is_floating(data_type)
        or (pat.is_decimal(data_type) and data_type.scale >= 0)  # Arrow compares no others
        or pat.is_boolean(data_type)
        or pat.is_date(data_type)
        or pat.is_time(data_type)
        or pat.is_timestamp(data_type)
        or pat.is_duration(data_type)
        or pat.is_string(data_type)
        or pat.is_large_string(data_type)
        or pat.is_binary(data_type)
        or pat.is_large_binary(data_type)
        or pat.is_fixed_size_binary(data_type)
        or pat.is_null(data_type)
    )


def order_of(columns: Sequence[pa.Array], keys: Sequence[Key], rows: int) -> Int64Array:
    """The positions of rows in order; equal rows in their given order.

    Args:
        columns: the values of the columns of ``keys``.
        keys: how they count, the first most.
        rows: the number of rows.

    """
    parts: list[npt.NDArray[Any]] = []
    for column, key in zip(columns, keys, strict=True):
        parts += _codes(_plain(column, key), key.descending)
    if not parts:
        return np.arange(rows, dtype=np.int64)
    parts = _joined(parts)
    if len(parts) == 1 and parts[0].dtype == np.uint64 and len(parts[0]):
        low = parts[0].min()
        span = parts[0] - low
        if int(span.max()) < 1 << 62:
            return sorted_positions(span.view(np.int64))
        return np.argsort(parts[0], kind="stable")
    return np.lexsort(parts[::-1])


def code_of(column: pa.Array) -> npt.NDArray[np.uint64] | None:
    """Unsigned numbers in the order of one batch; ``None`` with nulls or NaN."""
    found = _codes(_plain(column, Key(0)), False)
    return found[0] if len(found) == 1 else None


def rough_codes(columns: Sequence[pa.Array], keys: Sequence[Key]) -> Codes:
    """Codes of rows that are comparable between batches.

    A row with smaller codes comes before. Rows with equal codes may differ.

    Args:
        columns: the values of the columns of ``keys``.
        keys: how they count, the first most. A column without codes and all columns behind it are left out, and so are
            the columns behind one whose values may share a code.

    """
    found: list[npt.NDArray[np.uint64]] = []
    for column, key in zip(columns, keys, strict=True):
        if not has_codes(column.type):
            break
        *kinds, codes = _codes(_plain(column, key), False)
        is_narrow = column.type.bit_width < 64
        if is_narrow and pat.is_unsigned_integer(column.type):
            codes = codes + np.uint64(1)  # 0 is null
        if kinds:  # null as the smallest number of all, NaN as the largest one
            codes = np.where(kinds[0] == _NULL, np.uint64(0), codes)
            codes = np.where(kinds[0] == _NAN, ~np.uint64(0), codes)
        found.append(~codes if key.descending else codes)
        if not is_narrow and not pat.is_floating(column.type):  # null has the code of the smallest value
            break
    return found


def has_codes(data_type: pa.DataType) -> bool:
    """Whether a value has the same code in each batch: numbers and times have.

    Decimals have not.
    """
    return bool(pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_temporal(data_type))


def _joined(parts: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Combine arrays of unsigned numbers into one, if their spans fit 62 bits."""
    if len(parts) < 2 or not len(parts[0]) or any(part.dtype != np.uint64 for part in parts):
        return parts
    lows = [part.min() for part in parts]
    spans = [int(part.max()) - int(low) + 1 for part, low in zip(parts, lows, strict=True)]
    if math.prod(spans) >= 1 << 62:
        return parts
    found = parts[0] - lows[0]
    for part, low, span in zip(parts[1:], lows[1:], spans[1:], strict=True):
        found = found * np.uint64(span) + (part - low)
    return [found]


def comes_before(
    first: Sequence[pa.Array], second: Sequence[pa.Array], keys: Sequence[Key], ties: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Where rows of ``first`` come before rows of ``second``.

    ``ties`` is the answer for equal rows.
    """
    before, equal = np.zeros(len(ties), np.bool_), np.ones(len(ties), np.bool_)
    for left, right, key in zip(first, second, keys, strict=True):
        if key.descending:
            left, right = right, left
        left, right = _plain(left, key), _plain(right, key)
        left_class, right_class = _class(left), _class(right)
        both = (left_class == _VALUE) & (right_class == _VALUE)
        less = (left_class < right_class) | (both & _flags(pc.less(left, right)))
        same = (left_class == right_class) & (~both | _flags(pc.equal(left, right)))
        before |= equal & less
        equal &= same
    return before | (equal & ties)


def _plain(column: pa.Array, key: Key) -> pa.Array:
    """The values to compare, in a type that Arrow compares."""
    if pat.is_null(column.type):
        return column.cast(pa.int8())
    if pat.is_float16(column.type):
        column = column.cast(pa.float32())
    return pc.abs(column) if key.absolute else column


def _class(column: pa.Array) -> npt.NDArray[np.int8]:
    found = np.where(is_valid(column), np.int8(_VALUE), np.int8(_NULL))
    if pat.is_floating(column.type):
        found[_flags(pc.is_nan(column))] = _NAN
    return found


def _flags(answer: pa.Array) -> npt.NDArray[np.bool_]:
    if answer.null_count:
        answer = answer.fill_null(False)
    return np.asarray(answer.to_numpy(zero_copy_only=False))


def _codes(column: pa.Array, descending: bool) -> list[npt.NDArray[Any]]:
    """Arrays in the order of one batch: classes of null and NaN, then codes.

    The classes are left out if all values are usual.
    """
    kinds = _class(column)
    if pat.is_float64(column.type) or pat.is_float32(column.type):
        filled = column.fill_null(0.0) if column.null_count else column
        numbers = np.add(filled.to_numpy(zero_copy_only=False), 0.0, dtype=np.float64)
        flipped = numbers.view(np.int64) >> 63  # all bits of negative numbers, and the sign of others
        codes = numbers.view(np.uint64)
        codes ^= flipped.view(np.uint64) | (np.uint64(1) << np.uint64(63))
    elif pat.is_integer(column.type) or pat.is_temporal(column.type) or pat.is_boolean(column.type):
        cells, _ = to_cells(column)
        if pat.is_unsigned_integer(column.type) or pat.is_boolean(column.type):
            codes = cells.view(f"u{cells.dtype.itemsize}").astype(np.uint64)
        else:
            codes = cells.astype(np.int64).view(np.uint64) ^ (np.uint64(1) << np.uint64(63))
    else:
        codes = pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.uint64)
    usual = kinds == _VALUE
    if usual.all():
        return [~codes if descending else codes]
    codes = np.where(usual, codes, np.uint64(0))
    return [-kinds, ~codes] if descending else [kinds, codes]
