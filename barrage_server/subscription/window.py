"""The part of a table that a subscriber requests: columns and row positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from barrage_server.errors import UnknownColumnError
from barrage_server.rowset import RowSet

__all__ = ["Window", "check_columns"]


@dataclass(frozen=True, slots=True)
class Window:
    """The columns and the viewport of a subscription.

    Attributes:
        columns: numbers of the subscribed columns, ascending.
        positions: the viewport, in position space; ``None`` for a full subscription. It may reach beyond the table.
        reverse: whether positions count from the end of the table, where 0 is the last row.

    """

    columns: tuple[int, ...]
    positions: RowSet | None = None
    reverse: bool = False

    @property
    def is_full(self) -> bool:
        """Whether the window is the whole table."""
        return self.positions is None

    @property
    def is_run(self) -> bool:
        """Whether the window is a viewport of one range of positions, not empty."""
        positions = self.positions
        return positions is not None and positions.size != 0 and positions.is_contiguous

    @property
    def is_forward_run(self) -> bool:
        """Whether the window is one range of positions from the start of the table."""
        return self.is_run and not self.reverse

    def count(self, size: int) -> int:
        """Return the number of rows in the window of a table of ``size`` rows."""
        return size if self.positions is None else self.positions.restrict(0, size - 1).size

    def keys(self, row_set: RowSet) -> RowSet:
        """Return the row keys in the window of a table with ``row_set``."""
        if self.positions is None:
            return row_set
        if not self.reverse:
            return row_set.subset(self.positions)
        return row_set.subset(_reversed(self.positions, row_set.size))


def _reversed(positions: RowSet, size: int) -> RowSet:
    """Convert positions from the end of ``size`` rows to positions from the start."""
    inside = positions.restrict(0, size - 1)
    starts, ends = inside.ranges()
    return RowSet.from_ranges(size - 1 - ends[::-1], size - 1 - starts[::-1])


def check_columns(columns: Sequence[int] | None, column_count: int) -> tuple[int, ...]:
    """Return the column numbers of a request, ascending; all columns for ``None``.

    Raises:
        UnknownColumnError: the table has no column of a number.

    """
    if columns is None:
        return tuple(range(column_count))
    wanted = tuple(sorted(set(columns)))
    if wanted and (wanted[0] < 0 or wanted[-1] >= column_count):
        raise UnknownColumnError(
            f"The request asks for column number {wanted[-1] if wanted[-1] >= column_count else wanted[0]}; "
            f"the table has the columns 0 to {column_count - 1}."
        )
    return wanted
