"""Columns whose values are copied from another column on reading."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from barrage_server.engine.view import ColumnView
from barrage_server.rowset import MAX_KEY

__all__ = ["GatheredView"]


class _Map(Protocol):
    def compact(self) -> None: ...


class GatheredView(ColumnView):
    """A column of another table, whose rows maps choose.

    Args:
        view: the column.
        maps: the maps.
        data_type: the type of the values, by default the type of ``view``.

    """

    __slots__ = ("_maps", "_view", "depth", "is_frozen", "type")

    def __init__(self, view: ColumnView, *maps: _Map, data_type: pa.DataType | None = None) -> None:
        self.type = view.type if data_type is None else data_type
        self.is_frozen = False
        self.depth = view.depth + 1
        self._view = view
        self._maps = maps

    def piece_end(self, key: int) -> int:  # noqa: ARG002  (as every view has it)
        """The end of the key space: values are copied in any case."""
        return MAX_KEY

    def compact(self) -> None:
        """Compact the column and the maps."""
        self._view.compact()
        for each in self._maps:
            each.compact()
