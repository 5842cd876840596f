"""Viewports as users write them, and their row positions."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import numpy as np

from barrage_server.arguments import shown
from barrage_server.errors import InvalidRequestError
from barrage_server.rowset import RowSet

__all__ = ["Viewport", "positions_of"]

Viewport: TypeAlias = range | slice | RowSet | Iterable[int] | None
"""A viewport as users write it: ``range(0, 50)`` or ``slice(0, 50)``, which mean the same; positions, as a row set or
any other collection but a pair; or None for the whole table."""

_LAST: Final = (1 << 63) - 1
_LISTED: Final = 1 << 24
"""The most single positions in a viewport."""
_FROM_THE_END: Final = "To count from the end, pass reverse=True: range(0, 50) are the last fifty rows then"
_ONES: Final = "for single positions pass bs.RowSet.from_keys([...])"


def positions_of(viewport: Viewport | int) -> RowSet | None:
    """Return the positions of ``viewport`` as a row set; None for the whole table.

    A slice without a stop reaches to the end of the table, also when the table grows.

    Raises:
        InvalidRequestError: it is not a viewport, has a negative position, runs backwards, or is a pair, which could
            mean a range or two positions.
    """
    if viewport is None or isinstance(viewport, RowSet):
        return viewport
    if isinstance(viewport, slice):
        return _of_slice(viewport)
    if isinstance(viewport, range):
        return _of_range(viewport, viewport.start, viewport.stop, viewport.step)
    if _is_integer(viewport):
        raise InvalidRequestError(
            f"A viewport is a range of positions, not a number: write range(0, {viewport}), or set_viewport(0, "
            f"{viewport}) to move a window."
        )
    if isinstance(viewport, tuple | list) and len(viewport) == 2 and all(map(_is_integer, viewport)):
        start, stop = viewport
        raise InvalidRequestError(
            f"The pair {shown(viewport)} could mean a range or two positions: write range({start}, {stop}); {_ONES}."
        )
    return _of_positions(viewport)


def _of_slice(given: slice) -> RowSet | None:
    try:
        start, stop, step = (
            default if value is None else operator.index(value)
            for value, default in ((given.start, 0), (given.stop, _LAST + 1), (given.step, 1))
        )
    except TypeError:
        raise InvalidRequestError(f"A viewport is made of integers, not {shown(given)}.") from None
    if given.start is None and given.stop is None and step == 1:
        return None
    return _of_range(given, start, stop, step)


def _of_range(given: range | slice, start: int, stop: int, step: int) -> RowSet:
    if start < 0 or stop < 0:
        raise InvalidRequestError(f"Positions start at 0, not {shown(given)}. {_FROM_THE_END}.")
    if step < 1:
        raise InvalidRequestError(f"A viewport runs forwards, not {shown(given)}. {_FROM_THE_END}.")
    if start >= stop:
        return RowSet.empty()
    if stop > _LAST + 1:
        raise InvalidRequestError(f"Positions are below 2**63, not {shown(given)}; slice({start}, None) has no end.")
    if step == 1:
        return RowSet.from_range(start, stop - 1)
    if (stop - start) // step >= _LISTED:
        raise InvalidRequestError(f"A viewport of {shown(given)} has more single positions than a request can have.")
    return RowSet.from_keys(np.arange(start, stop, step, dtype=np.int64))


def _of_positions(given: Any) -> RowSet:
    wanted = f"A viewport is a range such as range(0, 50), not {shown(given)}; {_ONES}."
    if isinstance(given, str | bytes | dict | set | frozenset) or not isinstance(given, Iterable):
        raise InvalidRequestError(wanted)
    found = np.asarray(given if isinstance(given, np.ndarray) else list(given))
    if not found.size:
        return RowSet.empty()
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InvalidRequestError(wanted)
    if int(found.min()) < 0:
        raise InvalidRequestError(f"Positions start at 0, not {shown(given)}. {_FROM_THE_END}.")
    if int(found.max()) > _LAST:
        raise InvalidRequestError(f"Positions are below 2**63, not {shown(given)}.")
    return RowSet.from_keys(found.astype(np.int64))


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
