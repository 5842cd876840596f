"""Numbers are sorted with their positions, whatever their size, and equal ones keep their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine.sorting import last_of_each, positions_in_order, sort_with_positions

HIGH = 2**63 - 1


@given(st.lists(st.integers(0, 5) | st.integers(HIGH - 5, HIGH) | st.integers(0, HIGH), max_size=50))
def test_sorted_numbers_have_their_positions_and_equal_ones_their_order(values: list[int]) -> None:
    ordered, positions = sort_with_positions(np.array(values, np.int64))
    expected = sorted(range(len(values)), key=lambda position: (values[position], position))
    assert positions.tolist() == expected
    assert ordered.tolist() == [values[position] for position in expected]


@pytest.mark.parametrize("step", [1, 1 << 20, 1 << 44])
def test_numbers_that_differ_in_low_bits_alone_are_in_order(step: int) -> None:
    random = np.random.default_rng(step)
    values = random.integers(0, 1 << 62, 5000)
    values[::3] = values[0] + random.integers(0, 50, len(values[::3])) * step
    ordered, positions = sort_with_positions(values)
    assert np.array_equal(positions, np.argsort(values, kind="stable"))
    assert np.array_equal(ordered, np.sort(values))


@given(st.lists(st.integers(0, 3) | st.integers(0, 2**32 - 1), max_size=50), st.sampled_from([32, 58, 63]))
def test_positions_alone_are_the_same(values: list[int], width: int) -> None:
    array = np.array(values, np.int64)
    expected = sort_with_positions(array)[1].tolist()
    assert positions_in_order(array, width).tolist() == expected


@given(st.lists(st.lists(st.integers(0, 20), max_size=10).map(sorted), min_size=1, max_size=6))
def test_known_runs_change_nothing(runs: list[list[int]]) -> None:
    values = np.array([value for run in runs for value in run], np.int64)
    for known, sorted_again in zip(
        sort_with_positions(values, runs=len(runs)), sort_with_positions(values), strict=True
    ):
        assert known.tolist() == sorted_again.tolist()


@pytest.mark.parametrize("runs", [None, 7])
@pytest.mark.parametrize("first", [0, 2**31 - 2, 2**40, HIGH - 7])
def test_of_equal_numbers_the_last_counts(first: int, runs: int | None) -> None:
    """Whether a number and its position fit into 64 bits or not."""
    values = np.array([7, 3, 7, 3, 0, 5, 3], np.int64) + first
    ordered, last = last_of_each(values, runs=runs)
    assert last.tolist() == [4, 6, 5, 2]
    assert ordered.tolist() == values[last].tolist()
