"""Values as texts: short, printable, and nothing that a value can be breaks them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.cli.cells import NULL, cell_text, change_text, row_texts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NULL),
        (True, "true"),
        (12_345_678, "12345678"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1234567.25, "1234567.25"),
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


def test_floats_have_the_digits_of_their_width() -> None:
    assert row_texts([pa.array([0.1, None], pa.float32()), pa.array([0.1, None], pa.float64())]) == [
        ("0.1", "0.1"),
        (NULL, NULL),
    ]


_NAMES = st.one_of(st.none(), st.text().filter(lambda text: "->" not in text))
_CHANGES: list[tuple[pa.DataType, st.SearchStrategy[object]]] = [
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (
        pa.string(),
        st.one_of(
            st.none(),
            st.text().filter(lambda text: "->" not in text),
            st.sampled_from([NULL, "a\tb", "a b", "x" * 39 + "…"]),
        ),
    ),
    (pa.string(), st.text("ab\u2026").map(lambda end: "x" * 60 + end)),
    (pa.binary(), st.binary().map(lambda end: b"0" * 60 + end)),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 1), min_size=30, max_size=32)),
    (pa.timestamp("ns"), st.integers(0, 10)),
    (pa.list_(pa.timestamp("ns")), st.lists(st.integers(0, 10), min_size=1, max_size=2)),
]


@given(st.sampled_from(_CHANGES).flatmap(lambda of: st.tuples(st.just(of[0]), of[1], of[1])))
def test_a_change_always_looks_different(drawn: tuple[pa.DataType, object, object]) -> None:
    kind, *values = drawn
    before, after = pa.array(values, kind)
    old, new = change_text(before, after).split("->")
    assert len(old) <= 40
    assert len(new) <= 40
    assert (old == new) == (repr(values[0]) == repr(values[1]))
