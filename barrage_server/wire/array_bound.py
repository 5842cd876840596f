"""The bound of one Arrow array with 32-bit offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from barrage_server.errors import LimitError

__all__ = ["MOST_ITEMS", "read_in_parts"]

Result = TypeVar("Result")

MOST_ITEMS: Final = (1 << 31) - 1
"""The most bytes of texts, or items of lists, in one array."""


def read_in_parts(read: Callable[[int, int], Result], start: int, stop: int) -> Iterator[tuple[int, int, Result]]:
    """Read rows in as many parts as their size requires: one, as a rule.

    Args:
        read: reads the rows from a position up to another one; LimitError if one array cannot hold their values.
        start: the first position.
        stop: the position behind the last one.

    Returns:
        The parts in order: start, stop, and what was read.

    Raises:
        LimitError: one row alone is too large.

    """
    try:
        found = read(start, stop)
    except LimitError:
        middle = (start + stop) // 2
        if middle == start:
            raise
        yield from read_in_parts(read, start, middle)
        yield from read_in_parts(read, middle, stop)
    else:
        yield start, stop, found
