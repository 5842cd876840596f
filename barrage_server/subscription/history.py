"""The recent updates of tables, from which a returning subscriber resumes.

Updates are kept as row sets and shifts, without values. The row set of an earlier step is the present row set with the
updates undone. Values come from the present version, as for a slow subscriber.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import ref

from barrage_server.engine.table import Table, TableListener
from barrage_server.engine.update import (
    TableUpdate,
    UpdateNode,
    all_columns,
    coalesce_all,
    earlier_node,
    fold_nodes,
)
from barrage_server.engine.version import TableVersion
from barrage_server.rowset import RowSet

__all__ = ["History", "TableHistory"]

_ENTRY_BYTES: Final = 400
"""Approximate bytes of an update without row keys."""
_CELLS_PER_SET: Final = 200
"""Approximate number of cells whose transfer takes as long as coalescing one row set of an update."""
_ALWAYS_SETS: Final = 2_000
"""The number of row sets that are always coalesced, also of a small table."""
_MOST_PENDING: Final = 256
"""The most updates that are recorded together, so that publishers do not wait for it."""
_PENDING_BYTES: Final = 64 << 20
"""Approximate bytes of row sets that updates of a table reference until they are recorded."""
_KEPT: Final = 8
"""The most points that are kept for several subscribers."""


class _Entry(NamedTuple):
    """One recorded update.

    Attributes:
        step: the step of its cycle.
        when: time of its recording, in seconds.
        update: the update.
        sets: number of different row sets in it.
        nbytes: bytes of memory.

    """

    step: int
    when: float
    update: TableUpdate
    sets: int
    nbytes: int


class TableHistory:
    """The recorded updates of one table. Not locked: :class:`History` locks.

    Args:
        table: the table, which is referenced weakly.
        now: the present time, in seconds.

    Attributes:
        first: the earliest step from which all updates are recorded.
        members: number of subscribers that may return.
        coalescing: lock of the thread that makes the node of a point, because others may need the same node.
        left_at: time when the last subscriber left, in seconds.
        is_closed: whether recording has ended.
        pending: approximate number of updates that are not recorded yet.
        batch: number of pending updates that are recorded together.

    """

    __slots__ = (
        "_entries",
        "_nothing",
        "_starts",
        "_tail",
        "batch",
        "coalescing",
        "first",
        "is_closed",
        "left_at",
        "members",
        "pending",
        "stop",
        "table",
    )

    def __init__(self, table: Table, now: float) -> None:
        self.table = ref(table)
        self.members = 0
        self.left_at = now
        self.coalescing = threading.Lock()
        self.is_closed = False
        self.pending = 0
        self.stop: Callable[[], None] = lambda: None
        self._tail = table.version.node
        self.first = self._tail.step
        self.batch = self._batch()
        self._entries: deque[_Entry] = deque()
        self._nothing = all_columns(RowSet.EMPTY, len(table.schema))
        self._starts: dict[int, UpdateNode] = {}

    def take(self, end: UpdateNode, now: float) -> Iterator[int]:
        """Record the updates up to ``end``, and yield the bytes of each."""
        while self._tail.step < end.step:
            node = self._tail.next
            if node is None:
                break
            entry = self._entry(node, now)
            self._entries.append(entry)
            self._tail = node
            yield entry.nbytes
        self.pending = 0
        self.batch = self._batch()

    def _batch(self) -> int:
        return max(1, min(_MOST_PENDING, _PENDING_BYTES // self._tail.row_set.nbytes))

    @property
    def oldest(self) -> float | None:
        """Time of the recording of the oldest update; ``None`` without updates."""
        return self._entries[0].when if self._entries else None

    def forget_oldest(self) -> int:
        """Forget the oldest update; return its bytes, 0 without updates."""
        if not self._entries:
            return 0
        entry = self._entries.popleft()
        self.first = entry.step
        return entry.nbytes

    def close(self) -> int:
        """Forget all updates, and end the recording; return the freed bytes."""
        self.is_closed = True
        self.stop()
        freed = sum(entry.nbytes for entry in self._entries)
        self._entries.clear()
        self._starts.clear()
        self.first = self._tail.step
        # A node of the table would keep all later nodes alive, because this object is still referenced.
        self._tail = UpdateNode(self.first, RowSet.EMPTY, TableUpdate.empty(len(self._nothing)))
        return freed

    def known(self, step: int) -> UpdateNode | None:
        """Return the remembered node of ``step``, if any."""
        return self._starts.get(step)

    def remember(self, node: UpdateNode) -> None:
        """Keep a node until :meth:`tidy`, for other subscribers that return to its step."""
        if len(self._starts) >= _KEPT:
            self._starts.clear()
        self._starts[node.step] = node

    def after(self, step: int, cells: int) -> tuple[list[TableUpdate], UpdateNode] | None:
        """Return the updates after ``step``, and the node of the last one.

        Args:
            step: a step at which the table has changed.
            cells: number of cells of the table, which bounds the cost of coalescing by that of a snapshot.

        Returns:
            ``None`` when the history does not reach back to ``step`` or is too long, and for a future ``step``.

        """
        end = self._tail
        if not self.first <= step <= end.step:
            return None
        updates: list[TableUpdate] = []
        budget = _ALWAYS_SETS + cells // _CELLS_PER_SET
        for entry in reversed(self._entries):
            if entry.step <= step:
                break
            budget -= entry.sets
            if budget < 0:
                return None
            updates.append(entry.update)
        return updates[::-1], end

    def tidy(self) -> None:
        """Drop the remembered nodes, which subscribers share that return at one time."""
        self._starts.clear()

    def _entry(self, node: UpdateNode, now: float) -> _Entry:
        update = node.update
        modified, shifted = update.modified, update.shifted
        if modified.count(RowSet.EMPTY) == len(modified):
            added, removed = update.added.packed(), update.removed.packed()
            kept = TableUpdate(added, removed, shifted, self._nothing)
            nbytes = _ENTRY_BYTES + added.nbytes + removed.nbytes + shifted.nbytes
            return _Entry(node.step, now, kept, 2 if removed else 1, nbytes)
        kept = _packed(update)
        sets = {id(rows): rows for rows in (kept.added, kept.removed, *kept.modified) if rows}
        nbytes = _ENTRY_BYTES + 8 * len(modified) + sum(rows.nbytes for rows in sets.values()) + shifted.nbytes
        return _Entry(node.step, now, kept, len(sets), nbytes)


def _node_before(step: int, updates: Sequence[TableUpdate], end: UpdateNode) -> UpdateNode:
    """Make the node of ``step``, after which ``updates`` led to ``end``."""
    if not updates:
        return earlier_node(step, end.row_set, TableUpdate.empty(len(end.update.modified)), end)
    kept = [_packed(update) for update in updates]  # copies, so that the history does not keep derived arrays
    total, before = coalesce_all(kept, end.row_set)
    return earlier_node(step, before, total, end)


def _packed(update: TableUpdate) -> TableUpdate:
    """Copy an update with packed row sets; columns still share them."""
    packed: dict[int, RowSet] = {}
    for rows in update.modified:
        if rows and id(rows) not in packed:
            packed[id(rows)] = rows.packed()
    modified = tuple(packed[id(rows)] if rows else RowSet.EMPTY for rows in update.modified)
    return TableUpdate(update.added.packed(), update.removed.packed(), update.shifted, modified)


@dataclass(slots=True)
class _Total:
    """The bytes of all updates, and the table of each update in order."""

    nbytes: int = 0
    order: deque[TableHistory] = field(default_factory=deque)


class History:
    """The recorded updates of all tables. Methods may be called from any thread.

    Updates of a table are recorded from the first subscriber that may return until ``seconds`` after the last one.

    Args:
        seconds: seconds for which an update is kept.
        most_bytes: most bytes of all updates.

    """

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._total = _Total()
        self._now = 0.0
        self._tables: dict[int, TableHistory] = {}  # by id() of a table that is alive

    @property
    def nbytes(self) -> int:
        """Approximate bytes of all recorded updates."""
        return self._total.nbytes

    def join(self, table: Table, now: float) -> TableHistory:
        """Record ``table`` for a subscriber that may return, until :meth:`leave`."""
        with self._lock:
            history = self._watched(table, now)
            history.members += 1
            return history

    def leave(self, history: TableHistory, now: float) -> None:
        """End one :meth:`join`; the subscriber may return."""
        with self._lock:
            history.members -= 1
            history.left_at = now

    def watch(self, table: Table, now: float) -> None:
        """Record ``table`` for returning subscribers, as if the last one had just left."""
        with self._lock:
            self._watched(table, now)

    def since(self, history: TableHistory, step: int, now: float) -> UpdateNode | None:
        """Return the node of a subscriber that is up to date with ``step``.

        All later updates follow the node. Each caller gets another node, because a node that another subscriber has
        coalesced up to a later version cannot lead to an earlier one. Publishers do not wait for this call.

        Returns:
            ``None`` when the step is not known any more, or coalescing would take longer than a snapshot.

        """
        with history.coalescing:
            with self._lock:
                table = history.table()
                if table is None or history.is_closed:
                    return None
                version = table.version  # under the lock, so that no other thread has recorded a later one
                self._take(history, version.node, now)
                known = history.known(step)
                after = None if known is not None else history.after(step, version.size * len(version.schema))
            if known is not None:
                return fold_nodes(known, version.node)
            if after is None:
                return None
            node = _node_before(step, *after)
            with self._lock:
                if not history.is_closed:
                    history.remember(node)
            return fold_nodes(node, version.node)

    def tidy(self, now: float) -> None:
        """Forget old updates, and tables without subscribers; call it once a second."""
        with self._lock:
            self._now = now
            self._forget(now - self._seconds)
            for place, history in tuple(self._tables.items()):
                table = history.table()
                if table is None or (not history.members and history.left_at <= now - self._seconds):
                    self._total.nbytes -= history.close()
                    del self._tables[place]
                else:
                    self._take(history, table.version.node, now)
                    history.tidy()

    def _watched(self, table: Table, now: float) -> TableHistory:
        self._now = max(self._now, now)
        history = self._tables.get(id(table))
        if history is None or history.table() is not table:
            if history is not None:
                self._total.nbytes -= history.close()
            history = self._tables[id(table)] = TableHistory(table, now)
            history.stop = table.add_listener(self._listener(history))
        return history

    def _listener(self, history: TableHistory) -> TableListener:
        def changed(_update: TableUpdate, _before: TableVersion, after: TableVersion) -> None:
            history.pending += 1  # one thread at a time calls listeners
            if history.pending >= history.batch:
                with self._lock:
                    if not history.is_closed:
                        self._take(history, after.node, self._now)

        return changed

    def _take(self, history: TableHistory, end: UpdateNode, now: float) -> None:
        total = self._total
        for nbytes in history.take(end, now):
            total.nbytes += nbytes
            total.order.append(history)
        while total.nbytes > self._most_bytes and total.order:
            total.nbytes -= total.order.popleft().forget_oldest()

    def _forget(self, before: float) -> None:
        """Forget the updates that were recorded before the time ``before``."""
        order = self._total.order
        while order:
            oldest = order[0].oldest
            if oldest is not None and oldest > before:
                return
            self._total.nbytes -= order.popleft().forget_oldest()
