"""``merge`` of transformed constituents that tick: tables of new keys come within the cycle that brings the keys."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import AppendTable, KeyedTable, Table, UpdateGraph
from barrage_server.errors import InvalidRequestError
from tests.operations.oracle import Row, Watch, cells_of, plain_rows
from tests.operations.pairs import KINDS

Transform = Callable[[Table], Table]


def sorted_down(table: Table) -> Table:
    return table.sort_descending(table.schema.names[0])


def top_and_bottom(table: Table) -> Table:
    return bs.merge([table.tail(1), table.head(2)])


def summed(table: Table) -> Table:
    names = table.schema.names
    return table.agg_by([bs.agg.count_("n"), bs.agg.last(names[0])], names[2])


TRANSFORMS: list[Transform] = [sorted_down, top_and_bottom, summed]


def rows_of(table: Table) -> list[Row]:
    return cells_of(plain_rows(table))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transform", TRANSFORMS)
@given(seed=st.integers(0, 1 << 32), by=st.sampled_from([[2], [1], [3, 2]]))
@settings(deadline=None, max_examples=3)
def test_content_and_updates(kind: Any, transform: Transform, seed: int, by: list[int]) -> None:
    """The rows are those of all constituents, one behind the other; each cycle has one update that says all of it."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    names = [source.table.schema.names[number] for number in by]
    parted = source.table.partition_by(names).transform(transform)
    late: list[Watch] = []
    early = Watch(parted.merge())
    for number in range(7):
        source.change(chance)
        if number == 3:
            late.append(Watch(parted.merge()))
        blocks = [rows_of(each) for each in parted.constituents]
        for watch in (early, *late):
            watch.check_problems()
            assert watch.table.failure is None
            rows = rows_of(watch.table)
            if transform is summed:  # whose groups are in the order in which each result has met them
                assert sorted(rows, key=repr) == sorted((row for block in blocks for row in block), key=repr)
            else:
                assert in_blocks(rows, blocks)
    for watch in (early, *late):
        watch.check_held()


def in_blocks(rows: list[Row], blocks: list[list[Row]]) -> bool:
    """Whether the rows are those of the blocks, one behind the other in some order."""
    left = [block for block in blocks if block]
    while rows:
        found = next((block for block in sorted(left, key=len, reverse=True) if rows[: len(block)] == block), None)
        if found is None:
            return False
        left.remove(found)
        rows = rows[len(found) :]
    return not left


def trades(*rows: tuple[str | None, float]) -> AppendTable:
    table = AppendTable(UpdateGraph(), "trades", {"sym": "string", "price": "float64"})
    add(table, *rows)
    return table


def add(table: AppendTable, *rows: tuple[str | None, float]) -> None:
    table.append({"sym": [sym for sym, _ in rows], "price": [price for _, price in rows]})


def best(table: Table) -> Table:
    return table.sort_descending("price").head(1)


def test_new_keys_come_in_their_cycle_and_in_order() -> None:
    table = trades(("B", 1.0), ("A", 2.0))
    watch = Watch(table.partition_by("sym").transform(best).merge())
    add(table, ("C", 1.0), ("A", 3.0), (None, 4.0), ("C", 2.0))
    assert plain_rows(watch.table) == [("B", 1.0), ("A", 3.0), ("C", 2.0), (None, 4.0)]
    assert len(watch.updates) == 1 and watch.table.version.step == table.version.step
    watch.check_held()


def test_a_table_without_rows_begins_with_its_columns() -> None:
    table = trades()
    made = table.partition_by("sym", drop_keys=True).transform(lambda each: each.update("twice = price * 2")).merge()
    watch = Watch(made)
    assert (made.size, made.schema.names) == (0, ["price", "twice"])
    add(table, ("A", 1.0), ("B", 2.0))
    assert plain_rows(made) == [(1.0, 2.0), (2.0, 4.0)]
    watch.check_held()


def test_keys_that_have_gone_leave_nothing() -> None:
    """Not even the rows of what has rows for no rows: a sum of a group without a key."""
    table = KeyedTable(UpdateGraph(), "t", {"id": "int64", "sym": "string"}, "id")
    table.upsert({"id": [1, 2, 3], "sym": ["A", "B", "A"]})
    watch = Watch(table.partition_by("sym").transform(lambda each: each.agg_by(bs.agg.max_("id"))).merge())
    assert plain_rows(watch.table) == [(3,), (2,)]
    table.delete({"id": [2]})
    assert plain_rows(watch.table) == [(3,)]
    table.delete({"id": [1, 3]})
    assert watch.table.size == 0
    table.upsert({"id": [4, 5], "sym": ["C", "B"]})
    assert sorted(plain_rows(watch.table)) == [(4,), (5,)]
    watch.check_held()


def test_a_function_may_join_with_what_changes_in_the_same_cycle() -> None:
    table = trades()
    names = KeyedTable(table.graph, "names", {"sym": "string", "name": "string"}, "sym")
    made = table.partition_by("sym").transform(lambda each: each.natural_join(names, "sym", "name").where("price > 0"))
    watch = Watch(made.merge())
    with table.graph.cycle():
        names.upsert({"sym": ["A", "B"], "name": ["Acme", "Bolt"]})
        add(table, ("A", 1.0), ("B", -1.0), ("C", 2.0))
    assert plain_rows(watch.table) == [("A", 1.0, "Acme"), ("C", 2.0, None)]
    with table.graph.cycle():
        names.upsert({"sym": ["C", "A"], "name": ["Cord", "Ajax"]})
        add(table, ("D", 1.0))
    assert plain_rows(watch.table) == [("A", 1.0, "Ajax"), ("C", 2.0, "Cord"), ("D", 1.0, None)]
    watch.check_held()


def test_a_function_may_partition_and_merge() -> None:
    table = AppendTable(UpdateGraph(), "t", {"a": "string", "b": "string", "n": "int64"})
    made = table.partition_by("a").transform(
        lambda each: each.partition_by("b").transform(lambda one: one.tail(1)).merge()
    )
    watch = Watch(made.merge())
    table.append({"a": ["x", "x", "y"], "b": ["p", "q", "p"], "n": [1, 2, 3]})
    table.append({"a": ["x", "y", "z"], "b": ["p", "q", "q"], "n": [4, 5, 6]})
    assert plain_rows(watch.table) == [
        ("x", "p", 4),
        ("x", "q", 2),
        ("y", "p", 3),
        ("y", "q", 5),
        ("z", "q", 6),
    ]
    watch.check_held()


def test_one_table_may_be_that_of_several_keys() -> None:
    table = trades(("A", 1.0))
    whole = table.head(1)
    watch = Watch(table.partition_by("sym").transform(lambda _: whole).merge())
    add(table, ("B", 2.0), ("C", 3.0))
    assert plain_rows(watch.table) == [("A", 1.0)] * 3
    watch.check_held()


def test_rows_beyond_a_block_shift_those_behind() -> None:
    table = AppendTable(UpdateGraph(), "t", {"k": "int64", "n": "int64"})
    table.append({"k": [0, 1, 2], "n": [0, 1, 2]})
    made = table.partition_by("k").transform(lambda each: each.flatten()).merge()
    before = made.version
    many = 70_000
    table.append({"k": [0] * many + [3], "n": [*range(many), 9]})
    assert made.failure is None and made.size == many + 4
    assert made.to_arrow()["k"].to_pylist() == [0] * (many + 1) + [1, 2, 3]
    assert before.to_table()["n"].to_pylist() == [0, 1, 2]
    table.append({"k": [2, 1], "n": [5, 6]})
    assert made.to_arrow()["n"].to_pylist()[-5:] == [1, 6, 2, 5, 9]


def test_what_a_function_does_wrong_fails_the_merge_alone() -> None:
    table = trades(("A", 1.0))

    def picky(each: Table) -> Table:
        if each.size and each.to_arrow()["sym"][0].as_py() == "B":
            raise ValueError("no B")
        return each

    made = table.partition_by("sym").transform(picky).merge()
    add(table, ("C", 2.0))
    assert made.size == 2
    add(table, ("B", 3.0))
    assert isinstance(made.failure, ValueError)
    add(table, ("D", 4.0))
    assert (table.size, made.size) == (4, 2)


def test_tables_of_later_keys_are_made_as_those_of_the_first() -> None:
    def uneven(usual: Transform, other: Transform) -> Transform:
        return lambda each: (other if "B" in each.to_arrow()["sym"].to_pylist() else usual)(each)

    table = trades(("A", 1.0))
    narrow = uneven(lambda each: each.view(["sym", "price"]), lambda each: each.view("sym"))
    wrong = (
        (uneven(lambda each: each, lambda each: each.head(1)), "in the same way"),
        (narrow, "For one it gave sym: string, price: double; for another one sym: string"),
    )
    merged = [(table.partition_by("sym").transform(func).merge(), text) for func, text in wrong]
    add(table, ("B", 2.0))
    for made, text in merged:
        assert isinstance(made.failure, InvalidRequestError) and text in str(made.failure)
    with pytest.raises(InvalidRequestError, match="For one it gave"):
        table.partition_by("sym").transform(narrow).merge()
    with pytest.raises(InvalidRequestError, match="func must return a table, not 3"):
        table.partition_by("sym").transform(lambda _: 3).merge()  # type: ignore[arg-type, return-value]


def test_publishers_readers_and_merges_at_once() -> None:
    """A constituent that is asked for while a cycle makes others waits for it; the cycle waits for no caller."""
    table = trades()
    parted = table.partition_by("sym").transform(best)
    first = parted.merge()
    merges: list[Table] = []

    def publish() -> None:
        for number in range(60):
            add(table, (f"k{number % 40}", float(number)), (f"only {number}", 0.0))

    def ask() -> None:
        for number in range(40):
            parted.get_constituent(f"k{number}")
            if number % 10 == 0:
                merges.append(parted.merge())

    threads = [threading.Thread(target=work) for work in (publish, ask, ask)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    wanted = sorted(plain_rows(table.agg_by(bs.agg.max_("price"), "sym")))
    for made in (first, *merges):
        assert made.failure is None and sorted(plain_rows(made)) == wanted


def test_all_of_it_goes_with_the_merge() -> None:
    table = trades(("A", 1.0))
    made: list[weakref.ref[Table]] = []

    def remembered(each: Table) -> Table:
        result = each.head(1)
        made.append(weakref.ref(result))
        return result

    merged = table.partition_by("sym").transform(remembered).merge()
    add(table, ("B", 2.0))
    assert merged.size == 2 and len(made) == 2
    del merged
    gc.collect()
    assert [entry() for entry in made] == [None, None]
    add(table, ("C", 2.0))
    assert len(made) == 2
