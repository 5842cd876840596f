"""Computations along segments and over ranges, against loops."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from barrage_server.operations.update_by.segments import (
    accumulate,
    ends_of,
    filled,
    linear,
    reduce_ranges,
    squares_of_ranges,
)

SHAPES = {
    "none": [],
    "one": [1],
    "short ones": [1, 2, 3] * 400,
    "a long one": [5_000],
    "long and short": [3_000, 1, 1, 2, 900, 1, 40, 40, 40],
    "many long ones": [300] * 60,
}


def _starts(lengths: list[int]) -> np.ndarray:
    return np.cumsum([0, *lengths])[:-1].astype(np.int64) if lengths else np.zeros(0, np.int64)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("function", [np.add, np.multiply, np.minimum, np.maximum])
def test_accumulate(shape: str, function: np.ufunc) -> None:
    lengths = SHAPES[shape]
    values = np.random.default_rng(1).integers(-9, 10, sum(lengths))
    starts = _starts(lengths)
    found = accumulate(function, values, starts)
    for start, end in zip(starts, ends_of(starts, len(values)), strict=True):
        assert found[start:end].tolist() == function.accumulate(values[start:end]).tolist()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("function", [np.add, np.minimum, np.maximum])
@pytest.mark.parametrize("special", [False, True])
def test_linear(shape: str, function: np.ufunc, special: bool) -> None:
    chance = np.random.default_rng(2)
    lengths = SHAPES[shape]
    size = sum(lengths)
    factors, terms = chance.uniform(0.5, 1, size), chance.normal(size=size)
    if special:
        for value in (np.nan, np.inf, -np.inf):
            terms[chance.integers(0, max(1, size), size // 900)] = value
    starts = _starts(lengths)
    found = linear(function, factors, terms, starts)
    wanted = np.empty(size)
    with np.errstate(invalid="ignore"):
        for start, end in zip(starts, ends_of(starts, size), strict=True):
            state = wanted[start] = terms[start]
            for place in range(start + 1, end):
                state = wanted[place] = function(factors[place] * state, terms[place])
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("function", [np.add, np.multiply, np.minimum, np.maximum])
@pytest.mark.parametrize("width", [1, 2, 7, 64, 1_000, 5_000])
@pytest.mark.parametrize("count", [0, 1, 50, 3_000])
def test_reduce_ranges(function: np.ufunc, width: int, count: int) -> None:
    chance = np.random.default_rng(3)
    values = chance.integers(-2, 3, 2_000)
    first = chance.integers(0, len(values), count)
    end = np.minimum(first + chance.integers(1, width + 1, count), len(values))
    found = reduce_ranges(function, values, first, end)
    wanted = [reduce(function, values[one:other]) for one, other in zip(first, end, strict=True)]
    assert found.tolist() == wanted


def test_filled() -> None:
    valid = np.array([0, 1, 0, 0, 0, 1, 0], bool)
    assert filled(valid, np.array([0, 3, 4])).tolist() == [-1, 1, 1, -1, -1, 5, 5]


@pytest.mark.parametrize("width", [2, 7, 300, 2_000])
def test_squares_of_ranges(width: int) -> None:
    """Items that are not in a range do not matter, however large; of equal ones nothing is left."""
    chance = np.random.default_rng(4)
    values = chance.integers(0, 9, 2_000) / 4
    values[::501] = 1e14
    values[700:900] = 0.1
    first = chance.integers(0, len(values) - 2, 4_000)
    end = np.minimum(first + chance.integers(2, width + 1, len(first)), len(values))
    found = squares_of_ranges(values, first, end)
    wanted = [
        ((values[one:other] - values[one:other].mean()) ** 2).sum() for one, other in zip(first, end, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    is_equal = (first >= 700) & (end <= 900)
    assert not found[is_equal].any()
