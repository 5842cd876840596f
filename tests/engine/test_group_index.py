"""Groups that are forgotten, against a dict."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.plan import ReadPlan
from barrage_server.rowset import RowSet


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=30)
def test_groups_that_stay_keep_their_numbers_and_new_ones_take_those_of_others(seed: int) -> None:
    """No two groups have one number, and no number is left out before the highest one is taken."""
    chance = random.Random(seed)
    index = GroupIndex(pa.schema([("text", pa.string()), ("n", pa.int64())]))
    known: dict[tuple[str | None, int], int] = {}
    most = 0
    for _ in range(12):
        keys = [(chance.choice([None, "a", "b" * 30]), chance.randrange(40)) for _ in range(chance.randrange(30))]
        columns = [pa.array([text for text, _ in keys], pa.string()), pa.array([n for _, n in keys], pa.int64())]
        wanted = {key: known.get(key, -1) for key in keys}
        assert index.find(columns, len(keys)).tolist() == [wanted[key] for key in keys]
        numbers = index.add(columns, len(keys)).tolist()
        assert all(known.get(key, number) == number for key, number in zip(keys, numbers, strict=True))
        known |= zip(keys, numbers, strict=True)
        assert len(set(known.values())) == len(known)
        most = max(most, len(known))
        assert index.count == most, "numbers are used again"
        if known and chance.random() < 0.5:
            gone = chance.sample(sorted(known, key=repr), chance.randrange(len(known) + 1))
            index.forget(np.array([known.pop(key) for key in gone], np.int64))
            index.forget(np.zeros(0, np.int64))


def test_forgetting_what_was_forgotten_changes_nothing() -> None:
    index = GroupIndex(pa.schema([("n", pa.int64())]))
    assert index.add([pa.array([5, 6, 7])], 3).tolist() == [0, 1, 2]
    index.forget(np.array([1]))
    index.forget(np.array([0, 1]))
    assert index.add([pa.array([7, 8, 9, 10])], 4).tolist() == [2, 0, 1, 3]


def test_the_bytes_of_forgotten_groups_are_used_again() -> None:
    index = GroupIndex(pa.schema([("text", pa.string())]))
    sizes = []
    for turn in range(40):
        texts = pa.array([f"{turn} {number}" * 20 for number in range(500)])
        groups = index.add([texts], len(texts))
        index.forget(groups)
        sizes.append(index.nbytes)
    assert index.count == 500
    assert max(sizes[20:]) <= 1.5 * max(sizes[:20])


@pytest.mark.parametrize("way", ["forget", "pack"])
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=30)
def test_versions_keep_the_key_values_that_they_have(way: str, seed: int) -> None:
    """Also those of groups whose numbers others have taken since."""
    chance = random.Random(seed)
    index = GroupIndex(pa.schema([("text", pa.string()), ("n", pa.int64())]))
    values: dict[int, tuple[str | None, int | None]] = {}
    held = []
    for _ in range(15):
        keys = list({(chance.choice([None, "a", "b" * 30]), chance.choice([None, 1, 2, 3, 4, 5])) for _ in range(6)})
        columns = [pa.array([text for text, _ in keys], pa.string()), pa.array([n for _, n in keys], pa.int64())]
        values |= zip(index.add(columns, len(keys)).tolist(), keys, strict=True)
        if chance.random() < 0.5:
            gone = chance.sample(sorted(values), chance.randrange(len(values) + 1))
            for number in gone:
                del values[number]
            if way == "forget":
                index.forget(np.array(gone, np.int64))
            else:
                index.pack(np.array(sorted(values), np.int64))
                values = dict(enumerate(values[number] for number in sorted(values)))
        if chance.random() < 0.5:
            held.append((index.views(), dict(values)))
    for views, expected in held:
        plan = ReadPlan.from_row_set(RowSet.from_keys(sorted(expected)))
        read = zip(*(view.read(plan).to_pylist() for view in views), strict=True)
        assert list(read) == [expected[number] for number in sorted(expected)]


@pytest.mark.parametrize("way", ["forget", "pack"])
def test_key_values_that_no_version_reads_leave_no_records(way: str) -> None:
    index = GroupIndex(pa.schema([("text", pa.string()), ("n", pa.int64())]))
    for turn in range(5):
        texts = pa.array([f"{turn} {number}" for number in range(500)])
        groups = index.add([texts, pa.array(range(500))], len(texts))
        if way == "forget":
            index.forget(groups[:400])
        else:
            index.pack(groups[400:])
        index.add([texts, pa.array(range(500))], len(texts))
        assert index.store.undo.nbytes == 0
