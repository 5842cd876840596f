"""Tables of scripts, with the method names of Deephaven's server-side API."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from barrage_server.arguments import seconds, shown
from barrage_server.engine import Table
from barrage_server.engine.frames import arrow_rows
from barrage_server.engine.restricted import source_of
from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.plan.operable import Operable
from barrage_server.plan.operation import Operation
from barrage_server.publish import apply_rows
from barrage_server.server.console.context import ScriptContext
from barrage_server.server.console.script_partitions import ScriptPartitionedTable
from barrage_server.wire.protocol import PublishMode

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ScriptTable", "SortDirection", "content_of"]

_WAIT_SECONDS: Final = 0.05
"""Seconds of one wait, after which a waiting script can be stopped."""


class SortDirection(StrEnum):
    """The order of a column."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class ScriptTable(Operable["ScriptTable"]):
    """A table in a script.

    Its operations are described in ``docs/queries.md``, and are computed for the caller.

    Args:
        table: the table.
        context: the context of the console.

    """

    def __init__(self, table: Table, context: ScriptContext) -> None:
        self._table = table
        self._context = context
        self._seen = table.version.step

    @property
    def table(self) -> Table:
        """The table of the engine."""
        return self._table

    def operate(self, operation: Operation, *others: ScriptTable) -> ScriptTable:
        """The result of ``operation`` on this table, and on ``others``."""
        for other in others:
            if not isinstance(other, ScriptTable):
                raise InvalidRequestError(f"The other tables must be tables of this console, not {shown(other)}.")
        tables = [self._table, *(other.table for other in others)]
        return ScriptTable(self._context.compute(operation, tables), self._context)

    def partition_by(self, by: str | Sequence[str], drop_keys: bool = False) -> ScriptPartitionedTable:
        """This table as one table for each key in the columns ``by``, made on request."""
        return ScriptPartitionedTable(self, by, drop_keys)

    @property
    def size(self) -> int:
        """Number of rows."""
        return self._context.guarded(lambda: self._table.size)

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self._table.schema

    @property
    def column_names(self) -> list[str]:
        """The names of its columns."""
        return list(self._table.schema.names)

    @property
    def is_refreshing(self) -> bool:
        """Whether it may change."""
        return self._table.is_refreshing

    @property
    def is_blink(self) -> bool:
        """Whether its rows live for one cycle."""
        return self._table.traits.is_blink

    @property
    def is_flat(self) -> bool:
        """Whether its row keys are 0, 1, 2 and so on."""
        return self._table.traits.is_flat

    def add(self, table: ScriptTable | Any) -> None:
        """Add rows of a table or data frame to an input table.

        They replace rows with the same keys.
        """
        self._write(table, None)

    def delete(self, table: ScriptTable | Any) -> None:
        """Delete the rows of an input table that have the keys of ``table``."""
        self._write(table, PublishMode.DELETE)

    def await_update(self, timeout: float | None = None) -> bool:
        """Wait until the table has changed since this object was made, or the last call.

        Args:
            timeout: most seconds to wait; None: no limit.

        Returns:
            Whether the table has changed.

        """
        end = None if timeout is None else time.monotonic() + seconds(timeout, "timeout")
        changed = threading.Event()
        remove = self._context.guarded(lambda: self._table.add_listener(lambda *_: changed.set()))
        try:
            while self._table.version.step <= self._seen:
                self._context.check()
                left = _WAIT_SECONDS if end is None else min(_WAIT_SECONDS, end - time.monotonic())
                if left <= 0:
                    return False
                changed.wait(left)
            self._seen = self._table.version.step
            return True
        finally:
            remove()

    def to_arrow(self) -> pa.Table:
        """Its current content, as an Arrow table."""
        return self._context.guarded(self._table.to_arrow)

    def to_pandas(self) -> pd.DataFrame:
        """Its current content, as a data frame."""
        return self._context.guarded(self._table.to_pandas)

    def to_string(self, num_rows: int = 10) -> str:
        """The first rows, as text."""
        return str(self.head(num_rows).to_pandas())

    def _write(self, rows: Any, mode: PublishMode | None) -> None:
        if not self._table.traits.is_input:
            raise UnsupportedOperationError(f"Table '{self._table.name}' is no input table, and takes no rows.")
        content = content_of(rows)
        with self._context.shielded():
            apply_rows(source_of(self._table), mode, content.schema, content.to_batches())

    def __len__(self) -> int:
        """Number of rows."""
        return self.size

    def __bool__(self) -> bool:
        """True, even without rows."""
        return True

    def __repr__(self) -> str:
        return f"<Table {self._table.name} rows={self._table.size} columns={self.column_names}>"


def content_of(rows: Any) -> pa.Table:
    """The rows of a script's table, a data frame, or a mapping of names to values."""
    if isinstance(rows, ScriptTable):
        return rows.to_arrow()
    found = arrow_rows(rows)
    if isinstance(found, pa.RecordBatchReader):
        return found.read_all()
    return pa.Table.from_batches([found]) if isinstance(found, pa.RecordBatch) else found
