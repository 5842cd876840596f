"""The modified rows of an update, read once for many subscribers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from barrage_server.engine.update import TableUpdate
from barrage_server.engine.version import TableVersion
from barrage_server.wire.families import FamilyColumns

__all__ = ["Keys", "SharedRows"]

Keys = np.ndarray[tuple[int], np.dtype[np.int64]]


class SharedRows:
    """The modified rows and their values of an update without other changes.

    It references no version, so it keeps no history alive.

    Args:
        view: the columns that the subscribers can see.
        update: the update.
        version: the version to read.

    """

    __slots__ = ("_columns", "update")

    def __init__(self, view: FamilyColumns, update: TableUpdate, version: TableVersion) -> None:
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

    def column(self, number: int) -> tuple[Keys, pa.Array] | None:
        """Return the rows modified in the view's column ``number``, and their values.

        Columns with equal modified rows share one array of keys. ``None`` without modified rows.
        """
        return self._columns[number]
