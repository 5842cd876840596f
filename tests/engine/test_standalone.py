"""``bs.table``: a table made of rows, which a server takes over."""

from __future__ import annotations

import threading
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, DerivedTable, KeyedTable, RingTable, TableUpdate, UpdateGraph
from barrage_server.server.catalog import Catalog
from tests.engine.operators import OneRow, attached, count

FRAME = pd.DataFrame({"sym": ["a", "b", "a"], "price": [1.0, 2.0, 3.0]})


def test_without_a_key_rows_are_appended() -> None:
    table = bs.table(FRAME)
    assert isinstance(table, AppendTable)
    assert table.to_arrow().to_pydict() == {"sym": ["a", "b", "a"], "price": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize("key", ["sym", ["sym"], ("sym",)])
def test_with_a_key_the_last_row_of_each_wins(key: Any) -> None:
    table = bs.table(pl.DataFrame(FRAME), key=key)
    assert isinstance(table, KeyedTable)
    assert sorted(table.to_arrow().to_pylist(), key=str) == [{"sym": "a", "price": 3.0}, {"sym": "b", "price": 2.0}]


def test_with_a_capacity_the_last_rows_stay() -> None:
    table = bs.table(FRAME, capacity=2)
    assert isinstance(table, RingTable)
    assert table.to_arrow()["price"].to_pylist() == [2.0, 3.0]


def test_a_schema_decides_types_that_rows_leave_open() -> None:
    table = bs.table({"id": [1], "note": [None]}, key="id", schema={"id": "int32", "note": "string"})
    assert table.schema == pa.schema([("id", pa.int32()), ("note", pa.string())])


@pytest.mark.parametrize(
    ("rows", "options", "kind"),
    [
        (None, {}, bs.SchemaMismatchError),
        ({"a": [None]}, {}, bs.SchemaMismatchError),
        ({}, {}, bs.InvalidRequestError),
        (FRAME, {"key": "nope"}, bs.KeyMismatchError),
        (FRAME, {"key": []}, bs.InvalidRequestError),
        (FRAME, {"key": 3}, bs.InvalidRequestError),
        (FRAME, {"key": "sym", "capacity": 3}, bs.InvalidRequestError),
        (FRAME, {"capacity": 0}, bs.InvalidRequestError),
        (FRAME, {"capacity": "3"}, bs.InvalidRequestError),
        (FRAME, {"schema": {"sym": "string"}}, bs.SchemaMismatchError),
        (FRAME, {"schema": 3}, bs.InvalidRequestError),
        (FRAME, {"name": None}, bs.InvalidRequestError),
        ({"a": [[1]]}, {"key": "a"}, bs.UnsupportedTypeError),
    ],
)
def test_wrong_arguments_are_refused_in_words(rows: Any, options: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        bs.table(rows, **options)


def test_a_graph_takes_it_over_with_its_history() -> None:
    catalog = Catalog(UpdateGraph())
    quotes = bs.table(FRAME, key="sym")
    for price in range(5):
        quotes.upsert({"sym": ["a"], "price": [float(price)]})
    before = quotes.version
    seen: list[TableUpdate] = []
    quotes.add_listener(lambda update, _before, _after: seen.append(update))
    catalog.add(quotes, "quotes")
    assert quotes.graph is catalog.graph
    assert quotes.name == "quotes"
    assert catalog.get("quotes") is quotes
    with catalog.graph.cycle():
        quotes.upsert({"sym": ["c"], "price": [9.0]})
    assert quotes.version.step > before.step, "steps only grow"
    assert quotes.version.step == catalog.graph.step
    assert [update.added.size for update in seen] == [1]
    assert before.size == 2
    assert quotes.size == 3


def test_a_refused_name_leaves_it_where_it_is() -> None:
    catalog = Catalog(UpdateGraph())
    catalog.add(bs.table(FRAME), "taken")
    own = bs.table(FRAME)
    graph = own.graph
    for name in ("taken", "", 3):
        with pytest.raises(bs.BarrageError):
            catalog.add(own, name)  # type: ignore[arg-type]
    assert own.graph is graph
    own.append(FRAME)
    catalog.add(own, "free")
    assert own.size == 6


def test_a_table_that_others_are_derived_from_stays() -> None:
    own = bs.table(FRAME)
    derived = attached(DerivedTable([own], "count", OneRow(count)))
    with pytest.raises(bs.InvalidRequestError, match="derived"):
        Catalog(UpdateGraph()).add(own, "t")
    assert derived.to_arrow()["n"].to_pylist() == [own.size]
    with own.graph.cycle(), pytest.raises(bs.InvalidRequestError):
        Catalog(UpdateGraph()).add(own, "t")


def test_writers_beside_the_move_lose_nothing() -> None:
    """Each row is there once, whichever graph its cycle ran in."""
    for _ in range(10):
        own = bs.table({"n": [-1]})
        catalog = Catalog(UpdateGraph())
        start = threading.Barrier(3)

        def write(first: int, own: Any = own, start: threading.Barrier = start) -> None:
            start.wait(10)
            for number in range(first, first + 50):
                own.append({"n": [number]})

        threads = [threading.Thread(target=write, args=(first,)) for first in (0, 1000)]
        for thread in threads:
            thread.start()
        start.wait(10)
        catalog.add(own, "t")
        for thread in threads:
            thread.join(30)
        wanted = [-1, *range(50), *range(1000, 1050)]
        assert sorted(own.to_arrow()["n"].to_pylist()) == wanted
        assert own.graph is catalog.graph


def test_it_can_belong_to_a_given_graph() -> None:
    graph = UpdateGraph()
    quotes, names = bs.table(FRAME, key="sym", graph=graph), bs.table({"sym": ["a"], "name": ["A"]}, graph=graph)
    assert quotes.natural_join(names, "sym").to_arrow()["name"].to_pylist() == [None, "A"]
    with pytest.raises(bs.InvalidRequestError, match=r"such as server\.graph, not 5"):
        bs.table(FRAME, graph=5)  # type: ignore[call-overload]
    with pytest.raises(bs.InvalidRequestError, match=r"Take server\.graph"):
        bs.table(FRAME, graph=bs.table(FRAME).graph)


def test_tables_of_their_own_graphs_cannot_be_joined_and_are_told_how() -> None:
    quotes, names = bs.table(FRAME, name="quotes"), bs.table({"sym": ["a"]}, name="names")
    with pytest.raises(bs.InvalidRequestError, match=r"'quotes' and 'names' .*bs\.table\(rows, graph=server\.graph\)"):
        quotes.natural_join(names, "sym")
