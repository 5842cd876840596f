"""Undo records: versions stay readable while their cells are overwritten.

Every table has a chain of :class:`Undo` nodes, one per version, linked forwards only. A version holds the node that was
current when it became visible; nodes that no version needs are unreachable and freed.

The writer, for each write to cells that some version may read:

1. records the old values in the newest node (:meth:`Undo.record`);
2. only then overwrites the cells.

The node that follows is attached (:meth:`Undo.start_next`) when the next version is made, after the last record was
added to the node.

The reader of the version that holds node N:

1. gathers the present cells;
2. only then reads the entries of N and of the nodes after it, and puts the recorded values back. Where a row occurs
   more than once, the oldest record wins: it holds the value that the version saw.

No lock is needed. If the reader saw an overwritten cell, the record was made before, so step 2 finds it. Records made
after step 2 concern cells that were gathered before they were overwritten. Within a node the list of entries only
grows, and a reader takes a prefix of it; it reads the link to the next node *before* the entries, so that it never
advances to the next node with an incomplete list of this one (a newer record must not win because an older one was
missed).

From time to time the entries before the newest node are merged, so that those nodes can be freed. They are merged in
stretches, each from one held version to the next one: an older version reads its own stretch and all later ones, so
that a cell that many held versions need is kept once.

An entry belongs to an *epoch* of its column. When rows are written to a dropped page that an older version may still
hold, the column starts a new epoch: it writes to copies of its pages, and versions of the old epoch keep the former
pages, which are not written any more. Entries of other epochs do not apply to them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from threading import Lock
from typing import NamedTuple
from weakref import ref

import numpy as np
import numpy.typing as npt

from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.undo_entries import CellArray, DenseEntry, Levels, MergedKeys, UndoEntry, extend, settle

__all__ = ["CellArray", "HeldCursors", "Undo", "UndoCursor", "UndoEntry", "restore"]

# Entries that a reader puts back one by one; with more, it merges them first.
_MAX_LOOSE_ENTRIES = 16
# Cycles for which readers usually hold a version, and after which one that is held is taken to stay.
_RECENT_NODES = 8
_STAYING_NODES = 64


class Undo:
    """One node of a table's chain of old values.

    Attributes:
        next: the node of the following version; ``None`` for the newest node.
        number: its position in the chain.
        entries: by column number, the recorded values in the order of the writes.
        nbytes: bytes of the entries.
    """

    __slots__ = ("__weakref__", "entries", "nbytes", "next", "number")

    def __init__(self, number: int = 0) -> None:
        self.next: Undo | None = None
        self.number = number
        self.entries: dict[int, list[UndoEntry]] = {}
        self.nbytes = 0

    def record(self, entry: UndoEntry) -> None:
        """Add old values. The cells must not have been overwritten yet."""
        self.entries.setdefault(entry.column, []).append(entry)
        self.nbytes += entry.nbytes

    def start_next(self) -> Undo:
        """Attach and return the next version's node. Record nothing here afterwards."""
        self.next = Undo(self.number + 1)
        return self.next


# Merged entries per (column, epoch), oldest first.
_Levels = dict[tuple[int, int], Levels]


class _State(NamedTuple):
    """The state of a stretch. Immutable.

    Attributes:
        levels: the merged entries of its nodes before ``node``; of all its nodes, if another stretch follows.
        node: the first node that is not merged; ``None`` if another stretch follows.
        following: the stretch of the next held version.
    """

    levels: _Levels
    node: Undo | None
    following: _Stretch | None = None


class _Stretch:
    """The old values from one held version to the next one, or to the present.

    Versions before it share them.

    Attributes:
        first: the number of its first node.
        state: its present state; replaced as a whole, so that readers need no lock.
    """

    __slots__ = ("_epochs", "_lock", "first", "state")

    def __init__(self, node: Undo, epochs: Sequence[int] | None) -> None:
        self.first = node.number
        self.state = _State({}, node)
        self._epochs = epochs
        self._lock = Lock()

    def last(self) -> _Stretch:
        """The stretch that reaches to the present: this one, or a later one."""
        stretch = self
        while (following := stretch.state.following) is not None:
            stretch = following
        return stretch

    def merge(self) -> None:
        """Merge the complete nodes, so that they can be freed."""
        with self._lock:
            levels, node, following = self.state
            if node is not None:
                merged = dict(levels)
                self.state = _State(merged, self._merge_nodes(merged, node, None), following)

    def reach(self, end: _Stretch | None, *, grows: bool = True) -> None:
        """Include everything up to ``end``, the stretch of the next held version.

        Stretches in between belong to versions that no longer exist. Where they reach into ``end``, both stretches have
        values: the values of this one are as old or older, and win.

        Args:
            end: the stretch of the next held version; ``None`` to include everything to the present.
            grows: whether values may follow soon.
        """
        with self._lock:
            levels, node, following = self.state
            merged, keys = dict(levels), MergedKeys()
            while following is not None and following is not end:
                more, node, beyond = following.state
                for key, entries in more.items():
                    if self._needs(*key):
                        merged[key] = extend(merged.get(key, ()), entries, keys)
                following = beyond
            if node is not None:
                node = self._merge_nodes(merged, node, end)
            if not grows:
                merged = {key: settle(entries) for key, entries in merged.items()}
            self.state = _State(merged, node if end is None else None, end)

    def _needs(self, column: int, epoch: int) -> bool:
        return self._epochs is None or self._epochs[column] == epoch

    def _merge_nodes(self, levels: _Levels, node: Undo, end: _Stretch | None) -> Undo:
        """Merge the complete nodes from ``node`` on; returns the first one not merged."""
        loose: dict[tuple[int, int], list[UndoEntry]] = {}
        while (following := node.next) is not None and (end is None or node.number < end.first):
            for column, entries in node.entries.items():
                for entry in entries:
                    if self._needs(column, entry.epoch):
                        loose.setdefault((column, entry.epoch), []).append(entry)
            node = following
        shared = MergedKeys()
        for key, new in loose.items():
            levels[key] = extend(levels.get(key, ()), new, shared)
        return node


class UndoCursor:
    """The old values that one version needs.

    They are merged from time to time, so that the chain need not be kept.

    Args:
        node: the node that was current when the version became visible.
        epochs: the epochs of the version's columns, by column number; entries of other epochs are then dropped at once.
        held: the cursors of the same chain, which share merged entries; ``None`` to share nothing.
    """

    __slots__ = ("__weakref__", "_held", "stretch")

    def __init__(self, node: Undo, epochs: Sequence[int] | None = None, held: HeldCursors | None = None) -> None:
        self.stretch = _Stretch(node, epochs)
        self._held = held
        if held is not None:
            held.add(self)

    @property
    def pending(self) -> int:
        """The number of complete nodes that are not merged yet."""
        count, node = 0, self.stretch.last().state.node
        while node is not None and node.next is not None:
            count, node = count + 1, node.next
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of the merged values, some of which other versions may share."""
        levels, _, stretch = self.stretch.state
        total = _level_bytes(levels)
        while stretch is not None:
            levels, _, stretch = stretch.state
            total += _level_bytes(levels)
        return total

    def entries(self, column: int, epoch: int) -> list[UndoEntry | DenseEntry]:
        """The entries to put back into gathered cells of ``column``, newest first.

        The cells must have been gathered before this call. The entries apply in this order.
        """
        merged, loose = self._collect(column, epoch)
        if len(loose) > _MAX_LOOSE_ENTRIES:
            self.compact()
            merged, loose = self._collect(column, epoch)
        return [*reversed(loose), *reversed(merged)]

    def compact(self) -> None:
        """Merge the entries of all complete nodes, so that those nodes can be freed.

        Includes the other cursors of the chain, unless another thread merges them now. The cost is proportional to the
        changes, not to the table.
        """
        if self._held is None:
            self.stretch.merge()
        else:
            self._held.compact()

    def _collect(self, column: int, epoch: int) -> tuple[list[UndoEntry | DenseEntry], list[UndoEntry]]:
        """The merged entries and the others, both oldest first."""
        levels, current, stretch = self.stretch.state
        merged = list(levels.get((column, epoch), ()))
        while stretch is not None:
            levels, current, stretch = stretch.state
            merged += levels.get((column, epoch), ())
        found: list[UndoEntry] = []
        while current is not None:
            following = current.next  # before the entries: see the module's docstring
            entries = current.entries.get(column)
            if entries is not None:
                found += [entry for entry in tuple(entries) if entry.epoch == epoch]
            current = following
        return merged, found


class HeldCursors:
    """The cursors of one chain that are in use, weakly held.

    They merge together: a cell that was overwritten between two of them is kept once. Methods may be called from any
    thread.
    """

    def __init__(self) -> None:
        self._added: deque[ref[UndoCursor]] = deque()
        self._known: list[ref[UndoCursor]] = []  # oldest first
        self._lock = Lock()

    def add(self, cursor: UndoCursor) -> None:
        """Add the newest cursor, and forget the oldest that are not used any more."""
        added = self._added
        if added and added[0]() is None and self._lock.acquire(blocking=False):
            try:
                while added and added[0]() is None:
                    added.popleft()
            finally:
                self._lock.release()
        added.append(ref(cursor))

    def compact(self, *, skip_recent: bool = False) -> None:
        """Merge the entries of all complete nodes, unless another thread does so now.

        Args:
            skip_recent: whether to merge nothing for recent versions. They are rarely held for long, and what they need
                would be merged again for older ones.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            while self._added:
                self._known.append(self._added.popleft())
            cursors = [cursor for entry in self._known if (cursor := entry()) is not None]
            self._known = [ref(cursor) for cursor in cursors]
            newest = cursors[-1].stretch.first if cursors else 0
            for cursor, newer in zip_longest(cursors, cursors[1:]):
                if skip_recent and newest - cursor.stretch.first < _RECENT_NODES:
                    break
                # Where the next version is not held for long, the stretch soon includes what follows.
                grows = newer is None or newest - newer.stretch.first < _STAYING_NODES
                cursor.stretch.reach(None if newer is None else newer.stretch, grows=grows)
        finally:
            self._lock.release()


def restore(
    entries: Iterable[UndoEntry | DenseEntry], plan: ReadPlan, data: CellArray, valid: npt.NDArray[np.bool_] | None
) -> npt.NDArray[np.bool_] | None:
    """Put old values back into gathered cells, in place.

    Args:
        entries: newest first.
        plan: the rows that were gathered.
        data: the gathered cells, one per row of the plan.
        valid: whether they hold values; ``None`` when all do.

    Returns:
        ``valid``, changed in place, or made when it was ``None`` and is needed.
    """
    for entry in entries:
        valid = entry.put_back(plan, data, valid)
    return valid


def _level_bytes(levels: _Levels) -> int:
    return sum(entry.nbytes for entries in levels.values() for entry in entries)
