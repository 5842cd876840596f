"""The rows of several tables, one table after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.operator import Changes, Inputs, Operator, Outcome
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.update import TableUpdate
from barrage_server.engine.values import concatenated
from barrage_server.engine.version import TableVersion
from barrage_server.engine.view import ColumnView
from barrage_server.errors import LimitError
from barrage_server.fixed_limits import ROW_KEY
from barrage_server.rowset import MAX_KEY, RowSet, RowSetShiftData

__all__ = ["BlockView", "Blocks", "Merge", "size_for"]

BLOCK_BITS: Final = 16
"""Blocks begin at multiples of this power of two, where pages of storage do."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The blocks of the key space, one for each table.

    Attributes:
        firsts: the first key of each, ascending.
        sizes: the number of keys of each.

    """

    firsts: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of_sizes(cls, sizes: Sequence[int]) -> Blocks:
        """Consecutive blocks.

        Raises:
            LimitError: they exceed the key space.

        """
        firsts, end = [], 0
        for size in sizes:
            firsts.append(end)
            end += size
        if end > MAX_KEY:
            raise LimitError(
                "The row keys of these tables are too large to be merged: behind each other they exceed "
                f"{ROW_KEY.most:,}, the largest row key ({ROW_KEY.name}). Flatten the tables first."
            )
        return cls(tuple(firsts), tuple(sizes))

    @classmethod
    def around(cls, versions: Sequence[TableVersion]) -> Blocks:
        """Blocks with room for the rows of ``versions``."""
        return cls.of_sizes([size_for(version.row_set, 0) for version in versions])

    def reaching(self, versions: Sequence[TableVersion]) -> Blocks:
        """The same blocks, or larger ones for tables that have outgrown theirs."""
        sizes = [size_for(version.row_set, size) for version, size in zip(versions, self.sizes, strict=True)]
        return self if tuple(sizes) == self.sizes else Blocks.of_sizes(sizes)

    def split(self, rows: RowSet) -> list[tuple[int, RowSet]]:
        """The rows by the number of their table, with their keys in the table.

        Tables without rows are left out.
        """
        if not rows:
            return []
        low = int(np.searchsorted(self.firsts, rows.first_key, "right")) - 1
        high = int(np.searchsorted(self.firsts, rows.last_key, "right"))
        parts = []
        for number in range(low, high):
            first = self.firsts[number]
            part = rows.restrict(first, first + self.sizes[number] - 1)
            if part:
                parts.append((number, part.shift(-first)))
        return parts


class BlockView(ColumnView):
    """A column composed of columns of several tables, each in its block of keys.

    Args:
        views: the columns, of one type.
        blocks: the blocks. One object for all columns of a version, which share the work of finding the rows.

    """

    __slots__ = ("_blocks", "_views", "depth", "is_frozen", "type")

    def __init__(self, views: Sequence[ColumnView], blocks: Blocks) -> None:
        self.type = views[0].type
        self.is_frozen = all(view.is_frozen for view in views)
        self.depth = 1 + max(view.depth for view in views)
        self._views = list(views)
        self._blocks = blocks

    def replaced(self, views: Mapping[int, ColumnView]) -> BlockView:
        """The same column with other views of some tables, by their places."""
        made: BlockView = object.__new__(BlockView)
        made.type, made.is_frozen, made.depth, made._blocks = self.type, self.is_frozen, self.depth, self._blocks
        changed = list(self._views)
        for place, view in views.items():
            changed[place] = view
        made._views = changed
        return made

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the rows of each table by their keys in the table."""
        known = plan.in_source
        if known is None or known[0] is not self._blocks:
            parts = [(number, ReadPlan.from_row_set(rows)) for number, rows in self._blocks.split(plan.rows)]
            known = plan.in_source = (self._blocks, parts)
        return concatenated([self._views[number].read(part) for number, part in known[1]], self.type)

    def piece_end(self, key: int) -> int:
        """The end of the piece of the table, or of its block."""
        number = int(np.searchsorted(self._blocks.firsts, key, "right")) - 1
        first = self._blocks.firsts[number]
        return min(self._views[number].piece_end(key - first) + first, first + self._blocks.sizes[number] - 1)

    def compact(self) -> None:
        """Compact the columns."""
        for view in self._views:
            view.compact()


class Merge(Operator):
    """The rows of the inputs, one input after the other.

    The state is row keys, and no values. A cycle costs the rows that change in the inputs. When an input outgrows its
    block, the block at least doubles, and the rows of the following inputs shift.

    Args:
        schema: the columns of the result.
        orders: for each input, the number of each of these columns.

    """

    name: ClassVar[str] = "merge"

    def __init__(self, schema: pa.Schema, orders: Sequence[Sequence[int]]) -> None:
        self.schema = schema
        self._orders = [tuple(order) for order in orders]
        self._blocks = Blocks((), ())
        self._rows = RowSet.empty()

    def start(self, inputs: Inputs) -> Outcome:
        """Concatenate the rows of the inputs."""
        self._blocks = Blocks.around(inputs)
        self._rows = RowSet.union_all(
            version.row_set.shift(first) for version, first in zip(inputs, self._blocks.firsts, strict=True)
        )
        return self._outcome(inputs, TableUpdate.of_added(self._rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Concatenate the updates of the inputs."""
        before, after = self._blocks, self._blocks.reaching(inputs)
        added, removed, modified = [], [], [[RowSet.empty()] for _ in self.schema]
        shifts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for number, (change, version) in enumerate(zip(changes, inputs, strict=True)):
            old, new = before.firsts[number], after.firsts[number]
            shifted = RowSetShiftData.empty()
            stayed = version.row_set
            if change is not None:
                update = change.update
                added.append(update.added.shift(new))
                removed.append(update.removed.shift(old))
                for rows, place in zip(modified, self._orders[number], strict=True):
                    rows.append(update.modified[place].shift(new))
                shifted = update.shifted
                stayed = change.before.row_set
                stayed = stayed - update.removed if new != old else stayed
            if new != old and stayed:
                apart = RowSetShiftData.from_arrays([0], [MAX_KEY - (new - old)], [new - old])
                shifted = shifted.then(apart, stayed)
            if shifted.size:
                shifts.append((shifted.starts + old, shifted.ends + old, shifted.deltas))
        own_shifts = RowSetShiftData.empty()
        if shifts:
            own_shifts = RowSetShiftData.from_arrays(*map(np.concatenate, zip(*shifts, strict=True)))
        union = RowSet.union_all
        update = TableUpdate(union(added), union(removed), own_shifts, tuple(map(union, modified)))
        self._blocks = after
        self._rows = update.apply_to(self._rows)
        return self._outcome(inputs, update)

    def _outcome(self, inputs: Inputs, update: TableUpdate) -> Outcome:
        views = []
        for number in range(len(self.schema)):
            parts = [version.views[order[number]] for version, order in zip(inputs, self._orders, strict=True)]
            views.append(BlockView(parts, self._blocks) if len(parts) > 1 else parts[0])
        return Outcome(self._rows, views, update)


def size_for(rows: RowSet, size: int) -> int:
    """The present size of a block, or twice the size that ``rows`` need."""
    needed = rows.last_key + 1 if rows else 0
    if needed <= size:
        return max(size, 1 << BLOCK_BITS)
    return max(1 << BLOCK_BITS, 1 << (2 * needed - 1).bit_length())
