"""Columns against the simplest model: a dict of values per version."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import cells, heap_column, interner
from barrage_server.engine import heap as heap_module
from barrage_server.engine.column import ColumnSnapshot
from barrage_server.engine.columns import make_column
from barrage_server.engine.heap_column import HeapColumn
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.undo import Undo, UndoCursor, UndoEntry
from barrage_server.errors import RowSetError, SchemaMismatchError
from barrage_server.rowset import RowSet
from tests.engine.samples import SAMPLES, pick, shown

HEAPED = ["string", "list<string>", "struct", "json"]

# Whether values are released one by one, and whether equal ones may be kept once.
MANNERS = [(True, True), (True, False), (False, False)]


@pytest.fixture(scope="module", autouse=True)
def _small_numbers() -> Iterator[None]:
    """With the few rows that there are here, garbage is collected, equal values are kept once or no more, and what was
    written last is kept twice.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_FEWEST_RECENT", 1)
        patch.setattr(heap_module, "_MIN_GARBAGE", 20)
        patch.setattr(heap_module, "_MAX_SPAN", 80)
        patch.setattr(heap_column, "_MIN_SWEEP", 3)
        patch.setattr(heap_column, "_SWEEP", 1)
        patch.setattr(heap_column, "_MIN_WORN_BYTES", 20)
        patch.setattr(heap_column, "_WORN", 1)
        patch.setattr(interner, "_FEW_VALUES", 2)
        patch.setattr(interner, "_SCANNED", 2)
        patch.setattr(interner, "_FIRST_STEP", 5)
        patch.setattr(interner, "_STEP", 7)
        patch.setattr(interner, "MAX_VALUES", 6)
        yield


places = st.integers(0, 40)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.dictionaries(places, st.integers(0, 6), min_size=1, max_size=12)),
        st.tuples(st.just("move"), st.tuples(places, st.integers(-5, 5))),
        st.tuples(st.just("drop"), places),
        st.tuples(st.just("remove"), st.sets(places, max_size=6)),
        st.tuples(st.just("collect"), st.integers(1, 5)),
        st.tuples(st.just("absorb"), st.integers(0, 100)),
        st.tuples(st.just("version"), st.none()),
    ),
    max_size=25,
)


class Model:
    """A column, and beside it what each version must read."""

    def __init__(self, sample: pa.Array, page_bits: int, spread: int, manner: tuple[bool, bool] = (True, True)) -> None:
        self.sample = sample
        self.spread = spread
        reuses, interns = manner
        self.column = make_column(sample.type, number=3, page_bits=page_bits, reuses=reuses, interns=interns)
        self.undo = Undo()
        if isinstance(self.column, HeapColumn) and spread > 1:
            self.column.heap.next_index = 2**32 - 25  # as after having taken and dropped that many
        self.values: dict[int, int] = {}
        self.highest = -1
        self.versions: list[tuple[ColumnSnapshot, UndoCursor, dict[int, int], set[int]]] = []
        self.recent: set[int] = set()  # the rows that were written last

    def apply(self, name: str, argument: Any) -> None:
        getattr(self, name)(argument)

    def write(self, chosen: dict[int, int]) -> None:
        chosen = {place * self.spread: value for place, value in sorted(chosen.items())}
        values = pick(self.sample, list(chosen.values()), padding=len(chosen) % 11)
        keys = np.array(list(chosen), np.int64)
        known = np.array([key in self.values for key in chosen])
        if known.any():
            rows = RowSet.from_keys(keys[known])
            given = values.filter(pa.array(known))
            if len(chosen) % 3:
                old = pick(self.sample, [self.values[key] for key in rows.keys().tolist()])
                expected = [ours != theirs for ours, theirs in zip(shown(old), shown(given), strict=True)]
                order = None
                if len(chosen) % 2:  # they come in another order, among others
                    order = len(chosen) - 1 - np.flatnonzero(known)
                    given = values.take(pa.array(np.arange(len(chosen) - 1, -1, -1)))
                assert self.column.update(rows, given, self.undo, order).tolist() == expected
            else:
                self.column.overwrite(rows, given, self.undo)
        if not known.all():
            never = int(keys[~known][0]) > self.highest
            undo = None if never else self.undo
            self.column.write(keys[~known], values.filter(pa.array(~known)), undo)
        self.highest = max(self.highest, int(keys[-1]))
        self.values.update(chosen)
        self.recent = set(chosen)

    def move(self, argument: tuple[int, int]) -> None:
        first, delta = argument[0] * self.spread, argument[1] * self.spread
        sources = [key for key in sorted(self.values) if key >= first and key + delta >= 0]
        moved = {key + delta: self.values[key] for key in sources}
        covered = set(moved) & set(self.values) - set(sources)
        self.column.discard(RowSet.from_keys(sorted(covered)))
        self.highest = max([self.highest, *moved])
        self.column.move(np.array(sources, np.int64), np.array(sorted(moved), np.int64), self.undo)
        for key in sources:
            del self.values[key]
        self.values.update(moved)

    def drop(self, place: int) -> None:
        self.remove(set(range(place)))
        self.column.drop_before(min(self.values, default=100 * self.spread))

    def remove(self, places: set[int]) -> None:
        rows = {place * self.spread for place in places} & set(self.values)
        self.column.discard(RowSet.from_keys(sorted(rows)))
        self.values = {key: value for key, value in self.values.items() if key not in rows}

    def collect(self, times: int) -> None:
        for _ in range(times):
            self.column.collect(RowSet.from_keys(sorted(self.values)), self.undo)

    def absorb(self, number: int) -> None:
        if self.versions:
            self.versions[number % len(self.versions)][1].absorb()

    def version(self, _: None) -> None:
        self.undo = self.undo.start_next()
        self.versions.append((self.column.snapshot(), UndoCursor(self.undo), dict(self.values), self.recent))

    def check(self) -> None:
        for snapshot, cursor, values, written in self.versions:
            keys = sorted(values)
            recent = [key for key in keys if key in written]
            for part in (keys, keys[1::2], keys[len(keys) // 3 :][:5], recent, recent[1:], recent[: len(recent) // 2]):
                rows = np.array(part, np.int64)
                expected = pick(self.sample, [values[key] for key in part])
                for plan in (ReadPlan.from_keys(rows), ReadPlan.from_row_set(RowSet.from_keys(rows))):
                    check_equal(snapshot.read(plan, cursor), expected)
        current = np.array(sorted(self.values), np.int64)[::-1].repeat(2)
        expected = pick(self.sample, [self.values[key] for key in current.tolist()])
        check_equal(self.column.read_current(current), expected)
        if isinstance(self.column, HeapColumn):
            check_garbage(self.column, current)


def check_garbage(column: HeapColumn, rows: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    """The heap knows what it has that no row needs, unless it keeps values once or lets go of them in order."""
    heap, view = column.heap, column.heap.snapshot()
    assert heap.nbytes == sum(chunk.nbytes for chunk in view.chunks)
    if not column.counts_values:
        assert heap.garbage == 0
        return
    indexes = [heap.absolute(int(index)) for index in column.indexes.gather(ReadPlan.from_keys(np.unique(rows)))]
    garbage = 0.0
    for chunk, start in zip(view.chunks, view.starts, strict=True):
        used = sum(start <= index < start + len(chunk) for index in indexes)
        assert used > 0 or start < heap.pinned_before
        garbage += chunk.nbytes * (len(chunk) - used) / len(chunk) if start >= heap.pinned_before else 0
    assert heap.garbage == pytest.approx(garbage, abs=1e-6)


def check_equal(got: pa.Array, expected: pa.Array) -> None:
    got.validate(full=True)
    assert got.type == expected.type
    assert shown(got) == shown(expected)
    assert got.null_count == expected.null_count


@settings(max_examples=400)
@given(
    st.sampled_from(list(SAMPLES)),
    st.sampled_from([(3, 1), (11, 1), (11, 150)]),
    st.sampled_from(MANNERS),
    operations,
)
def test_every_version_reads_what_it_saw(
    name: str, shape: tuple[int, int], manner: tuple[bool, bool], steps: list[tuple[str, Any]]
) -> None:
    model = Model(SAMPLES[name], *shape, manner)
    model.version(None)
    for operation, argument in steps:
        model.apply(operation, argument)
        if operation == "version":
            model.check()
    model.version(None)
    model.check()


@pytest.mark.parametrize("name", SAMPLES)
def test_every_type_is_read_as_it_was_written(name: str) -> None:
    sample = SAMPLES[name]
    column = make_column(sample.type, number=0)
    rows = RowSet.flat(len(sample))
    column.write(rows, pick(sample, range(len(sample)), padding=5), None)
    snapshot = column.snapshot()
    for frozen in (False, True):
        check_equal(snapshot.read(ReadPlan.from_row_set(rows), frozen=frozen), sample)
        without_nulls = snapshot.read(ReadPlan.from_range(1, len(sample) - 1), frozen=frozen)
        check_equal(without_nulls, sample.slice(1))
        assert snapshot.read(ReadPlan.from_range(0, -1), frozen=frozen).equals(sample.slice(0, 0))
    assert not column.update(rows, sample, Undo()).any()
    assert column.read_current(np.array([], np.int64)).type == sample.type
    assert column.nbytes >= 0


@pytest.mark.parametrize("name", SAMPLES)
def test_a_column_without_nulls_has_no_validity(name: str) -> None:
    if name == "null":
        return
    sample = SAMPLES[name]
    column = make_column(sample.type, number=0)
    column.write(RowSet.flat(2), pick(sample, [1, 1]), None)
    assert column.snapshot().read(ReadPlan.from_range(0, 1)).buffers()[0] is None


def test_a_frozen_run_of_fixed_width_shares_the_memory_of_its_page() -> None:
    column = make_column(pa.int64(), number=0)
    column.write(RowSet.flat(100), pa.array(range(100)), None)
    plan = ReadPlan.from_range(10, 19)
    shared = column.snapshot().read(plan, frozen=True)
    again = column.snapshot().read(plan, frozen=True)
    copied = column.snapshot().read(plan)
    assert shared.buffers()[1].address == again.buffers()[1].address != copied.buffers()[1].address
    del column
    assert shared.to_pylist() == copied.to_pylist() == list(range(10, 20))


def test_nan_equals_nan_whatever_its_bits_and_zeros_differ() -> None:
    column = make_column(pa.float64(), number=0)
    payload = np.array([0x7FF8000000000001, 0x7FF8000000000002, 0], np.uint64).view(np.float64)
    column.write(RowSet.flat(3), pa.array(payload), None)
    given = pa.array([float("nan"), float("nan"), -0.0])
    assert column.update(RowSet.flat(3), given, Undo()).tolist() == [False, False, True]
    stored = column.read_current(np.array([0, 1]))
    assert np.frombuffer(stored.buffers()[1], np.uint64).tolist() == payload[:2].view(np.uint64).tolist()


def test_what_lies_under_nulls_does_not_count() -> None:
    column = make_column(pa.int64(), number=0)
    rows = RowSet.flat(2)
    first = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x00"), pa.py_buffer(np.array([1, 2]))])
    column.write(rows, first, None)
    assert not column.update(rows, pa.nulls(2, pa.int64()), Undo()).any()


@pytest.mark.parametrize("name", HEAPED)
def test_overwriting_leaves_garbage_that_is_collected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A little at a time: what is held stays near what is needed, and no step does more than follows from what was
    written.
    """
    monkeypatch.setattr(heap_module, "_MAX_SPAN", 1 << 31)
    sample = SAMPLES[name]
    column = make_column(sample.type, number=0, interns=False)
    assert isinstance(column, HeapColumn)
    rows = RowSet.flat(1000)
    values = pick(sample, range(1000))
    column.write(rows, values, None)
    undo = Undo()
    held, cursor = column.snapshot(), UndoCursor(undo)
    needed = column.heap.nbytes
    column.collect(rows, undo)
    chance = np.random.default_rng(1)
    largest = 0.0
    for _ in range(1000):
        some = np.unique(chance.integers(0, 1000, 50))
        column.overwrite(some, pick(sample, some.tolist()), undo)
        recorded = sum(len(entry.keys) for entry in undo.entries[0])
        column.collect(rows, undo)
        assert sum(len(entry.keys) for entry in undo.entries[0]) - recorded <= 3 + len(some)
        largest = max(largest, column.heap.nbytes)
        undo = undo.start_next()
        cursor.absorb()
    assert largest < 4 * needed
    check_equal(column.snapshot().read(ReadPlan.from_row_set(rows)), values)
    check_equal(held.read(ReadPlan.from_row_set(rows), cursor), values)


@pytest.mark.parametrize("name", ["int64", "null", "bool"])
def test_columns_of_fixed_width_have_no_garbage(name: str) -> None:
    sample = SAMPLES[name]
    column = make_column(sample.type, number=0)
    undo = Undo()
    column.write(RowSet.flat(10), pick(sample, range(10)), None)
    column.discard(RowSet.from_range(5, 9))
    column.collect(RowSet.flat(5), undo)
    assert undo.entries == {}
    check_equal(column.snapshot().read(ReadPlan.from_range(0, 9)), pick(sample, range(10)))


@pytest.mark.parametrize("name", ["int64", "string", "null", "list<string>"])
def test_a_ring_keeps_its_size(name: str) -> None:
    sample = SAMPLES[name]
    column = make_column(sample.type, number=0, page_bits=4, reuses=False)
    sizes, versions = [], []
    for cycle in range(200):
        rows = RowSet.from_range(10 * cycle, 10 * cycle + 9)
        column.write(rows, pick(sample, range(cycle, cycle + 10)), None)
        first = max(0, 10 * cycle - 50)
        column.drop_before(first)
        versions.append((column.snapshot(), first, 10 * cycle + 9))
        sizes.append(column.nbytes)
    assert max(sizes[100:]) <= max(sizes[:100])
    for snapshot, first, last in versions[::20]:
        expected = pick(sample, [key // 10 + key % 10 for key in range(first, last + 1)])
        check_equal(snapshot.read(ReadPlan.from_range(first, last), frozen=True), expected)


def test_rows_that_moved_behind_all_others_survive_dropping() -> None:
    column = make_column(pa.string(), number=0, page_bits=3, reuses=False)
    column.write(RowSet.flat(20), pa.array(list("abcdefghijklmnopqrst")), None)
    column.move(np.array([0, 1]), np.array([20, 21]), None)
    column.drop_before(19)
    assert column.read_current(np.array([19, 20, 21])).to_pylist() == ["t", "a", "b"]


def test_validity_grows_with_its_page() -> None:
    column = make_column(pa.int64(), number=0)
    column.write(RowSet.flat(2), pa.array([1, None]), None)
    for last in (1500, 5000, 2**20 + 5):
        column.write(np.array([last - 1, last]), pa.array([None, last]), None)
        assert column.read_current(np.array([0, 1, last - 1, last])).to_pylist() == [1, None, None, last]


def test_dropping_everything_frees_the_heap() -> None:
    column = make_column(pa.string(), number=0, page_bits=4, reuses=False)
    column.write(RowSet.flat(40), pa.array(["x"] * 40), None)
    column.drop_before(40)
    assert column.nbytes < 200
    column.write(RowSet.from_range(40, 41), pa.array(["a", "b"]), None)
    assert column.read_current(np.array([40, 41])).to_pylist() == ["a", "b"]


@pytest.mark.parametrize("first_key", [5, 38, 10_000 - 1])
def test_dropping_below_a_row_that_was_never_written_keeps_the_heap(first_key: int) -> None:
    column = make_column(pa.string(), number=0, page_bits=4, reuses=False)
    keys = np.array([0, 1, 39, 10_000])
    column.write(keys, pa.array(list("abcd")), None)
    column.drop_before(first_key)
    assert column.read_current(keys[keys >= first_key]).to_pylist() == list("abcd")[int((keys < first_key).sum()) :]


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("name", ["int64", "string"])
def test_rows_that_come_back_to_a_dropped_page_do_not_disturb_older_versions(
    name: str, manner: tuple[bool, bool]
) -> None:
    model = Model(SAMPLES[name], 3, 1, manner)
    model.write({place: place % 4 for place in range(20)})
    model.version(None)
    model.drop(10)
    model.version(None)
    model.write({2: 5, 12: 5})
    model.version(None)
    model.write({2: 0, 12: 3, 16: 3, 19: 0})
    model.version(None)
    model.check()


@pytest.mark.parametrize("name", ["int64", "string", "null"])
def test_values_of_another_type_or_number_are_refused(name: str) -> None:
    column = make_column(SAMPLES[name].type, number=0)
    with pytest.raises(SchemaMismatchError, match="a column of type"):
        column.write(RowSet.flat(1), pa.array([1], pa.int32()), None)
    with pytest.raises(SchemaMismatchError, match="2 values were given for 3 rows"):
        column.write(RowSet.flat(3), pick(SAMPLES[name], [0, 1]), None)
    with pytest.raises(SchemaMismatchError):
        column.update(RowSet.flat(3), pick(SAMPLES[name], [0, 1]), Undo())
    with pytest.raises(SchemaMismatchError):
        column.overwrite(RowSet.flat(3), pick(SAMPLES[name], [0, 1]), Undo())


@pytest.mark.parametrize("name", ["int64", "string"])
def test_rows_that_were_never_written_are_refused(name: str) -> None:
    column = make_column(SAMPLES[name].type, number=0)
    for frozen in (False, True):
        with pytest.raises(RowSetError):
            column.snapshot().read(ReadPlan.from_range(0, 0), frozen=frozen)
    with pytest.raises(RowSetError):
        column.read_current(np.array([7]))


@pytest.mark.parametrize("name", ["int64", "string", "null"])
def test_nothing_can_be_written(name: str) -> None:
    column = make_column(SAMPLES[name].type, number=0)
    undo = Undo()
    none = np.array([], np.int64)
    column.write(RowSet.empty(), pick(SAMPLES[name], []), undo)
    column.move(none, none, undo)
    column.drop_before(5)
    column.overwrite(RowSet.empty(), pick(SAMPLES[name], []), undo)
    assert column.update(RowSet.empty(), pick(SAMPLES[name], []), undo).tolist() == []
    column.discard(RowSet.empty())
    column.collect(RowSet.empty(), undo)
    assert undo.entries == {}
    assert column.nbytes < 2000


@pytest.mark.parametrize("name", ["int64", "string"])
def test_old_values_are_recorded_before_cells_are_overwritten(name: str) -> None:
    """Otherwise a reader could see a new value and find no record of the old one."""
    sample = SAMPLES[name]
    rows = RowSet.flat(4)
    plan = ReadPlan.from_row_set(rows)
    column = make_column(sample.type, number=0)
    column.write(rows, pick(sample, [0, 1, 2, 3]), None)

    class Watching(Undo):
        """Reads the version while its values are being recorded."""

        __slots__ = ()

        def record(self, entry: UndoEntry) -> None:
            seen.append(shown(snapshot.read(plan, cursor)))
            super().record(entry)
            seen.append(shown(snapshot.read(plan, cursor)))

    seen: list[list[str]] = []
    undo = Watching()
    snapshot, cursor = column.snapshot(), UndoCursor(undo)
    column.overwrite(rows, pick(sample, [4, 3, 1, 0]), undo)
    column.move(np.array([0, 1]), np.array([2, 3]), undo)
    column.update(rows, pick(sample, [1, 1, 1, 1]), undo)
    column.write(rows, pick(sample, [2, 2, 2, 2]), undo)
    assert seen == [shown(pick(sample, [0, 1, 2, 3]))] * 8


@pytest.mark.parametrize("name", ["int64", "string"])
def test_cells_are_gathered_before_the_records_are_looked_at(name: str) -> None:
    """Otherwise a write in between would be seen, and its record missed."""
    sample = SAMPLES[name]
    rows = RowSet.flat(4)
    column = make_column(sample.type, number=0)
    column.write(rows, pick(sample, [0, 1, 2, 3]), None)
    undo = Undo()

    class Late(UndoCursor):
        """Lets the writer go on as soon as the reader has looked."""

        __slots__ = ()

        def entries(self, number: int, epoch: int) -> list[UndoEntry]:
            found = super().entries(number, epoch)
            column.overwrite(rows, pick(sample, [4, 3, 1, 0]), undo)
            return found

    got = column.snapshot().read(ReadPlan.from_row_set(rows), Late(undo))
    check_equal(got, pick(sample, [0, 1, 2, 3]))


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Let threads take turns as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(2e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize(
    ("name", "manner"), [("int64", MANNERS[0]), ("decimal128", MANNERS[0]), *(("string", manner) for manner in MANNERS)]
)
def test_versions_do_not_change_while_a_writer_goes_on(name: str, manner: tuple[bool, bool]) -> None:
    """Readers keep versions while cells are overwritten, moved, collected and grown, without any lock between them."""
    sample = SAMPLES[name].slice(1)
    rng = np.random.default_rng(5)
    model = Model(sample, 11, 1, manner)
    model.write({place: place for place in range(300)})
    model.version(None)
    published = [model.versions[-1]]
    done = Event()
    failures: list[str] = []

    def read(seed: int) -> None:
        choose = np.random.default_rng(seed)
        held = [published[0]]
        while not done.is_set() and not failures:
            held.append(published[0])
            if len(held) > 6:
                del held[int(choose.integers(len(held)))]
            for snapshot, cursor, values, written in held:
                keys = np.sort(choose.choice(np.array(list(values)), 40, replace=False))
                if choose.random() < 0.3:
                    keys = np.array(sorted(written & set(values)), np.int64)
                got = snapshot.read(ReadPlan.from_keys(keys), cursor)
                expected = pick(sample, [values[key] for key in keys.tolist()])
                if not got.equals(expected):
                    failures.append(f"{got} is not {expected}")
                if choose.random() < 0.02:
                    cursor.absorb()

    readers = [Thread(target=read, args=(seed,)) for seed in (1, 2)]
    for reader in readers:
        reader.start()
    try:
        for cycle in range(400):
            for _ in range(3):
                places = rng.choice(300 + cycle * 4, 60, replace=False)
                model.values = dict(model.values)
                model.write({int(place): int(rng.integers(100)) for place in places})
            model.collect(1)
            if cycle % 50 == 20:
                model.move((200, 1))
            model.undo = model.undo.start_next()
            published[0] = (model.column.snapshot(), UndoCursor(model.undo), dict(model.values), model.recent)
    finally:
        done.set()
        for reader in readers:
            reader.join(30)
    assert failures == []
    assert not any(reader.is_alive() for reader in readers)
