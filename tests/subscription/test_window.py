"""Windows: viewports in position space, forwards and in reverse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import UnknownColumnError
from barrage_server.rowset import RowSet
from barrage_server.subscription.window import Window, check_columns


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.booleans())
def test_a_window_is_the_rows_at_its_positions(keys: set[int], positions: set[int], reverse: bool) -> None:
    """Position 0 is the first row, or the last one in reverse; positions beyond the table have no rows."""
    ordered = sorted(keys, reverse=reverse)
    expected = {ordered[position] for position in positions if position < len(ordered)}
    window = Window((0,), RowSet.from_keys(sorted(positions)), reverse)
    assert set(window.keys(RowSet.from_keys(sorted(keys))).keys().tolist()) == expected


def test_a_full_window_is_the_whole_table() -> None:
    """Without positions there is no limit."""
    rows = RowSet.from_keys([3, 9])
    assert Window((0,)).keys(rows) is rows
    assert Window((0,)).is_full


def test_columns_are_a_set_of_known_numbers() -> None:
    """None means all, an empty set none; a number beyond the schema is refused."""
    assert check_columns(None, 3) == (0, 1, 2)
    assert check_columns((2, 0, 2), 3) == (0, 2)
    assert check_columns((), 3) == ()
    with pytest.raises(UnknownColumnError, match="number 3"):
        check_columns((3,), 3)
