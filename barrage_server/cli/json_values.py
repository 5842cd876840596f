"""Arrow arrays as JSON values, and back, for every type that a table can hold.

=====================  =============================================================================
type                   JSON
=====================  =============================================================================
integers, booleans     number, ``true`` and ``false``
floating point         number; ``"NaN"``, ``"Infinity"``, ``"-Infinity"``
decimals               string, as in ``"1.20"``; a number is read as well
times and dates        string: ``"2024-01-31 09:30:00.000001Z"``; beyond the years 0 to 9999 a number of units
durations              number of units
binary                 string in base64
lists                  array
structs                object
maps                   array of pairs; an object is read as well
dictionaries           as their values
=====================  =============================================================================
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from barrage_server.errors import SchemaMismatchError
from barrage_server.wire.schema import is_list_like

__all__ = ["array_of_json", "is_binary", "json_of_array"]

_UNITS: Final = {"s": Fraction(1), "ms": Fraction(10**3), "us": Fraction(10**6), "ns": Fraction(10**9)}
_FIRST_SECOND: Final = -62_167_219_200
"""First second of the year 0, relative to 1970."""
_LAST_SECOND: Final = 253_402_300_799
"""Last second of the year 9999, relative to 1970."""
_INT64_MIN: Final = -(1 << 63)
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def json_of_array(array: pa.Array) -> list[Any]:
    """The values of ``array`` for ``json.dumps``, one per element; null is None."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return json_of_array(array.storage)
    if kinds.is_dictionary(kind):
        return json_of_array(array.dictionary_decode())
    if kinds.is_map(kind):
        first, last = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
        keys = json_of_array(array.keys.slice(first, last - first))
        items = json_of_array(array.items.slice(first, last - first))
        lengths = [len(entry) if entry.is_valid else None for entry in array]
        return _cut([[key, item] for key, item in zip(keys, items, strict=True)], lengths)
    if kinds.is_fixed_size_list(kind):
        return json_of_array(array.cast(pa.list_(kind.value_type)))
    if is_list_like(kind):
        return _cut(json_of_array(array.flatten()), pc.list_value_length(array).to_pylist())
    if kinds.is_struct(kind):
        names = [field.name for field in kind]
        columns = [json_of_array(array.field(number)) for number in range(len(names))]
        rows: list[Any] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        rows = rows or [{} for _ in range(len(array))]
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if kinds.is_duration(kind):
        return list(array.cast(pa.int64()).to_pylist())
    if kinds.is_temporal(kind):
        return _times(array)
    if kinds.is_decimal(kind):
        return list(array.cast(pa.string()).to_pylist())
    if kinds.is_floating(kind):
        return [_number(value) for value in array.to_pylist()]
    if is_binary(kind):
        return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    return list(array.to_pylist())


def array_of_json(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The array of type ``kind`` for the values that :func:`json_of_array` writes.

    Raises:
        SchemaMismatchError: a value is of another type, or out of range; the text names it.
    """
    try:
        return _array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, InvalidOperation, binascii.Error) as error:
        raise SchemaMismatchError(f"a value is not of type {kind}: {error}") from None


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    missing = [value is None for value in values]
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _array(values, kind.storage_type))
    if kinds.is_dictionary(kind):
        return _array(values, kind.value_type).dictionary_encode().cast(kind)
    if kinds.is_map(kind):
        lists = [value.items() if isinstance(value, Mapping) else value for value in values]
        pairs = [_pair(entry) for value in lists if value is not None for entry in value]
        offsets = _offsets(lists)
        items = _array([pair[1] for pair in pairs], kind.item_type)
        keys = _array([pair[0] for pair in pairs], kind.key_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind)
    if is_list_like(kind):
        for value in values:
            if value is not None and not isinstance(value, list):
                raise TypeError(f"{value!r} is not an array")
        if kinds.is_fixed_size_list(kind) and kind.list_size:
            return _fixed_size_lists(values, kind)
        child = _array([entry for value in values if value is not None for entry in value], kind.value_type)
        offsets = _offsets(values)
        if kinds.is_list_view(kind) or kinds.is_large_list_view(kind):
            made = pa.ListViewArray if kinds.is_list_view(kind) else pa.LargeListViewArray
            starts = pa.array([start or 0 for start in offsets.to_pylist()[:-1]], pa.int64())
            sizes = pa.array([len(value or ()) for value in values], pa.int64())
            width = pa.int32() if kinds.is_list_view(kind) else pa.int64()
            return made.from_arrays(
                starts.cast(width), sizes.cast(width), child, type=kind, mask=pa.array(missing, pa.bool_())
            )
        if kinds.is_large_list(kind):
            return pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), child, type=kind)
        if kinds.is_list(kind):  # without a cast: pyarrow 26 cuts the nulls within a list of nulls
            return pa.ListArray.from_arrays(offsets, child, type=kind)
        return pa.ListArray.from_arrays(offsets, child).cast(kind)
    if kinds.is_struct(kind):
        for value in values:
            if value is not None and not isinstance(value, Mapping):
                raise TypeError(f"{value!r} is not an object")
        names = {field.name for field in kind}
        surplus = sorted({name for value in values if value is not None for name in value} - names)
        if surplus:
            raise ValueError(f"unknown field {surplus[0]!r}")
        children = [
            _array([None if value is None else value.get(field.name) for value in values], field.type) for field in kind
        ]
        if not children:
            return pa.array([None if value is None else {} for value in values], kind)
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(missing, pa.bool_()))
    return _leaves(values, kind)


def _leaves(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    given = [value for value in values if value is not None]
    if kinds.is_boolean(kind):
        _check(given, bool, "true or false")
    elif kinds.is_integer(kind) or kinds.is_duration(kind):
        _check(given, int, "a whole number")
        if kinds.is_duration(kind):
            return pa.array(values, pa.int64()).cast(kind)
    elif kinds.is_floating(kind):
        values = [_NOT_FINITE.get(value, value) if isinstance(value, str) else value for value in values]
        _check([value for value in values if value is not None], (int, float), "a number")
        return pa.array([None if value is None else float(value) for value in values], pa.float64()).cast(kind)
    elif kinds.is_decimal(kind):
        return pa.array([None if value is None else Decimal(str(value)) for value in values], kind)
    elif kinds.is_temporal(kind):
        return _of_times(values, kind)
    elif is_binary(kind):
        _check(given, str, "text in base64")
        return pa.array([None if value is None else base64.b64decode(value, validate=True) for value in values], kind)
    elif kinds.is_null(kind):
        if given:
            raise ValueError(f"{given[0]!r} is not null")
    else:
        _check(given, str, "text")
    return pa.array(values, kind)


def _times(array: pa.Array) -> list[Any]:
    """Times as texts, and as numbers of units beyond the years that Arrow parses."""
    kind = array.type
    if kinds.is_timestamp(kind) and kind.tz is not None:
        array = array.cast(pa.timestamp(kind.unit, "UTC"))  # historical offsets have seconds, which texts cannot hold
    texts = array.cast(pa.string()).to_pylist()
    if kinds.is_time(kind):
        return list(texts)
    numbers = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    per_second = Fraction(1, 86_400) if kinds.is_date32(kind) else _UNITS["ms" if kinds.is_date64(kind) else kind.unit]
    low = max(_FIRST_SECOND * per_second, _INT64_MIN + per_second)
    high = _LAST_SECOND * per_second
    pairs = zip(texts, numbers, strict=True)
    return [text if number is None or low <= number <= high else number for text, number in pairs]


def _of_times(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    numbers = [value if isinstance(value, int) else None for value in values]
    texts = [None if isinstance(value, int) else value for value in values]
    _check([text for text in texts if text is not None], str, "a time as text")
    if kinds.is_time(kind):  # Arrow parses timestamps only
        instants = pa.array([None if text is None else f"1970-01-01 {text}" for text in texts], pa.string())
        read = instants.cast(pa.timestamp("ns")).cast(pa.time64("ns")).cast(kind)
    else:
        read = pa.array(texts, pa.string()).cast(kind)
    if any(number is not None for number in numbers):
        counted = pa.array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
        read = pc.coalesce(counted, read)
    return read


def _check(values: Sequence[object], wanted: type | tuple[type, ...], name: str) -> None:
    for value in values:
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise TypeError(f"{str(value)[:60]!r} is not {name}")


def _pair(entry: object) -> tuple[Any, Any]:
    if isinstance(entry, tuple | list) and len(entry) == 2:
        return entry[0], entry[1]
    if isinstance(entry, Mapping) and set(entry) == {"key", "value"}:
        return entry["key"], entry["value"]
    raise TypeError(f"{entry!r} is not a pair of a key and a value")


def _cut(flat: list[Any], lengths: Sequence[int | None]) -> list[Any]:
    """Cut ``flat`` into lists of these lengths; None for a length of None."""
    found: list[Any] = []
    start = 0
    for length in lengths:
        found.append(None if length is None else flat[start : start + length])
        start += length or 0
    return found


def _offsets(lists: Sequence[Any]) -> pa.Array:
    """Offsets of consecutive lists; null for a null list."""
    offsets: list[int | None] = []
    end = 0
    for entries in lists:
        offsets.append(None if entries is None else end)
        end += len(entries) if entries is not None else 0
    return pa.array([*offsets, end], pa.int32())


def _number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return next(name for name, number in _NOT_FINITE.items() if number == value or (value != value and name == "NaN"))


def is_binary(kind: pa.DataType) -> bool:
    """Whether a type is one of bytes, which JSON has in base64."""
    return bool(
        kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_fixed_size_binary(kind)
        or kinds.is_binary_view(kind)
    )


def _fixed_size_lists(values: Sequence[list[Any] | None], kind: pa.FixedSizeListType) -> pa.Array:
    """Lists of ``kind.list_size`` values, at least 1. A null list has null values."""
    size = kind.list_size
    wrong = next((value for value in values if value is not None and len(value) != size), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} does not have {size} values")
    nulls = [None] * size
    child = _array([entry for value in values for entry in (nulls if value is None else value)], kind.value_type)
    return pa.FixedSizeListArray.from_arrays(
        child, type=kind, mask=pa.array([value is None for value in values], pa.bool_())
    )
