"""The simplest possible receiver: a dictionary of rows, changed one row at a time.

It is written independently of the engine and of the client, so that the three can be held against each other.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from barrage_server.rowset import RowSet
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.reader import IncomingMessage
from tests.conformance.cells import cells

Row = list[Any]


class UnknownCell:
    """Stands for a value that was not sent."""

    def __repr__(self) -> str:
        return "(not sent)"


UNKNOWN = UnknownCell()


class Model:
    """Rows by key, or by position within the viewport when that is what messages speak of."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.rows: dict[int, Row] = {}
        self.table_size: int | None = None
        self.viewport: RowSet | None = None
        self.reverse = False
        self.columns: tuple[int, ...] | None = None
        self.flattened = False

    def apply(self, message: IncomingMessage, *, has_viewport: bool) -> None:
        """Apply one update; ``has_viewport``: the subscription has one, so that rows may come flattened."""
        metadata = message.metadata
        self.flattened = has_viewport and metadata.shift_data is None
        self.table_size = metadata.table_size
        if metadata.is_snapshot:
            self.viewport = metadata.effective_viewport
            self.reverse = metadata.effective_reverse_viewport
            self.columns = metadata.effective_column_set
        before = dict(self.rows)
        for key in _keys(metadata.removed_rows):
            if key not in before:
                raise ValueError(f"row {key} is removed but was never there")
            del before[key]
        if self.flattened:
            self.rows = _make_room(before, _keys(metadata.added_rows))
        elif metadata.is_snapshot:
            # A snapshot names every row of the table; those that the client has already may come without data.
            self.rows = {key: before.get(key, self._unknown()) for key in _keys(metadata.added_rows)}
        else:
            self.rows = _shifted(before, metadata)
            for key in _keys(metadata.added_rows):
                if key in self.rows:
                    raise ValueError(f"row {key} is added but is there already")
                self.rows[key] = self._unknown()
        included = _keys(metadata.included_rows)
        for row in included:
            self.rows[row] = self._unknown()
        for column, values in enumerate(message.add_columns):
            self._set(column, included, cells(values))
        for column, values in enumerate(message.mod_columns):
            self._set(column, _keys((metadata.modified_rows or ())[column]) if len(values) else [], cells(values))

    def in_order(self) -> list[Row]:
        """The rows in table order."""
        return [self.rows[key] for key in sorted(self.rows)]

    def in_view(self, positions: list[int]) -> list[Row]:
        """The rows that a client of a viewport sees; ``positions`` in the whole table."""
        ordered = self.in_order()
        return ordered if self.flattened else [ordered[position] for position in positions]

    def _unknown(self) -> Row:
        return [UNKNOWN] * len(self.schema)

    def _set(self, column: int, keys: list[int], values: list[Any]) -> None:
        if not values:
            return
        for key, value in zip(keys, values, strict=True):
            if key not in self.rows:
                raise ValueError(f"row {key} has a value but is not there")
            self.rows[key][column] = value


def _keys(rows: RowSet | None) -> list[int]:
    found: list[int] = [] if rows is None else rows.keys().tolist()
    return found


def _shifted(rows: dict[int, Row], metadata: UpdateMetadata) -> dict[int, Row]:
    """Rows under their keys after the shifts."""
    shifts = [] if metadata.shift_data is None else list(metadata.shift_data)
    moved: dict[int, Row] = {}
    for key, row in rows.items():
        delta = next((delta for start, end, delta in shifts if start <= key <= end), 0)
        if key + delta in moved:
            raise ValueError(f"two rows are shifted to {key + delta}")
        moved[key + delta] = row
    return moved


def _make_room(rows: dict[int, Row], added: list[int]) -> dict[int, Row]:
    """Rows at their new positions: those that stay fill up, in order, what the added ones leave free."""
    taken = set(added)
    free = (position for position in range(len(rows) + len(added)) if position not in taken)
    return {**{next(free): rows[key] for key in sorted(rows)}, **{position: [] for position in added}}
