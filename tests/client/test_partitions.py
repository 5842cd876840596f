"""``partition_by`` of a client's tables: what the tables of the process give, computed by the server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable

SCHEMA = {"price": "float64", "sym": "string", "side": "string"}


@pytest.fixture(params=["pyarrow", "grpc"])
def server(request: pytest.FixtureRequest) -> Iterator[bs.Server]:
    with bs.Server(front=request.param) as server:
        yield server


@pytest.fixture
def trades(server: bs.Server) -> AppendTable:
    table = server.append_table("trades", SCHEMA)
    table.append({"price": [1.0, 2.0, 3.0], "sym": ["A", "B", "A"], "side": ["x", "x", None]})
    return table


def rows_of(table: bs.RemoteTable | bs.Table | None) -> list[dict[str, Any]]:
    assert table is not None
    found: list[dict[str, Any]] = table.to_arrow().to_pylist()
    return found


@pytest.mark.parametrize("drop_keys", [False, True])
@pytest.mark.parametrize("by", ["sym", ["sym"], ["side", "sym"]])
def test_partitions_are_those_of_the_process(
    client: bs.Client, trades: AppendTable, by: str | list[str], drop_keys: bool
) -> None:
    remote, local = client.table("trades").partition_by(by, drop_keys), trades.partition_by(by, drop_keys)
    for _ in range(2):
        assert rows_of(remote.keys()) == rows_of(local.keys())
        assert list(map(rows_of, remote.constituents)) == list(map(rows_of, local.constituents))
        assert rows_of(remote.merge()) == rows_of(local.merge())
        for key in local.keys().to_arrow().to_pylist():
            values = list(key.values())
            assert rows_of(remote.get_constituent(values)) == rows_of(local.get_constituent(values))
        trades.append({"price": [4.0, 5.0], "sym": ["C", None], "side": ["y", "x"]})


def test_a_constituent_follows_and_one_without_rows_is_none(client: bs.Client, trades: AppendTable) -> None:
    parted = client.table("trades").partition_by("sym")
    assert parted.get_constituent("C") is None
    first = parted.get_constituent("A")
    assert first is not None
    with first.subscribe(interval_ms=1) as live:
        trades.append({"price": [4.0, 5.0], "sym": ["C", "A"], "side": ["y", "x"]})
        live.wait_until(lambda view: view.to_arrow()["price"].to_pylist() == [1.0, 3.0, 5.0])
    assert rows_of(parted.get_constituent("C")) == [{"price": 4.0, "sym": "C", "side": "y"}]
    assert repr(parted) == "<RemotePartitionedTable 'trades' by=['sym']>"


KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False, None]),
    (pa.int64(), [1, -(2**63) + 1, None]),
    (pa.uint8(), [1, 200]),
    (pa.float64(), [1.5, math.nan, math.inf, -math.inf, -0.0, None]),
    (pa.float32(), [1.5, math.nan, None, -math.inf, math.inf]),
    (pa.large_string(), ["", "a`b", "\u00e9\\", None]),
    (pa.timestamp("ns", "UTC"), [datetime(2024, 1, 1, tzinfo=UTC), None]),
    (pa.timestamp("ms", "Asia/Tokyo"), [datetime(2024, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)]),
    (pa.date32(), [date(2024, 1, 1), date(1969, 12, 31)]),
    (pa.time64("us"), [time(1, 2, 3), time(0, 0)]),
    (pa.time32("s"), [time(23, 59, 59), time(0, 0)]),
    (pa.time64("ns"), [time(1, 2, 3), time(0, 0)]),
    (pa.duration("ms"), [timedelta(seconds=3), timedelta(milliseconds=-5)]),
    (pa.duration("ns"), [timedelta(seconds=3), timedelta(microseconds=-5)]),
]


@pytest.mark.parametrize(("kind", "values"), KEYS)
def test_keys_of_each_type(server: bs.Server, client: bs.Client, kind: pa.DataType, values: list[Any]) -> None:
    """Also under a name that no formula can have, where values are compared by conditions."""
    name = "k" if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind) else "the key"
    table = server.append_table("t", pa.schema([(name, kind), ("n", pa.int64())]))
    table.append({name: pa.array([*values, values[0]], kind), "n": list(range(len(values) + 1))})
    parted = client.table("t").partition_by(name, drop_keys=True)
    found = [each.to_arrow()["n"].to_pylist() for each in parted.constituents]
    assert found == [[0, len(values)], *([number] for number in range(1, len(values)))]
    for number, value in enumerate(values):
        constituent = parted.get_constituent(value)
        assert constituent is not None and constituent.to_arrow()["n"].to_pylist() == found[number]


@pytest.mark.parametrize("kind", [pa.time64("ns"), pa.duration("ns"), pa.timestamp("ns", "UTC")])
def test_keys_that_differ_by_a_nanosecond(server: bs.Server, client: bs.Client, kind: pa.DataType) -> None:
    """Python's own times have microseconds."""
    table = server.append_table("t", pa.schema([("k", kind), ("n", pa.int64())]))
    table.append({"k": pa.array([0, 1, 1_000, 86_399_999_999_999], pa.int64()).cast(kind), "n": [0, 1, 2, 3]})
    found = client.table("t").partition_by("k").constituents
    assert [each.to_arrow()["n"].to_pylist() for each in found] == [[0], [1], [2], [3]]


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.date32(), 10_000_000), (pa.timestamp("s"), 10**12), (pa.duration("s"), 10**12)], ids=str
)
def test_keys_that_no_literal_has_are_told(server: bs.Server, client: bs.Client, kind: pa.DataType, value: int) -> None:
    numbers = pa.array([value], pa.int32() if pa.types.is_date(kind) else pa.int64())
    server.append_table("t", pa.schema([("k", kind)])).append({"k": numbers.cast(kind)})
    with pytest.raises(bs.UnsupportedOperationError, match=r"'k' has a value of the type .* Use where_in"):
        assert client.table("t").partition_by("k").constituents


def test_transformed_constituents(client: bs.Client, trades: AppendTable) -> None:
    tops = client.table("trades").partition_by("sym").transform(lambda each: each.sort_descending("price"))
    tops = tops.transform(lambda each: each.head(1))
    trades.append({"price": [9.0, 8.0], "sym": ["A", "C"], "side": ["x"] * 2})
    assert [each.to_arrow()["price"].to_pylist() for each in tops.constituents] == [[9.0], [2.0], [8.0]]


def test_transformed_constituents_of_a_snapshot_are_merged(client: bs.Client, trades: AppendTable) -> None:
    table = client.table("trades")
    tops = table.snapshot().partition_by("sym").transform(lambda each: each.sort_descending("price").head(1))
    assert tops.merge().to_arrow()["price"].to_pylist() == [3.0, 2.0]
    with pytest.raises(bs.UnsupportedOperationError, match="'trades' may change"):
        table.partition_by("sym").transform(lambda each: each.head(1)).merge()
    none = table.where("price > 100").snapshot().partition_by("sym").transform(lambda each: each.head(1))
    with pytest.raises(bs.InvalidRequestError, match="no constituents to merge"):
        none.merge()


def test_what_does_not_fit_is_refused(server: bs.Server, client: bs.Client, trades: AppendTable) -> None:
    table = client.table("trades")
    parted = table.partition_by("sym")
    with pytest.raises(bs.UnknownColumnError, match="no column 'symbol'"):
        table.partition_by("symbol").keys().to_arrow()
    with pytest.raises(bs.InvalidRequestError, match="one value for each key column"):
        parted.get_constituent(["A", "B"])
    with pytest.raises(bs.InvalidRequestError, match="values of the key columns"):
        parted.get_constituent(object())
    with pytest.raises(bs.InvalidRequestError, match="func must return a table of the server, not 3"):
        assert parted.transform(lambda _: 3).constituents  # type: ignore[arg-type, return-value]
    server.append_table("sums", {"x": pa.decimal128(9, 2)}).append({"x": pa.array([1], pa.decimal128(9, 2))})
    with pytest.raises(bs.UnsupportedOperationError, match=r"has the type decimal128\(9, 2\)"):
        client.table("sums").partition_by("x").get_constituent(1)
    server.append_table("odd", {"a b": "int64", "k": "int64"})
    with pytest.raises(bs.InvalidRequestError, match="a merge takes names of letters"):
        client.table("odd").partition_by("k").merge()
