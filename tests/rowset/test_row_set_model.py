"""Every operation of row sets against Python's own sets, in every representation and mixture of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.errors import RowSetError
from barrage_server.rowset import RowSet
from tests.rowset.forms import FORMS, MAX_KEY, as_segments, base_of, forms, in_some_form, key_sets, of_ranges

Form = Callable[[Iterable[int]], RowSet]


def check(rows: RowSet, keys: set[int]) -> None:
    """Check that the set holds those keys, and that everything it tells of itself agrees."""
    wanted = sorted(keys)
    assert rows.keys().tolist() == wanted
    assert rows.keys().dtype == np.int64
    assert rows.size == len(rows) == len(wanted)
    assert bool(rows) is bool(wanted)
    assert rows.is_empty is (not wanted)
    assert rows.is_contiguous is (not wanted or wanted[-1] - wanted[0] + 1 == len(wanted))
    assert rows.is_flat is (wanted == list(range(len(wanted))))
    if wanted:
        assert (rows.first_key, rows.last_key) == (wanted[0], wanted[-1])
    starts, ends = rows.ranges()
    assert rows.range_count == starts.size == ends.size
    assert [key for s, e in zip(starts.tolist(), ends.tolist(), strict=True) for key in range(s, e + 1)] == wanted
    assert (starts[1:] - 1 > ends[:-1]).all()
    for other in forms(keys):
        assert rows == other
        assert hash(rows) == hash(other)


@given(key_sets(), st.randoms())
def test_keys_in_any_order_and_repeated_make_one_set(keys: set[int], random: Random) -> None:
    shuffled = [*keys, *list(keys)[:3]]
    random.shuffle(shuffled)
    check(RowSet.from_keys(shuffled), keys)
    check(RowSet.from_keys(np.array(shuffled, np.int64)), keys)
    check(RowSet.from_keys(key for key in shuffled), keys)
    check(RowSet.from_sorted_keys(np.array(sorted(keys), np.int64)), keys)


@given(key_sets())
def test_every_form_holds_the_same(keys: set[int]) -> None:
    for rows in forms(keys):
        check(rows, keys)
        check(RowSet.from_ranges(*rows.ranges()), keys)
        assert list(rows) == sorted(keys)


@given(key_sets(), key_sets(), in_some_form, in_some_form)
def test_set_operations_are_those_of_sets(left: set[int], right: set[int], form: Form, other_form: Form) -> None:
    a, b = form(left), other_form(right)
    check(a | b, left | right)
    check(a & b, left & right)
    check(a - b, left - right)
    check(a ^ b, left ^ right)
    assert a.is_disjoint(b) is left.isdisjoint(right)
    assert a.is_superset(b) is left.issuperset(right)
    assert a.is_superset(a & b)
    assert (a == b) is (left == right)
    check(a, left)
    check(b, right)


@given(st.lists(st.tuples(key_sets(), in_some_form), max_size=5))
def test_union_of_many_is_the_union_of_all(parts: list[tuple[set[int], Form]]) -> None:
    check(RowSet.union_all(form(keys) for keys, form in parts), set().union(*(keys for keys, _ in parts)))


@given(key_sets(), in_some_form, st.sampled_from([0, 1, 3, 16, 40]))
def test_blocks_are_those_that_have_a_key(keys: set[int], form: Form, bits: int) -> None:
    check(form(keys).blocks(bits), {key >> bits for key in keys})


@given(key_sets(), in_some_form, st.data())
def test_restrict_keeps_what_lies_within(keys: set[int], form: Form, data: st.DataObject) -> None:
    edge = st.sampled_from([*sorted(keys), 0, MAX_KEY, 30, 65_536])
    first, last = data.draw(edge), data.draw(edge)
    check(form(keys).restrict(first, last), {key for key in keys if first <= key <= last})


@given(key_sets(), in_some_form, st.integers(-3, 130), st.integers(-3, 130))
def test_slice_is_by_position_and_clipped(keys: set[int], form: Form, start: int, stop: int) -> None:
    check(form(keys).slice(start, stop), set(sorted(keys)[max(start, 0) : max(stop, 0)]))


@given(key_sets(), in_some_form, st.data())
def test_select_gives_the_key_at_each_position(keys: set[int], form: Form, data: st.DataObject) -> None:
    rows, wanted = form(keys), sorted(keys)
    positions = data.draw(st.lists(st.integers(0, len(keys) - 1), max_size=60)) if keys else []
    selected = rows.select(np.array(positions, np.int64))
    assert selected.dtype == np.int64
    assert selected.tolist() == [wanted[position] for position in positions]
    assert [rows[position] for position in positions] == selected.tolist()


@given(key_sets(), key_sets(), in_some_form)
def test_rank_find_and_contains_agree_with_a_sorted_list(keys: set[int], others: set[int], form: Form) -> None:
    rows, wanted = form(keys), sorted(keys)
    asked = [*others, *keys, 0, MAX_KEY, -1][::-1]
    array = np.array(asked, np.int64)
    assert rows.rank(array).tolist() == [bisect_left(wanted, key) for key in asked]
    assert rows.find(array).tolist() == [wanted.index(key) if key in keys else -1 for key in asked]
    assert rows.contains(array).tolist() == [key in keys for key in asked]
    assert [key in rows for key in asked] == [key in keys for key in asked]
    for key in asked[:3]:
        assert rows.rank([key]).tolist() == [bisect_left(wanted, key)]
        assert (int(rows.find([key])[0]) >= 0) is (key in keys)


@given(key_sets(), key_sets(span=130, bases=(0,)), in_some_form, in_some_form)
def test_subset_and_invert_are_opposite(keys: set[int], at: set[int], form: Form, other_form: Form) -> None:
    rows, wanted = form(keys), sorted(keys)
    chosen = {wanted[position] for position in at if position < len(wanted)}
    subset = rows.subset(other_form(at))
    check(subset, chosen)
    check(rows.invert(other_form(chosen)), {position for position in at if position < len(wanted)})


@given(key_sets(), key_sets(), in_some_form, in_some_form)
def test_invert_refuses_keys_that_are_not_there(keys: set[int], others: set[int], form: Form, other_form: Form) -> None:
    if others <= keys:
        check(form(keys).invert(other_form(others)), {sorted(keys).index(key) for key in others})
    else:
        with pytest.raises(RowSetError, match=str(min(others - keys))):
            form(keys).invert(other_form(others))


@given(key_sets(), in_some_form, st.integers(-(1 << 41), 1 << 41))
def test_shift_moves_every_key(keys: set[int], form: Form, delta: int) -> None:
    moved = {key + delta for key in keys}
    if keys and (min(moved) < 0 or max(moved) > MAX_KEY):
        with pytest.raises(RowSetError, match="0 to 2"):
            form(keys).shift(delta)
    else:
        check(form(keys).shift(delta), moved)


LENGTHS = st.integers(0, 70_000) | st.sampled_from([(1 << 18) - 1, 1 << 18, 600_000])


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 1 << 17), LENGTHS), min_size=1, max_size=3), st.booleans(), st.data())
def test_ranges_that_fill_segments_mix_with_scattered_keys(
    pieces: list[tuple[int, int]], is_segmented: bool, data: st.DataObject
) -> None:
    place, starts, ends = 0, [], []
    for gap, length in pieces:
        starts.append(place + gap)
        ends.append(place + gap + length)
        place += gap + length + 2
    ranges = np.array(starts), np.array(ends)
    long = of_ranges(*ranges, is_segmented=is_segmented)
    every = np.arange(0, place, 3, dtype=np.int64)
    scattered = as_segments(every)
    inside = np.zeros(place + 1, np.bool_)
    for start, end in zip(starts, ends, strict=True):
        inside[start : end + 1] = True
    thirds = np.zeros(place + 1, np.bool_)
    thirds[every] = True
    for result, mask in (
        (long | scattered, inside | thirds),
        (scattered | long, inside | thirds),
        (long & scattered, inside & thirds),
        (long - scattered, inside & ~thirds),
        (scattered - long, thirds & ~inside),
    ):
        assert np.array_equal(result.keys(), np.flatnonzero(mask))
        assert result == RowSet.from_sorted_keys(np.flatnonzero(mask))
    assert long.is_disjoint(scattered) is not bool((inside & thirds).any())
    assert long.is_superset(long & scattered)
    assert long.is_superset(scattered) is not bool((thirds & ~inside).any())
    assert [part.tolist() for part in long.ranges()] == [starts, ends]
    delta = data.draw(st.sampled_from([1, 65_536, 1 << 18, (1 << 18) + 7, 300_000]))
    for rows in (long, scattered):
        moved = rows.shift(delta)
        assert np.array_equal(moved.keys(), rows.keys() + delta)
        assert moved.shift(-delta) == rows
        positions = data.draw(st.integers(0, rows.size - 1)), data.draw(st.integers(0, rows.size - 1))
        view = RowSet.from_range(min(positions), max(positions))
        assert np.array_equal(rows.subset(view).keys(), rows.keys()[min(positions) : max(positions) + 1])
        assert rows.invert(rows.subset(view)) == view


@pytest.mark.parametrize("step", [3, 60])
def test_few_and_many_look_ups_in_segments_agree(step: int) -> None:
    """Keys are looked up one by one, or in the list of their segment: by how many there are, and how dense it is."""
    keys = np.concatenate([np.arange(0, 1 << 20, step), np.arange(1 << 40, (1 << 40) + 5000, 7)])
    rows = as_segments(keys)
    random = np.random.default_rng(step)
    for count in (1, 3, 5, 40, 400, 4000):
        for first, last in ((0, 1 << 20), (1000, 3000), (0, 1 << 41), (MAX_KEY - 5, MAX_KEY), (-9, 9)):
            asked = random.integers(first, last, count)
            index = np.searchsorted(keys, asked)
            there = keys[np.minimum(index, keys.size - 1)] == asked
            assert np.array_equal(rows.rank(asked), index)
            assert np.array_equal(rows.find(asked), np.where(there, index, -1))
            assert np.array_equal(rows.contains(asked), there)
            positions = random.integers(0, keys.size, count)
            assert np.array_equal(rows.select(positions), keys[positions])


@pytest.mark.parametrize("form", FORMS)
def test_many_scattered_look_ups(form: Form) -> None:
    random = np.random.default_rng(7)
    keys = np.unique(random.integers(0, 1 << 22, 50_000))
    rows = form(keys.tolist())
    asked = random.integers(-5, 1 << 22, 30_000)
    index = np.searchsorted(keys, asked)
    there = keys[np.minimum(index, keys.size - 1)] == asked
    assert np.array_equal(rows.rank(asked), index)
    assert np.array_equal(rows.find(asked), np.where(there, index, -1))
    assert np.array_equal(rows.contains(asked), there)
    positions = random.integers(0, keys.size, 30_000)
    assert np.array_equal(rows.select(positions), keys[positions])
    scattered = RowSet.from_keys(positions)
    assert np.array_equal(rows.subset(scattered).keys(), keys[np.unique(positions)])
    assert rows.invert(rows.subset(scattered)) == scattered


@given(key_sets(), st.data(), in_some_form, in_some_form, in_some_form)
def test_exchanged_keys_leave_and_others_come(
    keys: set[int], data: st.DataObject, form: Form, removed_form: Form, added_form: Form
) -> None:
    removed = data.draw(st.sets(st.sampled_from(sorted(keys)))) if keys else set()
    added = data.draw(key_sets()) - (keys - removed)
    check(form(keys).exchanged(removed_form(removed), added_form(added)), (keys - removed) | added)


@given(st.integers(0, 1 << 32), st.integers(1, 1500))
@settings(max_examples=20, deadline=None)
def test_changes_beside_a_large_set_are_those_of_all_keys(seed: int, most: int) -> None:
    """Until they enter the segments, after they have, at both ends, and when keys come back or go again."""
    random = np.random.default_rng(seed)
    space, keys = 900_000, np.flatnonzero(np.random.default_rng(seed).random(900_000) < 0.3)
    rows = RowSet.from_sorted_keys(keys)
    is_there = np.zeros(space, np.bool_)
    is_there[keys] = True
    recent = np.arange(450_000, 450_005)
    stayed_beside = 0
    for _ in range(12):
        wanted = np.unique(np.concatenate((random.integers(0, space, random.integers(0, most)), recent)))
        recent = random.choice(wanted, min(len(wanted), 20))
        if random.random() < 0.1:
            recent = np.append(recent, [0, space - 1])
        removed, added = wanted[is_there[wanted]], wanted[~is_there[wanted]]
        if random.random() < 0.5:
            rows = rows.exchanged(RowSet.from_keys(removed), RowSet.from_keys(added))
        else:
            rows = rows.toggled(wanted, ~is_there[wanted])
        is_there[removed], is_there[added] = False, True
        keys = np.flatnonzero(is_there)
        stayed_beside += base_of(rows) is not None
        some = random.integers(0, space, 200)
        assert rows.contains(some).tolist() == is_there[some].tolist()
        assert rows.rank(some).tolist() == np.searchsorted(keys, some).tolist()
        assert (rows.size, rows.first_key, rows.last_key) == (keys.size, keys[0], keys[-1])
        assert (rows & RowSet.from_keys(some)).keys().tolist() == np.unique(some[is_there[some]]).tolist()
        if random.random() < 0.2:
            assert np.array_equal(rows.keys(), keys)
    assert stayed_beside
    assert rows == RowSet.from_sorted_keys(keys)
