"""Values as texts: short, printable, and nothing that a value can be breaks them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.cli.cells import NULL, cell_text, row_texts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NULL),
        (True, "true"),
        (12_345_678, "12345678"),
        (0.1 + 0.2, "0.3"),
        ("plain", "plain"),
        ("two\nlines\x1b[31m", "two lines [31m"),
        (b"\x00\xff", "00ff"),
        (dt.datetime(2013, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2013-01-02 03:04:05"),
        (dt.date(2013, 1, 2), "2013-01-02"),
        ([1, None], "[1, None]"),
        ("x" * 100, "x" * 39 + "…"),
    ],
)
def test_values_become_short_texts(value: object, text: str) -> None:
    assert cell_text(value) == text


@given(st.text())
def test_no_text_can_move_the_cursor(value: str) -> None:
    text = cell_text(value)
    assert text.isprintable()
    assert len(text) <= 40


def test_times_that_python_cannot_hold_are_shown_all_the_same() -> None:
    far = pa.array([2**62], pa.timestamp("s"))
    fine = pa.array([1], pa.timestamp("ns"))
    rows = row_texts([far, fine])
    assert len(rows) == 1
    assert all(rows[0])
