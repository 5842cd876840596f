"""The rows of an input of a join, by group and by a stamp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine import TableVersion
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.operator import Change
from barrage_server.engine.order_fences import Codes, OrderCodes
from barrage_server.engine.order_index import Before, OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import pick
from barrage_server.operations.grouped_rows import Departure, GroupedRows
from barrage_server.operations.nearest_rows import NearestRows
from barrage_server.operations.ordering import Key, code_of, comes_before, has_codes, order_of, rough_codes
from barrage_server.operations.waiting_rows import WaitingRows
from barrage_server.rowset import RowSet

__all__ = ["Stamped", "StampedRows"]

_KEYS = (Key(0),)
_MOST_WAITING: Final = 1 << 16
"""Waiting rows, at most. The limit bounds the cycle that needs their places."""
_ENOUGH_WAITING: Final = 1 << 15
"""Waiting rows from which on some groups, in turn, get places for their rows."""
_FEWEST_PLACED: Final = 1 << 12
_PLACED: Final = 2.5
"""Rows that get places then: at least, and per new row."""

Stamped = tuple[Int64Array, pa.Array]
"""Groups and stamps of rows or intervals."""


class StampedRows(GroupedRows):
    """The rows by group, then by a stamp, then by row key.

    Stamps are read from the input. Rows that are appended to their groups may wait for their places in the order until
    a place is asked for, or many rows wait: a join that only follows the ends of groups asks for none, and many rows at
    once take less time than a few in each cycle.

    Args:
        groups, columns, types: as of :class:`~barrage_server.operations.grouped_rows.GroupedRows`.
        stamp: the number of the column with the stamps.
        is_ordered: whether rows are to be found.
        keeps_versions: whether versions read the groups and the order of rows.
        follows: whether rows will change.
        may_wait: whether rows may wait; then :meth:`arrive` does not return the moves in the order.

    Attributes:
        version: the present version, which must be set in every cycle.

    """

    version: TableVersion

    def __init__(
        self,
        groups: GroupIndex,
        columns: Sequence[int],
        types: Sequence[pa.DataType],
        stamp: int,
        *,
        is_ordered: bool = True,
        keeps_versions: bool = False,
        follows: bool = True,
        may_wait: bool = False,
    ) -> None:
        order = OrderIndex(versioned=keeps_versions, follows=follows) if is_ordered else None
        super().__init__(groups, columns, types, order, keeps_versions=keeps_versions)
        self._watched = (*self._columns, stamp)
        self._stamp = stamp
        self._may_wait = may_wait
        self._waiting = WaitingRows()
        self._turn = 0  # the group whose waiting rows get places next

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers, the order and the waiting rows, without the groups."""
        return super().nbytes + self._waiting.nbytes

    @property
    def order(self) -> OrderIndex | None:
        """All rows by group, stamp and row key, if they are to be found."""
        if self._waiting.count:
            self._settle(self.version)
        return self._order

    @property
    def is_empty(self) -> bool:
        """Whether no rows are to be found."""
        return super().is_empty and not self._waiting.count

    def start(self, version: TableVersion) -> None:
        """Add all rows."""
        self.version = version
        if not has_codes(self.stamp_type):
            self.last = None
        super().start(version)

    def leave(self, change: Change | None) -> Departure:
        """Remove rows that have gone, or have another key or stamp."""
        departure = super().leave(change)
        if change is not None:
            self.version = change.after
        return departure

    def stamped(self, rows: RowSet, version: TableVersion | None = None) -> Stamped:
        """The groups of rows, and their stamps in ``version`` (default: the present)."""
        return self.groups_of(rows.keys()), self.stamps(rows, version)

    def stamps(self, rows: RowSet, version: TableVersion | None = None) -> pa.Array:
        """The stamps of rows in ``version``, by default the present one."""
        version = self.version if version is None else version
        column = [self._stamp]
        parts = [version.read(part, column)[0] for part in version.pieces(rows, column)]
        if not parts:
            return pa.array([], version.schema.field(self._stamp).type)
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    @property
    def stamp_type(self) -> pa.DataType:
        """The type of the stamps."""
        return self.version.views[self._stamp].type

    def rank(self, stamped: Stamped, *, before_equal: bool) -> Int64Array:
        """The position of the first row behind each group and stamp.

        Args:
            stamped: the groups and stamps.
            before_equal: whether rows with an equal stamp are behind.

        """
        assert self.order is not None
        groups, stamps = stamped[0], self._own(stamped[1])
        ties = np.full(len(groups), before_equal)
        codes = OrderCodes((groups, *rough_codes([stamps], _KEYS)), self.codes_of)
        return self.order.rank(len(groups), self._compared(groups, stamps, lambda items, _: ties[items]), codes)

    def nearest(self, version: TableVersion, *, before_equal: bool) -> NearestRows | None:
        """A search for the places of many stamps.

        It is ``None`` without rows, and if stamps have no codes, or are null or NaN.

        Args:
            version: the version with the rows.
            before_equal: whether rows with an equal stamp are behind what is looked for.

        """
        order = self.order
        if order is None or not order.size or not has_codes(self.stamp_type):
            return None
        codes = code_of(self.stamps(version.row_set))
        if codes is None:
            return None
        keys = order.keys_at(order.rows.keys())
        codes = codes[version.row_set.find(keys)]
        return NearestRows(self.groups_of(keys), codes, self._groups.count, before_equal=before_equal)

    def beside(self, stamped: Stamped, *, or_equal: bool) -> tuple[Int64Array, Int64Array]:
        """The keys of the rows before and behind groups and stamps, where known.

        No order is searched.

        Args:
            stamped: the groups and stamps.
            or_equal: whether a row with an equal stamp is before them.

        Returns:
            The row before each, -1 if it is not known; and the next one of the group, or -1.

        """
        groups, stamps = stamped
        if self.last is None:
            return np.full(len(groups), -1, np.int64), np.full(len(groups), -1, np.int64)
        return self.last.behind((groups, *rough_codes([self._own(stamps)], _KEYS)), or_equal=or_equal)

    def last_before(self, stamped: Stamped, *, or_equal: bool) -> Int64Array:
        """The key of each group's last row, if it is known to precede the stamp; or -1.

        Args:
            stamped: the groups and stamps.
            or_equal: whether a row with an equal stamp counts as before it.

        """
        groups, stamps = stamped
        if self.last is None:
            return np.full(len(groups), -1, np.int64)
        return self.last.before((groups, *rough_codes([self._own(stamps)], _KEYS)), or_equal=or_equal)

    def sorted(self, version: TableVersion, rows: RowSet, numbers: Int64Array) -> tuple[Int64Array, Before, Codes]:
        """Sort rows; the same results as of :meth:`GroupedRows.sorted`."""
        stamps = self.stamps(rows, version)
        order = order_of([pa.array(numbers), stamps], (Key(0), Key(1)), rows.size)
        keys, groups, stamps = rows.keys()[order], numbers[order], stamps.take(pa.array(order))
        before = self._compared(groups, stamps, lambda items, others: keys[items] < others)
        return order, before, (groups, *rough_codes([stamps], _KEYS))

    def codes_of(self, keys: Int64Array) -> Codes:
        """The groups of rows and the codes of stamps, by row keys in any order."""
        stamps = pick([self.version.views[self._stamp]], keys)
        return (self.groups_of(keys), *rough_codes(stamps, _KEYS))

    def _wait(self, keys: Int64Array, groups: Int64Array, behind: Int64Array) -> bool:
        """Whether new rows wait: behind the last rows of their groups, or in new groups."""
        if not self._may_wait or self._order is None or self._order.is_empty:
            return False
        if self._waiting.count + len(keys) > _MOST_WAITING:
            return False
        begins = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        counts = np.diff(begins, append=len(groups))
        follow = np.minimum.reduceat(behind, begins) >= 0
        if not (follow | (self.counts.array[groups[begins]] == counts)).all():
            return False
        self._waiting.add(keys, behind)
        if self._waiting.count > _ENOUGH_WAITING:
            self._settle_some(min(self._waiting.count, max(_FEWEST_PLACED, int(_PLACED * len(keys)))))
        return True

    def _settle_some(self, count: int) -> None:
        """Put ``count`` waiting rows into the order, and the others of their groups."""
        groups = self.groups_of(self._waiting.keys)
        ahead = groups - self._turn
        ahead[ahead < 0] += self._groups.count
        last = int(np.partition(ahead, count - 1)[count - 1])
        self._place(self.version, *self._waiting.take(ahead <= last))
        self._turn = (self._turn + last + 1) % self._groups.count

    def _settle(self, version: TableVersion) -> None:
        if not self._waiting.count:
            return
        self._place(version, *self._waiting.take())

    def _place(self, version: TableVersion, rows: RowSet, behind: Int64Array) -> None:
        """Put waiting rows into the order, with each group's former last row."""
        assert self._order is not None
        order, before, codes = self.sorted(version, rows, self.groups_of(rows.keys()))
        groups, behind = codes[0], behind[order]
        begins = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        behind = np.repeat(behind[begins], np.diff(begins, append=len(groups)))  # the others' came with them
        none, was = np.zeros(0, np.int64), np.full(rows.size, -1, np.int64)
        self._order.change(none, rows.keys()[order], was, before, OrderCodes(codes, self.codes_of), behind)

    def _own(self, stamps: pa.Array) -> pa.Array:
        return stamps if stamps.type == self.stamp_type else stamps.cast(self.stamp_type)

    def _compared(self, groups: Int64Array, stamps: pa.Array, ties: Before) -> Before:
        def before(items: Int64Array, others: Int64Array) -> npt.NDArray[np.bool_]:
            mine, theirs = groups[items], self.groups_of(others)
            answer: npt.NDArray[np.bool_] = mine < theirs
            same = np.flatnonzero(mine == theirs)
            if len(same):
                values = stamps.take(pa.array(items[same]))
                stored = pick([self.version.views[self._stamp]], others[same])
                answer[same] = comes_before([values], stored, _KEYS, ties(items[same], others[same]))
            return answer

        return before
