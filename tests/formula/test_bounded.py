"""Arithmetic of times is that of whole numbers, and null where these need more bits than there are."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.formula import bounded, compile_formula
from barrage_server.formula.vectors import Cells

LEAST, MOST = -(2**63), 2**63 - 1
EDGES = [LEAST, LEAST + 1, -(2**62), -(2**32), -2, -1, 0, 1, 2, 3, 2**31, 2**32, 2**62, MOST - 1, MOST]
NUMBERS = st.lists(st.sampled_from(EDGES) | st.integers(LEAST, MOST) | st.integers(-(2**33), 2**33), max_size=20)


@pytest.mark.parametrize(
    ("function", "exact"),
    [(bounded.plus, operator.add), (bounded.minus, operator.sub), (bounded.times, operator.mul)],
    ids=["+", "-", "*"],
)
@given(left=NUMBERS, right=NUMBERS)
def test_results_are_exact_or_null(
    function: Callable[[Cells, Cells], Cells], exact: Callable[[int, int], int], left: list[int], right: list[int]
) -> None:
    pairs = [(a, b) for a in left for b in right]
    if not pairs:
        return
    found = function(*(Cells(np.array(values, np.int64)) for values in zip(*pairs, strict=True)))
    for place, (a, b) in enumerate(pairs):
        fits = LEAST <= exact(a, b) <= MOST
        assert (found.valid is None or bool(found.valid[place])) == fits
        if fits:
            assert int(found.values[place]) == exact(a, b)


@pytest.mark.parametrize(
    "text",
    [
        "toInstant(d, '10:00', 'UTC')",
        "t + 'P365D'",
        "t.plus('P365D')",
        "upperBin(t, DAY * 365)",
        "'PT2562047h' * 2",
        "-('PT0s' - 'PT2562047h47m16.854775807s' - 'PT0.000000001s')",
        "t - '1700-01-01T00:00 UTC'",
        "diffNanos('1700-01-01T00:00 UTC', t)",
        "plusDays(d, 2147483647L)",
        "d + 'P1D' * 2147483647",
        "epochDaysToLocalDate(4294967296L)",
        "epochSecondsToInstant(253402300799L)",
    ],
)
def test_a_time_out_of_range_is_null(text: str) -> None:
    columns = {"d": pa.date32(), "t": pa.timestamp("ns", "UTC")}
    inputs = {
        "d": pa.array([2_932_896, None], pa.int32()).cast(pa.date32()),  # 9999-12-31
        "t": pa.array([9_214_646_400_000_000_000, None], columns["t"]),  # 2262-01-01
    }
    assert compile_formula(text, columns).evaluate(inputs, 2).null_count == 2
