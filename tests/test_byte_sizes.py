"""Numbers of bytes in errors: in a unit that fits, and different where the numbers are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.byte_sizes import shown_apart

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("taken", "most", "texts"),
    [
        (2, 1, ("2 bytes", "1 byte")),
        (1, 0, ("1 byte", "0 bytes")),
        (0.5, 0, ("1 byte", "0 bytes")),
        (1_500, 1_000, ("1.5 KiB", "1,000 bytes")),
        (50_000, 40_000, ("48.9 KiB", "39.1 KiB")),
        (MIB + 1, MIB, ("1.1 MiB", "1 MiB")),
        (MIB, MIB - 1, ("1,048,576 bytes", "1,048,575 bytes")),
        (4.01 * GIB, 4.005 * GIB, ("4,305,704,715 bytes", "4,300,336,006 bytes")),
        (7 * GIB, 4 * GIB, ("7 GiB", "4 GiB")),
        (3_000 * GIB, 64 * KIB, ("3,000 GiB", "64 KiB")),
        (5 * MIB, 5 * MIB, ("5,242,880 bytes", "5,242,880 bytes")),
    ],
)
def test_both_are_in_units_that_fit(taken: float, most: float, texts: tuple[str, str]) -> None:
    assert shown_apart(taken, most) == texts


@given(st.integers(0, 1 << 50), st.integers(1, 1 << 30))
def test_different_numbers_are_told_apart(most: int, more: int) -> None:
    one, other = shown_apart(most + more, most)
    assert one != other
