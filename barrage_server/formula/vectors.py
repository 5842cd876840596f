"""Vectors: the values of an expression for some rows, or one for all rows.

Values of fixed width are numpy cells with validity. Other values are an Arrow array, or an Arrow scalar for a constant.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.formula.kinds import BOOLEAN, DURATION, INSTANT, LOCAL_DATE, LOCAL_TIME, NULL, STRING, Kind
from barrage_server.formula.text_size import check_text_bytes, text_bytes
from barrage_server.wire.buffers import bitmap_of, cells_of, valid_of
from barrage_server.wire.conversions import DAY_MILLISECONDS, NANOSECONDS

__all__ = [
    "AnyArray",
    "Arrow",
    "Cells",
    "Flags",
    "Vector",
    "both",
    "constant",
    "flags",
    "from_arrow",
    "missing",
    "numbers",
    "present",
    "to_arrow",
]

AnyArray: TypeAlias = npt.NDArray[Any]
Flags: TypeAlias = npt.NDArray[np.bool_]


class Cells(NamedTuple):
    """Values of fixed width.

    Attributes:
        values: one per row, or of no dimension for a constant. Where ``valid`` is false they mean nothing.
        valid: which are not null, of the shape of the values or of no dimension; ``None`` if all are.

    """

    values: AnyArray
    valid: Flags | None = None


Arrow: TypeAlias = pa.Array | pa.Scalar
Vector: TypeAlias = Cells | pa.Array | pa.Scalar


def constant(value: Any, kind: Kind) -> Vector:
    """One value, in the units of the kind, or ``None`` for null."""
    if kind.dtype is None:
        return pa.scalar(value, kind.arrow)
    if value is None:
        return Cells(np.zeros((), kind.dtype), np.zeros((), np.bool_))
    return Cells(np.asarray(value, kind.dtype))


def from_arrow(array: pa.Array, kind: Kind) -> Vector:
    """Decode an Arrow array as the kind of its type.

    The kind is the one of :func:`~barrage_server.formula.kinds.kind_of`.
    """
    if isinstance(array.type, pa.BaseExtensionType) and array.type != kind.arrow:
        array = array.storage
    if kind.dtype is None:
        return array if array.type == kind.arrow or kind.item is not None else array.cast(kind.arrow)
    valid = valid_of(array)
    if kind is BOOLEAN:
        filled = array if valid is None else array.fill_null(False)
        return Cells(filled.to_numpy(zero_copy_only=False), valid)
    values = numbers(array)
    if kind in (INSTANT, LOCAL_TIME, DURATION):
        values, valid = _nanoseconds(values, valid, NANOSECONDS[array.type.unit])
    elif kind is LOCAL_DATE and pat.is_date64(array.type):
        values = values // DAY_MILLISECONDS
    return Cells(values if values.dtype == kind.dtype else values.astype(kind.dtype), valid)


def numbers(array: pa.Array) -> AnyArray:
    """The buffer of a fixed-width array as a numpy array."""
    kind = "f" if pat.is_floating(array.type) else "u" if pat.is_unsigned_integer(array.type) else "i"
    return cells_of(array, f"{kind}{array.type.bit_width // 8}")


def _nanoseconds(values: AnyArray, valid: Flags | None, unit: int) -> tuple[AnyArray, Flags | None]:
    """Values of a unit as nanoseconds; null where 64 bits overflow."""
    if unit == 1:
        return values.astype(np.int64, copy=False), valid
    wide = values.astype(np.int64, copy=False)
    most = np.iinfo(np.int64).max // unit
    fits = (wide <= most) & (wide >= -most)
    if not fits.all():
        valid = fits if valid is None else valid & fits
    return wide * unit, valid


def to_arrow(vector: Vector, kind: Kind, rows: int) -> pa.Array:
    """Encode ``rows`` values as an Arrow array of the kind's type."""
    if isinstance(vector, pa.Scalar):
        if kind is NULL:
            return pa.nulls(rows)
        if kind is STRING:
            check_text_bytes(text_bytes(vector, rows))
        return pa.repeat(vector, rows)
    if not isinstance(vector, Cells):
        return vector
    values, valid = vector
    if values.ndim == 0:
        values = np.full(rows, values)
    if valid is not None and valid.ndim == 0:
        valid = None if valid else np.zeros(rows, np.bool_)
    bits, nulls = None, 0
    if valid is not None:
        nulls = rows - int(np.count_nonzero(valid))
        bits = bitmap_of(valid) if nulls else None
    if kind is BOOLEAN:
        data = bitmap_of(values.astype(np.bool_, copy=False))
    else:
        data = pa.py_buffer(np.ascontiguousarray(values, kind.dtype))
    return pa.Array.from_buffers(kind.arrow, rows, [bits, data], nulls)


def both(left: Flags | None, right: Flags | None) -> Flags | None:
    """Where both are valid."""
    if left is None:
        return right
    return left if right is None else left & right


def flags(answer: Any) -> Flags:
    """The booleans of an Arrow kernel, without nulls, for numpy."""
    if isinstance(answer, pa.Scalar):
        return np.asarray(answer.as_py(), np.bool_)
    found: Flags = answer.to_numpy(zero_copy_only=False)
    return found


def present(vector: Vector) -> Flags:
    """Where values are not null."""
    if isinstance(vector, Cells):
        return np.ones((), np.bool_) if vector.valid is None else vector.valid
    if isinstance(vector, pa.Scalar):
        return np.asarray(vector.is_valid)
    return flags(pc.is_valid(vector))


def missing(vector: Vector) -> Flags:
    """Where values are null."""
    return np.asarray(~present(vector))
