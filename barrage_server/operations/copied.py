"""Copies of rows that may leave: ``blink_to_append_only``, ``ring_table``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.operator import Changes, Inputs, Operator, Outcome
from barrage_server.engine.traits import TableTraits
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.appended import AppendedRows, added_rows
from barrage_server.operations.result import make
from barrage_server.operations.traits import route_of
from barrage_server.plan.copies import ring_capacity
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["CopiedRows", "RingRows", "blink_to_append_only", "ring_table"]


class CopiedRows(Operator):
    """Appends a copy of each row added to its input. A cycle costs these rows.

    Args:
        schema: the columns.
        capacity: how many rows it has, at most; the last ones. Any number without.
        initialize: whether it begins with the rows that are there.

    """

    name: ClassVar[str] = "blink_to_append_only"

    def __init__(self, schema: pa.Schema, capacity: int | None = None, *, initialize: bool = True) -> None:
        self.schema = schema
        self._capacity = capacity
        self._initialize = initialize
        self._cells = AppendedRows(schema, capacity)

    @property
    def nbytes(self) -> int:
        """Bytes of the copies."""
        return self._cells.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Copy the present rows, if ``initialize``."""
        (version,) = inputs
        return self._outcome(version, version.row_set if self._initialize else RowSet.empty())

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Copy the added rows."""
        (change,), (version,) = changes, inputs
        return self._outcome(version, RowSet.empty() if change is None else added_rows(change))

    def _outcome(self, version: TableVersion, came: RowSet) -> Outcome:
        if self._capacity is not None and came.size > self._capacity:
            came = came.slice(came.size - self._capacity, came.size)
        for part in version.pieces(came, range(len(self.schema))):
            self._cells.append(version.read(part), part.size)
        added, removed = self._cells.settle()
        update = TableUpdate(added, removed, RowSetShiftData.empty(), (RowSet.empty(),) * len(self.schema))
        return Outcome(self._cells.rows, self._cells.views(), update)


class RingRows(CopiedRows):
    """As :class:`CopiedRows`, with a capacity."""

    name: ClassVar[str] = "ring_table"


def blink_to_append_only(parents: Sequence[Table], *, name: str | None = None) -> Table:
    """All rows that a blink table has now and will have.

    Raises:
        InvalidRequestError: it is no blink table.
        LimitError: they would take too much memory.

    """
    (table,) = parents
    if not table.traits.is_blink:
        raise InvalidRequestError(f"Table '{table.name}' is no blink table: its rows stay until they are removed.")
    operator = CopiedRows(table.schema)
    traits = TableTraits(append_only=True, add_only=True, is_flat=True, stated=route_of(table.traits))
    return make([table], operator.name, operator, traits, name=name)


def ring_table(parents: Sequence[Table], capacity: int, *, initialize: bool = True, name: str | None = None) -> Table:
    """The last rows added to a table.

    Args:
        parents: the table. Its rows must not be modified: it is a blink, append-only or ring table, or never changes.
        capacity: how many rows, from 1 to 2³¹.
        initialize: whether it begins with rows that are there.
        name: its name in messages and logs.

    Raises:
        InvalidRequestError: ``capacity`` is no number of rows, or rows of the table may be modified.
        LimitError: they would take too much memory.

    """
    (table,) = parents
    count = ring_capacity(capacity)
    if table.is_refreshing and not table.traits.rows_come_once:
        raise InvalidRequestError(
            f"A ring_table is made of a blink, append-only or ring table, and rows of '{table.name}' may be modified. "
            f"Use 'tail', which follows them."
        )
    operator = RingRows(table.schema, count, initialize=initialize)
    traits = TableTraits(ring_capacity=count, stated=route_of(table.traits))
    return make([table], operator.name, operator, traits, name=name)
