"""The last rows of groups, against lists of all rows: what is known is right, and of appended rows it is known."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.operations.last_rows import LastRows

_MOST = (1 << 64) - 1
Rows = dict[int, tuple[int, int]]
"""Groups and codes by row key."""


def codes_of(rows: list[tuple[int, int]], *, with_stamps: bool) -> list[Any]:
    groups = np.array([group for group, _ in rows], np.int64)
    return [groups, np.array([code for _, code in rows], np.uint64)] if with_stamps else [groups]


class Model:
    """All rows, and what is kept of them."""

    def __init__(self, groups: int, *, with_stamps: bool) -> None:
        self.last = LastRows()
        self.rows: Rows = {}
        self.groups = groups
        self.with_stamps = with_stamps

    def add(self, rows: Rows, *, learns: bool = True) -> None:
        self.rows.update(rows)
        keys = sorted(rows, key=lambda key: (*rows[key], key))
        counts = np.zeros(self.groups, np.int64)
        for group, _ in self.rows.values():
            counts[group] += 1
        unknown = self.last.note(self.codes(keys), np.array(keys, np.int64), counts)
        if learns:
            lasts = [self.ordered(group)[-1] for group in unknown.tolist()]
            self.last.learn(self.codes(lasts), np.array(lasts, np.int64))

    def remove(self, keys: list[int]) -> None:
        groups = np.array([self.rows.pop(key)[0] for key in keys], np.int64)
        self.last.forget(groups, np.array(keys, np.int64))

    def shift(self, delta: int) -> None:
        before = np.array(sorted(self.rows), np.int64)
        groups = np.array([self.rows[key][0] for key in before.tolist()], np.int64)
        self.rows = {key + delta: row for key, row in self.rows.items()}
        self.last.shift(groups, before, before + delta)

    def codes(self, keys: list[int]) -> list[Any]:
        return codes_of([self.rows[key] for key in keys], with_stamps=self.with_stamps)

    def ordered(self, group: int) -> list[int]:
        keys = [key for key, row in self.rows.items() if row[0] == group]
        return sorted(keys, key=lambda key: (self.rows[key][1], key))

    def check_row(self, group: int, code: int, key: int) -> bool:
        """What is said of a row that would come; whether it is known."""
        (found,) = self.last.before(codes_of([(group, code)], with_stamps=self.with_stamps), np.array([key])).tolist()
        if found >= 0:
            last = self.ordered(group)[-1]
            assert found == last
            assert (self.rows[last][1], last) < (code, key)
        return bool(found >= 0)

    def check_stamp(self, group: int, code: int, *, or_equal: bool) -> bool:
        """What is said of a stamp; whether it is known."""
        before, behind = self.last.behind(codes_of([(group, code)], with_stamps=True), or_equal=or_equal)
        if before[0] < 0:
            assert behind[0] < 0
            return False
        keys = self.ordered(group)
        place = sum(self.rows[key][1] < code + or_equal for key in keys)
        assert place > 0
        assert keys[place - 1] == before[0]
        assert (keys[place] if place < len(keys) else -1) == behind[0]
        return True


@given(st.integers(0, 1 << 32))
@settings(deadline=None)
def test_what_is_known_is_right(seed: int) -> None:
    chance = random.Random(seed)
    with_stamps = chance.random() < 0.7
    model = Model(4, with_stamps=with_stamps)
    stamp = [0, 1, 2, 3, 5, 8, _MOST]
    free = 0
    for _ in range(12):
        do = chance.random()
        if do < 0.2 and model.rows:
            model.remove(chance.sample(list(model.rows), chance.randint(1, len(model.rows))))
        elif do < 0.3 and model.rows:
            model.shift(chance.randint(0, 5))
            free += 5
        else:
            new = {
                free + n: (chance.randrange(4), chance.choice(stamp) if with_stamps else 7)
                for n in range(chance.randint(0, 6))
            }
            free += 6
            model.add(new, learns=chance.random() < 0.5)
        for _ in range(5):
            model.check_row(
                chance.randrange(4), chance.choice(stamp) if with_stamps else 7, free + chance.randint(0, 3)
            )
            if with_stamps:
                model.check_stamp(chance.randrange(4), chance.choice(stamp), or_equal=chance.random() < 0.5)


@pytest.mark.parametrize("or_equal", [False, True])
def test_rows_that_are_appended_are_known(or_equal: bool) -> None:
    """Also stamps among those that have come last."""
    model = Model(3, with_stamps=True)
    model.add({key: (key % 3, 10 + key) for key in range(30)})
    model.add({key: (key % 3, 10 + key) for key in range(30, 60)})
    assert model.check_row(1, 100, 60)
    assert all(model.check_stamp(1, code, or_equal=or_equal) for code in range(39, 80))
    assert not model.check_stamp(1, 20, or_equal=or_equal)


def test_rows_without_stamps_are_known_by_their_keys() -> None:
    model = Model(2, with_stamps=False)
    model.add({key: (key % 2, 7) for key in range(10)})
    assert model.check_row(1, 7, 10)
    model.shift(5)
    assert not model.check_row(1, 7, 14)
    assert model.check_row(1, 7, 15)


def test_groups_that_are_packed_keep_their_last_rows() -> None:
    model = Model(3, with_stamps=True)
    model.add({key: (key % 3, 10 + key) for key in range(9)})
    model.remove([1, 4, 7])
    model.last.pack(np.array([0, 2]))
    found = model.last.before([np.array([0, 1]), np.array([50, 50], np.uint64)], or_equal=True)
    assert found.tolist() == [6, 8]
