"""Rows that are added at the end and leave at the front, numbered for life."""

from __future__ import annotations

import numpy as np

from barrage_server.engine.operator import Change
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.version import TableVersion
from barrage_server.rowset import RowSet

__all__ = ["DisorderError", "Sequence", "check_in_order"]


class DisorderError(Exception):
    """The rows do not come in the order of their x."""


class Sequence:
    """The rows of one version, numbered.

    Args:
        version: the version.
        by_key: whether their numbers are their row keys, which have no gaps, as in a ring; otherwise their positions.

    Attributes:
        version: the version.
        begin: the number of the first row.
        end: the number behind the last row.

    """

    def __init__(self, version: TableVersion, *, by_key: bool) -> None:
        self.version = version
        rows = version.row_set
        if by_key and rows and not rows.is_contiguous:
            raise DisorderError
        self.begin = rows.first_key if by_key and rows else 0
        self.end = self.begin + rows.size
        self._rows = rows
        self._offset = rows.first_key - self.begin if rows and rows.is_contiguous else None

    def rows(self, starts: Int64Array, ends: Int64Array) -> RowSet:
        """The rows of ascending, disjoint, non-empty ranges of numbers."""
        joined = np.flatnonzero(starts[1:] > ends[:-1]) + 1
        firsts, lasts = starts[np.append(0, joined)], ends[np.append(joined - 1, len(ends) - 1)] - 1
        if self._offset is not None:
            return RowSet.from_ranges(firsts + self._offset, lasts + self._offset)
        return self._rows.subset(RowSet.from_ranges(firsts - self.begin, lasts - self.begin))

    def range(self, start: int, end: int) -> RowSet:
        """The rows numbered from ``start`` to ``end``."""
        return self._rows.slice(start - self.begin, end - self.begin)

    def keys(self, numbers: Int64Array) -> Int64Array:
        """The row keys of numbers, in any order."""
        if self._offset is not None:
            return numbers + self._offset
        return self._rows.select(numbers - self.begin)


def check_in_order(change: Change, columns: tuple[int, ...]) -> None:
    """Raise DisorderError unless rows came at the end and left at the front.

    The other rows must have kept their values and keys.
    """
    update, before, after = change.update, change.before.row_set, change.after.row_set
    stays = not update.shifted.size and not any(update.modified[column] for column in columns)
    comes_last = not update.added or not before or update.added.first_key > before.last_key
    leaves_first = not update.removed or not (after - update.added) or update.removed.last_key < after.first_key
    if not (stays and comes_last and leaves_first):
        raise DisorderError
