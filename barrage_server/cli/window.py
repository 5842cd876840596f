"""The position of a screen in a table: its rows, and the columns that fit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["GAP", "ColumnLayout", "Scroll"]

GAP: Final = 2
"""Number of blanks between two columns."""


@dataclass(slots=True)
class Scroll:
    """The rows on a screen, as positions in a table that may change meanwhile.

    Attributes:
        bounds: positions to scroll through; None for all.
        reverse: positions count from the last row, so that the screen stays at the end of a growing table.
        top: the first position on the screen, from the beginning of the bounds; in reverse the last one.
        column: the first column on the screen that is not a key.
    """

    bounds: range | None = None
    reverse: bool = False
    top: int = 0
    column: int = 0

    def total(self, table_size: int) -> int:
        """Number of rows to scroll through, of a table with ``table_size`` rows."""
        if self.bounds is None:
            return table_size
        return max(0, min(self.bounds.stop, table_size) - self.bounds.start)

    def positions(self, page: int) -> range:
        """The positions on a screen with ``page`` rows, counted as :attr:`reverse` says."""
        base = 0 if self.bounds is None else self.bounds.start
        stop = base + self.top + page
        return range(base + self.top, stop if self.bounds is None else min(stop, self.bounds.stop))

    def first_row(self, page: int, table_size: int) -> int:
        """The position of the first row on the screen, from the table's first row."""
        shown = self.positions(page)
        return max(0, table_size - shown.stop) if self.reverse else shown.start

    def move(self, rows: int, page: int, table_size: int) -> None:
        """Move down by ``rows``, or up when negative, within the table."""
        last = max(0, self.total(table_size) - page)
        self.top = min(max(0, self.top - rows if self.reverse else self.top + rows), last)

    def home(self, page: int, table_size: int) -> None:
        """Go to the first row."""
        if self.bounds is None:
            self.reverse = False
        self.top = max(0, self.total(table_size) - page) if self.reverse else 0

    def end(self, page: int, table_size: int) -> None:
        """Go to the last row, and follow added rows unless there are bounds."""
        if self.bounds is None:
            self.reverse = True
        self.top = 0 if self.reverse else max(0, self.total(table_size) - page)


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The columns that a screen shows, and the targets of the arrow keys.

    A column is shown whole or not at all; the first one alone may be wider than the screen.

    Attributes:
        widths: widths of all columns, in characters.
        keys: numbers of the columns that stay on the screen, provided that they leave half of it to the others.
        available: width of the screen, in characters.
    """

    widths: Sequence[int]
    keys: Collection[int]
    available: int

    def shown(self, first: int) -> list[int]:
        """The numbers of the columns to show: keys, and others that fit from ``first``."""
        widths = self.widths
        pinned = [number for number in range(min(first, len(widths))) if number in self.keys]
        if sum(widths[number] + GAP for number in pinned) > self.available // 2:
            pinned = []
        shown, used = list(pinned), sum(widths[number] + GAP for number in pinned)
        for number in range(first, len(widths)):
            if shown != pinned and used + widths[number] > self.available:
                break
            shown.append(number)
            used += widths[number] + GAP
        return shown

    def nearest(self, first: int) -> int:
        """The smallest number up to ``first`` that shows the last column, or ``first``."""
        first = max(0, min(first, len(self.widths) - 1))
        while first > 0 and self._shows_last(first - 1):
            first -= 1
        return first

    def after(self, first: int) -> int:
        """The target of a step to the right: the next column with another view."""
        return first if self._shows_last(first) else self._stepped(first, 1)

    def before(self, first: int) -> int:
        """The target of a step to the left."""
        return self._stepped(first, -1)

    def _stepped(self, first: int, step: int) -> int:
        """The next number in the direction of ``step`` with another view, or the last."""
        now, last = self.shown(first), 0 if step < 0 else max(0, len(self.widths) - 1)
        while first != last:
            first += step
            if self.shown(first) != now:
                break
        return first

    def _shows_last(self, first: int) -> bool:
        return len(self.widths) - 1 in (-1, *self.shown(first)[-1:])
