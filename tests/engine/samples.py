"""Arrays of every kind of type, each with distinct values and a null, to draw test data from."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def _numbers(data_type: pa.DataType, low: int, high: int) -> pa.Array:
    return pa.array([None, low, high, 0, 1, 7], data_type)


def _counted(data_type: pa.DataType, width: pa.DataType) -> pa.Array:
    return pa.array([None, -1, 0, 1, 86_399, 123_456], width).view(data_type)


def _decimals(data_type: pa.DataType) -> pa.Array:
    return pa.array(
        [None, *(decimal.Decimal(text) for text in ("-1.23", "0.00", "0.01", "99.99", "123.45"))], data_type
    )


def _nested() -> dict[str, pa.Array]:
    items = [None, [], [None], [1], [1, 2], [2, 1], [None, 1]]
    pairs = [None, [], [("a", 1)], [("a", None)], [("a", 1), ("b", 2)]]
    trees = [
        None,
        {"name": None, "at": None, "below": None},
        {"name": "a", "at": 1.5, "below": []},
        {"name": "a", "at": float("nan"), "below": []},
        {"name": "a", "at": 1.5, "below": [None, {"x": None}]},
        {"name": "a", "at": 1.5, "below": [{"x": "deep"}]},
    ]
    tree = pa.struct(
        [("name", pa.string()), ("at", pa.float64()), ("below", pa.list_(pa.struct([("x", pa.large_string())])))]
    )
    window = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
    instant = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    places = [
        None,
        {"at": None, "in": None},
        {"at": None, "in": {"name": None, "code": None}},
        {"at": -0.0, "in": {"name": "a", "code": uuid.UUID(int=1).bytes}},
        {"at": 0.0, "in": {"name": "a", "code": uuid.UUID(int=1).bytes}},
        {"at": float("nan"), "in": {"name": "", "code": None}},
        {"at": 0.0, "in": {"name": "a", "code": None}},
    ]
    place = pa.struct([("at", pa.float64()), ("in", pa.struct([("name", pa.string()), ("code", pa.binary(16))]))])
    return {
        "struct of times": pa.array(
            [None, *({"start": start, "end": end} for start in (None, instant) for end in (None, instant))], window
        ),
        "struct of leaves": pa.array(places, place),
        "list<int64>": pa.array(items, pa.list_(pa.int64())),
        "large_list<int16>": pa.array(items, pa.large_list(pa.int16())),
        "list<string>": pa.array([None, [], [None], ["a"], ["a", ""], ["", "a"]], pa.list_(pa.string())),
        "list<bool>": pa.array([None, [], [True], [False], [None, True]], pa.list_(pa.bool_())),
        "fixed_size_list<int32>[2]": pa.array([None, [1, 2], [2, 1], [None, 2], [None, None]], pa.list_(pa.int32(), 2)),
        "fixed_size_list<int32>[0]": pa.array([None, []], pa.list_(pa.int32(), 0)),
        "map<string, int32>": pa.array(pairs, pa.map_(pa.string(), pa.int32())),
        "struct<>": pa.array([None, {}], pa.struct([])),
        "struct": pa.array(trees, tree),
        "list<struct>": pa.array([None, [], [trees[1]], [trees[3], None], trees[2:]], pa.list_(tree)),
        "struct<struct<null>>": pa.array(
            [None, {"a": None}, {"a": {"b": None}}], pa.struct([("a", pa.struct([("b", pa.null())]))])
        ),
    }


def _views() -> dict[str, pa.Array]:
    starts, sizes = [0, 0, 3, 1, 1, 0], [1, 0, 1, 2, 1, 4]  # out of order, overlapping
    texts = pa.array(["a", None, "b", ""])
    first = pa.array([True, False, False, False, False, False])
    inner = pa.ListViewArray.from_arrays(pa.array(starts, pa.int32()), pa.array(sizes, pa.int32()), texts, mask=first)
    return {
        "list_view<string>": inner,
        "large_list_view<int16>": pa.LargeListViewArray.from_arrays(
            pa.array(starts, pa.int64()), pa.array(sizes, pa.int64()), pa.array([1, None, 3, 1], pa.int16()), mask=first
        ),
        "struct<list_view<string>>": pa.StructArray.from_arrays([inner], ["a"], mask=first),
        "list_view<list_view<string>>": pa.ListViewArray.from_arrays(
            pa.array([0, 4, 2, 1], pa.int32()), pa.array([0, 2, 3, 1], pa.int32()), inner
        ),
    }


def _unions() -> dict[str, pa.Array]:
    codes, names = [5, 0], ["text", "number"]
    texts, numbers = pa.array(["a", "b", None, "", "c"]), pa.array([1.5, None, 0.0, -0.0, 3.0])
    tags = pa.array([5, 5, 0, 0, 5, 0, 0], pa.int8())
    places = pa.array([0, 2, 0, 1, 4, 2, 3], pa.int32())
    dense = pa.UnionArray.from_dense(tags, places, [texts, numbers], names, codes)
    sparse = pa.UnionArray.from_sparse(tags[:5], [texts, numbers], names, codes)
    offsets = pa.array([0, 0, 0, 1, 3, 5], pa.int32())
    first = pa.array([True, False, False, False, False])
    return {
        "dense_union": dense,
        "sparse_union": sparse,
        "list<dense_union>": pa.ListArray.from_arrays(offsets, dense, mask=first),
        "struct<sparse_union>": pa.StructArray.from_arrays([sparse], ["u"], mask=first),
        "union<list_view>": pa.UnionArray.from_sparse(
            pa.array([1, 0, 0, 0], pa.int8()), [_views()["list_view<string>"][:4], pa.nulls(4)], ["a", "b"]
        ),
    }


SAMPLES: dict[str, pa.Array] = {
    "null": pa.nulls(3),
    "bool": pa.array([None, False, True]),
    "int8": _numbers(pa.int8(), -128, 127),
    "int16": _numbers(pa.int16(), -(2**15), 2**15 - 1),
    "int32": _numbers(pa.int32(), -(2**31), 2**31 - 1),
    "int64": _numbers(pa.int64(), -(2**63), 2**63 - 1),
    "uint8": _numbers(pa.uint8(), 2, 255),
    "uint16": _numbers(pa.uint16(), 2, 2**16 - 1),
    "uint32": _numbers(pa.uint32(), 2, 2**32 - 1),
    "uint64": _numbers(pa.uint64(), 2, 2**64 - 1),
    "half": pa.array([None, *np.array([0.0, -0.0, 1.5, np.nan, np.inf], np.float16)], pa.float16()),
    "float": pa.array([None, 0.0, -0.0, 1.5, float("nan"), float("-inf")], pa.float32()),
    "double": pa.array([None, 0.0, -0.0, 0.1, float("nan"), float("inf")], pa.float64()),
    "date32": _counted(pa.date32(), pa.int32()),
    "date64": pa.array([None, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2013, 1, 1)], pa.date64()),
    "time32": pa.array([None, 0, 1, 86_399], pa.int32()).view(pa.time32("s")),
    "time64": pa.array([None, 0, 1, 86_399_000_000], pa.int64()).view(pa.time64("us")),
    "timestamp[s]": _counted(pa.timestamp("s"), pa.int64()),
    "timestamp[us, tz]": _counted(pa.timestamp("us", "America/New_York"), pa.int64()),
    "duration": _counted(pa.duration("ms"), pa.int64()),
    "month_day_nano_interval": pa.array([None, (0, 0, 0), (1, 2, 3), (-1, 2, 3)], pa.month_day_nano_interval()),
    "decimal32": _decimals(pa.decimal32(7, 2)),
    "decimal64": _decimals(pa.decimal64(12, 2)),
    "decimal128": _decimals(pa.decimal128(30, 2)),
    "decimal256": _decimals(pa.decimal256(60, 2)),
    "fixed_size_binary[0]": pa.array([None, b""], pa.binary(0)),
    "fixed_size_binary[3]": pa.array([None, b"abc", b"\0\0\0", b"abd"], pa.binary(3)),
    "fixed_size_binary[8]": pa.array([None, b"abcdefgh", b"\0" * 8], pa.binary(8)),
    "fixed_size_binary[12]": pa.array([None, b"abcdefghijkl", b"abcdefghijk\0"], pa.binary(12)),
    "string": pa.array([None, "", "a", "b", "exactly8", "longer than eight", "é" * 9]),
    "large_string": pa.array([None, "", "a", "b", "x" * 100], pa.large_string()),
    "binary": pa.array([None, b"", b"\0", b"\0\0", b"a\0"], pa.binary()),
    "large_binary": pa.array([None, b"", b"\0", b"\0\0"], pa.large_binary()),
    "uuid": pa.array([None, uuid.UUID(int=1).bytes, uuid.UUID(int=2**127).bytes], pa.uuid()),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array([None, "{}", "[1]"])),
    "list<uuid>": pa.ListArray.from_arrays(
        pa.array([0, 0, 0, 1, 2], pa.int32()),
        pa.array([uuid.UUID(int=1).bytes, None], pa.uuid()),
        mask=pa.array([True, False, False, False]),
    ),
    **_nested(),
    **_views(),
    **_unions(),
}

FLAT = [name for name, array in SAMPLES.items() if not pa.types.is_nested(array.type) and name not in ("json",)]

STRUCT_KEYS = ["struct<>", "struct<struct<null>>", "struct of times", "struct of leaves"]
KEYS = [*FLAT, *STRUCT_KEYS]
"""Names of the samples whose type a key column can have."""


def pick(sample: pa.Array, chosen: Sequence[int], *, padding: int = 0) -> pa.Array:
    """The values of ``sample`` at ``chosen``, as a slice with ``padding`` values before and behind."""
    indexes = [0] * padding + [index % len(sample) for index in chosen] + [len(sample) - 1] * padding
    return sample.take(pa.array(indexes, pa.int64())).slice(padding, len(chosen))


def shown(array: pa.Array) -> list[str]:
    """The values as texts: equal where values must count as equal (every NaN is "nan"), and only there ("-0.0")."""
    if not pa.types.is_union(array.type):
        return [_shown(value) for value in array]
    # A null of one member is not that of another; the scalars of pyarrow do not tell which one it is.
    codes = pa.Array.from_buffers(pa.int8(), len(array), [None, array.buffers()[1]], 0, array.offset)
    names = [array.type.field(array.type.type_codes.index(code)).name for code in codes.to_pylist()]
    return [f"{name}: {value!r}" for name, value in zip(names, array.to_pylist(), strict=True)]


def _shown(value: pa.Scalar) -> str:
    if value.is_valid and isinstance(value, pa.StructScalar):
        return str({name: _shown(value[place]) for place, name in enumerate(value)})
    if value.is_valid and isinstance(value, pa.ListScalar) and not isinstance(value, pa.MapScalar):
        return str(shown(value.values))
    return repr(value.as_py())


def half_full() -> pa.Array:
    """One list of 2**30 nulls: takes next to no memory, and two of them do not fit into one array."""
    return pa.ListArray.from_arrays(pa.array([0, 1 << 30], pa.int32()), pa.nulls(1 << 30))
