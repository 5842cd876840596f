"""What the constituents of a partitioned table cost, and where they read their rows."""

from __future__ import annotations

import gc
import random
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, RingTable, Table, UpdateGraph
from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.undo import Undo
from barrage_server.operations.group_numbers import GroupNumbers, rows_of_groups
from barrage_server.operations.partition import Partition
from tests.operations.oracle import Watch, cells_of, plain_rows
from tests.operations.pairs import FORMS, KINDS, key_of

FINDING = "barrage_server.operations.partition.rows_of_groups"


def prices(**rows: float) -> KeyedTable:
    table = KeyedTable(UpdateGraph(), "t", {"id": "int64", "sym": "string", "price": "float64"}, "id")
    put(table, **rows)
    return table


def put(table: KeyedTable, **rows: float) -> None:
    """Write rows: ``a1=2.0`` is the row 1, of the key ``a``."""
    table.upsert(
        {"id": [int(name[1:]) for name in rows], "sym": [name[0] for name in rows], "price": list(rows.values())}
    )


def constituent(table: Table, key: Any, by: str = "sym") -> DerivedTable:
    made = table.partition_by(by).get_constituent(key)
    assert isinstance(made, DerivedTable)
    return made


def whole_of(made: DerivedTable) -> Partition:
    (whole,) = made.parents
    assert isinstance(whole, Partition)
    return whole


def test_a_cycle_computes_only_the_constituents_whose_rows_changed() -> None:
    table = prices(a1=1, b2=2, c3=3)
    first, second, third = (constituent(table, key) for key in "abc")
    below = second.sort_descending("price")
    assert isinstance(below, DerivedTable)
    put(table, a1=4, c4=5)
    put(table, a5=6)
    put(table, d6=7)
    table.delete({"id": [3]})
    assert [made.cycles for made in (first, second, third, below)] == [2, 0, 2, 0]
    put(table, a2=8)
    assert [made.cycles for made in (first, second, third, below)] == [3, 1, 2, 1]
    assert (plain_rows(first), second.size, below.size) == ([(1, "a", 4.0), (2, "a", 8.0), (5, "a", 6.0)], 0, 0)


def test_tables_partitioned_by_the_same_columns_share_what_makes_the_constituents() -> None:
    table = prices(a1=1, b2=2)
    first, second, third = constituent(table, "a"), constituent(table, "b"), constituent(table, 1, "id")
    assert whole_of(first) is whole_of(second) is not whole_of(third)
    assert constituent(table, "a") is first


def test_constituents_that_stay_keep_nothing_that_is_overwritten_for_others() -> None:
    table = prices(a1=1, b2=2)
    made = constituent(table, "a")
    below = [made.sort("price"), made.update_view("twice = price * 2"), made.snapshot()]
    gc.collect()
    before = sum(type(each) is Undo for each in gc.get_objects())
    for number in range(100):
        put(table, b2=number)
    gc.collect()
    assert sum(type(each) is Undo for each in gc.get_objects()) - before < 20
    for each in (made, *below):
        assert plain_rows(each)[0][:3] == (1, "a", 1.0)


def test_rows_that_are_held_stay_when_their_constituent_is_gone() -> None:
    table = prices(a1=1, b2=2)
    made, other = constituent(table, "a"), constituent(table, "b")
    held, version = made.snapshot(), made.version
    del made
    gc.collect()
    put(table, b2=3)
    put(table, a1=4)
    put(table, a1=5)
    assert plain_rows(held) == [(1, "a", 1.0)]
    assert version.to_table()["price"].to_pylist() == [1.0]
    assert plain_rows(other) == [(2, "b", 3.0)]


def test_a_constituent_that_fails_keeps_its_last_rows() -> None:
    """Alone: the others follow, and another one takes its place when it is asked for."""
    table = prices(a1=1, b2=2)
    made, other = constituent(table, "a"), constituent(table, "b")
    table.graph.fail(made, ValueError("no"))
    put(table, a1=3, b2=4)
    assert (plain_rows(made), plain_rows(other)) == ([(1, "a", 1.0)], [(2, "b", 4.0)])
    assert plain_rows(constituent(table, "a")) == [(1, "a", 3.0)]


def test_what_makes_the_constituents_fails_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    table = prices(a1=1, b2=2)
    parted = table.partition_by("sym")
    first, second = parted.constituents
    with monkeypatch.context() as patch:
        patch.setattr(GroupNumbers, "follow", lambda *_: 1 / 0)
        put(table, a1=3)
    assert first.failure is not None and second.failure is not None
    put(table, a1=4, b2=5)
    assert [plain_rows(each) for each in (first, second)] == [[(1, "a", 1.0)], [(2, "b", 2.0)]]
    assert [plain_rows(each) for each in parted.constituents] == [[(1, "a", 4.0)], [(2, "b", 5.0)]]


@pytest.mark.parametrize("kind", KINDS)
@given(
    seed=st.integers(0, 1 << 32),
    form=st.sampled_from([form for form in FORMS if form != "still"]),
    by=st.sampled_from([[0], [2], [3, 2]]),
)
@settings(deadline=None, max_examples=5)
def test_cycles_while_constituents_start(kind: Any, form: str, seed: int, by: list[int]) -> None:
    """Rows that were found in a version follow all that has happened since, before the constituents are there."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    table = FORMS[form](source.table)
    parted = table.partition_by([table.schema.names[number] for number in by])
    watches: dict[Any, Watch] = {}

    def found_late(*arguments: Any) -> Any:
        rows = rows_of_groups(*arguments)
        for _ in range(chance.randrange(3)):
            source.change(chance)
        return rows

    for _ in range(8):
        source.change(chance)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FINDING, found_late)
            made = parted.constituents
        for each in made:
            if each.size:
                watches.setdefault(key_of(plain_rows(each)[0], by), Watch(each))
        wanted: dict[Any, list[Any]] = {}
        for row in plain_rows(table):
            wanted.setdefault(key_of(row, by), []).append(row)
        for key, watch in watches.items():
            watch.check_problems()
            assert cells_of(plain_rows(watch.table)) == cells_of(wanted.get(key, []))
    for watch in watches.values():
        watch.check_held()


def test_rows_of_the_past_of_a_blink_table_can_be_read() -> None:
    table = BlinkTable(UpdateGraph(), "t", {"sym": "string", "n": "int64"}, history=4)
    table.append({"sym": ["a", "b", "a"], "n": [1, 2, 3]})
    made = constituent(table, "a")
    watch = Watch(made)
    for number in range(5):
        table.append({"sym": ["b", "a"] if number % 2 else ["b", "b"], "n": [10 * number, 10 * number + 1]})
        version = made.version
        assert version.read(version.readable)[0].to_pylist() == ["a"] * version.readable.size
        assert table.version.readable.is_superset(version.readable)
        assert made.size == number % 2
    watch.check_held()


def test_keys_that_have_gone_leave_no_state() -> None:
    """A thousand keys at a time, none of which comes again; a constituent that is held gets the rows of its own."""
    table = RingTable(UpdateGraph(), "t", {"sym": "string", "n": "int64"}, 1000)
    table.append({"sym": ["held"], "n": [0]})
    made = constituent(table, "held")
    merged = table.partition_by("sym").transform(lambda each: each.head(1)).merge()
    assert isinstance(merged, DerivedTable)
    sizes = []
    for turn in range(12):
        table.append({"sym": [f"{turn} {number}" for number in range(1000)], "n": [turn] * 1000})
        assert (made.size, merged.size) == (0, 1000)
        sizes.append(whole_of(made).state_bytes + merged.state_bytes)
    assert max(sizes[6:]) <= 1.2 * max(sizes[:6])
    table.append({"sym": ["held", "11 5"], "n": [1, 2]})
    assert plain_rows(made) == [("held", 1)]
    assert plain_rows(constituent(table, "11 5")) == [("11 5", 11), ("11 5", 2)]


def test_keys_that_are_asked_for_and_have_no_rows_leave_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barrage_server.operations.grouped_rows.FEW_DEAD", 16)
    table = AppendTable(UpdateGraph(), "t", {"sym": "string", "n": "int64"})
    table.append({"sym": ["a"], "n": [0]})
    parted = table.partition_by("sym")
    made = parted.get_constituent("a")
    assert isinstance(made, DerivedTable)
    sizes = []
    for turn in range(6):
        for number in range(60):
            assert parted.get_constituent(f"{turn} {number}") is None
        table.append({"sym": ["a"], "n": [turn]})
        sizes.append(whole_of(made).state_bytes)
    assert max(sizes[3:]) <= 1.2 * max(sizes[:3])
    assert made.size == 7


def test_one_table_for_all_keys_is_followed_once() -> None:
    """However often keys come and go."""
    table = prices(a1=1)
    other = table.where("price > 0")
    merged = table.partition_by("sym").transform(lambda _: other).merge()
    for turn in range(10):
        put(table, b2=turn, c3=turn)
        table.delete({"id": [2, 3] if turn % 2 else [2]})
        assert merged.size == len(set(plain_rows(table.select_distinct("sym")))) * other.size
    assert sum(child is merged for child in other.children) == 1
    table.delete({"id": [1, 2, 3]})
    assert sum(child is merged for child in other.children) == merged.size == 0


def test_a_reader_sees_one_version_while_rows_of_all_keys_are_overwritten() -> None:
    table = KeyedTable(UpdateGraph(), "t", {"id": "int64", "sym": "string", "n": "int64"}, "id")
    ids = list(range(200))

    def write(key: str, number: int) -> None:
        table.upsert(
            {"id": [2 * each + (key == "b") for each in ids], "sym": [key] * len(ids), "n": [number] * len(ids)}
        )

    write("a", 0)
    write("b", 0)
    made, other = constituent(table, "a"), constituent(table, "b")
    ended = threading.Event()
    wrong: list[Any] = []

    def look() -> None:
        while not ended.is_set():
            for each in (made, other):
                version = each.version
                values = set(version.to_table()["n"].to_pylist())
                if len(values) != 1 or version.size != len(ids):
                    wrong.append(values)

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(1, 150):
        write("ab"[number % 2], number)
    ended.set()
    reader.join(60)
    assert not reader.is_alive() and not wrong


def test_many_constituents_are_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of all are found at once, and those that there are already are given again."""
    table = AppendTable(UpdateGraph(), "t", {"sym": "string", "n": "int64"})
    table.append({"sym": [f"{number % 300}" for number in range(900)], "n": list(range(900))})
    parted = table.partition_by("sym")
    known = parted.get_constituent("7")
    calls: list[int] = []

    def counted(version: Any, groups: Any) -> Any:
        calls.append(len(groups))
        return rows_of_groups(version, groups)

    monkeypatch.setattr(FINDING, counted)
    made = parted.constituents
    assert calls == [299] and made[7] is known
    assert [plain_rows(each) for each in made] == [
        [(f"{number}", number + 300 * turn) for turn in range(3)] for number in range(300)
    ]
