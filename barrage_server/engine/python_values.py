"""Python values as Arrow arrays of a given type, without loss.

pyarrow converts to a given type silently: 1.5 becomes the integer 1, a datetime a date, bytes a text. Here a value is
stored exactly or refused.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.errors import SchemaMismatchError

__all__ = ["array_of"]


def array_of(values: Any, data_type: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Values as an array of ``data_type``; an existing array keeps its type.

    Integers may have another width, and may count the units of dates and times; whole floats fit integer types; floats
    are rounded to narrower ones. Datetimes without a zone are UTC if the type has a zone.

    Args:
        values: a sequence, an iterable, a numpy array, or a series of a data frame library.
        data_type: the type of a column.

    Raises:
        SchemaMismatchError: a value would lose information, or is of another kind.
        Exception: any error of pyarrow, or of the library of the values.
    """
    if not hasattr(values, "__len__"):
        values = list(values)
    array = pa.array(values, type=data_type)
    if pat.is_float64(data_type):
        return array  # pyarrow refuses values that are not numbers, or too large
    given = None if pat.is_nested(data_type) else _type_of(values)
    if given is None or not _surely_fits(given, data_type):
        for value, stored in zip(_plain_values(values), array.to_pylist(), strict=True):
            if not _is_same(value, stored):
                raise SchemaMismatchError(f"The value {value!r} would become {stored!r}.")
    return array


def _type_of(values: Any) -> pa.DataType | None:
    """The type that pyarrow infers for values, if any."""
    try:
        if isinstance(values, np.ndarray) and values.dtype.kind not in "OUS":
            return pa.from_numpy_dtype(values.dtype)
        if isinstance(values, list | tuple):
            return pa.infer_type(values)
        return pa.array(values).type
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _surely_fits(given: pa.DataType, target: pa.DataType) -> bool:
    """Whether a conversion by pyarrow without an error is free of loss."""
    if pat.is_null(given):
        return True
    if pat.is_integer(given) and pat.is_temporal(target):
        return True  # they count its units
    if pat.is_timestamp(target) and pat.is_timestamp(given):
        return bool(target.unit == "ns" and (given.tz is None or target.tz is not None))
    if pat.is_time(target) or pat.is_duration(target):
        return bool(given.id == target.id and target.unit == "ns")
    return any(is_kind(given) and is_kind(target) for is_kind in _KINDS)


_KINDS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pat.is_integer,
    pat.is_decimal,
    pat.is_boolean,
    lambda data_type: pat.is_string(data_type) or pat.is_large_string(data_type),
    lambda data_type: pat.is_binary(data_type) or pat.is_large_binary(data_type) or pat.is_fixed_size_binary(data_type),
    lambda data_type: pat.is_date32(data_type) or pat.is_date64(data_type),
)


def _plain_values(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") and not isinstance(values, np.ndarray) else list(values)


def _is_same(value: Any, stored: Any) -> bool:
    """Whether ``stored`` equals ``value`` without loss."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if stored is None:
        return value is None or _is_missing(value)
    if isinstance(stored, dict):
        return _is_same_struct(value, stored)
    if isinstance(stored, list):
        if isinstance(value, Mapping):  # of a map
            value = list(value.items())
        return len(value) == len(stored) and all(map(_is_same, value, stored))
    if isinstance(stored, tuple):  # an entry of a map
        return len(value) == len(stored) and all(map(_is_same, value, stored))
    if isinstance(stored, bool) or isinstance(value, bool):
        return value is stored
    if isinstance(stored, float):
        return _is_same_float(value, stored)
    if isinstance(stored, int | decimal.Decimal):
        return bool(value == stored)
    if isinstance(stored, str):
        return isinstance(value, str)
    if isinstance(stored, bytes):
        return not isinstance(value, str)
    if isinstance(value, int):
        return True  # counts the units of a date, a time or a duration
    if isinstance(stored, dt.datetime):
        return _is_same_instant(value, stored)
    if isinstance(stored, dt.date):
        return isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    if isinstance(stored, dt.time):
        return isinstance(value, dt.time) and value.replace(tzinfo=None) == stored
    if isinstance(stored, dt.timedelta):
        return bool(value == stored)
    return True  # what pyarrow takes from its own Python type alone


def _is_missing(value: Any) -> bool:
    """Whether ``value`` is NaN, NaT or the like, which pyarrow can treat as null."""
    try:
        return bool(value != value)
    except TypeError:  # pandas does not say whether its NA differs
        return True


def _is_same_struct(value: Any, stored: dict[str, Any]) -> bool:
    if isinstance(value, Mapping):
        return all(name in stored and _is_same(field, stored[name]) for name, field in value.items())
    return len(value) == len(stored) and all(map(_is_same, value, stored.values()))


def _is_same_float(value: Any, stored: float) -> bool:
    return not isinstance(value, str | bytes) and math.isfinite(value) == math.isfinite(stored)


def _is_same_instant(value: Any, stored: dt.datetime) -> bool:
    if not isinstance(value, dt.datetime):
        return False
    if value.tzinfo is None and stored.tzinfo is not None:
        value = value.replace(tzinfo=dt.UTC)
    return (value.tzinfo is None) == (stored.tzinfo is None) and bool(value == stored)
