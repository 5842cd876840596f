"""The arguments of ``set_viewport``, as the next view."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

import numpy as np

from barrage_server.arguments import integer, optional_names
from barrage_server.client.view import View
from barrage_server.client.window import Viewport, positions_of
from barrage_server.errors import InvalidRequestError
from barrage_server.public import public

__all__ = ["KEEP", "Keep", "changed_view"]


@public
class Keep(Enum):
    """The type of :data:`KEEP`."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP
"""Keep the present value."""


def changed_view(
    now: View,
    viewport: Viewport | Keep | int,
    stop: int | Sequence[str] | Keep | None,
    columns: Sequence[str] | Keep | None,
    reverse: bool | Keep,
) -> View:
    """Return the view after :meth:`LiveTable.set_viewport` with these arguments.

    Raises:
        InvalidRequestError: the arguments make no viewport.

    """
    rows, wanted = _rows_and_columns(viewport, stop, columns)
    return View(
        now.positions if isinstance(rows, Keep) else positions_of(rows),
        now.reverse if isinstance(reverse, Keep) else bool(reverse),
        now.columns if isinstance(wanted, Keep) else optional_names(wanted, "columns"),
    )


def _rows_and_columns(
    viewport: Viewport | Keep | int, stop: int | Sequence[str] | Keep | None, columns: Sequence[str] | Keep | None
) -> tuple[Viewport | Keep | int, Sequence[str] | Keep | None]:
    """Parse arguments of which the second one is a stop, or the columns."""
    if isinstance(stop, Keep):
        return viewport, columns
    if isinstance(stop, int | np.integer):
        if isinstance(viewport, Keep):
            raise InvalidRequestError(f"A stop needs a start: set_viewport(0, {stop}).")
        start, end = integer(viewport, "The first of two positions"), integer(stop, "The position after the last")
        if end < start:
            raise InvalidRequestError(f"A viewport ends after its start: set_viewport({end}, {start}).")
        return range(start, end), columns
    if not isinstance(columns, Keep):
        raise InvalidRequestError("Columns are given once: as the second argument of set_viewport, or as columns=.")
    return viewport, stop
