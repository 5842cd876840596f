"""Rows that the server picks and sorts for a page, and the points of its plots."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from tests.server.web.page_client import greeted
from tests.server.web.rows import SCHEMA, rows_of, rows_shown
from tests.waiting import until


class TestQueries:
    def test_rows_are_sorted_and_picked_on_the_server_and_tick(self, server: bs.Server) -> None:
        table = server.keyed_table("t", SCHEMA, key="k")
        table.upsert(rows_of(range(50)))
        with greeted(server) as client:
            view = client.open(
                1,
                "t",
                interval=1,
                where=["k >= 10"],
                filters=[{"column": "x", "equals": "20.5"}],
                sort=[{"column": "text", "descending": True}],
            )
            client.settle(view, lambda it: it.updates)
            assert view.rows() == [(41, "t41", 20.5)]
            table.upsert({"k": [90, 12, 3], "text": ["z", "a", "b"], "x": [20.5, 20.5, 20.5]})
            client.settle(view, lambda it: it.size == 3)
            assert view.rows() == [(90, "z", 20.5), (41, "t41", 20.5), (12, "a", 20.5)]
            table.delete({"k": [90]})
            client.settle(view, lambda it: it.rows()[0][0] == 41)
        until(lambda: not server.statistics().results)

    @pytest.mark.parametrize(
        ("column", "equals", "keys"),
        [
            ("i", "9223372036854775807", [1]),
            ("i", None, [2]),
            ("u", "18446744073709551615", [1]),
            ("f", "NaN", [2]),
            ("f", "-0.5", [1]),
            ("f", None, [3]),
            ("b", "true", [1]),
            ("n", "0.1", [1]),
            ("z", "2026-11-23 19:30:25.161435668+01:00", [1]),
            ("z", "1969-12-31 23:59:59.999999999+00:00", [2]),
            ("d", "0001-01-01 00:00:00.000001", [1]),
            ("s", "", [2]),
            ("s", "it's `quoted`", [1]),
            ("e", "12345678901234567890123456789012345.678", [1]),
            ("e", "-0.010", [2]),
            ("e", None, [3]),
            ("y", "2024-02-29", [1]),
            ("y", "0001-01-01", [2]),
            ("w", "9999-12-31", [1]),
            ("w", "1969-12-31", [2]),
        ],
    )
    def test_a_cell_picks_the_rows_that_have_it(
        self, server: bs.Server, column: str, equals: str | None, keys: list[int]
    ) -> None:
        schema = pa.schema(
            [
                ("k", pa.int64()),
                ("i", pa.int64()),
                ("u", pa.uint64()),
                ("f", pa.float64()),
                ("b", pa.bool_()),
                ("s", pa.string()),
                ("n", pa.float32()),
                ("z", pa.timestamp("ns", "Europe/Berlin")),
                ("d", pa.timestamp("us")),
                ("e", pa.decimal128(38, 3)),
                ("y", pa.date32()),
                ("w", pa.date64()),
            ]
        )
        rows = {
            "e": [Decimal("12345678901234567890123456789012345.678"), Decimal("-0.010"), None],
            "y": [date(2024, 2, 29), date(1, 1, 1), None],
            "w": [date(9999, 12, 31), date(1969, 12, 31), None],
            "n": [0.1, 0.2, None],
            "z": [1795458625161435668, -1, None],
            "d": [datetime(1, 1, 1, 0, 0, 0, 1), datetime(2000, 1, 1), None],
            "k": [1, 2, 3],
            "i": [(1 << 63) - 1, None, 0],
            "u": [(1 << 64) - 1, 0, 1],
            "f": [-0.5, float("nan"), None],
            "b": [True, False, None],
            "s": ["it's `quoted`", "", "x"],
        }
        server.append_table("t", schema).append(pa.table(rows, schema))
        with greeted(server) as client:
            view = client.open(1, "t", filters=[{"column": column, "equals": equals}])
            client.settle(view, lambda it: it.updates)
            assert view.ended is None
            assert [row[0] for row in view.rows()] == keys

    @pytest.mark.parametrize(
        "query",
        [
            {"where": ["nonsense("]},
            {"where": ["missing > 1"]},
            {"sort": [{"column": "missing"}]},
            {"filters": [{"column": "missing", "equals": "1"}]},
            {"filters": [{"column": "\ud800", "equals": "1"}]},
            {"filters": [{"column": "k", "equals": "one"}]},
            {"filters": [{"column": "x", "equals": ""}]},
            {"filters": [{"column": "at", "equals": "2026-13-01 00:00:00"}]},
            {"filters": [{"column": "at", "equals": "today"}]},
            {"filters": [{"column": "list", "equals": "[]"}]},
            {"filters": [{"column": "day", "equals": "2024-02-30"}]},
            {"filters": [{"column": "exact", "equals": "1e400000000"}]},
            {"filters": [{"column": "exact", "equals": "9" * 77}]},
        ],
    )
    def test_a_query_that_makes_no_sense_is_said_and_makes_nothing(
        self, server: bs.Server, query: dict[str, Any]
    ) -> None:
        server.append_table(
            "t", {**SCHEMA, "at": "timestamp[us]", "list": "list<int64>", "day": "date32", "exact": "decimal128(9, 2)"}
        )
        with greeted(server) as client:
            view = client.open(1, "t", **query)
            client.settle(view, lambda it: it.ended)
            assert view.ended is not None
            assert view.ended["error"] in ("InvalidRequestError", "UnknownColumnError")
            assert not server.statistics().results

    def test_what_comes_while_a_stream_opens_is_done_then(self, server: bs.Server) -> None:
        table = server.append_table("t", SCHEMA)
        table.append(rows_of(range(1000)))
        with greeted(server) as client:
            view = client.open(1, "t", sort=[{"column": "k", "descending": True}])
            client.send(type="move", stream=1, first=5, count=2)
            client.settle(view, lambda it: it.first == 5)
            assert [row[0] for row in view.rows()] == [994, 993]
            gone = client.open(2, "t", sort=[{"column": "k"}])
            client.send(type="close", stream=2)
            client.settle(gone, lambda it: it.ended)
            assert gone.ended == {"type": "ended", "stream": 2}

    def test_dropping_the_table_ends_what_is_computed_from_it(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            view = client.open(1, "t", sort=[{"column": "k"}])
            client.settle(view, lambda it: it.updates)
            server.drop("t")
            client.settle(view, lambda it: it.ended)
            assert view.ended is not None
            assert view.ended["error"] == "UnknownTableError"


class TestPlots:
    def test_the_points_tick_and_are_shared_and_released(self, server: bs.Server) -> None:
        table = server.append_table("t", {"x": "int64", "y": "float64"})
        table.append({"x": range(10_000), "y": [float(number % 100) for number in range(10_000)]})
        plot = {"x": "x", "ys": ["y"], "pixels": 100}
        with greeted(server) as client, greeted(server) as other:
            view = client.open(1, "t", count=300, interval=1, plot=plot)
            client.settle(view, lambda it: it.updates)
            names = [column["name"] for column in view.opened["columns"]]
            assert names[:4] == ["first_x", "last_x", "y_first", "y_least"]
            assert view.opened["plot"] == {"sorted": False}
            assert 100 <= view.size <= 201
            assert view.rows() == rows_shown(table.downsample("x", ["y"], pixels=100))
            table.append({"x": [10_000, 12_000], "y": [500.0, -1.0]})
            client.settle(view, lambda it: it.rows()[-1][1] == 12_000)
            assert view.rows() == rows_shown(table.downsample("x", ["y"], pixels=100))
            same = other.open(1, "t", count=300, plot=plot)
            other.settle(same, lambda it: it.updates)
            assert [result.operation for result in server.statistics().results] == ["downsample"]
            client.send(type="close", stream=1)
            client.settle(view, lambda it: it.ended)
            assert len(server.statistics().results) == 1
        until(lambda: not server.statistics().results)

    def test_ranges_are_texts_so_that_nothing_is_rounded(self, server: bs.Server) -> None:
        begin = 1_718_445_600_000_000_000
        table = server.append_table("t", {"time": pa.timestamp("ns", "UTC"), "y": "int64"})
        table.append({"time": [begin + number for number in range(100)], "y": range(100)})
        with greeted(server) as client:
            ranges: list[dict[str, Any]] = [
                {"first": str(begin + 90)},
                {"tail_x": "9"},
                {"tail_rows": 10},
                {"first": str(begin + 90), "last": str(begin + 200)},
            ]
            for number, fields in enumerate(ranges):
                view = client.open(number + 1, "t", count=300, plot={"x": "time", "ys": ["y"], "pixels": 500, **fields})
                client.settle(view, lambda it: it.updates)
                assert [row[2] for row in view.rows()][-10:] == list(range(90, 100)), fields
                assert view.size <= 11

    def test_rows_out_of_order_are_said_to_be_sorted(self, server: bs.Server) -> None:
        server.keyed_table("t", {"k": "int64", "y": "float64"}, key="k").upsert({"k": [3, 1], "y": [1.0, 2.0]})
        with greeted(server) as client:
            view = client.open(1, "t", plot={"x": "k", "ys": ["y"], "pixels": 10}, where=["k > 0"])
            client.settle(view, lambda it: it.updates)
            assert view.opened["plot"] == {"sorted": True}
            assert [row[0] for row in view.rows()] == [1, 3]

    @pytest.mark.parametrize(
        ("plot", "text"),
        [
            ({"ys": ["text"]}, "'text' of 't' is of type string"),
            ({"x": "text"}, "'text' of 't' is of type string"),
            ({"ys": ["missing"]}, "no column 'missing'"),
            ({"ys": []}, "ys must have at least one name"),
            ({"ys": ["k", "x"] * 5}, "ys "),
            ({"pixels": 1 << 40}, "pixels must be from 1 to"),
            ({"first": "1", "tail_rows": 5}, "A plot has one range"),
            ({"first": "soon"}, "first must be a number"),
        ],
    )
    def test_what_cannot_be_plotted_is_said_in_a_sentence(
        self, server: bs.Server, plot: dict[str, Any], text: str
    ) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            view = client.open(1, "t", plot={"x": "k", "ys": ["x"], "pixels": 100, **plot})
            client.settle(view, lambda it: it.ended)
            assert view.ended is not None
            assert text in view.ended["text"]
            assert not server.statistics().results

    def test_dropping_the_table_ends_the_plot(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            view = client.open(1, "t", plot={"ys": ["x"], "pixels": 100})
            client.settle(view, lambda it: it.updates)
            server.drop("t")
            client.settle(view, lambda it: it.ended)
            assert view.ended is not None
            assert view.ended["error"] == "UnknownTableError"
