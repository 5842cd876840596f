"""What users may write for a viewport."""

from __future__ import annotations

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
    ],
)
def test_viewports_are_positions(given: Viewport, meant: RowSet | None) -> None:
    assert positions_of(given) == meant


@pytest.mark.parametrize("given", [range(-5, 5), range(10, 0, -1), [-1], range(-9, 0, 3)])
def test_positions_do_not_count_from_the_end(given: Viewport) -> None:
    with pytest.raises(InvalidRequestError, match="reverse"):
        positions_of(given)
