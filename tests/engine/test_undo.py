"""The chain of old values: what a reader puts back, in which order, and how the chain is freed."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.sorting import sort_with_positions
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.undo import HeldCursors, Undo, UndoCursor, UndoEntry, restore
from barrage_server.rowset import RowSet

SIZE = 12
# A write: rows, each with a new value or null (negative).
write = st.dictionaries(st.integers(0, SIZE - 1), st.integers(-3, 9), min_size=1)
cycles = st.lists(st.lists(write, max_size=3), min_size=1, max_size=40)


class Cells:
    """Cells without pages, written as a column writes them."""

    def __init__(self, held: HeldCursors | None = None) -> None:
        self.held = held
        self.data = np.zeros(SIZE, np.int64)
        self.valid = np.ones(SIZE, np.bool_)
        self.undo = Undo()

    def write(self, values: dict[int, int], epoch: int = 0) -> None:
        keys = np.array(sorted(values))
        old_valid = self.valid[keys]
        record = UndoEntry(0, epoch, keys, self.data[keys], None if old_valid.all() else old_valid)
        self.undo.record(record)
        self.data[keys] = [values[key] for key in keys.tolist()]
        self.valid[keys] = self.data[keys] >= 0

    def start_version(self) -> tuple[UndoCursor, list[int | None]]:
        self.undo = self.undo.start_next()
        return UndoCursor(self.undo, None, self.held), self.read(None, range(SIZE))

    def read(self, cursor: UndoCursor | None, rows: range | list[int], epoch: int = 0) -> list[int | None]:
        keys = np.array(rows, np.int64)
        data, valid = self.data[keys], None if self.valid[keys].all() else self.valid[keys]
        if cursor is not None:
            valid = restore(cursor.entries(0, epoch), ReadPlan.from_keys(keys), data, valid)
        flags = [True] * len(keys) if valid is None else valid.tolist()
        return [value if flag else None for value, flag in zip(data.tolist(), flags, strict=True)]


@given(cycles, st.sets(st.integers(0, 1000)), st.sets(st.integers(0, SIZE - 1), min_size=1))
def test_every_version_reads_what_it_saw(
    history: list[list[dict[int, int]]], absorbing: set[int], some: set[int]
) -> None:
    cells = Cells()
    versions = [cells.start_version()]
    for number, writes in enumerate(history):
        for values in writes:
            cells.write(values)
        versions.append(cells.start_version())
        if number in absorbing:
            versions[number // 2][0].compact()
    rows = sorted(some)
    for cursor, expected in versions:
        assert cells.read(cursor, rows) == [expected[row] for row in rows]
        assert cells.read(cursor, range(3, 9)) == expected[3:9]
        cursor.compact()
        assert cells.read(cursor, range(SIZE)) == expected


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(write, min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["drop", "compact", "alone"]), st.integers(0, 10)),
    ),
    max_size=60,
)


@given(steps)
def test_versions_that_share_old_values_read_what_they_saw(history: list[tuple[str, Any]]) -> None:
    """Whichever of them are gone, whenever they were merged, and whether one of them has merged by itself before."""
    cells = Cells(HeldCursors())
    versions = [cells.start_version()]
    for step, argument in history:
        if step == "write":
            for values in argument:
                cells.write(values)
            versions.append(cells.start_version())
        elif step == "drop":
            del versions[argument % len(versions)]
            versions.append(cells.start_version())
        elif step == "compact":
            versions[argument % len(versions)][0].compact()
        else:
            versions[argument % len(versions)][0].stretch.last().merge()
        for cursor, expected in versions:
            assert cells.read(cursor, range(SIZE)) == expected


@pytest.mark.parametrize("kept_when", ["few", "most"])
@given(history=cycles, compacted=st.sets(st.integers(0, 40)), span=st.integers(1, SIZE))
def test_dense_values_read_as_those_with_keys(
    kept_when: str, history: list[list[dict[int, int]]], compacted: set[int], span: int
) -> None:
    """Wherever the written rows lie, and whichever are written first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("barrage_server.engine.undo_entries._LEAST_DENSE", 1 if kept_when == "few" else 4)
        cells = Cells(HeldCursors())
        versions = []
        for number, writes in enumerate(history):
            for values in writes:
                near = {row: value for row, value in values.items() if number >= 10 or row < span}
                if near:
                    cells.write(near)
            versions.append(cells.start_version())
            if number in compacted:
                versions[0][0].compact()
            for cursor, expected in versions:
                assert cells.read(cursor, range(SIZE)) == expected
                assert cells.read(cursor, [0, 2, 3, 7, SIZE - 1]) == [expected[row] for row in (0, 2, 3, 7, SIZE - 1)]


def test_values_of_most_rows_are_kept_without_keys() -> None:
    """They take the cells and a byte for each; what was recorded before is not kept again."""
    size = 20_000
    undo = Undo()
    cursor, node = UndoCursor(undo), undo
    random = np.random.default_rng(5)
    oldest = np.full(size, -1)
    for number in range(60):
        keys = np.unique(random.integers(0, size, 2000))
        node.record(UndoEntry(0, 0, keys, np.full(len(keys), number), None))
        oldest[keys] = np.where(oldest[keys] < 0, number, oldest[keys])
        node = node.start_next()
        if number % 7 == 0:
            cursor.compact()
    cursor.compact()
    found = np.full(size, -1)
    assert restore(cursor.entries(0, 0), ReadPlan.from_range(0, size - 1), found, None) is None
    assert found.tolist() == oldest.tolist()
    assert cursor.nbytes <= size * 9


def test_values_far_from_most_others_keep_their_keys() -> None:
    size, far = 20_000, 2**60
    undo = Undo()
    cursor, node = UndoCursor(undo), undo
    for number in range(40):
        keys = np.arange(number % 4, size, 4)
        if number >= 4:
            keys = np.append(keys, [far + number, far + 2 * number + 50])
        node.record(UndoEntry(0, 0, keys, np.full(len(keys), number), None))
        node = node.start_next()
        cursor.compact()
    for key, expected in ((0, 0), (19_999, 3), (far + 4, 4), (far + 39, 39), (far + 58, 4), (far + 128, 39)):
        found = np.full(1, -1)
        restore(cursor.entries(0, 0), ReadPlan.from_range(key, key), found, None)
        assert found.tolist() == [expected]
    assert cursor.nbytes <= size * 9 + 1000 * 16


def test_records_of_large_writes_are_merged_soon() -> None:
    """A version that is held keeps few of them, although fewer cycles have passed than between two merges of others."""
    size = 300_000
    store = ColumnStore(pa.schema([("value", pa.int64())]))
    rows = RowSet.flat(size)
    store.columns[0].write(rows, pa.array(np.zeros(size, np.int64)), None)
    held = store.views()
    nodes = [weakref.ref(store.undo)]
    for number in range(20):
        store.columns[0].overwrite(rows, pa.array(np.full(size, number + 1)), store.undo)
        store.views()
        nodes.append(weakref.ref(store.undo))
    assert sum(node() is not None for node in nodes) <= 3
    assert held[0].read(ReadPlan.from_row_set(rows)).to_pylist() == [0] * size


def test_columns_that_are_written_together_share_the_row_keys_of_old_values() -> None:
    store = ColumnStore(pa.schema([("one", pa.int64()), ("two", pa.float64())]))
    size, rows = 10_000, RowSet.flat(10_000)
    values = pa.array(np.zeros(size))
    store.columns[0].write(rows, values.cast(pa.int64()), None)
    store.columns[1].write(rows, values, None)
    store.views()
    cursor = UndoCursor(store.undo)
    random = np.random.default_rng(6)
    for number in range(1, 9):
        plan = ReadPlan.from_keys(np.unique(random.integers(0, size, 40)))
        new = pa.array(np.full(plan.size, number))
        store.columns[0].update(plan, new, store.undo)
        store.columns[1].update(plan, new.cast(pa.float64()), store.undo)
        store.views()
    cursor.compact()
    one, two = cursor.entries(0, 0), cursor.entries(1, 0)
    assert len(one) == len(two) == 1
    assert one[0].keys is two[0].keys


def test_old_values_that_no_record_follows_keep_their_keys_where_they_are_few() -> None:
    """While records follow, they are dense."""
    held, undo = HeldCursors(), Undo()
    cursor, node = UndoCursor(undo, None, held), undo
    keys = np.arange(0, 100_000, 10)

    def tick(times: int) -> UndoCursor:
        nonlocal node
        for _ in range(times):
            node.record(UndoEntry(0, 0, keys, np.full(len(keys), node.number), None))
            node = node.start_next()
        held.compact()
        return UndoCursor(node, None, held)

    staying = tick(50)
    assert cursor.nbytes == 99_991 * 9
    newest = tick(100)
    held.compact()
    assert staying.nbytes == 99_991 * 9
    assert cursor.nbytes - staying.nbytes == len(keys) * 16
    found = np.full(100_000, -1)
    restore(cursor.entries(0, 0), ReadPlan.from_range(0, 99_999), found, None)
    assert set(found[::10].tolist()) == {0}
    restore(staying.entries(0, 0), ReadPlan.from_range(0, 99_999), found, None)
    assert set(found[::10].tolist()) == {50}
    assert newest.nbytes == 0


def test_nulls_among_values_of_most_rows_stay_nulls() -> None:
    size = 10_000
    undo = Undo()
    cursor, node = UndoCursor(undo), undo
    keys = np.arange(0, size, 2)
    node.record(UndoEntry(0, 0, keys, keys, None))
    node = node.start_next()
    cursor.compact()
    valid = np.arange(size) % 3 > 0
    node.record(UndoEntry(0, 0, np.arange(size), np.arange(size), valid))
    node.start_next()
    cursor.compact()
    data = np.zeros(size - 20, np.int64)
    shown = restore(cursor.entries(0, 0), ReadPlan.from_range(10, size - 11), data, None)
    assert shown is not None
    assert shown.tolist() == (valid | (np.arange(size) % 2 == 0))[10:-10].tolist()
    assert data.tolist() == list(range(10, size - 10))


def test_what_many_versions_need_is_kept_once() -> None:
    """Twenty versions, and then every cell is overwritten several times."""
    cells = Cells(HeldCursors())
    versions = []
    for number in range(20):
        versions.append(cells.start_version())
        cells.write({number % SIZE: number})
    for number in range(3 * SIZE):
        cells.write({number % SIZE: 100 + number})
        latest = cells.start_version()
    latest[0].compact()
    assert [cells.read(cursor, range(SIZE)) for cursor, _ in versions] == [expected for _, expected in versions]
    kept = {id(entry): entry.keys for cursor, _ in versions for entry in cursor.entries(0, 0)}
    assert sum(map(len, kept.values())) <= 20 + SIZE
    del versions[::2]
    latest[0].compact()
    assert [cells.read(cursor, range(SIZE)) for cursor, _ in versions] == [expected for _, expected in versions]
    kept = {id(entry): entry.keys for cursor, _ in versions for entry in cursor.entries(0, 0)}
    assert sum(map(len, kept.values())) <= 20 + SIZE


def test_a_thread_that_merges_does_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    merging, read = threading.Event(), threading.Event()

    def slow(keys: Int64Array, runs: int) -> tuple[Int64Array, Int64Array]:
        merging.set()
        assert read.wait(30)
        return sort_with_positions(keys, runs=runs)

    cells = Cells(HeldCursors())
    cursor, before = cells.start_version()
    for number in range(100):
        cells.write({number % SIZE: number})
        cells.start_version()
    monkeypatch.setattr("barrage_server.engine.undo_entries.sort_with_positions", slow)
    with ThreadPoolExecutor(1) as pool:
        compacted = pool.submit(cursor.compact)
        assert merging.wait(30)
        assert cells.read(cursor, range(SIZE)) == before
        assert cursor.pending == 100
        read.set()
        compacted.result(30)
    assert cursor.pending == 0
    assert cells.read(cursor, range(SIZE)) == before


def test_within_a_cycle_the_first_record_wins() -> None:
    cells = Cells()
    cursor, before = cells.start_version()
    cells.write({1: 5})
    cells.write({1: 6, 2: 7})
    assert cells.read(cursor, range(SIZE)) == before


def test_entries_of_other_columns_and_epochs_say_nothing() -> None:
    cells = Cells()
    cursor, _ = cells.start_version()
    cells.write({1: 5}, epoch=1)
    assert cursor.entries(0, 0) == []
    assert cursor.entries(1, 1) == []
    assert len(cursor.entries(0, 1)) == 1


def test_a_cursor_that_knows_its_epochs_drops_what_it_does_not_need() -> None:
    cells = Cells()
    cells.start_version()
    cursor, other = UndoCursor(cells.undo, [0]), UndoCursor(cells.undo)
    cells.write({1: 5}, epoch=1)
    cells.start_version()
    cursor.compact()
    other.compact()
    assert cursor.nbytes == 0
    assert other.nbytes == 16


@pytest.mark.parametrize("null", [False, True])
def test_absorbed_nodes_are_freed(null: bool) -> None:
    cells = Cells()
    cursor, before = cells.start_version()
    node = weakref.ref(cells.undo)
    for number in range(3):
        cells.write({number: -1 if null else 5})
        cells.start_version()
    assert cursor.pending == 3
    assert node() is not None
    cursor.compact()
    assert cursor.pending == 0
    assert node() is None
    assert cells.read(cursor, range(SIZE)) == before


def test_nodes_vanish_with_the_last_version() -> None:
    cells = Cells()
    cursor, _ = cells.start_version()
    node = weakref.ref(cells.undo)
    cells.write({1: 1})
    cells.start_version()
    assert node() is not None
    del cursor
    assert node() is None


def test_reading_merges_a_long_chain_by_itself() -> None:
    cells = Cells()
    cursor, before = cells.start_version()
    for number in range(100):
        cells.write({number % SIZE: number})
        cells.start_version()
    assert cursor.pending == 100
    assert cells.read(cursor, range(SIZE)) == before
    assert cursor.pending == 0
    assert len(cursor.entries(0, 0)) == 1


def test_merged_values_take_the_space_of_the_rows_that_changed() -> None:
    cells = Cells()
    cursor, _ = cells.start_version()
    for number in range(2000):
        cells.write({number % 3: number})
        cells.start_version()
        if number % 10 == 0:
            cursor.compact()
    cursor.compact()
    assert cursor.nbytes <= 3 * 3 * 16


def test_a_node_is_looked_at_only_as_far_as_it_was_complete() -> None:
    """A record that comes while the reader is between two nodes must not let a newer one win."""

    class Racing(Undo):
        """Lets the writer go on while the reader asks for the link to the next node."""

        __slots__ = ()
        go_on = True

        def __getattribute__(self, name: str) -> object:
            value = super().__getattribute__(name)
            if name == "next" and value is None and Racing.go_on:
                Racing.go_on = False
                cells.write({1: 8})
                cells.start_version()
                cells.write({1: 9})
                value = super().__getattribute__(name)
            return value

    cells = Cells()
    cells.undo = Racing()
    cursor, before = UndoCursor(cells.undo), [0] * SIZE
    gathered = cells.data[:3].copy()
    restore(cursor.entries(0, 0), ReadPlan.from_range(0, 2), gathered, None)
    assert gathered.tolist() == before[:3]
    assert cells.read(cursor, range(SIZE)) == before


@pytest.mark.parametrize("first", [0, 2**40, 2**63 - 60])
def test_many_records_are_merged_whatever_the_row_keys(first: int) -> None:
    """Of the records of a row, the oldest stays."""
    undo = Undo()
    cursor, node = UndoCursor(undo), undo
    oldest: dict[int, int] = {}
    for number in range(20):
        keys = np.arange(number, 50, 1 + number % 3, dtype=np.int64) + first
        node.record(UndoEntry(0, 0, keys, np.full(len(keys), number), None))
        node = node.start_next()
        for key in keys.tolist():
            oldest.setdefault(key, number)
    cursor.compact()
    (entry,) = cursor.entries(0, 0)
    assert dict(zip(entry.keys.tolist(), entry.data.tolist(), strict=True)) == dict(sorted(oldest.items()))
    assert entry.keys.tolist() == sorted(oldest)
