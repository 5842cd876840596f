"""The hash table of the key index, against a dict: it changes its size a little at a time, in both directions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import KeyedTable, UpdateGraph
from barrage_server.engine.memory import GrowingArray
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.slots import SLOTS, HashArray, Slots

Hashes = Callable[[Int64Array], HashArray]


def spread(rows: Int64Array) -> HashArray:
    """As a good hash is."""
    mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)


def few(rows: Int64Array) -> HashArray:
    """Seven hashes, for tables that are nothing but collisions; some at the very end."""
    return np.array([0, 1, 1 << 31, (1 << 64) - 1, (1 << 64) - 2, 1 << 63, 3 << 62], np.uint64)[rows % 7]


def last(rows: Int64Array) -> HashArray:
    """All homes are the last one, so that entries stand behind it."""
    return ~(spread(rows) & np.uint64(0xFF))


def lumps(rows: Int64Array) -> HashArray:
    """A hundred homes that are wanted by all, far from each other."""
    return (spread(rows // 50) & np.uint64(0xFFFFFFFF_00000000)) | (spread(rows) & np.uint64(0xFFFF))


HASHES: list[Hashes] = [spread, few, last, lumps]


class Model:
    """A table of row keys by their hash, and beside it the set of those that it must have."""

    def __init__(self, hashes: Hashes) -> None:
        self.hashes = hashes
        self.moved = 0  # entries that had to be moved
        self.table = Slots(self.hash_rows)
        self.rows: set[int] = set()
        self.next_row = 0

    def hash_rows(self, rows: Int64Array) -> HashArray:
        assert self.rows.issuperset(rows.tolist()), "only entries that are there can be asked for their hash"
        assert len(set(rows.tolist())) == len(rows)
        self.moved += len(rows)
        return self.hashes(rows)

    def find(self, rows: Int64Array) -> dict[int, int]:
        """Row key -> slot, for those of ``rows`` that are found."""
        search = self.table.search(self.hashes(rows))
        found: dict[int, int] = {}
        while len(search.positions):
            right = search.rows == rows[search.positions]
            for row, slot in zip(search.rows[right].tolist(), search.slots[right].tolist(), strict=True):
                assert row not in found
                found[row] = slot
            search.settle(right)
        return found

    def insert(self, count: int) -> None:
        rows = np.arange(self.next_row, self.next_row + count)
        self.next_row += count
        self.table.insert(self.hashes(rows), rows)
        self.rows.update(rows.tolist())

    def remove(self, chosen: list[int]) -> None:
        rows = np.array(chosen, np.int64)
        slots = self.find(rows)
        assert set(slots) == set(chosen)
        self.rows.difference_update(chosen)
        self.table.clear(np.array(list(slots.values()), np.int64))

    def check(self) -> None:
        assert self.table.count == len(self.rows)
        everything = np.arange(self.next_row + 20)
        assert set(self.find(everything)) == self.rows


def make(hashes: Hashes, count: int) -> Model:
    model = Model(hashes)
    model.insert(count)
    return model


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 200), st.randoms(use_true_random=False)), max_size=25)


@pytest.mark.parametrize("hashes", HASHES)
@settings(max_examples=40)
@given(start=st.sampled_from([0, 100, 500]), steps=steps)
def test_entries_are_found_until_they_are_removed(
    hashes: Hashes, start: int, steps: list[tuple[bool, int, object]]
) -> None:
    import random

    model = make(hashes, start)
    for adding, count, chance in steps:
        assert isinstance(chance, random.Random)
        if adding:
            model.insert(count)
        else:
            model.remove(chance.sample(sorted(model.rows), min(count, len(model.rows))))
        model.check()


@pytest.mark.parametrize("hashes", HASHES)
def test_a_table_in_the_middle_of_a_move_has_all_entries(hashes: Hashes) -> None:
    """Growing, shrinking, and turning round half way: at every step all entries are found, and no others."""
    chance = np.random.default_rng(4)
    unit = 1000 if hashes is spread else 200
    model = make(hashes, 3 * unit)
    moving = 0
    for target in (np.array([9, 5, 9.5, 1.2, 1.9, 0.3, 4, 0]) * unit).astype(int).tolist():
        while len(model.rows) != target:
            if len(model.rows) < target:
                model.insert(min(target - len(model.rows), int(chance.integers(1, unit // 12))))
            else:
                count = min(len(model.rows) - target, int(chance.integers(1, unit // 12)))
                model.remove(chance.choice(sorted(model.rows), count, replace=False).tolist())
            moving += model.table.is_moving
            if chance.random() < 0.1:
                model.check()
        model.check()
    assert moving > 10


def test_work_follows_the_change() -> None:
    """No insertion and no removal moves more than some entries for each of its own."""
    model = make(spread, 60_000)
    most = 0
    while model.next_row < 200_000:
        model.moved = 0
        model.insert(100)
        most = max(most, model.moved)
    model.check()
    assert 0 < most < 1500, "8 for each of 100, and 32 buckets"
    order = np.random.default_rng(2).permutation(200_000).tolist()
    most = 0
    while len(order) > 10_000:
        model.moved = 0
        model.remove([order.pop() for _ in range(100)])
        most = max(most, model.moved)
    model.check()
    assert 0 < most < 1500


def test_the_table_is_as_large_as_its_entries_need() -> None:
    """Seven slots of 36 bytes in all; between 48 and 85 of 100 are used, and 15 when many have gone."""
    slot = 36 / SLOTS
    model = make(spread, 50_000)
    while model.next_row < 300_000:
        assert model.table.nbytes < model.table.count * slot / 0.45
        model.insert(1000)
    assert model.table.nbytes > 300_000 * slot
    order = np.random.default_rng(2).permutation(300_000).tolist()
    while len(order) > 1000:
        model.remove([order.pop() for _ in range(500)])
        assert model.table.nbytes < (model.table.count + 500) * slot / 0.14
    model.remove(order)
    assert model.table.nbytes < 2000


def test_entries_that_come_and_go_leave_nothing_behind() -> None:
    """Neither bytes, nor longer searches: after ten times as many entries as there are, reach is still short."""
    model = make(spread, 20_000)
    size = model.table.nbytes
    oldest = 0
    while model.next_row < 220_000:
        model.remove(list(range(oldest, oldest + 500)))
        oldest += 500
        model.insert(500)
    model.check()
    assert model.table.nbytes <= 1.5 * size
    assert model.table.furthest < 30


def test_many_entries_at_once_are_laid_out_anew() -> None:
    model = make(spread, 1000)
    model.insert(100_000)
    assert not model.table.is_moving
    model.check()
    model.remove(list(range(100_500)))
    assert not model.table.is_moving
    assert model.table.nbytes < 10_000
    model.check()


def test_more_collisions_than_a_reach_can_count() -> None:
    """A bucket only knows of 254 buckets; beyond, the longest reach of all counts."""
    model = make(last, 4000)
    assert model.table.furthest > 255
    model.check()
    model.remove(list(range(0, 4000, 3)))
    model.check()
    model.insert(300)
    model.check()


def test_a_free_slot_is_no_candidate() -> None:
    """What was removed is not shown any more, although its row key is still written there."""
    model = make(few, 30)
    model.remove(list(range(0, 30, 2)))
    seen: set[int] = set()
    search = model.table.search(few(np.arange(30)))
    while len(search.positions):
        seen.update(search.rows.tolist())
        search.settle(np.zeros(len(search.rows), np.bool_))
    assert seen == set(range(1, 30, 2))


def test_row_keys_beyond_32_bits() -> None:
    model = make(spread, 100)
    model.next_row = 2**32 - 50
    model.insert(100)
    assert model.table.count == 200
    assert len(model.find(np.arange(2**32 - 60, 2**32 + 60))) == 100
    assert len(model.find(np.arange(100))) == 100


def test_an_empty_table() -> None:
    table = Slots(lambda _rows: pytest.fail("there is nothing to move"))
    nothing = np.array([], np.int64)
    table.insert(nothing.view(np.uint64), nothing)
    table.clear(nothing)
    assert table.count == 0
    assert len(table.search(np.array([7], np.uint64)).positions) == 0


def test_the_bytes_of_a_table_can_be_read_while_its_index_changes_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics and the journal read them on other threads; the arrays are not there for that moment."""
    table, seen, resize = KeyedTable(UpdateGraph(), "t", {"k": "string"}, ["k"]), list[int](), GrowingArray.resize

    def measured(array: GrowingArray, count: int) -> None:
        seen.append(table.nbytes)
        resize(array, count)
        seen.append(table.nbytes)

    monkeypatch.setattr(GrowingArray, "resize", measured)
    for first in range(0, 20_000, 1_000):
        table.upsert({"k": [str(number) for number in range(first, first + 1_000)]})
    assert len(set(seen)) > 5
