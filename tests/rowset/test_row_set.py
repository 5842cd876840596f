"""What row sets refuse, what they promise, and which representation they choose."""

from __future__ import annotations

import operator

import numpy as np
import numpy.typing as npt
import pytest

from barrage_server.errors import RowSetError
from barrage_server.rowset import RowSet, RowSetShiftData, _part, _storage, decode_row_set, encode_row_set
from barrage_server.rowset._ranges import Keys
from barrage_server.rowset._segments import Segments
from tests.rowset.forms import (
    FORMS,
    MAX_KEY,
    as_listed,
    as_segments,
    base_of,
    forms,
    is_listed,
    is_segmented,
    segments_of,
)

# -- making -----------------------------------------------------------------------------------------------------------


def test_empty_set() -> None:
    for rows in (RowSet(), RowSet.EMPTY, RowSet.empty(), RowSet.flat(0), RowSet.from_range(5, 4), RowSet.from_keys([])):
        assert rows == RowSet.EMPTY
        assert rows.size == 0
        assert not rows
        assert rows.is_flat
        assert rows.is_contiguous
        assert rows.range_count == 0
        assert rows.keys().size == 0
        assert repr(rows) == "{}"
        with pytest.raises(RowSetError, match="no first key"):
            _ = rows.first_key
        with pytest.raises(RowSetError, match="no last key"):
            _ = rows.last_key
    assert RowSet.from_ranges([], []) == RowSet.EMPTY
    assert RowSet.union_all([]) == RowSet.EMPTY
    assert RowSet.EMPTY.subset(RowSet.flat(9)) == RowSet.EMPTY
    assert RowSet.flat(9).subset(RowSet.EMPTY) == RowSet.EMPTY


def test_single_key() -> None:
    rows = RowSet.from_keys([7])
    assert (rows.size, rows.first_key, rows.last_key, rows.range_count) == (1, 7, 7, 1)
    assert rows == RowSet.from_range(7, 7) == RowSet.from_ranges([7], [7])
    assert 7 in rows
    assert 6 not in rows
    assert "7" not in rows


def test_the_whole_key_space() -> None:
    rows = RowSet.from_range(0, MAX_KEY)
    assert rows.size == 1 << 63
    assert rows.is_flat
    assert rows == RowSet.flat(1 << 63)
    assert rows & as_segments([1, 5, MAX_KEY]) == as_listed([1, 5, MAX_KEY])
    assert rows - RowSet.from_range(1, MAX_KEY - 1) == as_listed([0, MAX_KEY])
    assert (rows | as_segments([3, 9])) == rows
    assert rows.is_superset(as_segments([0, MAX_KEY]))
    assert rows.rank([0, MAX_KEY]).tolist() == [0, MAX_KEY]
    assert rows.select([MAX_KEY]).tolist() == [MAX_KEY]
    with pytest.raises(RowSetError, match="cannot be listed"):
        rows.keys()


def test_wide_ranges_beside_segments_stay_ranges() -> None:
    scattered = as_segments(range(0, 3_000_000, 3))
    wide = RowSet.from_range(1 << 40, MAX_KEY)
    both = scattered | wide
    assert both.size == scattered.size + wide.size
    assert both - wide == scattered
    assert both & scattered == scattered
    assert scattered - RowSet.from_range(3, 1 << 50) == RowSet.from_range(0, 0)
    assert scattered.is_disjoint(wide)
    assert not both.is_disjoint(scattered)
    assert both.is_superset(scattered)
    assert scattered & (RowSet.from_range(0, 10) | wide) == RowSet.from_keys([0, 3, 6, 9])


def test_a_set_in_two_far_clusters_is_cut_without_filling_the_gap() -> None:
    near, far = np.arange(0, 60_000, 3), (1 << 45) + np.arange(0, 60_000, 3)
    rows = as_segments([*near.tolist(), *far.tolist()])
    assert rows.restrict(30, 1 << 50) == as_segments([*near[10:].tolist(), *far.tolist()])
    assert rows - RowSet.from_range(30, (1 << 45) + 29) == as_segments([*near[:10].tolist(), *far[10:].tolist()])
    assert np.array_equal(rows.subset(RowSet.from_range(10, 39_989)).keys(), [*near[10:], *far[:-10]])
    assert rows.subset(RowSet.from_keys([0, 2, 39_999])) == RowSet.from_keys([0, 6, int(far[-1])])


@pytest.mark.parametrize(
    ("starts", "ends", "text"),
    [
        ([0, 5], [4], "2 starts"),
        ([-1], [3], "negative"),
        ([4], [3], "ends before it starts"),
        ([0, 4], [4, 6], "sorted and disjoint"),
        ([8, 0], [9, 1], "sorted and disjoint"),
        ([0.5], [1.5], "integers"),
        ([[0]], [[1]], "one-dimensional"),
        (np.array([1 << 63], np.uint64), np.array([1 << 63], np.uint64), "integers"),
    ],
)
def test_bad_ranges_are_refused(starts: object, ends: object, text: str) -> None:
    with pytest.raises(RowSetError, match=text):
        RowSet.from_ranges(starts, ends)  # type: ignore[arg-type]


def test_ranges_that_touch_are_merged() -> None:
    assert RowSet.from_ranges([0, 5, 9], [4, 7, 9]) == RowSet.from_ranges([0, 9], [7, 9])
    assert RowSet.from_ranges([0, 5], [4, MAX_KEY]) == RowSet.from_range(0, MAX_KEY)


def test_bad_keys_are_refused() -> None:
    for keys in ([-1], [3, -1, 2]):
        with pytest.raises(RowSetError, match="negative"):
            RowSet.from_keys(keys)
    for first, last in ((-1, 2), (0, MAX_KEY + 1)):
        with pytest.raises(RowSetError, match="row keys lie within"):
            RowSet.from_range(first, last)
    with pytest.raises(RowSetError, match="cannot have -1 keys"):
        RowSet.flat(-1)
    with pytest.raises(RowSetError, match="integers"):
        RowSet.from_keys(np.array([1.0, 2.0]))
    assert RowSet.from_keys(np.array([3, 1], np.uint8)) == RowSet.from_keys([1, 3])


@pytest.mark.parametrize("position", [-1, 3])
def test_positions_outside_are_refused(position: int) -> None:
    for rows in (*forms([4, 6, 9]), RowSet.flat(3)):
        with pytest.raises(RowSetError, match=f"position {position}"):
            rows.select([0, position])
        with pytest.raises(RowSetError, match=f"position {position}"):
            _ = rows[position]


# -- immutability -----------------------------------------------------------------------------------------------------


def test_arrays_that_are_handed_out_cannot_be_written_to() -> None:
    for rows in (*forms([1, 2, 9]), RowSet.flat(5), RowSet.EMPTY, as_segments(range(0, 400_000, 2))):
        for array in (rows.keys(), *rows.ranges()):
            assert not array.flags.writeable


def test_arrays_that_are_handed_in_stay_the_callers() -> None:
    starts, ends, keys = np.array([0, 8]), np.array([3, 9]), np.array([1, 5, 9])
    ranges, listed = RowSet.from_ranges(starts, ends), RowSet.from_sorted_keys(keys)
    unsorted = RowSet.from_keys(keys[::-1])
    starts[0] = ends[0] = keys[0] = 2
    assert ranges == RowSet.from_keys([0, 1, 2, 3, 8, 9])
    assert listed == unsorted == RowSet.from_keys([1, 5, 9])
    assert starts.flags.writeable
    assert keys.flags.writeable


def test_nothing_can_be_set_from_outside() -> None:
    rows = RowSet.flat(3)
    for name in ("size", "first_key", "last_key", "note"):
        with pytest.raises(AttributeError):
            setattr(rows, name, 1)


def test_operations_leave_their_operands_alone() -> None:
    left, right = as_segments(range(0, 30_000, 3)), as_segments(range(0, 30_000, 2))
    before = left.keys().copy(), right.keys().copy()
    _ = (
        left | right,
        left & right,
        left - right,
        left ^ right,
        left ^ RowSet.flat(2),
        left.shift(9),
        left.restrict(5, 900),
        left.subset(RowSet.flat(7)),
    )
    assert np.array_equal(left.keys(), before[0])
    assert np.array_equal(right.keys(), before[1])


# -- equality, hash, text ---------------------------------------------------------------------------------------------


def test_sets_are_keys_of_dictionaries_whatever_their_form() -> None:
    table = {rows: index for index, rows in enumerate(forms([1, 2, 70_000]))}
    assert list(table.values()) == [len(FORMS) - 1]
    assert RowSet.flat(3) != {0, 1, 2}
    assert RowSet.from_keys([0, 2, 5]) != RowSet.from_keys([0, 3, 5])


def test_operators_refuse_other_types() -> None:
    for operation in (operator.or_, operator.and_, operator.sub, operator.xor):
        with pytest.raises(TypeError):
            operation(RowSet.flat(3), {1})


def test_text_is_short() -> None:
    assert repr(RowSet.from_keys([0, 1, 2, 3, 4, 7])) == "{0-4,7}"
    assert repr(as_segments([0, 1, 2, 3, 4, 7])) == "{0-4,7}"
    assert repr(as_listed(range(0, 40, 2))) == "{0,2,4,6,8,10,12,14,..38; 20 keys}"
    for form in (as_listed, as_segments):
        assert len(repr(form(range(0, 10_000, 2)))) < 60


# -- the choice of a representation, and what it spares ---------------------------------------------------------------


def test_content_chooses_the_representation() -> None:
    few = RowSet.from_keys(range(0, 2 * _storage.RANGES_ALWAYS, 2))
    many = RowSet.from_keys(range(0, 4 * _storage.RANGES_ALWAYS, 2))
    sparse = RowSet.from_keys([index << 12 for index in range(2 * _storage.RANGES_ALWAYS)])
    assert is_listed(few)
    assert is_segmented(many)
    assert is_listed(sparse)
    assert is_segmented(RowSet.from_ranges(*many.ranges()))
    assert is_listed(RowSet.from_ranges(*sparse.ranges()))
    assert is_listed(many & few)
    assert is_segmented(many - RowSet.flat(10))
    assert not is_segmented(many | RowSet.from_keys(range(1, 4 * _storage.RANGES_ALWAYS, 2)))


@pytest.fixture
def big(monkeypatch: pytest.MonkeyPatch) -> RowSet:
    """A set of 2 M scattered keys in 16 segments; listing the keys of more than six in one test fails it."""
    rows = RowSet.from_keys(range(0, 4_000_000, 2))
    assert is_segmented(rows)
    listed, total = _part.list_keys, 0

    def count(part: _part.Part) -> npt.NDArray[np.uint32]:
        nonlocal total
        total += len(part)
        assert total <= 6 << 17
        return listed(part)

    monkeypatch.setattr(_part, "list_keys", count)
    return rows


def test_a_viewport_never_lists_the_table(big: RowSet) -> None:
    view = RowSet.from_range(100_000, 100_099) | RowSet.from_range(150_000, 150_004)
    keys = big.subset(view)
    assert keys.size == 105
    assert big.invert(keys) == view
    assert big.find(np.arange(0, 4_000_000, 40_000)).tolist() == list(range(0, 2_000_000, 20_000))
    assert big.subset(RowSet.from_range(50_000, 150_000)).size == 100_001
    assert big.find(keys.keys()[:100]).tolist() == view.keys()[:100].tolist()
    assert big.slice(1_999_998, 5_000_000).keys().tolist() == [3_999_996, 3_999_998]
    assert repr(big).startswith("{0,2,4,")


def test_a_small_update_never_lists_the_table(big: RowSet) -> None:
    removed, added = RowSet.from_keys([8, 200, 9_000]), RowSet.from_range(4_000_001, 4_000_100)
    after = (big - removed) | added
    assert after.size == big.size + 97
    assert after != big
    assert big.is_superset(removed)
    assert big.is_disjoint(added)
    assert (big & removed) == removed
    assert big.shift(4).first_key == 4


def test_a_small_change_shares_the_segments_that_it_does_not_touch(big: RowSet) -> None:
    before = segments_of(big)
    assert before is not None
    for change in (
        big | RowSet.from_keys([1, 3_000_001]),
        big - RowSet.from_keys([2, 3_000_002]),
        big ^ RowSet.from_keys([1, 2, 3_000_002]),
        big.restrict(3, 3_999_000),
        big.slice(3, 1_999_000),
        big.shift(5 << 18),
        big.subset(RowSet.from_ranges([5, 1_500_000], [1_400_000, 1_999_000])),
        big | RowSet.from_range(4_000_001, 5_000_000),
        big - RowSet.from_range(3_900_000, 1 << 62),
    ):
        after = segments_of(change)
        assert after is not None
        mine = {id(part) for part in before.parts}
        assert sum(id(part) in mine for part in after.parts) >= before.parts.size - 4


def test_few_exchanged_keys_stay_beside_the_segments(big: RowSet) -> None:
    """No segment is copied until an operation needs all keys, or there are 4,096 of them."""
    before = segments_of(big)
    rows = big
    for start in range(8, 2_000, 200):
        removed = RowSet.from_keys(np.arange(start, start + 100, 2))
        rows = rows.exchanged(removed, RowSet.from_keys(removed.keys() + 1))
        base = base_of(rows)
        assert base is not None
        assert base.segments() is before
        assert rows.size == big.size
    assert rows.slice(0, 10).keys().tolist() == [0, 2, 4, 6, 9, 11, 13, 15, 17, 19]
    assert base_of(rows) is None
    for start in range(10_000, 20_000, 2_000):
        assert (base_of(rows) is None) == (start == 10_000)
        rows = rows.exchanged(RowSet.from_keys(np.arange(start, start + 2_000, 2)), RowSet.EMPTY)
    assert base_of(rows) is None


def test_exchanged_keys_that_come_back_leave_the_set_as_it_was(big: RowSet) -> None:
    some, others = RowSet.from_keys([8, 3_000_000]), RowSet.from_keys([9, 3_000_001])
    rows = big.exchanged(some, others).exchanged(others, some)
    assert segments_of(rows) is segments_of(big)


def test_a_shift_of_a_large_table_never_lists_it(big: RowSet) -> None:
    shift = RowSetShiftData.from_arrays([3_800_000], [3_999_998], [7])
    after = shift.apply(big)
    assert after.last_key == 4_000_005
    assert shift.unapply(after) == big
    back = RowSetShiftData.from_arrays([3_800_007], [4_000_005], [-7])
    assert shift.then(back, big) == RowSetShiftData.EMPTY
    assert shift.clip(big) == shift


def test_scattered_keys_are_kept_as_they_are_until_an_operation_needs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is only listed, cut and written is never made into segments."""

    def refuse(_: Keys) -> Segments:
        raise AssertionError("segments were made")

    made = Segments.from_keys
    monkeypatch.setattr(Segments, "from_keys", refuse)
    keys = np.arange(0, 400_000, 4, dtype=np.int64)
    rows = RowSet.from_keys(keys)
    same = RowSet.from_sorted_keys(rows.keys())
    assert decode_row_set(encode_row_set(rows)) == rows == same
    assert rows.range_count == rows.size == rows.ranges()[0].size
    assert rows.restrict(10, 39).keys().tolist() == list(range(12, 40, 4))
    assert rows.slice(99_990, 1 << 40).keys().tolist() == keys[99_990:].tolist()
    assert rows.shift(3).first_key == 3
    assert rows[7] == 28
    assert 28 in rows
    assert 29 not in rows
    assert rows.find([4, 5, 8]).tolist() == [1, -1, 2]
    assert rows.contains([4, 5, 399_999]).tolist() == [True, False, False]
    assert rows.subset(RowSet.from_keys([1, 3])).keys().tolist() == [4, 12]
    assert rows.invert(RowSet.from_keys([4, 12])) == RowSet.from_keys([1, 3])
    monkeypatch.setattr(Segments, "from_keys", made)
    assert (rows | same.shift(1)).size == 2 * rows.size
    assert is_segmented(rows)
