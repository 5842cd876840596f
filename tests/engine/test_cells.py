"""Cells and read plans: every way of addressing cells reads and writes the same ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine import cells as cells_module
from barrage_server.engine.cells import MIN_PAGE_CELLS, Cells, gather, gather_any, gather_runs, view
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.errors import RowSetError
from barrage_server.rowset import RowSet

PAGE_BITS = 11
PAGE = 1 << PAGE_BITS

# Keys near each other, around the edges of pages, and pages apart.
keys_drawn = st.sets(
    st.integers(0, 40) | st.integers(PAGE - 5, PAGE + 5) | st.integers(0, 5 * PAGE) | st.integers(50 * PAGE, 51 * PAGE),
    max_size=60,
)
ranges_drawn = st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 1500)), min_size=1, max_size=6)


def keys_of(drawn: set[int]) -> Int64Array:
    return np.array(sorted(drawn), np.int64)


PLANS: list[Callable[[Int64Array], ReadPlan]] = [
    ReadPlan.from_keys,
    lambda keys: ReadPlan.from_row_set(RowSet.from_keys(keys)),
    lambda keys: ReadPlan.of(ReadPlan.of(RowSet.from_keys(keys))),
]


def check_plan(plan: ReadPlan, keys: Int64Array) -> None:
    """What the segments address, row for row, are the keys."""
    addressed: list[int] = []
    for page, where, start, stop, top in plan.segments(PAGE_BITS):
        offsets = np.arange(PAGE)[where]
        assert len(addressed) == start
        assert len(offsets) == stop - start
        assert int(offsets.max()) + 1 == top
        addressed += (offsets + page * PAGE).tolist()
    assert addressed == keys.tolist()
    assert plan.keys.tolist() == keys.tolist()
    assert len(plan) == plan.size == len(keys)


@pytest.mark.parametrize("make", PLANS)
@given(keys_drawn)
def test_a_plan_addresses_each_key_once_in_order(make: Callable[[Int64Array], ReadPlan], drawn: set[int]) -> None:
    keys = keys_of(drawn)
    check_plan(make(keys), keys)


@given(ranges_drawn)
def test_a_plan_of_long_ranges_addresses_each_key_once_in_order(drawn: list[tuple[int, int]]) -> None:
    rows = RowSet.union_all([RowSet.from_range(first, first + count - 1) for first, count in drawn])
    check_plan(ReadPlan.from_row_set(rows), rows.keys())


def test_a_run_within_a_page_is_one_slice_whatever_the_plan_is_made_of() -> None:
    keys = np.arange(5, 105, dtype=np.int64)
    for plan in (*(make(keys) for make in PLANS), ReadPlan.from_range(5, 104)):
        (segment,) = plan.segments(PAGE_BITS)
        assert segment.where == slice(5, 105)


def test_an_empty_range_is_an_empty_plan() -> None:
    assert ReadPlan.from_range(3, 2).size == 0
    assert ReadPlan.from_range(3, 2).segments(PAGE_BITS) == ()
    assert ReadPlan.from_range(3, 2).keys.tolist() == []


@given(keys_drawn.filter(bool), keys_drawn)
def test_locate_finds_common_keys(own: set[int], other: set[int]) -> None:
    plan, keys = ReadPlan.from_keys(keys_of(own)), keys_of(other)
    positions, chosen = plan.locate(keys)
    common = sorted(own & other)
    assert plan.keys[positions].tolist() == common
    assert keys[chosen].tolist() == common


@given(st.lists(keys_drawn, max_size=5))
def test_what_is_written_last_is_read(writes: list[set[int]]) -> None:
    cells = Cells(np.int32, page_bits=PAGE_BITS)
    model: dict[int, int] = {}
    for number, drawn in enumerate(writes):
        keys = keys_of(drawn)
        plan = ReadPlan.from_keys(keys)
        values = np.arange(len(keys), dtype=np.int32) + 1000 * number
        cells.reserve(plan)
        cells.scatter(plan, values)
        model.update(zip(keys.tolist(), values.tolist(), strict=True))
    stored = keys_of(set(model))
    expected = [model[key] for key in stored.tolist()]
    for make in PLANS:
        assert cells.gather(make(stored)).tolist() == expected
    shuffled = np.random.default_rng(0).permutation(np.concatenate([stored, stored]))
    got = gather_any(cells.pages, shuffled, cells.dtype, PAGE_BITS)
    assert got.tolist() == [model[key] for key in shuffled.tolist()]


@given(st.lists(keys_drawn, max_size=5), st.integers(0, 99))
def test_cells_are_written_in_any_order(writes: list[set[int]], seed: int) -> None:
    cells = Cells(np.int64, page_bits=PAGE_BITS)
    model: dict[int, int] = {}
    for number, drawn in enumerate(writes):
        keys = np.random.default_rng(seed + number).permutation(keys_of(drawn))
        values = np.arange(len(keys)) + 1000 * number
        cells.scatter_any(keys, values)
        model.update(zip(keys.tolist(), values.tolist(), strict=True))
    stored = keys_of(set(model))
    assert cells.gather(ReadPlan.from_keys(stored)).tolist() == [model[key] for key in stored.tolist()]


def test_a_page_grows_by_doubling_and_readers_keep_the_old_one() -> None:
    cells = Cells(np.int64, page_bits=PAGE_BITS)
    first = ReadPlan.from_range(0, 9)
    cells.reserve(first)
    cells.scatter(first, np.arange(10))
    held = cells.pages
    assert len(held[0]) == MIN_PAGE_CELLS
    cells.reserve(ReadPlan.from_range(0, MIN_PAGE_CELLS))
    assert len(cells.pages[0]) == 2 * MIN_PAGE_CELLS == PAGE
    cells.scatter(first, np.zeros(10, np.int64))
    assert gather(held, first, cells.dtype, PAGE_BITS).tolist() == list(range(10))
    assert cells.nbytes == PAGE * 8


def test_a_page_behind_a_full_one_starts_in_full_size() -> None:
    cells = Cells(np.int8, page_bits=PAGE_BITS)
    cells.reserve(ReadPlan.from_range(0, PAGE))
    assert [len(page) for page in cells.pages.values()] == [PAGE, PAGE]
    cells.reserve(ReadPlan.from_range(9 * PAGE, 9 * PAGE))
    assert len(cells.pages[9]) == MIN_PAGE_CELLS


def test_unwritten_cells_hold_the_fill() -> None:
    for fill in (False, True):
        cells = Cells(np.bool_, page_bits=PAGE_BITS, fill=fill)
        plan = ReadPlan.from_range(0, MIN_PAGE_CELLS - 1)
        cells.reserve(ReadPlan.from_range(3, 3))
        assert set(cells.gather(plan).tolist()) == {fill}
        cells.reserve(ReadPlan.from_range(0, PAGE - 1))
        assert set(cells.gather(ReadPlan.from_range(0, PAGE - 1)).tolist()) == {fill}


def test_pages_wholly_below_are_dropped_and_readers_keep_them() -> None:
    cells = Cells(np.int64, page_bits=PAGE_BITS)
    plan = ReadPlan.from_range(0, 3 * PAGE - 1)
    cells.reserve(plan)
    held = cells.pages
    cells.drop_before(2 * PAGE - 1)
    assert sorted(cells.pages) == [1, 2]
    assert cells.dropped_before == PAGE
    assert sorted(held) == [0, 1, 2]
    cells.drop_before(PAGE)
    assert sorted(cells.pages) == [1, 2]


def test_pages_that_were_left_are_not_written_any_more() -> None:
    cells = Cells(np.int64, page_bits=PAGE_BITS)
    plan = ReadPlan.from_range(0, 2 * PAGE - 1)
    cells.reserve(plan)
    held = cells.pages
    cells.leave_pages()
    part = ReadPlan.from_range(5, 6)
    cells.reserve(part)
    cells.scatter(part, np.array([1, 2]))
    assert not gather(held, plan, cells.dtype, PAGE_BITS).any()
    assert cells.gather(ReadPlan.from_range(4, 7)).tolist() == [0, 1, 2, 0]
    assert cells.pages[1] is held[1]
    changed = cells.pages[0]
    cells.reserve(part)
    assert cells.pages[0] is changed


def test_a_view_shares_memory_only_for_one_run_in_one_page() -> None:
    cells = Cells(np.int64, page_bits=PAGE_BITS)
    cells.reserve(ReadPlan.from_range(0, 2 * PAGE - 1))
    run = view(cells.pages, ReadPlan.from_range(3, 7), PAGE_BITS)
    assert run is not None
    assert np.shares_memory(run, cells.pages[0])
    assert view(cells.pages, ReadPlan.from_range(PAGE - 1, PAGE), PAGE_BITS) is None
    assert view(cells.pages, ReadPlan.from_keys(np.array([1, 3])), PAGE_BITS) is None


@pytest.mark.parametrize("last", [MIN_PAGE_CELLS, 2 * PAGE])
def test_keys_that_were_never_written_are_refused(last: int) -> None:
    cells = Cells(np.int64, page_bits=PAGE_BITS)
    cells.reserve(ReadPlan.from_range(0, 0))
    for plan in (ReadPlan.from_range(last, last), ReadPlan.from_keys(np.array([0, last]))):
        with pytest.raises(RowSetError, match="not rows of this version"):
            cells.gather(plan)
    with pytest.raises(RowSetError, match="not rows of this version"):
        view(cells.pages, ReadPlan.from_range(last, last), PAGE_BITS)
    for keys in ([last], [0, last]):
        with pytest.raises(RowSetError, match="not rows of the table"):
            gather_any(cells.pages, np.array(keys), cells.dtype, PAGE_BITS)


def test_cells_in_missing_pages_have_the_default() -> None:
    cells = Cells(np.bool_, page_bits=PAGE_BITS)
    cells.reserve(ReadPlan.from_range(PAGE, PAGE))
    keys = np.array([5 * PAGE, PAGE, 2 * PAGE, 0])
    assert gather_any(cells.pages, keys, cells.dtype, PAGE_BITS, default=True).tolist() == [True, False, True, True]
    assert gather_any(cells.pages, keys[:1], cells.dtype, PAGE_BITS, default=True).tolist() == [True]
    assert gather_any(cells.pages, keys[:0], cells.dtype, PAGE_BITS).tolist() == []


@given(st.lists(st.integers(0, 5 * PAGE // 32 - 1), max_size=40))
def test_runs_of_cells_are_read_in_any_order(runs: list[int]) -> None:
    cells = Cells(np.int64, page_bits=PAGE_BITS)
    plan = ReadPlan.from_range(0, 5 * PAGE - 1)
    cells.reserve(plan)
    cells.scatter(plan, np.arange(5 * PAGE))
    firsts = np.array(runs, np.int64) * 32
    got = gather_runs(cells.pages, firsts, cells.dtype, PAGE_BITS, 5)
    assert np.array_equal(got, firsts[:, None] + np.arange(32))


def test_what_was_written_last_is_kept_in_one_piece_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given for its rows, or for some next to each other, and for no others."""
    monkeypatch.setattr(cells_module, "_FEWEST_RECENT", 2)
    monkeypatch.setattr(cells_module, "_MOST_RECENT", 80)
    cells = Cells(np.int64, page_bits=PAGE_BITS)
    plan = ReadPlan.from_keys(np.array([3, 4, 9, 2 * PAGE], np.int64))
    values = np.arange(40, 44, dtype=np.int64)
    cells.reserve(plan)
    cells.scatter(plan, values)
    recent = cells.recent
    assert recent is not None

    def found(*keys: int) -> list[int] | None:
        there = recent.find(ReadPlan.from_keys(np.array(keys, np.int64)))
        return None if there is None else there.tolist()

    assert found(3, 4, 9, 2 * PAGE) == [40, 41, 42, 43]
    assert found(4, 9) == [41, 42]
    assert found(3, 4) == [40, 41]
    assert found(9, 2 * PAGE) == [42, 43]
    for others in ((3,), (3, 9), (4, 8), (2, 3), (3, 4, 9, PAGE, 2 * PAGE), (9, 2 * PAGE, 3 * PAGE), (3, 5, 9), ()):
        assert found(*others) is None
    some = recent.take(np.array([0, 2])).find(ReadPlan.from_keys(np.array([3, 9], np.int64)))
    assert some is not None
    assert some.tolist() == [40, 42]
    cells.scatter(ReadPlan.from_keys(np.array([4, 9], np.int64)), np.zeros(2, np.int64))
    assert found(3, 4, 9, 2 * PAGE) == [40, 41, 42, 43]
    for unworthy in (ReadPlan.from_keys(np.array([4], np.int64)), ReadPlan.from_range(3, 9)):
        cells.scatter(unworthy, np.zeros(unworthy.size, np.int64))
        assert cells.recent is None
    many = ReadPlan.from_keys(np.arange(0, 22, 2, dtype=np.int64))
    cells.reserve(many)
    cells.scatter(many, np.zeros(many.size, np.int64))
    assert cells.recent is None
