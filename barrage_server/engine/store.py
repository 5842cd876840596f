"""Columns of cells whose past stays readable."""

from __future__ import annotations

import weakref
from typing import Final

import pyarrow as pa

from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.columns import Column, make_column
from barrage_server.engine.row_slots import RowSlots
from barrage_server.engine.undo import Undo, UndoCursor
from barrage_server.engine.view import StoredView

__all__ = ["ColumnStore"]

# How often versions that readers keep holding take over the undo records, so that the chain of them stays short.
_VERSIONS_BETWEEN_ABSORBING: Final = 256


class ColumnStore:
    """What a table writes its cells to, and takes the column views of each version from. One thread writes at a time.

    Args:
        schema: the columns; there may be none.
        overwrites: whether cells that a version may hold can be overwritten later, and values go one by one. When
            false, readers get views without a copy, and storage only goes from the front.
        page_bits: rows per page of storage, as a power of two.
        interns: whether columns may keep equal values of variable width once.
        distinct: a column no value of which comes twice.

    Attributes:
        columns: the columns.
        slots: where the rows have their cells; ``None``: under their keys.
        undo: where the old values of cells go that are overwritten now.

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
        self._versions = 0
        # Of all versions, detached ones too. Only the writer changes the list, while readers let go of versions.
        self._held: list[weakref.ref[UndoCursor]] = []

    def make_columns(self) -> list[Column]:
        """Empty columns as this store has them."""
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
        """Bytes of storage, garbage that is not yet collected included."""
        return sum(column.nbytes for column in self.columns)

    def views(self) -> tuple[StoredView, ...]:
        """The columns as they are now, for a new version; what is overwritten from now on, is for its undo."""
        self.undo = self.undo.start_next()
        cursor = UndoCursor(self.undo, [column.epoch for column in self.columns])
        frozen = not self._overwrites
        if not frozen:
            self._versions += 1
            if self._versions % _VERSIONS_BETWEEN_ABSORBING == 0:
                self._absorb()
            self._held.append(weakref.ref(cursor))
        slots = self.slots
        return tuple(StoredView(column.snapshot(), cursor, slots, is_frozen=frozen) for column in self.columns)

    def _absorb(self) -> None:
        held = [(entry, cursor) for entry in self._held if (cursor := entry()) is not None]
        for _, cursor in held:
            cursor.absorb()
        self._held = [entry for entry, _ in held]
