"""Updates: the change of one table in a cycle, and coalescing of updates.

Follows the update model of the Barrage concepts: an update is applied as removes (old keys), shifts, adds (new keys),
modifies (new keys). Columns are modified independently of each other, because coalescing leaves them with different
rows.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barrage_server.public import public
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = [
    "FoldedHistories",
    "TableUpdate",
    "UpdateNode",
    "added_since",
    "all_columns",
    "coalesce",
    "coalesce_all",
    "coalesce_nodes",
    "earlier_node",
    "fold_nodes",
]

_MANY_NODES: Final = 8
"""The result of coalescing more updates than this is cached for later readers."""


@public
@dataclass(frozen=True, slots=True)
class TableUpdate:
    """The change of one table from one version to a later one.

    Attributes:
        added: rows that are new, in the key space after the update.
        removed: removed rows, in the key space before the update. A key in both ``removed`` and ``added`` names two
            rows: the second took the key of the first.
        shifted: how the keys of the rows that stayed have moved.
        modified: for each column of the table, the rows with a new value, in the key space after the update; disjoint
            from ``added``.
    """

    added: RowSet
    removed: RowSet
    shifted: RowSetShiftData
    modified: tuple[RowSet, ...]

    @classmethod
    def empty(cls, column_count: int) -> TableUpdate:
        """The update that changes nothing."""
        return cls(RowSet.empty(), RowSet.empty(), RowSetShiftData.empty(), (RowSet.empty(),) * column_count)

    @classmethod
    def of_added(cls, added: RowSet, column_count: int) -> TableUpdate:
        """The update that only adds rows.

        Args:
            added: keys of the rows, after the update.
            column_count: columns of the table.
        """
        return cls(added, RowSet.empty(), RowSetShiftData.empty(), (RowSet.empty(),) * column_count)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has changed."""
        if self.added or self.removed or self.shifted.size:
            return False
        return not any(self.modified)

    @property
    def only_adds(self) -> bool:
        """Whether rows were added and nothing else happened."""
        return not (self.removed or self.shifted.size or any(self.modified))

    @property
    def modified_rows(self) -> RowSet:
        """Rows modified in at least one column, in the key space after the update."""
        return RowSet.union_all(self.modified)

    def survivors(self, before: RowSet) -> RowSet:
        """The rows of ``before`` that this update keeps, under their keys after it."""
        stayed = before - self.removed if self.removed else before
        return self.shifted.apply(stayed) if self.shifted.size else stayed

    def apply_to(self, before: RowSet) -> RowSet:
        """The row set after this update, from the row set ``before``."""
        stayed = self.survivors(before)
        return stayed | self.added if self.added else stayed

    def undo(self, after: RowSet) -> RowSet:
        """The row set before this update, from the row set ``after``."""
        stayed = after - self.added if self.added else after
        if self.shifted.size:
            stayed = self.shifted.unapply(stayed)
        return stayed | self.removed if self.removed else stayed

    def renumbered(self, rows: RowSet, stayed: RowSet) -> TableUpdate:
        """This update, which shifts nothing, with positions as keys after it.

        Args:
            rows: the row set after this update.
            stayed: the rows of it that were there before.
        """
        return TableUpdate(
            rows.invert(self.added),
            self.removed,
            RowSetShiftData.between(stayed, rows.invert(stayed)),
            tuple(rows.invert(changed) for changed in self.modified),
        )

    def __str__(self) -> str:
        """A line for the log: ``+3 -1 ~4 >>1``."""
        shifts = f" >>{self.shifted.size}" if self.shifted.size else ""
        return f"+{self.added.size} -{self.removed.size} ~{self.modified_rows.size}{shifts}"


def coalesce(first: TableUpdate, second: TableUpdate, before: RowSet) -> TableUpdate:
    """One update with the effect of ``first`` and then ``second``.

    Rows that ``first`` adds and ``second`` removes are in neither set. The cost is proportional to the two updates, not
    to the table.

    Args:
        first: an update of a table.
        second: the next update of the table.
        before: the row set before ``first``.
    """
    if first.only_adds and second.only_adds:
        return TableUpdate(first.added | second.added, first.removed, first.shifted, first.modified)

    removed_again = second.removed & first.added if second.removed and first.added else RowSet.empty()
    removed_old = second.removed - removed_again if removed_again else second.removed
    if removed_old and first.shifted.size:
        removed_old = first.shifted.unapply(removed_old)
    removed = first.removed | removed_old

    still_added = first.added - removed_again if removed_again else first.added
    if still_added and second.shifted.size:
        still_added = second.shifted.apply(still_added)
    added = still_added | second.added

    if not first.shifted.size and not second.shifted.size:
        shifted = first.shifted
    else:
        shifted = first.shifted.then(second.shifted, before - removed)

    known: dict[tuple[int, int], RowSet] = {}  # columns that were written together share their sets
    for rows, more in zip(first.modified, second.modified, strict=True):
        if (id(rows), id(more)) not in known:
            known[id(rows), id(more)] = _coalesce_modified(rows, more, second, still_added)
    modified = tuple(known[id(rows), id(more)] for rows, more in zip(first.modified, second.modified, strict=True))
    return TableUpdate(added, removed, shifted, modified)


def coalesce_all(updates: Sequence[TableUpdate], after: RowSet) -> tuple[TableUpdate, RowSet]:
    """One update with the effect of all ``updates``, and the row set before them.

    Args:
        updates: successive updates of a table, at least one.
        after: the row set after them.
    """
    if any(update.shifted.size for update in updates):
        before = after
        for update in reversed(updates):
            before = update.undo(before)
        total = updates[0]
        for update in updates[1:]:
            total = coalesce(total, update, before)
        return total, before
    total = _coalesce_unshifted(updates)
    return total, total.undo(after)


def _coalesce_unshifted(updates: Sequence[TableUpdate]) -> TableUpdate:
    """Coalesce updates without shifts, neighbours first, because they are small."""
    level = list(updates)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [coalesce(first, second, RowSet.EMPTY) for first, second in pairs] + level[len(level) & ~1 :]
    return level[0]


def _coalesce_modified(rows: RowSet, more: RowSet, second: TableUpdate, still_added: RowSet) -> RowSet:
    """The modified rows of one column after two updates.

    Args:
        rows: the rows that the first update modified.
        more: the rows that the second update modified.
        second: the second update.
        still_added: the rows that the first update added and the second one kept, under their last keys.
    """
    if more and still_added:
        more = more - still_added
    if rows:
        if second.removed:
            rows = rows - second.removed
        if second.shifted.size:
            rows = second.shifted.apply(rows)
        more = rows | more
    return more


class UpdateNode:
    """One step in the history of a table: an update and the row set after it.

    A node has no data. Nodes are linked forwards only. A subscription holds the node up to which it has sent
    everything, and finds later changes by following the links; history without holders is freed.
    """

    __slots__ = ("__weakref__", "_coalesced", "next", "row_set", "step", "update")

    def __init__(self, step: int, row_set: RowSet, update: TableUpdate) -> None:
        self.step = step
        self.row_set = row_set
        self.update = update
        self.next: UpdateNode | None = None
        self._coalesced: tuple[UpdateNode, TableUpdate] | None = None

    def __repr__(self) -> str:
        return f"<UpdateNode step={self.step} {self.update}>"


def coalesce_nodes(start: UpdateNode, end: UpdateNode) -> TableUpdate:
    """All changes after ``start`` up to and including ``end``, as one update.

    The result is cached at ``start``, so that readers at the same node share the work, and a later call only adds newer
    changes. Results cached at nodes in between are used.

    Raises:
        ValueError: ``end`` comes before ``start``.
    """
    memo = start._coalesced
    if memo is not None and memo[0].step <= end.step:
        reached, total = memo
    else:
        reached, total = start, None
    if reached is not end:
        rest, is_unshifted = _between(reached, end)
        if is_unshifted:
            joined = _coalesce_unshifted(rest)
            # Other readers start at that node, too. Without a link to the next node it has no other way to later ones.
            if reached is not start and reached.next is not None and len(rest) > _MANY_NODES:
                reached._coalesced = (end, joined)
            rest = [joined]
        for update in rest:
            total = update if total is None else coalesce(total, update, start.row_set)
    if total is None:
        total = TableUpdate.empty(len(start.update.modified))
    start._coalesced = (end, total)
    return total


def _between(start: UpdateNode, end: UpdateNode) -> tuple[list[TableUpdate], bool]:
    """The updates from ``start`` to a later node, and whether none shifts rows."""
    updates: list[TableUpdate] = []
    node, is_unshifted = start, True
    while node is not end:
        memo, following = node._coalesced, node.next
        if memo is not None and node.step < memo[0].step <= end.step:
            node, update = memo
        elif following is None:
            raise ValueError("the end does not come after the start")
        else:
            node, update = following, following.update
        updates.append(update)
        is_unshifted = is_unshifted and not update.shifted.size
    return updates, is_unshifted


def added_since(start: UpdateNode, end: UpdateNode) -> RowSet:
    """Rows added in (start, end], including those removed again."""
    parts: list[RowSet] = []
    node: UpdateNode | None = start
    while node is not end and node is not None:
        node = node.next
        if node is not None:
            parts.append(node.update.added)
    return RowSet.union_all(parts)


def fold_nodes(start: UpdateNode, end: UpdateNode) -> UpdateNode:
    """A private copy of ``start`` with the changes up to ``end`` as one update.

    It keeps no node in between alive. For subscribers that are not sent anything while a table ticks: coalescing up to
    a node before ``end`` is an error.
    """
    return _with_memo(start, (end, coalesce_nodes(start, end)))


class FoldedHistories:
    """Folds the histories of a table's readers that are sent nothing.

    The history of each reader becomes one update up to the point of the next reader, and the rest is that reader's.
    What several have missed is coalesced, and kept, once. Methods may be called by one thread at a time.
    """

    __slots__ = ("_end", "_folded", "_steps")

    def __init__(self) -> None:
        self._end: UpdateNode | None = None
        self._folded: dict[int, UpdateNode] = {}  # by step; not changed any more, because others go on from them
        self._steps: list[int] = []  # in order

    def clear(self) -> None:
        """End a pass, whose nodes keep later history alive."""
        self._end = None
        self._folded.clear()
        self._steps.clear()

    def fold(self, start: UpdateNode, end: UpdateNode) -> tuple[UpdateNode, UpdateNode]:
        """Fold the history of one reader; see :func:`fold_nodes`.

        Readers share what comes after the start of one that was folded before in the same pass. So later starts come
        first.

        Args:
            start: the reader's node.
            end: the present node. That of the first call of a pass counts.

        Returns:
            A private node in place of ``start``, or ``start`` if nothing follows; and the node up to which its history
            is folded.
        """
        if self._end is None:
            self._end = end
        end = self._end
        if end.step <= start.step:
            return start, end
        if start.step not in self._folded:
            self._folded[start.step] = _with_memo(start, self._memo(start, end))
            insort(self._steps, start.step)
        return _with_memo(start, self._folded[start.step]._coalesced), end

    def _memo(self, start: UpdateNode, end: UpdateNode) -> tuple[UpdateNode, TableUpdate]:
        """A node that the history of ``start`` goes on from, and all changes up to it."""
        reached, total = start, TableUpdate.empty(len(start.update.modified))
        while reached.next is None and reached.step < end.step and reached.step not in self._folded:
            assert reached._coalesced is not None  # folded before: there is no other way
            reached, more = reached._coalesced
            total = coalesce(total, more, start.row_set)
        folded = self._folded.get(reached.step)
        if folded is not None or reached.step >= end.step:
            return folded or reached, total
        place = bisect_right(self._steps, reached.step)
        following = None if place == len(self._steps) else self._folded[self._steps[place]]
        stop = end if following is None else _node_of(following.step, reached)
        return following or end, coalesce(total, coalesce_nodes(reached, stop), start.row_set)


def _node_of(step: int, start: UpdateNode) -> UpdateNode:
    """The node of ``step`` after ``start``."""
    node: UpdateNode | None = start
    while node is not None and node.step < step:
        node = node.next
    assert node is not None and node.step == step
    return node


def _with_memo(node: UpdateNode, memo: tuple[UpdateNode, TableUpdate] | None) -> UpdateNode:
    """A copy of a node whose only way to later ones is ``memo``."""
    stand_in = UpdateNode(node.step, node.row_set, node.update)
    stand_in._coalesced = memo
    return stand_in


def earlier_node(step: int, row_set: RowSet, update: TableUpdate, end: UpdateNode) -> UpdateNode:
    """A node before ``end`` whose links to ``end`` no longer exist.

    Args:
        step: the step of the node.
        row_set: the row set at that step.
        update: all changes after it, up to and including ``end``.
        end: a node of the table's history.
    """
    node = UpdateNode(step, row_set, TableUpdate.empty(len(update.modified)))
    node._coalesced = (end, update)
    return node


def all_columns(rows: RowSet, column_count: int, columns: Sequence[int] | None = None) -> tuple[RowSet, ...]:
    """``rows`` for each of ``columns`` (``None``: all), and no rows for the others."""
    if columns is None:
        return (rows,) * column_count
    wanted = set(columns)
    return tuple(rows if number in wanted else RowSet.empty() for number in range(column_count))
