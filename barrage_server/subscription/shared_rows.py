"""What an update changed, read once for the many who each look at a small part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from barrage_server.engine.update import TableUpdate
from barrage_server.engine.version import TableVersion
from barrage_server.rowset import RowSet
from barrage_server.wire.families import ColumnView

__all__ = ["SharedRows", "Slice"]

Keys = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Slice:
    """Some of one column's modified rows: the keys, and their values."""

    rows: RowSet
    values: pa.Array


class SharedRows:
    """The modified rows of an update that does nothing else, as of one version, with their values.

    It holds no version, so it keeps no history alive.
    """

    __slots__ = ("_columns", "update")

    def __init__(self, view: ColumnView, update: TableUpdate, version: TableVersion) -> None:
        self.update = update
        self._columns: list[tuple[Keys, pa.Array] | None] = []
        read: dict[int, Any] = {}
        for number, source in enumerate(view.sources):
            rows = update.modified[source]
            if not rows:
                self._columns.append(None)
                continue
            keys = read.setdefault(id(rows), rows.keys())
            values = view.convert(number, version.read(rows, (source,))[0])
            self._columns.append((keys, values))

    def between(self, number: int, first: int, last: int) -> Slice | None:
        """The rows modified in the view's column ``number`` from key ``first`` to key ``last``; None when none is."""
        column = self._columns[number]
        if column is None:
            return None
        keys, values = column
        start = int(keys.searchsorted(first))
        stop = int(keys.searchsorted(last, "right"))
        if start == stop:
            return None
        if stop - start == 1:
            key = int(keys[start])
            rows = RowSet.from_range(key, key)
        else:
            rows = RowSet.from_sorted_keys(keys[start:stop])
        return Slice(rows, values.slice(start, stop - start))
