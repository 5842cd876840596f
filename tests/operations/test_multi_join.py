"""A row for each key of several tables, against dictionaries."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import KeyedTable, Table, UpdateGraph
from barrage_server.errors import BarrageError, InvalidRequestError, KeyMismatchError, UnknownColumnError
from barrage_server.operations import build
from barrage_server.operations.multi_join import multi_join
from barrage_server.plan.joins import MultiJoinColumns
from tests.operations.oracle import Watch, cells_of, plain_rows
from tests.operations.pairs import KINDS, by_key, key_of
from tests.properties import sources


@given(seed=st.integers(0, 1 << 32), count=st.sampled_from([1, 2, 3]))
@settings(deadline=None, max_examples=40)
def test_each_key_of_a_table_has_a_row(seed: int, count: int) -> None:
    """While one of the tables has it; after any changes of some of them."""
    chance = random.Random(seed)
    graph = UpdateGraph()
    made_of: list[sources.Source] = [chance.choice(KINDS)(graph) for _ in range(count)]
    for source in made_of:
        source.change(chance)
    tables = [by_key(source.table) for source in made_of]
    tables = [build.flatten([table]) if chance.random() < 0.3 else table for table in tables]
    columns = [
        MultiJoinColumns(("number", "text"), (f"n{place} = n", f"t{place} = total")) for place in range(len(tables))
    ]
    made = multi_join(tables, columns)
    watch = Watch(made)
    for _ in range(10):
        with graph.cycle():
            for source in chance.sample(made_of, chance.randint(1, count)):
                source.change(chance)
        assert made.failure is None
        there = [{key_of(row, [0, 1]): row[2:] for row in plain_rows(table)} for table in tables]
        found = {key_of(row, [0, 1]): row[2:] for row in plain_rows(made)}
        wanted = {
            key: tuple(cell for each in there for cell in each.get(key, (None, None))) for each in there for key in each
        }
        assert len(found) == made.size
        assert sorted(cells_of([(key, *row) for key, row in found.items()]), key=repr) == sorted(
            cells_of([(key, *row) for key, row in wanted.items()]), key=repr
        )
    watch.check_held()


def tables() -> tuple[KeyedTable, KeyedTable]:
    graph = UpdateGraph()
    quotes = KeyedTable(graph, "quotes", {"sym": "string", "bid": "float64"}, ["sym"])
    positions = KeyedTable(graph, "positions", {"symbol": "string", "size": "int64", "note": "string"}, ["symbol"])
    return quotes, positions


def joined_tables(quotes: Table, positions: Table) -> Table:
    return bs.multi_join([bs.MultiJoinInput(quotes, "sym"), bs.MultiJoinInput(positions, "sym = symbol", "size")])


def test_what_a_change_modifies() -> None:
    quotes, positions = tables()
    made = joined_tables(quotes, positions)
    watch = Watch(made)
    quotes.upsert({"sym": ["a", "b"], "bid": [1.0, 2.0]})
    positions.upsert({"symbol": ["b", "c"], "size": [20, 30], "note": [None, None]})
    positions.upsert({"symbol": ["b"], "size": [20], "note": ["x"]})
    quotes.delete({"sym": ["a", "b"]})
    assert [
        (update.added.size, update.removed.size, [rows.size for rows in update.modified]) for update in watch.updates
    ] == [(2, 0, [0, 0, 0]), (1, 0, [0, 0, 1]), (0, 1, [0, 1, 0])]
    assert plain_rows(made) == [("b", None, 20), ("c", None, 30)]
    assert made.key_columns == ("sym",)
    watch.check_held()


def test_a_second_row_with_one_key_fails_the_result_alone() -> None:
    quotes, _ = tables()
    trades = bs.AppendTable(quotes.graph, "trades", {"sym": "string", "price": "float64"})
    made = bs.multi_join([quotes, trades], "sym")
    trades.append({"sym": ["a"], "price": [1.0]})
    trades.append({"sym": ["a"], "price": [2.0]})
    assert "Table 2 of a multi_join has more than one row with the key 'a'" in str(made.failure)
    with pytest.raises(KeyMismatchError, match="with first_by or last_by"):
        bs.multi_join([trades, quotes], "sym")
    assert bs.multi_join([quotes, trades.last_by("sym")], "sym").to_arrow()["price"].to_pylist() == [2.0]


def test_no_value_is_copied() -> None:
    quotes, positions = tables()
    positions.upsert({"symbol": ["a"], "size": [1], "note": ["x" * 1_000_000]})
    made = bs.multi_join([bs.MultiJoinInput(quotes, "sym"), bs.MultiJoinInput(positions, "sym = symbol")])
    assert made.size == 1
    assert made.nbytes - quotes.nbytes - positions.nbytes < 200_000


def test_keys_that_have_gone_are_forgotten() -> None:
    quotes, positions = tables()
    made = joined_tables(quotes, positions)
    watch = Watch(made)
    sizes = []
    quotes.upsert({"sym": ["stays"], "bid": [7.0]})
    for batch in range(12):
        names = [f"s{batch}_{number}" for number in range(900)]
        quotes.upsert({"sym": names, "bid": np.zeros(900)})
        positions.upsert({"symbol": names, "size": np.arange(900), "note": names})
        assert made.to_arrow()["size"].to_pylist() == [None, *range(900)]
        quotes.delete({"sym": names})
        positions.delete({"symbol": names})
        sizes.append(made.nbytes - quotes.nbytes - positions.nbytes)
    assert max(sizes[6:]) <= 1.2 * max(sizes[:6])
    assert any(update.shifted.size or len(update.removed) for update in watch.updates)
    watch.check_held()


SYM = MultiJoinColumns(("sym",))
WRONG: dict[str, tuple[list[MultiJoinColumns], type[BarrageError], str]] = {
    "column": (
        [MultiJoinColumns(("sy",)), MultiJoinColumns(("sy = symbol",))],
        UnknownColumnError,
        "Did you mean",
    ),
    "names": (
        [SYM, MultiJoinColumns(("symbol",))],
        InvalidRequestError,
        "'quotes' has sym, and 'positions' has symbol. Write 'sym = symbol'",
    ),
    "types": (
        [SYM, MultiJoinColumns(("sym = size",))],
        InvalidRequestError,
        "'sym' of 'quotes' is string, and 'size' of 'positions' is int64",
    ),
    "twice": (
        [SYM, MultiJoinColumns(("sym = symbol",), ("bid = size",))],
        InvalidRequestError,
        "twice",
    ),
    "none": ([MultiJoinColumns(()), MultiJoinColumns(())], InvalidRequestError, "needs at least one key column"),
    "too few": ([SYM], InvalidRequestError, "A multi_join of 2 tables has columns for 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_at_once(case: str) -> None:
    columns, error, text = WRONG[case]
    quotes, positions = tables()
    with pytest.raises(error, match=text):
        multi_join([quotes, positions], columns)
    assert len(quotes.children) == 0


def test_strings_join_large_strings() -> None:
    graph = UpdateGraph()
    left = KeyedTable(graph, "l", {"sym": "string", "a": "int64"}, "sym")
    right = KeyedTable(graph, "r", {"sym": "large_string", "b": "int64"}, "sym")
    made = bs.multi_join([left, right], "sym")
    left.upsert({"sym": ["x"], "a": [1]})
    right.upsert({"sym": ["x", "y"], "b": [1, 2]})
    assert plain_rows(made) == [("x", 1, 1), ("y", None, 2)]
    assert made.schema.field("sym").type == pa.large_string()
