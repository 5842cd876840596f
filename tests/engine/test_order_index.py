"""An order of rows against a sorted list: every row key, every move, and what the storage takes."""

from __future__ import annotations

import bisect
import gc
import random
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from barrage_server.engine.order_blocks import LEAVES, Blocks, Growth
from barrage_server.engine.order_fences import OrderCodes
from barrage_server.engine.order_index import Moves, OrderIndex
from barrage_server.engine.order_leaves import SLOTS
from barrage_server.engine.order_positions import Positions
from barrage_server.engine.order_windows import Hot, windows_of
from barrage_server.engine.ranges import ranges_of
from barrage_server.rowset import RowSet


class Model:
    """Rows by value and key, and an index of the same order."""

    def __init__(self, divisors: Sequence[float] = (), known: int = 0, longest: int = LEAVES) -> None:
        """With ``divisors``, rows have codes: their values divided by each, the last one most exact.

        Of ``known`` tenths of the rows it is known which one they come behind. A block has ``longest`` leaves at most.
        """
        self.known = known
        self.divisors = divisors
        self.index = OrderIndex(longest=longest)
        self.values: dict[int, float] = {}
        self.slots: dict[int, int] = {}  # by key

    def start(self, values: dict[int, float]) -> None:
        self.values = dict(values)
        self.index.fill(*_in_order(self.order()))
        self.check(None, {})

    def knows(self, key: int) -> bool:
        """Whether it is known which row this one comes behind."""
        return key % 10 < self.known

    def order(self) -> list[int]:
        return sorted(self.values, key=lambda key: (self.values[key], key))

    def change(self, gone: list[int], new: dict[int, float]) -> Moves:
        """Take rows out and in; a key in both is a row that changes."""
        before = dict(self.slots)
        slots = np.sort(np.array([self.slots[key] for key in gone], np.int64))
        for key in gone:
            del self.values[key]
        rest = dict(self.values)
        self.values.update(new)
        keys = sorted(new, key=lambda key: (new[key], key))
        was = np.array([before[key] if key in gone else -1 for key in keys], np.int64)

        def comes_before(items: Any, others: Any) -> Any:
            pairs = zip(items.tolist(), others.tolist(), strict=True)
            return np.array([(new[keys[item]], keys[item]) < (rest[key], key) for item, key in pairs], np.bool_)

        codes = self.codes([new[key] for key in keys], len(self.divisors))
        ordered = sorted((value, key) for key, value in rest.items())
        places = [bisect.bisect(ordered, (new[key], key)) for key in keys]
        behind = np.array(
            [
                ordered[place - 1][1] if place and self.knows(key) else -1
                for key, place in zip(keys, places, strict=True)
            ],
            np.int64,
        )
        moves = self.index.change(slots, np.array(keys, np.int64), was, comes_before, codes, behind)
        self.check(moves, before)
        return moves

    def codes(self, values: list[float], count: int) -> OrderCodes | None:
        """The first ``count`` codes of ``values``."""

        def of(values: list[float], count: int) -> list[Any]:
            return [np.floor(np.array(values, np.float64) / each).astype(np.int64) for each in self.divisors[:count]]

        if not count:
            return None
        every = len(self.divisors)
        return OrderCodes(of(values, count), lambda keys: of([self.values[key] for key in keys.tolist()], every))

    def check_ranks(self, values: list[float], count: int) -> None:
        """The rank of values is that of a sorted list, whatever codes are known of them."""

        def comes_before(items: Any, others: Any) -> Any:
            pairs = zip(items.tolist(), others.tolist(), strict=True)
            return np.array([values[item] <= self.values[key] for item, key in pairs], np.bool_)

        there = sorted(self.values.values())
        ranks = self.index.rank(len(values), comes_before, self.codes(values, count))
        assert ranks.tolist() == [bisect.bisect_left(there, value) for value in values]

    def check_positions(self, slots: Any) -> None:
        """Positions are those in the row set of the order, whichever of the two finds them."""
        assert self.index.size == len(slots)
        every = np.arange(len(slots))
        for some in (every, every[::-3], every[:1], every[:0]):
            assert self.index.slots_at(some).tolist() == slots[some].tolist()
            assert self.index.positions_of(slots[some]).tolist() == some.tolist()
        first, end = every[::4], np.minimum(every[::4] + 2, len(slots))
        within = [slot for begin, stop in zip(first, end, strict=True) for slot in slots[begin:stop].tolist()]
        assert self.index.rows_within(first, end).keys().tolist() == within

    def check(self, moves: Moves | None, before: dict[int, int]) -> None:
        slots = self.index.rows.keys()
        order = self.order()
        rows = self.index.store.columns[0].read_current(slots).to_pylist()
        assert rows == order
        assert self.index.slots_of(np.array(order, np.int64)).tolist() == slots.tolist()
        self.slots = dict(zip(order, slots.tolist(), strict=True))
        self.check_positions(slots)
        if moves is not None:
            old = RowSet.from_keys(sorted(before.values()))
            stayed = old - moves.removed
            moved = moves.shifted.apply(stayed) if moves.shifted.size else stayed
            assert old.is_superset(moves.removed)
            assert moved.is_disjoint(moves.added)
            assert moved | moves.added == self.index.rows
            at = {slot: key for key, slot in before.items()}
            survivors = dict(zip(stayed, moves.shifted.apply_keys(stayed.keys()).tolist(), strict=True))
            for slot, target in survivors.items():
                assert self.slots[at[slot]] == target


def _in_order(keys: list[int]) -> tuple[RowSet, Any]:
    """These rows, and their positions in this order."""
    rows = RowSet.from_keys(keys)
    return rows, rows.find(keys)


@pytest.fixture(params=["by leaf", "by row set"])
def look_ups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How positions are found: what a large order chooses by the number of look-ups."""
    monkeypatch.setattr(Positions, "are_worth", lambda *_, **__: request.param == "by leaf")


@pytest.mark.usefixtures("look_ups")
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_is_the_order_of_a_sorted_list(seed: int) -> None:
    chance = random.Random(seed)
    divisors: tuple[float, ...] = chance.choice([(), (1,), (50,), (300, 1), (300, 20, 0.01)])
    model = Model(divisors, chance.choice([0, 5, 10]), chance.choice([1, 2, 4, 16, LEAVES]))
    span = chance.choice([3, 1000])
    model.start({key: chance.randrange(span) for key in chance.sample(range(10_000), chance.choice([0, 1, 40, 400]))})
    free = 10_000
    for _ in range(12):
        there = list(model.values)
        gone = chance.sample(there, min(len(there), chance.choice([0, 1, 5, 60, len(there)])))
        new: dict[int, float] = {key: chance.randrange(span) for key in gone if chance.random() < 0.5}
        place = chance.choice(["anywhere", "at the end", "in front", "in one place"])
        for _ in range(chance.choice([0, 1, 5, 100])):
            free += 1
            new[free] = {
                "anywhere": chance.randrange(span),
                "at the end": 5000,
                "in front": -7,
                "in one place": span / 2,
            }[place] + chance.random()
        model.change(gone, new)
        model.check_ranks([chance.uniform(-10, span + 10) for _ in range(20)], chance.randint(0, len(divisors)))
        model.check_ranks([*model.values.values()][:20], chance.randint(0, len(divisors)))
        if chance.random() < 0.2:
            model.index.forget_codes()


@example(seed=3967)  # a crowded leaf of a block that gets other numbers because another one grows
@given(seed=st.integers(0, 1 << 32))
@example(seed=413)  # a block is moved whose rows have had room with leaves of the next one only
@settings(deadline=None, max_examples=40)
def test_rows_come_in_the_same_places_again_and_again(seed: int) -> None:
    """Behind those that came before, in front of them, or among them; others go."""
    chance = random.Random(seed)
    divisors = chance.choice([(), (1, 0.001)])
    model = Model(divisors, chance.choice([0, 5, 10]), chance.choice([1, 2, 4, 16, LEAVES]))
    groups = chance.choice([1, 7, 40])
    model.start({key: key % groups for key in range(chance.choice([1, 30, 2_000]))})
    free, step = 10_000, 0
    for _ in range(20):
        new: dict[int, float] = {}
        for group in range(groups):
            for _ in range(chance.choice([0, 1, 4, 9, 60])):
                free, step = free + 1, step + 1
                new[free] = group + {0: step, 1: 40_000 - step, 2: chance.randrange(40_000)}[group % 3] / 50_000
        gone = chance.sample(list(model.values), len(model.values) // 5) if chance.random() < 0.2 else []
        model.change(gone, new)
        model.check_ranks([chance.uniform(0, groups) for _ in range(20)], len(divisors))


def test_rows_that_come_in_the_same_places_move_few_others() -> None:
    """Room is left behind them: some rows for each that comes, also in the long run."""
    model = Model()
    model.start({key: key % 50 for key in range(20_000)})
    moved = added = 0
    for step in range(40):
        new = {20_000 + added + n: n // 8 + (step * 8 + n % 8) / 1_000 for n in range(400)}
        moves = model.change([], new)
        moved += sum(last - first + 1 for first, last, _ in moves.shifted)
        added += 400
    assert moved < 10 * added


def test_rows_that_change_their_places_move_few_others() -> None:
    """They leave free slots, which others find, also in the long run: two of each leaf at once."""
    chance = random.Random(6)
    model = Model((1,))
    model.start({key: chance.random() for key in range(5_000)})
    moved = changed = 0
    for _ in range(40):
        keys = chance.sample(range(5_000), 500)
        moves = model.change(keys, {key: chance.random() for key in keys})
        moved += sum(last - first + 1 for first, last, _ in moves.shifted)
        changed += len(keys)
    assert moved < 8 * changed


def test_rows_that_go_move_no_others() -> None:
    model = Model()
    model.start({key: key for key in range(2_000)})
    moves = model.change(random.Random(7).sample(range(2_000), 700), {})
    assert not moves.shifted.size
    assert not moves.added


def test_a_row_takes_the_slot_that_another_has_left() -> None:
    model = Model()
    model.start({key: key for key in range(2_000)})
    slot = model.slots[1_000]
    moves = model.change([1_000], {5_000: 1_000.5})
    assert not moves.shifted.size
    assert model.slots[5_000] == slot


def test_rows_behind_those_that_came_before_take_free_leaves() -> None:
    """Of some groups, each gets more rows at its end than a leaf has: after the first time few others are moved."""
    model = Model((1,), known=10)
    model.start({key: key % 10 for key in range(4_000)})
    moved = []
    for step in range(4):
        new = {10_000 + 400 * step + n: n // 40 + (1 + step * 40 + n % 40) / 1_000 for n in range(400)}
        moves = model.change([], new)
        moved.append(sum(last - first + 1 for first, last, _ in moves.shifted))
    assert min(moved[1:]) < 40


def test_rows_at_the_end_move_no_others() -> None:
    """And few slots stay free behind them."""
    model = Model()
    model.start({key: key for key in range(100)})
    moved = 0
    for start in range(100, 6_000, 50):
        moves = model.change([], {key: key for key in range(start, start + 50)})
        moved += sum(last - first + 1 for first, last, _ in moves.shifted)
    assert moved < 2_000
    assert model.index.rows.last_key - model.index.rows.first_key < 6_000 * 32 / 20


def test_rows_in_front_move_few_others() -> None:
    model = Model()
    model.start({key: key for key in range(100)})
    moved = 0
    for start in range(0, 6_000, 50):
        moves = model.change([], {10_000 + key: -key for key in range(start, start + 50)})
        moved += sum(last - first + 1 for first, last, _ in moves.shifted)
    assert moved < 4_000


def test_a_window_that_moves_takes_no_more_storage() -> None:
    """Rows come at the end and go in front, for ever."""
    model = Model()
    model.start({key: key for key in range(500)})
    for start in range(500, 20_000, 100):
        model.change(list(range(start - 500, start - 400)), {key: key for key in range(start, start + 100)})
    assert len(model.values) == 500
    assert model.index.nbytes < 1 << 20


def test_storage_shrinks_with_the_rows() -> None:
    model = Model()
    model.start({key: key for key in range(5_000)})
    keys = list(range(5_000))
    random.Random(3).shuffle(keys)
    for start in range(0, 4_900, 100):
        model.change(keys[start : start + 100], {})
    span = model.index.rows.last_key - model.index.rows.first_key
    assert span < 100 * 32 * 3


def test_storage_shrinks_also_when_rows_come_in_one_place() -> None:
    model = Model()
    model.start({key: key for key in range(8_000)})
    gone = random.Random(4).sample(range(8_000), 7_800)
    for step in range(3):
        new = {10_000 + 8 * step + n: 4_000.5 + step / 100 + n / 1_000 for n in range(8)}
        model.change([] if step else gone, new)
    span = model.index.rows.last_key - model.index.rows.first_key
    assert span < 32 * 32


def test_an_insertion_in_the_middle_moves_few_rows() -> None:
    """Some dozens for each row on average, however the rows come."""
    model = Model()
    model.start({key: key for key in range(20_000)})
    moved = added = 0
    for batch in range(40):
        moves = model.change([], {100_000 + batch * 100 + n: 10_000 + n / 1000 + batch / 1e6 for n in range(100)})
        moved += sum(1 for first, last, _ in moves.shifted for _ in range(first, last + 1))
        added += 100
    assert moved < 60 * added


def test_a_row_that_keeps_its_place_keeps_its_key() -> None:
    model = Model()
    model.start({key: 10 * key for key in range(1_000)})
    moves = model.change([500], {500: 5_001})
    assert not moves.removed
    assert not moves.added
    assert not moves.shifted.size


@pytest.mark.parametrize("count", [0, 1, 22, 23, 45])
def test_all_rows_may_go_and_others_come(count: int) -> None:
    model = Model()
    model.start({key: key for key in range(count)})
    model.change(list(range(count)), {})
    assert model.index.size == 0
    model.change([], {key: -key for key in range(70)})
    rows = model.index.store.columns[0].read_current(model.index.rows.keys())
    assert rows.to_pylist() == list(reversed(range(70)))


def test_an_order_without_versions_keeps_nothing_of_what_was() -> None:
    """What is overwritten goes at once: a thousand changes leave the memory as it is."""
    index = OrderIndex(versioned=False)
    index.fill(RowSet.flat(5_000), np.arange(5_000))
    chance = np.random.default_rng(5)

    def before(items: Any, others: Any) -> Any:
        return moved[items] < others

    tracemalloc.start()
    try:
        for _ in range(200):
            moved = np.sort(chance.choice(5_000, 100, replace=False))
            slots = index.slots_of(moved)
            index.change(slots, moved, slots, before)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [0, 1, 32, 33, 5_000])
def test_an_order_that_stays_has_no_free_slots(count: int) -> None:
    chance = np.random.default_rng(count)
    rows = RowSet.from_keys(chance.choice(100_000, count, replace=False))
    order = chance.permutation(count)
    index = OrderIndex(follows=False)
    index.fill(rows, order)
    assert index.rows.is_contiguous
    keys = rows.keys()[order]
    assert index.keys_at(index.rows.keys()).tolist() == keys.tolist()
    places = {key: place for place, key in enumerate(keys.tolist())}
    asked = chance.integers(0, count + 1, 100)

    def before(items: Any, others: Any) -> Any:
        return asked[items] <= np.array([places[key] for key in others.tolist()], np.int64)

    assert index.rank(len(asked), before).tolist() == asked.tolist()


def test_rows_that_come_everywhere_move_a_bounded_number_of_others_at_a_time() -> None:
    """Blocks that fill up at the same time get more leaves one by one: no cycle moves all rows."""
    chance = random.Random(8)
    model = Model((0.001,), longest=8)
    model.start({key: chance.random() for key in range(8_000)})
    moved = []
    for step in range(100):
        new = {10_000 + 100 * step + n: chance.random() for n in range(100)}
        moves = model.change([], new)
        moved.append(sum(last - first + 1 for first, last, _ in moves.shifted))
    assert len(model.values) == 18_000
    assert max(moved) < 2_500
    assert sum(moved) < 15 * 10_000


def test_rows_that_come_in_one_place_move_few_blocks_at_a_time() -> None:
    chance = random.Random(9)
    model = Model((0.001,), longest=8)
    model.start({key: key / 8_000 for key in range(8_000)})
    moved = []
    for step in range(200):
        new = {10_000 + 50 * step + n: 0.5 + chance.random() / 100 for n in range(50)}
        moves = model.change([], new)
        moved.append(sum(last - first + 1 for first, last, _ in moves.shifted))
    assert max(moved) < 2_500


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=200)
def test_blocks_that_grow_keep_their_order(seed: int) -> None:
    """Numbers ascend from leaf to leaf; those of blocks that are not laid out anew stay as they are."""
    chance = random.Random(seed)
    longest = chance.choice([1, 2, 4, 64])
    blocks = Blocks.of(chance.randint(1, 5 * longest), longest)
    for _ in range(30):
        if chance.random() < 0.3:
            front, back = chance.choice([(0, 3), (5, 0), (longest, 2 * longest), (0, 1)])
            former, blocks = blocks, blocks.extended(front, blocks.total + front + back)
            where, laid = np.arange(former.total) + front, np.zeros(0, np.int64)
        else:
            count = len(blocks.begins)
            place = chance.randrange(count)
            full = np.array(sorted({place, chance.randrange(count), min(place + 1, count - 1)}))
            rows = np.array([chance.randint(1, 64 * longest) for _ in range(count)])
            former = blocks
            blocks, where, starts, ends = Growth.of(blocks, rows, full)
            laid = ranges_of(starts, ends - starts)
        leaves = np.arange(blocks.total)
        slots = blocks.slots(leaves)
        assert (np.diff(slots) >= 32).all()
        assert slots[0] >= 0
        assert (blocks.ends - blocks.begins <= longest).all()
        assert blocks.places(slots + 7).tolist() == (leaves * 32 + 7).tolist()
        stays = ~np.isin(where, laid)
        assert slots[where[stays]].tolist() == former.slots(np.arange(former.total))[stays].tolist()


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=200)
def test_a_block_with_more_rows_than_slots_is_full(seed: int) -> None:
    """Free leaves of the next block do not help it: either one may be moved by itself."""
    chance = random.Random(seed)
    longest = chance.choice([1, 2, 4, 8])
    blocks = Blocks.of(longest * chance.randint(3, 8), longest)
    totals = np.array([chance.choice([0, 0, 20, 32, 40, 90]) for _ in range(blocks.total)])
    totals[[0, -1]] = 32  # rows in front of all, and behind all, get leaves of their own
    windows = windows_of(totals, np.zeros(0, np.int64), Hot.of(*[np.zeros(0, np.int64)] * 2), blocks)
    rows = np.add.reduceat(totals, blocks.begins)
    assert set(np.flatnonzero(rows > SLOTS * (blocks.ends - blocks.begins))) <= set(windows.full)
