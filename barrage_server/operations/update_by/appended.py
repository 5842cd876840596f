"""The last row of each group of a table that only grows at its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.sorting import positions_in_order
from barrage_server.engine.version import TableVersion
from barrage_server.operations.group_totals import GroupArray
from barrage_server.operations.grouped_rows import joined
from barrage_server.operations.join_columns import key_pieces
from barrage_server.operations.update_by.sequence import Runs
from barrage_server.rowset import RowSet

__all__ = ["LastRows"]


class LastRows:
    """The row from which each group goes on.

    Scans of rows that are only added need this instead of the order of all rows.

    Args:
        groups: the groups.
        columns: the numbers of the key columns.
        types: their types.

    """

    def __init__(self, groups: GroupIndex, columns: Sequence[int], types: Sequence[pa.DataType]) -> None:
        self._groups = groups
        self._columns = tuple(columns)
        self._types = tuple(types)
        self._next = GroupArray(np.int64)  # the key behind the last row of each group; 0 without one

    @property
    def nbytes(self) -> int:
        """Bytes of the last rows."""
        return self._next.nbytes

    def append(self, version: TableVersion, rows: RowSet) -> Runs:
        """Add ``rows``, which are behind all others. Returns the runs of groups."""
        pieces = key_pieces(version, rows, self._columns, self._types)
        groups = joined([self._groups.add(keys, part.size) for part, keys in pieces])
        self._next.reserve(self._groups.count)
        order = positions_in_order(groups.copy(), self._groups.count.bit_length())
        groups, keys = groups[order], rows.keys()[order]
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        ends = np.append(starts[1:], len(keys))[: len(starts)]
        touched = groups[starts]
        before = self._next.array[touched] - 1
        self._next.array[touched] = keys[ends - 1] + 1
        return Runs(keys, starts, before)
