"""Columns of lists whose items are consecutive rows of another table."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.interrupts import check_interrupt
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.redirected import in_order, numbers_of
from barrage_server.engine.storage import to_storage
from barrage_server.engine.values import take
from barrage_server.engine.view import ColumnView
from barrage_server.errors import LimitError
from barrage_server.fixed_limits import RANGE_ITEMS
from barrage_server.operations.gathered import GatheredView
from barrage_server.operations.members import Members, divided
from barrage_server.operations.row_places import check_copies

__all__ = ["RangeMembers", "RangeView"]

_BLOCK: Final = 1 << 20


class RangeMembers:
    """The rows of the list of each row in one version; immutable.

    Args:
        members: the rows of each group, in the order of their values.
        groups: the group of each row that has a list.
        first: where its list begins in the group.
        length: how long it is; -1 for null.
        columns: the number of columns of lists.

    """

    __slots__ = ("_first", "_groups", "_length", "_lists", "_members")

    def __init__(
        self, members: Members, groups: ColumnView, first: ColumnView, length: ColumnView, columns: int = 1
    ) -> None:
        self._lists = max(columns, 1)
        self._members = members
        self._groups = groups
        self._first = first
        self._length = length

    def of(self, plan: ReadPlan) -> tuple[Int64Array, Int64Array]:
        """The keys of the items, row by row, and the length of each list.

        The length is -1 for a null list.

        Raises:
            LimitError: they are too many.

        """
        groups, first, length = (numbers_of(view.read(plan)) for view in (self._groups, self._first, self._length))
        counts = np.maximum(length, 0)
        total = int(counts.sum())
        most = RANGE_ITEMS.most // self._lists
        if total > most:
            raise LimitError(
                f"The lists of {plan.size:,} rows have {total:,} items in each column, and "
                f"{most:,} is the most that is read at once ({RANGE_ITEMS.name}). Use narrower ranges."
            )
        check_interrupt()
        return self._members.parts_of(groups, first, counts), length

    def compact(self) -> None:
        """Compact the maps."""
        self._members.compact()
        for view in (self._groups, self._first, self._length):
            view.compact()


class RangeView(GatheredView):
    """A column of another table, as lists.

    Args:
        view: the column.
        ranges: the rows. One object for all columns of a version, which share the work of finding them.

    """

    __slots__ = ("_ranges",)

    def __init__(self, view: ColumnView, ranges: RangeMembers) -> None:
        super().__init__(view, ranges, data_type=pa.list_(view.type))
        self._ranges = ranges

    def read(self, plan: ReadPlan) -> pa.Array:
        """Find the rows, read them in their order, and divide them into lists."""
        known = plan.in_source
        if known is None or known[0] is not self._ranges:
            known = plan.in_source = (self._ranges, self._ranges.of(plan))
        keys, lengths = known[1]
        parts = [self._items(keys[start : start + _BLOCK]) for start in range(0, len(keys), _BLOCK)] or [
            self._items(keys)
        ]
        items = parts[0] if len(parts) == 1 else pa.concat_arrays([to_storage(part) for part in parts])
        return divided(items, lengths, self.type)

    def _items(self, keys: Int64Array) -> pa.Array:
        check_interrupt()
        inner, places = in_order(keys)
        values = self._view.read(inner)
        check_copies(values, places)
        return take(values, places)
