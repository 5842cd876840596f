"""The rows of each group as lists, with values read from the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.ranges import ranges_of
from barrage_server.engine.redirected import in_order, numbers_of, pick
from barrage_server.engine.storage import from_storage, storage_type, to_storage
from barrage_server.engine.values import take
from barrage_server.engine.view import ColumnView
from barrage_server.errors import LimitError
from barrage_server.fixed_limits import LIST_ITEMS
from barrage_server.operations.accumulators import Accumulator
from barrage_server.operations.gathered import GatheredView
from barrage_server.operations.group_totals import GroupArray, GroupTotals
from barrage_server.rowset import RowSet

__all__ = ["GroupView", "Listed", "Members", "divided", "lists_of"]

_STEPS: Final = 16
"""Rows that can be read in the time of one binary search for a group."""
_BLOCK: Final = 1 << 16


class Members:
    """The rows of each group in one version; immutable.

    Args:
        places: the slots of rows in an order by group, then by key.
        keys: the row key in each slot.
        groups: the group of each row, by its key.

    """

    __slots__ = ("_groups", "_keys", "_places")

    def __init__(self, places: RowSet, keys: ColumnView, groups: ColumnView) -> None:
        self._places = places
        self._keys = keys
        self._groups = groups

    def of(self, groups: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The keys of the rows of groups, group by group, and the size of each group.

        Args:
            groups: the groups, ascending.

        """
        bounds = np.unique(np.concatenate((groups, groups + 1)))
        positions = self._positions(bounds)
        first = positions[np.searchsorted(bounds, groups)]
        lengths = positions[np.searchsorted(bounds, groups + 1)] - first
        return self._keys_at(ranges_of(first, lengths)), lengths

    def parts_of(self, groups: Int64Array, first: Int64Array, lengths: Int64Array) -> Int64Array:
        """The keys of ranges of rows within groups, which may repeat.

        Args:
            groups: the groups, in any order.
            first: for each the place within it of the first row wanted.
            lengths: for each how many rows are wanted.

        """
        some, where = np.unique(groups[lengths > 0], return_inverse=True)
        begin = np.zeros(len(groups), np.int64)
        begin[lengths > 0] = self._positions(some)[where] + first[lengths > 0]
        return self._keys_at(ranges_of(begin, lengths))

    def compact(self) -> None:
        """Compact the maps."""
        self._keys.compact()
        self._groups.compact()

    def _keys_at(self, positions: Int64Array) -> Int64Array:
        return numbers_of(pick([self._keys], self._places.select(positions))[0])

    def _groups_at(self, positions: Int64Array) -> Int64Array:
        return numbers_of(pick([self._groups], self._keys_at(positions))[0])

    def _positions(self, bounds: Int64Array) -> Int64Array:
        """The position of the first row at or behind each of ascending groups."""
        if not len(bounds):
            return bounds
        low, high = self._searched(bounds[[0, -1]], 0, self._places.size).tolist()
        if high - low > _STEPS * len(bounds):
            return self._searched(bounds, low, high)
        parts = [np.arange(start, min(start + _BLOCK, high)) for start in range(low, high, _BLOCK)]
        groups = np.concatenate([self._groups_at(part) for part in parts]) if parts else bounds[:0]
        return np.searchsorted(groups, bounds).astype(np.int64) + int(low)

    def _searched(self, bounds: Int64Array, start: int, end: int) -> Int64Array:
        """Find positions by binary search from ``start`` to ``end``."""
        low, high = np.full(len(bounds), start), np.full(len(bounds), end)
        while len(open_ := np.flatnonzero(low < high)):
            middle = (low[open_] + high[open_]) >> 1
            is_below = self._groups_at(middle) < bounds[open_]
            low[open_[is_below]] = middle[is_below] + 1
            high[open_[~is_below]] = middle[~is_below]
        return low


class GroupView(GatheredView):
    """A column of the input, as a list of its values for each group.

    Args:
        view: the column.
        members: the rows. One object for all columns of a version, which share the work of finding them.

    """

    __slots__ = ("_members",)

    def __init__(self, view: ColumnView, members: Members) -> None:
        super().__init__(view, members, data_type=pa.list_(view.type))
        self._members = members

    def read(self, plan: ReadPlan) -> pa.Array:
        """Find the rows, read them in their order, and divide them into lists."""
        known = plan.in_source
        if known is None or known[0] is not self._members:
            keys, lengths = self._members.of(plan.keys)
            known = plan.in_source = (self._members, (*in_order(keys), lengths))
        inner, places, lengths = known[1]
        return lists_of(take(self._view.read(inner), places), lengths)


class Listed(Accumulator):
    """All values of a column, as lists; no state.

    The column of results is a :class:`GroupView`.
    """

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """Lists of the column's type."""
        return pa.list_(types[0])

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """Nothing."""
        return ()

    def change(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Do nothing."""

    def results(self, groups: Int64Array) -> pa.Array:
        """Never called: the lists are read from the input."""
        raise NotImplementedError


def lists_of(values: pa.Array, lengths: Int64Array) -> pa.Array:
    """Divide values into lists of these lengths.

    Raises:
        LimitError: they are too many for one array.

    """
    if len(values) > LIST_ITEMS.most:
        raise LimitError(
            f"The lists of some groups have {len(values):,} values, and {LIST_ITEMS.most:,} is the most of one "
            f"array ({LIST_ITEMS.name}). Read fewer groups at a time."
        )
    return divided(values, lengths, pa.list_(values.type))


def divided(items: pa.Array, lengths: Int64Array, data_type: pa.DataType) -> pa.Array:
    """Divide the items of lists, which are one behind the other.

    Args:
        items: of the item type of ``data_type``, or of its storage type; at most as many as one array takes.
        lengths: int64, the length of each list; -1 for a null list.
        data_type: the type of the lists.

    """
    is_null = lengths < 0
    offsets = np.concatenate(([0], np.cumsum(np.maximum(lengths, 0)))).astype(np.int32)
    lists = pa.ListArray.from_arrays(
        pa.array(offsets),
        to_storage(items),
        type=storage_type(data_type),
        mask=pa.array(is_null) if is_null.any() else None,
    )
    return from_storage(lists, data_type)
