"""The operation that makes the points of a plot, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from barrage_server.plan.operation import Operation

__all__ = ["MOST_PIXELS", "MOST_SERIES", "Downsample", "Place"]

MOST_SERIES: Final = 8
MOST_PIXELS: Final = 16_384
Place: TypeAlias = int | float | str
"""A value of a column: a number in the column's unit, or a text such as ``"2024-06-15T10:00:00Z"``."""


@dataclass(frozen=True, slots=True)
class Downsample(Operation):
    """The first, least, greatest and last values in each part of a range of ``x``.

    Each part that has rows gives one row.

    Attributes:
        x: the column along which the rows are; None: their position.
        ys: the columns, up to eight.
        first: the range begins here; none: with the first row.
        last: the range ends here; none: with the last row.
        tail_rows: only the last rows, in number.
        tail_x: only the rows this far before the greatest ``x``, or a text such as ``"PT5M"``.
        pixels: parts of the range, at least; there are up to twice as many.

    """

    verb = "downsample"

    x: str | None
    ys: tuple[str, ...]
    first: Place | None = None
    last: Place | None = None
    tail_rows: int | None = None
    tail_x: Place | None = None
    pixels: int = 1_000
