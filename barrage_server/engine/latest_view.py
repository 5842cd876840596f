"""Columns of a table that goes on, read for rows that it has not changed since."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.view import ColumnView

__all__ = ["LatestView", "LatestViews", "UnchangedRows"]


class LatestViews:
    """The columns of the visible version of a table.

    Attributes:
        views: the columns.

    """

    __slots__ = ("views",)

    def __init__(self, views: Sequence[ColumnView]) -> None:
        self.views = views


class UnchangedRows:
    """Where rows are read that a table has not changed for some cycles: in its visible version, or in a certain one.

    Reading them there, and not where they were when they came, frees what the table overwrites for other rows. Before
    a cycle that changes them becomes visible, :meth:`pin` must name the last version that has them.

    Args:
        latest: the columns of the table.
        views: those of the version to read, until :meth:`unpin` is called.

    """

    __slots__ = ("__weakref__", "_latest", "_pinned")

    def __init__(self, latest: LatestViews, views: Sequence[ColumnView]) -> None:
        self._latest = latest
        self._pinned: Sequence[ColumnView] | None = views

    @property
    def views(self) -> Sequence[ColumnView]:
        """The columns to read now, for all rows at once."""
        latest = self._latest.views  # first: what it has afterwards may have changed the rows, and then they are pinned
        pinned = self._pinned
        return latest if pinned is None else pinned

    def pin(self, views: Sequence[ColumnView]) -> None:
        """Read these columns from now on."""
        self._pinned = views

    def unpin(self) -> None:
        """Read the visible version from now on, which must have the rows as they are."""
        self._pinned = None


class LatestView(ColumnView):
    """A column of rows that are read where they are now.

    Args:
        rows: where that is. One object for all columns of a version.
        number: the number of the column in the table.

    """

    __slots__ = ("_number", "_rows", "depth", "type")

    def __init__(self, rows: UnchangedRows, number: int) -> None:
        view = rows.views[number]
        self.type = view.type
        self.depth = view.depth + 1
        self._rows = rows
        self._number = number

    @property
    def is_frozen(self) -> bool:  # type: ignore[override]
        """As the column is now."""
        return self._rows.views[self._number].is_frozen

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the column as it is now."""
        return self._rows.views[self._number].read(plan)

    def piece_end(self, key: int) -> int:
        """As the column has it now."""
        return self._rows.views[self._number].piece_end(key)

    def compact(self) -> None:
        """As the column does now."""
        self._rows.views[self._number].compact()
