"""Columns of another table, read through a map of row keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.sorting import sort_with_positions
from barrage_server.engine.values import take
from barrage_server.engine.view import ColumnView
from barrage_server.rowset import MAX_KEY

__all__ = ["RedirectedView", "in_order", "numbers_of", "pick"]


def numbers_of(array: pa.Array) -> Int64Array:
    """The values of an int64 array without nulls, such as row keys, without a copy."""
    return np.asarray(array.to_numpy(zero_copy_only=False))


def pick(views: list[ColumnView], keys: Int64Array) -> list[pa.Array]:
    """The values of columns under row keys in any order, repeated ones included."""
    plan, places = in_order(keys)
    return [take(view.read(plan), places) for view in views]


class RedirectedView(ColumnView):
    """A column of another table, read through a map of row keys.

    Args:
        view: the column.
        rows: the map: for each row its key in the other table, an int64 column without nulls. One object for all
            columns of a version, which share the search for the rows.
    """

    __slots__ = ("_rows", "_view", "depth", "is_frozen", "type")

    def __init__(self, view: ColumnView, rows: ColumnView) -> None:
        self.type = view.type
        self.is_frozen = False
        self.depth = view.depth + 1
        self._view = view
        self._rows = rows

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the rows in the order of the other table, and reorder them."""
        known = plan.in_source
        if known is None or known[0] is not self._rows:
            keys = numbers_of(self._rows.read(plan))
            known = plan.in_source = (self._rows, in_order(keys))
        inner, places = known[1]
        return take(self._view.read(inner), places)

    def piece_end(self, key: int) -> int:  # noqa: ARG002  (as every view has it)
        """The end of the key space, because values are copied in any case."""
        return MAX_KEY

    def compact(self) -> None:
        """Compact the column and the map."""
        self._view.compact()
        self._rows.compact()


def in_order(keys: Int64Array) -> tuple[ReadPlan, Int64Array]:
    """The plan for row keys in any order, and the place of each key in it."""
    ordered, positions = sort_with_positions(keys)
    is_first = np.ones(len(keys), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    places = np.empty(len(keys), np.int64)
    places[positions] = np.cumsum(is_first) - 1
    return ReadPlan.from_keys(ordered[is_first]), places
