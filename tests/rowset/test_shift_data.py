"""Shift data against a model: rows with an identity, whose keys are a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import RowSetError
from barrage_server.rowset import RowSet, RowSetShiftData
from tests.rowset.forms import FORMS, MAX_KEY, as_listed, as_segments, in_some_form

Form = Callable[[Iterable[int]], RowSet]
SPAN = 48


@st.composite
def moves(draw: st.DrawFn, keys: list[int] | None = None) -> tuple[list[int], list[int]]:
    """Give sorted keys, and as many sorted keys that they move to: some stay, some move together."""
    if keys is None:
        keys = sorted(draw(st.sets(st.integers(0, SPAN - 1), max_size=16)))
    if draw(st.booleans()):
        size = len(keys)
        return keys, sorted(draw(st.sets(st.integers(0, SPAN - 1), min_size=size, max_size=size)))
    after = list(keys)
    for index in reversed(range(len(after))):  # up, from the highest on
        room = (after[index + 1] if index + 1 < len(after) else SPAN) - 1 - after[index]
        after[index] += draw(st.sampled_from([0, 0, min(room, 1), min(room, 3)]))
    return keys, after


def shifts_of(before: Iterable[int], after: Iterable[int]) -> list[tuple[int, int, int]]:
    """Give the fewest shifts that move rows so: one for each run of rows that move alike."""
    shifts: list[tuple[int, int, int]] = []
    last_delta = 0
    for old, new in zip(before, after, strict=True):
        delta = new - old
        if delta and delta == last_delta:
            shifts[-1] = (shifts[-1][0], old, delta)
        elif delta:
            shifts.append((old, old, delta))
        last_delta = delta
    return shifts


def shift_data(*shifts: tuple[int, int, int]) -> RowSetShiftData:
    return RowSetShiftData.from_arrays(*([shift[part] for shift in shifts] for part in range(3)))


@st.composite
def loosened(draw: st.DrawFn, shifts: list[tuple[int, int, int]], rows: list[int]) -> RowSetShiftData:
    """Give the shifts with ranges that reach into the gaps around their rows, and cut into pieces."""
    loose: list[tuple[int, int, int]] = []
    for start, end, delta in shifts:
        above = min((row for row in rows if row > end), default=SPAN + 8)
        floor = max((max(e, e + d) for _, e, d in loose), default=-1)
        first, last = start, end
        if draw(st.booleans()):
            last = max(end, draw(st.integers(end, above - 1)) - max(delta, 0))
        if draw(st.booleans()):
            below = max([row for row in rows if row < start], default=-1)
            lowest = max(below, floor, floor - delta, -delta - 1) + 1
            first = draw(st.integers(min(lowest, start), start))
        cut = draw(st.integers(first, last))
        loose += [(first, cut, delta), (cut + 1, last, delta)] if cut < last else [(first, last, delta)]
    try:
        return shift_data(*loose)
    except RowSetError:
        return shift_data(*shifts)


# -- one shift --------------------------------------------------------------------------------------------------------


@given(moves(), in_some_form, in_some_form)
def test_between_is_minimal_and_moves_each_row(move: tuple[list[int], list[int]], form: Form, other: Form) -> None:
    before, after = move
    shifts = RowSetShiftData.between(form(before), other(after))
    assert list(shifts) == shifts_of(before, after)
    assert shifts.apply(form(before)).keys().tolist() == after
    assert shifts.unapply(other(after)).keys().tolist() == before
    assert shifts.apply_keys(before[::-1]).tolist() == after[::-1]
    assert shifts.unapply_keys(after[::-1]).tolist() == before[::-1]
    assert shifts.clip(form(before)) == shifts
    assert shifts == shift_data(*shifts_of(before, after))


@given(moves(), in_some_form, st.data())
def test_ranges_that_reach_into_gaps_do_the_same(
    move: tuple[list[int], list[int]], form: Form, data: st.DataObject
) -> None:
    before, after = move
    loose = data.draw(loosened(shifts_of(before, after), before))
    assert loose.apply(form(before)).keys().tolist() == after
    assert loose.apply_keys(before).tolist() == after
    assert list(loose.clip(form(before))) == shifts_of(before, after)


@given(st.data(), in_some_form)
def test_apply_agrees_with_moving_rows_one_by_one(data: st.DataObject, form: Form) -> None:
    """Shifts that were made for some rows, applied to others: they collide, or change order, or all is well."""
    before, after = data.draw(moves())
    shifts = data.draw(loosened(shifts_of(before, after), before))
    rows = sorted(data.draw(st.sets(st.integers(0, SPAN - 1), max_size=16)))
    moved = [row + next((delta for start, end, delta in shifts if start <= row <= end), 0) for row in rows]
    if all(low < high for low, high in pairwise(moved)):
        assert shifts.apply(form(rows)).keys().tolist() == moved
        assert list(shifts.clip(form(rows))) == shifts_of(rows, moved)
    else:
        with pytest.raises(RowSetError, match="change their order"):
            shifts.apply(form(rows))
        with pytest.raises(RowSetError, match="change their order"):
            shifts.clip(form(rows))


@pytest.mark.parametrize("seed", range(40))
def test_many_shifts_of_segments_move_what_they_would_move_of_a_list(seed: int) -> None:
    """Hundreds of shifts, of rows in segments: some come to lie among rows that rest, or are put past them."""
    random = np.random.default_rng(seed)
    before = np.cumsum(random.integers(1, 40, 1_000))
    after = before.copy()
    some = np.flatnonzero(random.random(before.size) < 0.4)
    after[some] += random.integers(0, np.diff(np.append(before, before[-1] + 40))[some])
    shifts = RowSetShiftData.between(as_segments(before.tolist()), as_segments(after.tolist()))
    others = random.integers(0, before[-1], seed // 4)  # of the rows that the shifts were not made for
    rows = np.union1d(before[random.random(before.size) < 0.9], others)
    moved = shifts.apply_keys(rows)
    if (np.diff(moved) > 0).all():
        assert np.array_equal(shifts.apply(as_segments(rows.tolist())).keys(), moved)
    else:
        with pytest.raises(RowSetError, match="change their order"):
            shifts.apply(as_segments(rows.tolist()))


# -- one after the other ----------------------------------------------------------------------------------------------


@given(st.data(), in_some_form)
def test_then_is_both_in_one_step(data: st.DataObject, form: Form) -> None:
    before, middle = data.draw(moves())
    lives_through_first = [data.draw(st.booleans()) for _ in before]
    held = [key for key, lives in zip(middle, lives_through_first, strict=True) if lives]
    added = data.draw(st.sets(st.integers(0, SPAN - 1), max_size=6)) - set(held)
    _, after = data.draw(moves(sorted({*held, *added})))
    second_of = dict(zip(sorted({*held, *added}), after, strict=True))
    # What an update carries may reach into gaps; the first was made for all rows, the second for those of the middle.
    first = data.draw(loosened(shifts_of(before, middle), before))
    second = data.draw(loosened(shifts_of(sorted(second_of), after), sorted(second_of)))
    survivors, final = [], []
    for old, mid, lives in zip(before, middle, lives_through_first, strict=True):
        if lives and data.draw(st.booleans()):
            survivors.append(old)
            final.append(second_of[mid])
    composed = first.then(second, form(survivors))
    assert list(composed) == shifts_of(survivors, final)
    assert composed.apply(form(survivors)).keys().tolist() == final
    assert composed == RowSetShiftData.between(form(survivors), form(final))
    assert second.apply(first.apply(form(survivors))) == composed.apply(form(survivors))


def test_then_with_nothing() -> None:
    shifts, rows = shift_data((0, 4, 2), (10, 20, 5)), RowSet.flat(5) | RowSet.from_range(12, 14)
    clipped = shift_data((0, 4, 2), (12, 14, 5))
    assert shifts.then(RowSetShiftData.EMPTY, rows) == clipped
    assert RowSetShiftData.EMPTY.then(shifts, rows) == clipped
    assert shifts.then(shifts, RowSet.EMPTY) == RowSetShiftData.EMPTY
    assert RowSetShiftData.EMPTY.then(RowSetShiftData.EMPTY, rows) == RowSetShiftData.EMPTY


def test_there_and_back_is_nothing() -> None:
    there, back = shift_data((5, 9, 10)), shift_data((15, 19, -10))
    assert there.then(back, RowSet.from_range(0, 9)) == RowSetShiftData.EMPTY


def test_rows_cannot_rest_where_others_arrive() -> None:
    # 12 rests within the destination of 5-9, which no row of a table can do.
    for rows in (as_listed([5, 9, 12]), as_segments([5, 9, 12])):
        with pytest.raises(RowSetError, match="change their order"):
            shift_data((5, 9, 5)).then(shift_data((20, 20, 1)), rows)
        with pytest.raises(RowSetError, match="change their order"):
            shift_data((5, 9, 5)).apply(rows)


@pytest.mark.parametrize("form", FORMS)
def test_many_rows_and_many_shifts(form: Form) -> None:
    random = np.random.default_rng(11)
    before = np.cumsum(random.integers(1, 4, 20_000))
    middle = before + np.cumsum(random.integers(0, 2, before.size))
    after = middle + np.cumsum(random.integers(0, 2, before.size) * (random.random(before.size) < 0.01))
    first = RowSetShiftData.between(form(before.tolist()), form(middle.tolist()))
    second = RowSetShiftData.between(form(middle.tolist()), form(after.tolist()))
    assert first.size > 1000
    assert np.array_equal(first.apply(form(before.tolist())).keys(), middle)
    assert np.array_equal(second.unapply(form(after.tolist())).keys(), middle)
    survivors = before[random.random(before.size) < 0.8]
    final = after[np.searchsorted(before, survivors)]
    composed = first.then(second, form(survivors.tolist()))
    assert composed == RowSetShiftData.between(form(survivors.tolist()), form(final.tolist()))
    assert list(composed) == shifts_of(survivors.tolist(), final.tolist())


# -- rules and edges --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shifts", "text"),
    [
        ([(0, 4, 0)], "shift by 0"),
        ([(4, 3, 1)], "sources"),
        ([(-1, 3, 1)], "sources"),
        ([(0, 4, 1), (4, 6, 2)], "sources"),
        ([(8, 9, 1), (0, 4, 1)], "sources"),
        ([(0, 4, 5), (6, 8, 2)], "destinations"),
        ([(0, 4, 20), (6, 8, 2)], "destinations"),
        ([(2, 4, -3)], "space of row keys"),
        ([(2, MAX_KEY, 1)], "space of row keys"),
    ],
)
def test_shifts_that_break_the_rules_are_refused(shifts: list[tuple[int, int, int]], text: str) -> None:
    with pytest.raises(RowSetError, match=text):
        shift_data(*shifts)


def test_arrays_of_different_length_are_refused() -> None:
    with pytest.raises(RowSetError, match="2 starts, 1 ends and 1 deltas"):
        RowSetShiftData.from_arrays([1, 5], [1], [3])
    with pytest.raises(RowSetError, match="3 rows cannot be shifted onto 2 keys"):
        RowSetShiftData.between(RowSet.flat(3), RowSet.flat(2))


def test_the_ends_of_the_key_space() -> None:
    shifts = shift_data((0, 3, 1), (MAX_KEY - 3, MAX_KEY, -2))
    rows = RowSet.from_keys([0, 3, MAX_KEY - 3, MAX_KEY])
    for form in (as_listed, as_segments):
        assert shifts.apply(form(rows)).keys().tolist() == [1, 4, MAX_KEY - 5, MAX_KEY - 2]
        assert shifts.unapply(shifts.apply(form(rows))) == rows
        assert shifts.clip(form(rows)) == shifts
    whole = shift_data((0, MAX_KEY - 1, 1))
    assert whole.apply(RowSet.from_range(0, MAX_KEY - 1)) == RowSet.from_range(1, MAX_KEY)
    assert whole.then(shift_data((1, MAX_KEY, -1)), RowSet.from_range(0, MAX_KEY - 1)) == RowSetShiftData.EMPTY


def test_empty_shift_data() -> None:
    for shifts in (RowSetShiftData.EMPTY, RowSetShiftData.empty(), RowSetShiftData(), shift_data()):
        assert shifts == RowSetShiftData.EMPTY
        assert shifts.is_empty
        assert not shifts
        assert len(shifts) == shifts.size == 0
        assert list(shifts) == []
        assert repr(shifts) == "[]"
        assert shifts.apply(RowSet.flat(3)) == shifts.unapply(RowSet.flat(3)) == RowSet.flat(3)
        assert shifts.apply_keys([3, 1]).tolist() == [3, 1]
        assert shifts.clip(RowSet.flat(3)) == RowSetShiftData.EMPTY
        assert shifts.sources() == shifts.destinations() == RowSet.EMPTY


def test_sources_destinations_equality_and_text() -> None:
    shifts = shift_data((0, 4, 2), (5, 9, 3), (20, 29, -4))
    assert shifts.sources() == RowSet.flat(10) | RowSet.from_range(20, 29)
    assert shifts.destinations() == RowSet.from_range(2, 6) | RowSet.from_range(8, 12) | RowSet.from_range(16, 25)
    assert repr(shifts) == "[0-4+2,5-9+3,20-29-4]"
    assert hash(shifts) == hash(shift_data(*shifts))
    assert shifts != shift_data((0, 4, 2))
    assert shifts != [(0, 4, 2)]
    assert bool(shifts)
    long = shift_data(*((key, key, 1) for key in range(0, 100, 10)))
    assert repr(long) == "[0-0+1,10-10+1,20-20+1,30-30+1,40-40+1,50-50+1,..; 10 shifts]"


def test_shift_data_is_immutable() -> None:
    starts = np.array([3])
    shifts = RowSetShiftData.from_arrays(starts, [4], [2])
    starts[0] = 1
    assert list(shifts) == [(3, 4, 2)]
    for array in (shifts.starts, shifts.ends, shifts.deltas):
        assert not array.flags.writeable
    with pytest.raises(AttributeError):
        shifts.starts = starts  # type: ignore[misc]
