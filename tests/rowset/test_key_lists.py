"""Set operations on lists of keys: whatever the forms of the operands, they give what Python's sets give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.rowset import RowSet, _key_lists
from barrage_server.rowset._ranges import MAX_KEY

OPERATIONS: list[tuple[Callable[..., Any], Callable[[set[int], set[int]], set[int]]]] = [
    (_key_lists.union, set.union),
    (_key_lists.intersection, set.intersection),
    (_key_lists.difference, set.difference),
    (_key_lists.symmetric_difference, set.symmetric_difference),
]
KEYS = st.sets(st.one_of(st.integers(0, 40), st.integers(MAX_KEY - 3, MAX_KEY)), min_size=1, max_size=30)


@pytest.mark.parametrize(("operation", "model"), OPERATIONS)
@given(a=KEYS, b=KEYS)
@settings(deadline=None, max_examples=60)
def test_lists_give_what_sets_give(operation: Any, model: Any, a: set[int], b: set[int]) -> None:
    one, two = (np.array(sorted(keys), np.int64) for keys in (a, b))
    found = operation(one, two)
    assert found.tolist() == sorted(model(a, b))
    assert (one.tolist(), two.tolist()) == (sorted(a), sorted(b))


@pytest.mark.parametrize("step", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [5, 40, 3000, 9000])
def test_few_keys_and_many_give_the_same(step: int, size: int) -> None:
    """At any size, and for short ranges as for single keys, operators of row sets agree with Python's sets."""
    random = np.random.default_rng(size + step)
    for _ in range(4):
        a, b = (np.unique(random.integers(0, 2 * size, size) // step * step) for _ in range(2))
        if step == 3:  # as ranges of three
            a, b = (np.unique(np.concatenate([keys, keys + 1, keys + 2])) for keys in (a, b))
        one, two = RowSet.from_keys(a), RowSet.from_keys(b)
        for one_form, two_form in ((one, two), (one | RowSet.from_keys([0, 2]), two - RowSet.from_keys([4]))):
            one_set, two_set = set(one_form.keys().tolist()), set(two_form.keys().tolist())
            assert (one_form | two_form).keys().tolist() == sorted(one_set | two_set)
            assert (one_form & two_form).keys().tolist() == sorted(one_set & two_set)
            assert (one_form - two_form).keys().tolist() == sorted(one_set - two_set)
            assert (one_form ^ two_form).keys().tolist() == sorted(one_set ^ two_set)
            both = RowSet.union_all([one_form, two_form, RowSet.from_keys([1, 5]), RowSet.from_keys([9, 11])])
            assert both.keys().tolist() == sorted(one_set | two_set | {1, 5, 9, 11})


def test_a_difference_that_takes_nothing_is_the_set_itself() -> None:
    rows = RowSet.from_keys([1, 5, 9])
    assert rows - RowSet.from_keys([2, 6]) is rows
