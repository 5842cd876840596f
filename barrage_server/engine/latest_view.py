"""Columns that read unchanged rows from the visible version of their table."""

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
    """The current source of rows that a table has not changed for some cycles.

    The source is the visible version, or one pinned version. The visible version does not keep overwritten cells of
    other rows alive, as the version in which the rows came would. Before a cycle that changes the rows becomes visible,
    :meth:`pin` must name the last version with the rows.

    Args:
        latest: the columns of the table.
        views: the columns of the version to read until :meth:`unpin` is called.
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
        """Read ``views`` from now on."""
        self._pinned = views

    def unpin(self) -> None:
        """Read the visible version from now on, in which the rows must be unchanged."""
        self._pinned = None


class LatestView(ColumnView):
    """A column of rows that are read from their current source.

    Args:
        rows: the source; one object for all columns of a version.
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
        """Whether the current column is frozen."""
        return self._rows.views[self._number].is_frozen

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the current column."""
        return self._rows.views[self._number].read(plan)

    def piece_end(self, key: int) -> int:
        """The end of the piece in the current column."""
        return self._rows.views[self._number].piece_end(key)

    def compact(self) -> None:
        """Compact the current column."""
        self._rows.views[self._number].compact()
