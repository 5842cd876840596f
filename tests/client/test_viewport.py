"""What users may write for a viewport."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from barrage_server.client.window import Viewport, positions_of
from barrage_server.errors import InvalidRequestError
from barrage_server.rowset import RowSet


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, None),
        (range(5), RowSet.flat(5)),
        (range(100, 200), RowSet.from_range(100, 199)),
        (range(0), RowSet.empty()),
        (range(7, 3), RowSet.empty()),
        (range(0, 10, 4), RowSet.from_keys([0, 4, 8])),
        ([3, 1, 1], RowSet.from_keys([1, 3])),
        ((position for position in (2, 0)), RowSet.from_keys([0, 2])),
        (np.array([5, 6]), RowSet.from_keys([5, 6])),
        (RowSet.from_keys([1, 9]), RowSet.from_keys([1, 9])),
        (slice(0, 50), RowSet.flat(50)),
        (slice(50), RowSet.flat(50)),
        (slice(3, 50), RowSet.from_range(3, 49)),
        (slice(0, 10, 4), RowSet.from_keys([0, 4, 8])),
        (slice(7, 3), RowSet.empty()),
        (slice(10, None), RowSet.from_range(10, (1 << 63) - 1)),
        (slice(None), None),
        (slice(np.int64(1), np.int32(3)), RowSet.from_range(1, 2)),
        (range((1 << 63) - 5, 1 << 63), RowSet.from_range((1 << 63) - 5, (1 << 63) - 1)),
        ([7], RowSet.from_keys([7])),
        ((1, 2, 3), RowSet.from_range(1, 3)),
        ([], RowSet.empty()),
        (np.array([0, 50]), RowSet.from_keys([0, 50])),
    ],
)
def test_viewports_are_positions(given: Viewport, meant: RowSet | None) -> None:
    assert positions_of(given) == meant


@pytest.mark.parametrize(
    "given",
    [
        range(-5, 5),
        range(10, 0, -1),
        [-1],
        range(-9, 0, 3),
        slice(-50, None),
        slice(0, -1),
        slice(9, 3, -1),
        slice(None, None, -1),
    ],
)
def test_positions_do_not_count_from_the_end(given: Viewport) -> None:
    with pytest.raises(InvalidRequestError, match="reverse"):
        positions_of(given)


@pytest.mark.parametrize("given", [(0, 50), [0, 50], (np.int64(0), 50)])
def test_a_pair_is_refused_with_the_line_to_write(given: Viewport) -> None:
    with pytest.raises(InvalidRequestError, match=r"write range\(0, 50\).*RowSet\.from_keys"):
        positions_of(given)


@pytest.mark.parametrize(
    "given",
    [
        50,
        True,
        3.5,
        "abc",
        b"abc",
        [0.5],
        ["a"],
        [[1, 2], [3, 4]],
        [None],
        [True, False, True],
        {1: 2},
        {1, 2, 3},
        object(),
        slice("a", "b"),
        slice(0.0, 5.0),
        range(1 << 70),
        slice(0, 1 << 64),
        [1 << 63, 1, 2],
        [1 << 70, 1, 2],
        range(0, 1 << 40, 2),
    ],
)
def test_anything_else_is_refused_in_words(given: Any) -> None:
    with pytest.raises(InvalidRequestError, match=r"[Vv]iewport|[Pp]ositions"):
        positions_of(given)
