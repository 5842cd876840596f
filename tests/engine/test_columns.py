"""Columns against the simplest model: a dict of values per version."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import heap as heap_module
from barrage_server.engine.columns import make_column
from barrage_server.engine.heap_column import HeapColumn
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.undo import Undo, UndoCursor
from barrage_server.errors import RowSetError, SchemaMismatchError
from barrage_server.rowset import RowSet
from tests.engine.column_model import MANNERS, Model, check_equal
from tests.engine.samples import SAMPLES, pick

HEAPED = ["string", "list<string>", "struct", "json"]

pytestmark = pytest.mark.usefixtures("small_numbers")

places = st.integers(0, 40)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.dictionaries(places, st.integers(0, 6), min_size=1, max_size=12)),
        st.tuples(st.just("move"), st.tuples(places, st.integers(-5, 5))),
        st.tuples(st.just("drop"), places),
        st.tuples(st.just("remove"), st.sets(places, max_size=6)),
        st.tuples(st.just("collect"), st.integers(1, 5)),
        st.tuples(st.just("compact"), st.integers(0, 100)),
        st.tuples(st.just("version"), st.none()),
    ),
    max_size=25,
)


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
    assert (column.nbytes > 0) == (sample.nbytes > 0)


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


@pytest.mark.parametrize("equal", [0, 1, 50])
def test_every_bit_of_a_cell_counts(equal: int) -> None:
    """The update names every cell whose bits change, however few stay equal: replicas have the bits of their table."""
    column = make_column(pa.float64(), number=0)
    rows = RowSet.flat(4 + equal)
    nan, others = 0x7FF8_0000_0000_0000, [7] * equal
    stored = np.array([nan + 1, nan + 2, 0, nan, *others], np.uint64).view(np.float64)
    given = np.array([nan, nan + 1, 1 << 63, nan, *others], np.uint64).view(np.float64)
    column.write(rows, pa.array(stored), None)
    expected = [True, True, True, False] + [False] * equal
    assert column.update(rows, pa.array(given), Undo()).tolist() == expected
    found = column.read_current(np.arange(4 + equal))
    assert np.frombuffer(found.buffers()[1], np.uint64).tolist() == given.view(np.uint64).tolist()


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
        cursor.compact()
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
