"""The marks of each part of a range: the rows that a line goes through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from barrage_server.engine.plan import Int64Array
from barrage_server.operations.downsample.axis import Number

__all__ = ["Marks", "Patch", "Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """The range that a plot shows.

    Attributes:
        first: where it begins; None: with the first row.
        last: where it ends; None: with the last row.
        tail_rows: only the last rows, in number.
        tail_x: only the rows so far before the greatest value.
        pixels: parts, at least.

    """

    first: Number | None
    last: Number | None
    tail_rows: int | None
    tail_x: Number | None
    pixels: int


class Marks(NamedTuple):
    """The numbers of marked rows, an entry for each part that has rows.

    Attributes:
        first: the first row.
        last: the last row.
        least: for each series, the row with the least number; -1 without one.
        greatest: the same for the greatest.

    """

    first: Int64Array
    last: Int64Array
    least: tuple[Int64Array, ...]
    greatest: tuple[Int64Array, ...]


class Patch(NamedTuple):
    """A change of the parts.

    Attributes:
        is_new: whether all parts are others.
        dropped: parts that have left at the front.
        marks: for parts from a position on, counted without those that have left, what is shown of them now; a part
            that was not there is behind the others. After the last of these nothing is left.

    """

    is_new: bool
    dropped: int
    marks: tuple[tuple[int, Marks], ...]
