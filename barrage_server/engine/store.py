"""Columns of cells with readable old versions."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.columns import Column, expect_rows, make_column
from barrage_server.engine.row_slots import RowSlots
from barrage_server.engine.undo import HeldCursors, Undo, UndoCursor
from barrage_server.engine.view import StoredView
from barrage_server.rowset import RowSet

__all__ = ["ColumnStore"]

# Cycles between two compactions of the undo records for held versions, which keep the chain short.
_VERSIONS_BETWEEN_COMPACTIONS: Final = 256
# Bytes of undo records, and their share of the cells, after which they are compacted before that.
_MOST_LOOSE_BYTES: Final = 4 << 20
_MOST_LOOSE_SHARE: Final = 8
# The same for versions that are held for long. Less, because a cycle that compacts many records is late.
_MOST_OLD_LOOSE_BYTES: Final = 1 << 20
_MOST_OLD_LOOSE_SHARE: Final = 32


class ColumnStore:
    """The cells of a table, and the column views of each version.

    One thread writes at a time.

    Args:
        schema: the columns; there may be none.
        overwrites: whether cells of a version can be overwritten later, and values removed one by one. If not, readers
            get views without a copy, and storage is freed from the front only.
        page_bits: rows per page of storage, as a power of two.
        interns: whether columns may store equal values of variable width once.
        distinct: a column with distinct values.

    Attributes:
        columns: the columns.
        slots: the slots of the rows; ``None`` if cells are addressed by row key.
        undo: the node for the old values of cells.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        overwrites: bool = True,
        page_bits: int = MAX_PAGE_BITS,
        interns: bool = True,
        distinct: str | None = None,
    ) -> None:
        self._schema = schema
        self._overwrites = overwrites
        self._page_bits = page_bits
        self._interns = interns
        self._distinct = distinct
        self.columns = self.make_columns()
        self.slots: RowSlots | None = None
        self.undo = Undo()
        self._versions = 0  # since the last compaction
        self._loose_bytes = 0  # of undo records since then
        self._old_loose_bytes = 0  # of those since the last compaction for versions that are held for long
        self._held = HeldCursors()  # of all versions, also detached ones

    def make_columns(self) -> list[Column]:
        """Empty columns like those of this store."""
        return [
            make_column(
                field.type,
                number=number,
                page_bits=self._page_bits,
                reuses=self._overwrites,
                interns=self._interns and field.name != self._distinct,
            )
            for number, field in enumerate(self._schema)
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of storage, including uncollected garbage."""
        return sum(column.nbytes for column in self.columns)

    def expect(self, rows: RowSet) -> None:
        """Make room for new rows, which are written next."""
        expect_rows(self.columns, rows)

    def views(self) -> tuple[StoredView, ...]:
        """The present columns, for a new version, which later overwrites do not change."""
        self._loose_bytes += self.undo.nbytes
        self._old_loose_bytes += self.undo.nbytes
        self.undo = self.undo.start_next()
        frozen = not self._overwrites
        cursor = UndoCursor(self.undo, [column.epoch for column in self.columns], None if frozen else self._held)
        if not frozen:
            self._versions += 1
            if (
                self._versions >= _VERSIONS_BETWEEN_COMPACTIONS
                or self._loose_bytes > _MOST_LOOSE_BYTES
                or self._old_loose_bytes > _MOST_OLD_LOOSE_BYTES
            ):
                self._compact_held()
        slots = self.slots
        return tuple(StoredView(column.snapshot(), cursor, slots, frozen) for column in self.columns)

    def _compact_held(self) -> None:
        """Compact the undo records for held versions, if there are many."""
        nbytes = self.nbytes
        loose, old_loose = self._loose_bytes, self._old_loose_bytes
        if self._versions >= _VERSIONS_BETWEEN_COMPACTIONS or loose > max(
            _MOST_LOOSE_BYTES, nbytes // _MOST_LOOSE_SHARE
        ):
            self._versions = self._loose_bytes = self._old_loose_bytes = 0
            self._held.compact()
        elif old_loose > max(_MOST_OLD_LOOSE_BYTES, nbytes // _MOST_OLD_LOOSE_SHARE):
            self._old_loose_bytes = 0
            self._held.compact(skip_recent=True)
