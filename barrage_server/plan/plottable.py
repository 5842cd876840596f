"""The method that makes the points of a plot."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from barrage_server.arguments import Duration, integer, names, shown, text
from barrage_server.errors import InvalidRequestError
from barrage_server.plan.copyable import Copyable, Result
from barrage_server.plan.downsample import MOST_PIXELS, MOST_SERIES, Downsample, Place
from barrage_server.plan.expression import duration_text
from barrage_server.plan.texts import Texts

__all__ = ["Plottable", "Result"]


class Plottable(Copyable[Result]):
    """A table to apply operations to, with the operation for plots."""

    def downsample(
        self,
        x: str | None,
        ys: Texts,
        first: Place | datetime | None = None,
        last: Place | datetime | None = None,
        tail_rows: int | None = None,
        tail_x: Duration | float | None = None,
        pixels: int = 1_000,
    ) -> Result:
        """The points of a plot of ``ys`` along ``x``.

        A range of ``x`` is divided into parts. Each part that has rows gives the first, least, greatest and last values
        of the columns.

        >>> points = trades.downsample("time", ["price", "size"], tail_x="PT5M", pixels=1200)

        The parts are powers of two wide, so that there are ``pixels`` to twice as many. A line through the points of
        all parts looks, to a column of pixels, like one through all rows. For each column ``y`` there are ``y_first``,
        ``y_least``, ``y_least_x``, ``y_greatest``, ``y_greatest_x`` and ``y_last``, and for all ``first_x`` and
        ``last_x``. Nulls and numbers that are not finite are gaps: they are neither least nor greatest.

        Args:
            x: a column of numbers or times; None: the positions of rows, counted from the first that there ever was.
                Where it does not rise with the rows, these are sorted by it, which takes time for all rows.
            ys: columns of numbers, up to eight.
            first: the range begins here, with the part before it that has rows: a number in the unit of the column, or
                a time as a text with a zone or a datetime. Without, it begins with the first row.
            last: the same for its end.
            tail_rows: only the last rows, in number; neither ``first`` nor ``last`` then, nor ``tail_x``.
            tail_x: only rows that lie this far before the greatest ``x``: a number in the unit of the column, or
                for times a text such as ``"PT5M"``, or a duration of Python, pandas or numpy.
            pixels: the width of the plot.

        """
        listed = names(ys, "ys", single=True)
        if len(listed) > MOST_SERIES:
            raise InvalidRequestError(f"ys must have at most {MOST_SERIES} columns, not {len(listed)}.")
        ways = [name for name, one in (("tail_rows", tail_rows), ("tail_x", tail_x)) if one is not None]
        if (first is not None or last is not None) and ways:
            raise InvalidRequestError(f"{ways[0]} must be None with first or last: a plot has one range.")
        if len(ways) > 1:
            raise InvalidRequestError("tail_rows must be None with tail_x: a plot has one range.")
        return self.operate(
            Downsample(
                None if x is None else text(x, "x"),
                listed,
                _place(first, "first"),
                _place(last, "last"),
                None if tail_rows is None else integer(tail_rows, "tail_rows", least=1),
                _distance(tail_x),
                integer(pixels, "pixels", least=1, most=MOST_PIXELS),
            )
        )


def _place(value: Any, what: str) -> Place | None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidRequestError(f"{what} must have a zone: datetime(..., tzinfo=timezone.utc).")
        return value.isoformat()
    return _number_or_text(value, what)


def _distance(value: Any) -> Place | None:
    found = duration_text(value)
    return _number_or_text(value, "tail_x") if found is None else found


def _number_or_text(value: Any, what: str) -> Place | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str) or value == "":
        raise InvalidRequestError(f"{what} must be a number or a text, not {shown(value)}.")
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise InvalidRequestError(f"{what} must be a finite number, not {shown(value)}.")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise InvalidRequestError(f"{what} must have 64 bits, not {shown(value)}.")
    return value
