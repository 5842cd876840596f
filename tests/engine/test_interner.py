"""Strings of few distinct values are kept once; others are not, and nothing is lost where that changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.engine import heap_column, interner
from barrage_server.engine.columns import make_column
from barrage_server.engine.heap_column import HeapColumn
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.undo import Undo, UndoCursor
from barrage_server.rowset import RowSet

WORDS = [f"word {number}" for number in range(500)]


def column_of(data_type: pa.DataType, *, reuses: bool = True, interns: bool = True) -> HeapColumn:
    column = make_column(data_type, number=0, reuses=reuses, interns=interns)
    assert isinstance(column, HeapColumn)
    return column


def read(column: HeapColumn, rows: RowSet) -> list[str | None]:
    values: list[str | None] = column.snapshot().read(ReadPlan.from_row_set(rows)).to_pylist()
    return values


@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_few_values_are_kept_once(data_type: pa.DataType) -> None:
    """However many rows have them, and however often they are overwritten: four bytes per row, and the values."""
    column = column_of(data_type)
    chance = np.random.default_rng(1)
    rows = RowSet.flat(1 << 15)
    words = pa.array([*WORDS, None]).cast(data_type)
    undo = Undo()
    column.write(rows, words.take(pa.array(chance.integers(0, 501, rows.size))), None)
    for _ in range(20):
        values = words.take(pa.array(chance.integers(0, 501, rows.size)))
        column.update(rows, values, undo)
        column.collect(rows, undo)
    assert column.snapshot().read(ReadPlan.from_row_set(rows)).equals(values)
    assert column.heap.nbytes == words.nbytes
    assert column.nbytes < 4 * rows.size + 20_000
    assert not column.counts_values


def test_equal_values_do_not_count_as_modified() -> None:
    column = column_of(pa.string())
    undo = Undo()
    column.write(RowSet.flat(4), pa.array(["a", None, "", "a"]), None)
    changed = column.update(RowSet.flat(4), pa.array(["a", None, None, "b"]), undo)
    assert changed.tolist() == [False, False, True, True]
    assert read(column, RowSet.flat(4)) == ["a", None, None, "b"]


def test_many_values_are_not_kept_once() -> None:
    """That is found out after few of them; the others are as they would be without."""
    column = column_of(pa.string())
    rows = RowSet.flat(20_000)
    column.write(rows, pa.array([f"row {number}" for number in range(20_000)]), None)
    assert column.counts_values
    assert read(column, rows) == [f"row {number}" for number in range(20_000)]
    assert column.heap.pinned_before == 4096


@pytest.mark.parametrize("active", [True, False])
def test_what_is_given_in_another_order_is_not_kept_for_nothing(active: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are values that no row gets; also when it turns out just then that they are many."""
    if not active:
        monkeypatch.setattr(interner, "MAX_VALUES", 400)
    column = column_of(pa.string())
    rows, undo = RowSet.flat(1000), Undo()
    column.write(rows, pa.array(["same"] * 1000), None)
    values = [f"row {number % 600}" for number in range(20_000)]
    order = np.random.default_rng(1).permutation(20_000)[:1000]
    assert column.update(rows, pa.array(values), undo, order).all()
    assert read(column, rows) == [values[place] for place in order]
    assert column.counts_values is not active
    assert not column.update(rows, pa.array(values), undo, order).any()
    column.overwrite(rows, pa.array([f"new {number}" for number in range(1000)]), undo)
    assert read(column, rows)[::999] == ["new 0", "new 999"]
    if not active:
        assert column.heap.garbage <= column.heap.nbytes / 2
        assert len(column.heap) < 3 * interner.FIRST_STEP + 1000


@pytest.mark.parametrize("limit", ["MAX_VALUES", "MAX_BYTES"])
def test_it_is_given_up_when_there_come_to_be_many(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that are equal do not count as modified in that cycle either, and held versions stay as they are."""
    monkeypatch.setattr(interner, limit, 400)
    monkeypatch.setattr(interner, "_STEP", 300)
    column = column_of(pa.string())
    rows, undo = RowSet.flat(1000), Undo()
    column.write(rows, pa.array(["same"] * 1000), None)
    held, cursor = column.snapshot(), UndoCursor(undo)
    values = [f"row {number % 600}" if number % 3 else "same" for number in range(1000)]
    changed = column.update(rows, pa.array(values), undo)
    assert changed.tolist() == [value != "same" for value in values]
    assert column.counts_values
    assert read(column, rows) == values
    assert set(held.read(ReadPlan.from_row_set(rows), cursor).to_pylist()) == {"same"}
    assert not column.update(rows, pa.array(values), undo).any()
    column.overwrite(rows, pa.array(["x"] * 1000), undo)
    assert set(read(column, rows)) == {"x"}


def test_values_that_went_out_of_use_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """When most of what was kept once is not needed any more, it begins anew."""
    monkeypatch.setattr(heap_column, "_MIN_WORN_BYTES", 0)
    column = column_of(pa.string())
    rows, undo = RowSet.flat(1000), Undo()
    column.write(rows, pa.array(WORDS * 2), None)
    held, cursor = column.snapshot(), UndoCursor(undo)
    column.collect(rows, undo)
    assert len(column.heap) == 500
    column.discard(RowSet.from_range(100, 999))
    rows = RowSet.flat(100)
    column.collect(rows, undo)
    assert len(column.heap) == 100
    assert read(column, rows) == WORDS[:100]
    assert held.read(ReadPlan.from_range(0, 999), cursor).to_pylist() == WORDS * 2
    assert not column.update(rows, pa.array(WORDS[:100]), undo).any()
    column.discard(rows)
    column.collect(RowSet.empty(), undo)
    assert len(column.heap) == 0


@pytest.mark.parametrize(("reuses", "interns"), [(False, True), (True, False)])
def test_rows_that_stay_as_they_came_are_not_looked_at(*, reuses: bool, interns: bool) -> None:
    """They are read without a copy, and take no memory beside their values."""
    column = column_of(pa.string(), reuses=reuses, interns=interns)
    for first in range(0, 3000, 1000):
        column.write(RowSet.from_range(first, first + 999), pa.array(WORDS * 2), None)
    assert column.indexes.nbytes == 0
    part = column.snapshot().read(ReadPlan.from_range(10, 19), frozen=True)
    again = column.snapshot().read(ReadPlan.from_range(10, 19), frozen=True)
    assert part.buffers()[2].address == again.buffers()[2].address
    assert part.to_pylist() == WORDS[10:20]


def test_a_row_that_is_overwritten_has_an_index_of_its_own() -> None:
    """Only then do the rows of its page get cells."""
    column = column_of(pa.string(), interns=False)
    undo = Undo()
    column.write(RowSet.flat(1000), pa.array(WORDS * 2), None)
    held, cursor = column.snapshot(), UndoCursor(undo)
    column.overwrite(RowSet.from_range(7, 7), pa.array(["other"]), undo)
    column.write(RowSet.from_range(1000, 1001), pa.array(["x", "y"]), None)
    assert 4 * 1002 <= column.indexes.nbytes < 4 * 4096
    expected = WORDS * 2
    assert held.read(ReadPlan.from_range(0, 999), cursor).to_pylist() == expected
    expected[7] = "other"
    assert read(column, RowSet.flat(1002)) == [*expected, "x", "y"]


def test_large_values_are_freed_with_their_last_row() -> None:
    """A few large values in a table of many rows: nothing needs to be moved for that."""
    column = column_of(pa.string())
    rows, undo = RowSet.flat(100_000), Undo()
    column.write(rows, pa.array([f"row {number}" for number in range(100_000)]), None)
    size = column.heap.nbytes
    for number in range(300):
        column.overwrite(RowSet.from_range(7, 7), pa.array([f"{number}" * 1_000_000]), undo)
        column.collect(rows, undo)
        undo = undo.start_next()
        assert column.heap.nbytes < size + 10_000_000


@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("distinct", [3, 500, 5000])
def test_values_with_a_dictionary_are_restored(data_type: pa.DataType, distinct: int) -> None:
    """Rows read the same as without dictionaries.

    Rows are null, and dictionaries have a value twice and values of no row. Interning ends with 5,000 values.
    """
    chance = np.random.default_rng(2)
    column, plain = column_of(data_type), column_of(data_type)
    first = 0
    for part in range(3):
        words = pa.array([*(f"word {part % 2} {number}" for number in range(distinct)), "word 0 0"]).cast(data_type)
        places = pa.array(chance.integers(0, distinct + 1, 4000), mask=chance.random(4000) < 0.1)
        values = pa.DictionaryArray.from_arrays(places, words)
        rows = RowSet.from_range(first, first + 3999)
        first += 4000
        column.restore(rows, values)
        plain.restore(rows, values.cast(data_type))
    rows = RowSet.flat(first)
    assert read(column, rows) == read(plain, rows)
    assert column.counts_values == plain.counts_values == (distinct == 5000)
    undo = Undo()
    column.update(rows, words.take(pa.array(chance.integers(0, 3, rows.size))), undo)
    assert set(read(column, rows)) == set(words.slice(0, 3).to_pylist())


def test_columns_that_keep_no_equal_values_once_restore_dictionaries() -> None:
    column = column_of(pa.string(), interns=False)
    rows = RowSet.flat(3)
    column.restore(rows, pa.array(["a", None, "a"]).dictionary_encode())
    assert read(column, rows) == ["a", None, "a"]
