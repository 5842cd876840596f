"""Every type of docs/types.md is painted to the last digit, and null is apart from everything else."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import barrage_server as bs
from tests.browser.tab import Tab

NAN, INF = float("nan"), float("inf")
FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)
UNITS = ("s", "ms", "us", "ns")
PER_SECOND = (1, 10**3, 10**6, 10**9)
STRUCT = pa.struct([("a", pa.int8()), ("b", pa.string())])
ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "-05:30")


def integers(kind: pa.DataType) -> pa.Array:
    info = np.iinfo(kind.to_pandas_dtype())
    return pa.array([int(info.min), int(info.max), 0, 1, None], kind)


def instants(unit: str, zone: str | None) -> pa.Array:
    """Years 1 and 9999 where the unit reaches them, changes of clocks, and times before 1970."""
    per = PER_SECOND[UNITS.index(unit)]
    days = (dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30, 23, 59, 59)) if zone else (FIRST, LAST)
    far = [int((day - dt.datetime(1970, 1, 1)).total_seconds()) * per for day in days] if unit != "ns" else []
    near = [0, -1, 1_711_846_799 * per, 1_711_846_800 * per, 1_729_990_800 * per + per // 3]
    edges = [-(2**63) + 1, 2**63 - 1] if unit == "ns" else []
    return pa.array([*far, *near, *edges, None], pa.timestamp(unit, zone))


def decimals(kind: pa.DataType) -> pa.Array:
    texts = [f"{sign}E-{kind.scale}" for sign in ("9" * kind.precision, "-" + "9" * kind.precision, "0", "1")]
    return pa.array([*map(Decimal, texts), None], kind)


def plain_columns() -> dict[str, pa.Array]:
    columns: dict[str, pa.Array] = {"bool": pa.array([True, False, None])}
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        columns[str(kind)] = integers(kind)
    floats = [0.0, -0.0, NAN, INF, -INF, 1.5, 0.1, -1e-7, 1 / 3, None]
    columns["float16"] = pa.array(np.array([0.0, -0.0, NAN, INF, -INF, 1.5, 0.1, 65504, 6e-8], np.float16))
    columns["float32"] = pa.array([*floats, 3.4028234663852886e38, 1e-45, 16777216.0], pa.float32())
    columns["float64"] = pa.array([*floats, 1.7976931348623157e308, 5e-324, 1e21, 123456789012345680000.0, 2.0**53])
    for kind in (pa.decimal32(9, 4), pa.decimal64(18, 0), pa.decimal128(38, 38), pa.decimal256(40, 3)):
        columns[str(kind)] = decimals(kind)
    days = [
        dt.date(1, 1, 1),
        dt.date(9999, 12, 31),
        dt.date(1970, 1, 1),
        dt.date(1969, 12, 31),
        dt.date(2024, 2, 29),
        None,
    ]
    columns["date32"], columns["date64"] = pa.array(days, pa.date32()), pa.array(days, pa.date64())
    for time, per in (
        (pa.time32("s"), 1),
        (pa.time32("ms"), 10**3),
        (pa.time64("us"), 10**6),
        (pa.time64("ns"), 10**9),
    ):
        columns[str(time)] = pa.array(
            [0, 86_400 * per - 1, 45_296 * per, None], pa.int32() if per < 10**6 else pa.int64()
        ).view(time)
    for unit in UNITS:
        columns[f"timestamp {unit}"] = instants(unit, None)
        columns[f"duration {unit}"] = pa.array([0, -1, 2**62, -(2**62), 90_061_001, None], pa.duration(unit))
    for unit, zone in zip(("s", "ms", "us", "ns", "us"), ZONES, strict=True):
        columns[f"timestamp {unit} {zone}"] = instants(unit, zone)
    texts = ["", "null", " ", "NaN", "ä€😀", "x" * 30, None]
    columns["string"], columns["large_string"] = pa.array(texts), pa.array(texts, pa.large_string())
    columns["binary"] = pa.array([b"", b"\x00\xff", b"abc", None])
    columns["large_binary"] = pa.array([b"", b"\x00\xff", None], pa.large_binary())
    columns["fixed_size_binary"] = pa.array([b"\x01\x02\x03", None], pa.binary(3))
    columns["dictionary"] = pa.array(["a", "b", None, "a"])
    return columns


NESTED: dict[str, tuple[pa.Array, list[str | None]]] = {
    "null": (pa.nulls(3), [None] * 3),
    "list": (pa.array([[1, None], [], None], pa.list_(pa.int8())), ["[1, null]", "[]", None]),
    "large_list": (pa.array([[True]], pa.large_list(pa.bool_())), ["[true]"]),
    "fixed_size_list": (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), ["[1, 2]", None]),
    "struct": (pa.array([{"a": 1, "b": "x"}, None], STRUCT), ['{"a": 1, "b": "x"}', None]),
    "map": (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())), ['[["k", 1]]', None]),
    "uuid": (pa.array([uuid.UUID(int=1).bytes, None], pa.uuid()), [f"{1:032x}", None]),
    "json": (pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None])), ['{"a": 1}', None]),
    "union": (
        pa.UnionArray.from_dense(
            pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([7]), pa.array(["seven"])], ["n", "t"]
        ),
        ["7", '"seven"'],
    ),
}  # fmt: skip


def of_length(array: pa.Array, rows: int) -> pa.Array:
    """The array, repeated to a number of rows."""
    return array.take(pa.array([row % len(array) for row in range(rows)]))


@pytest.fixture
def context_options() -> dict[str, Any]:
    """A window in which all columns are in view."""
    return {"viewport": {"width": 12_000, "height": 700}}


def test_every_plain_type_is_painted_exactly(tab: Tab, server: bs.Server) -> None:
    columns = plain_columns()
    rows = max(map(len, columns.values()))
    content = pa.table({name: of_length(array, rows) for name, array in columns.items()})
    table = server.append_table("t", content.schema)
    table.append(content)
    tab.open(server, "t")
    look = tab.agrees(table)
    heads = look.mirror["heads"]
    assert len(heads) == len(columns)
    for row, texts in look.rows.items():
        assert texts == ["" if text == "empty" else text for text in look.whole[row]], "all is in view, uncut"
    assert [look.rows[row][heads.index("uint64")] for row in (0, 1)] == ["0", "18446744073709551615"]
    assert [look.rows[row][heads.index("float64")] for row in (0, 1)] == ["0", "-0"]


def test_nested_values_and_extension_types_are_painted(tab: Tab, server: bs.Server) -> None:
    rows = 6
    content = pa.table({name: of_length(array, rows) for name, (array, _) in NESTED.items()})
    table = server.append_table("t", content.schema)
    table.append(content)
    tab.open(server, "t")
    tab.shows(list(NESTED), [[texts[row % len(texts)] for row in range(rows)] for _, texts in NESTED.values()], rows)


def test_null_empty_text_and_the_word_null_differ(tab: Tab, server: bs.Server) -> None:
    table = server.append_table("t", {"s": "string"})
    table.append({"s": [None, "", "null", "NaN"]})
    tab.open(server, "t")
    look = tab.agrees(table)
    assert [(look.rows[row], look.nulls[row]) for row in range(4)] == [
        (["null"], [True]), ([""], [False]), (["null"], [False]), (["NaN"], [False]),
    ]  # fmt: skip
    assert look.whole[1] == ["empty"]
