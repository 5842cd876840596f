"""What users give for a viewport, and the row positions that it means."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from barrage_server.errors import InvalidRequestError
from barrage_server.rowset import RowSet

__all__ = ["Viewport", "positions_of"]

Viewport = range | RowSet | Iterable[int] | None
"""What users may give for a viewport: a range, a row set of positions, any positions, or None for the whole table."""


def positions_of(viewport: Viewport) -> RowSet | None:
    """The positions that ``viewport`` names, as a row set; None stays None and means the whole table.

    Raises:
        InvalidRequestError: a negative position, or a range that runs backwards.
    """
    if viewport is None or isinstance(viewport, RowSet):
        return viewport
    if isinstance(viewport, range):
        if viewport.step < 0:
            raise InvalidRequestError(
                f"a viewport runs forwards; use reverse=True to count from the end, not {viewport}"
            )
        if len(viewport) and viewport[0] < 0:
            raise InvalidRequestError(f"positions start at 0; use reverse=True to count from the end, not {viewport}")
        if viewport.step == 1:
            return RowSet.from_range(viewport.start, viewport.stop - 1) if len(viewport) else RowSet.empty()
    positions = np.fromiter(viewport, dtype=np.int64)
    if len(positions) and positions.min() < 0:
        raise InvalidRequestError("positions start at 0; use reverse=True to count from the end")
    return RowSet.from_keys(positions)
