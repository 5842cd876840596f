"""Texts found by their bytes: the groups are those of a dictionary, whatever has a place in the table."""

from __future__ import annotations

import random
import string
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.short_texts import ShortTexts, words_of

TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def texts(chance: random.Random, count: int, *, distinct: int, longest: int = 7) -> list[str | None]:
    """Random texts with zero bytes, of which some are empty or null."""
    alphabet = "\0\1ab" + string.ascii_uppercase
    known: list[str | None] = [
        "".join(chance.choices(alphabet, k=chance.randint(0, longest))) for _ in range(distinct - 1)
    ]
    return chance.choices([*known, None], k=count)


def array_of(values: list[str | None], data_type: pa.DataType) -> pa.Array:
    """As a slice of a longer array."""
    cells: list[Any] = ["in front", *values, "behind"]
    if data_type in (pa.binary(), pa.large_binary()):
        cells = [None if cell is None else cell.encode() for cell in cells]
    return pa.array(cells, data_type).slice(1, len(values))


@pytest.mark.parametrize("data_type", TYPES, ids=str)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=50)
def test_the_numbers_of_texts_are_equal_where_these_are(data_type: pa.DataType, seed: int) -> None:
    chance = random.Random(seed)
    values = texts(chance, 200, distinct=chance.choice([1, 2, 60, 190]))
    words = words_of(array_of(values, data_type))
    assert words is not None
    assert (words > 0).all()
    by_word = dict(zip(words.tolist(), values, strict=True))
    assert [by_word[word] for word in words.tolist()] == values
    assert len(by_word) == len(set(values))


@pytest.mark.parametrize("values", [["a"], ["", "\0"], [None], [None, "", "\0\0\0\0\0\0\0"]], ids=repr)
def test_the_last_text_may_end_with_its_buffer(values: list[str | None]) -> None:
    words = words_of(pa.array(values, pa.string()))
    assert words is not None
    assert len(set(words.tolist())) == len(values)


def test_a_longer_text_has_no_number() -> None:
    assert words_of(pa.array(["short", "longer text"])) is None
    assert words_of(pa.array(["short", "longer text"]).slice(0, 1)) is not None


@pytest.mark.parametrize("distinct", [1, 300, 3_000, 40_000])
def test_what_is_found_is_what_was_learned(distinct: int) -> None:
    """Of many texts some have no place; none is ever found with the group of another one."""
    known, chance = ShortTexts(), np.random.default_rng(distinct)
    words = np.unique(chance.integers(1, 1 << 62, distinct).astype(np.uint64))
    groups = np.arange(len(words))
    assert (known.find(words) == -1).all()
    for part in np.array_split(chance.permutation(len(words)), 5):
        known.learn(np.repeat(words[part], 2), np.repeat(groups[part], 2), 2 * len(part))
        found = known.find(words)
        assert set(found[found >= 0]) <= set(groups)
        assert (found[found >= 0] == groups[found >= 0]).all()
    assert np.count_nonzero(found >= 0) > 0.6 * len(words)
    assert known.nbytes <= 1 << 20


def test_too_many_texts_are_not_looked_for() -> None:
    known = ShortTexts()
    words = np.arange(1, 1_000_001, dtype=np.uint64)
    for start in range(0, len(words), 50_000):
        part = words[start : start + 50_000]
        known.learn(part, part.astype(np.int64), len(part))
    assert not known.is_useful


@pytest.mark.parametrize("data_type", TYPES, ids=str)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=25)
def test_the_groups_of_texts_are_those_of_a_dictionary(data_type: pa.DataType, seed: int) -> None:
    """With and without long ones among them, in small and in large batches, and after groups are numbered anew."""
    chance = random.Random(seed)
    index, model = GroupIndex(pa.schema([("text", data_type)])), dict[str | None, int]()
    for _ in range(6):
        count, longest = chance.choice([3, 300, 20_000]), chance.choice([2, 7, 7, 12])
        values = texts(chance, count, distinct=chance.choice([2, 500]), longest=longest)
        column = array_of(values, data_type)
        assert index.find([column], count).tolist() == [model.get(value, -1) for value in values]
        for value in values:
            model.setdefault(value, len(model))
        assert index.add([column], count).tolist() == [model[value] for value in values]
        assert index.find([column], count).tolist() == [model[value] for value in values]
        if chance.random() < 0.3:
            living = sorted(chance.sample(range(len(model)), chance.randint(0, len(model))))
            index.pack(np.array(living, np.int64))
            places = {group: place for place, group in enumerate(living)}
            model = {value: places[group] for value, group in model.items() if group in places}
