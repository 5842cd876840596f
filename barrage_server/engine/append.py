"""Tables that grow only at their end: append, ring and blink.

Cells are never overwritten, so readers get views of them without a copy. Row keys are the sequence numbers of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from barrage_server.arguments import shown
from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.conform import Rows, conform_parts
from barrage_server.engine.graph import UpdateGraph
from barrage_server.engine.operation import Operation, OperationKind
from barrage_server.engine.restorable import RestorableTable
from barrage_server.engine.schemas import SchemaLike
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.update import TableUpdate
from barrage_server.errors import InvalidRequestError
from barrage_server.public import public
from barrage_server.rowset import MAX_KEY, RowSet, RowSetShiftData

__all__ = ["AppendTable", "BlinkTable", "RingTable"]

# Storage is freed by whole pages: a bounded table gets pages of about this fraction of its capacity.
_PAGES_PER_CAPACITY = 8
_MIN_PAGE_BITS = 10


@public
class AppendTable(RestorableTable):
    """A table that only grows. Row ``i`` has the row key ``i``.

    Args:
        graph: the update graph whose cycles move this table.
        name: its name in messages and logs.
        schema: column names and Arrow types, in order; or a mapping of names to types.
        is_input: whether clients of Deephaven may write to it.

    Raises:
        UnsupportedTypeError: a column has a type that tables cannot hold.
    """

    def __init__(self, graph: UpdateGraph, name: str, schema: SchemaLike, *, is_input: bool = False) -> None:
        self._next_key = 0
        traits = TableTraits(append_only=True, add_only=True, is_flat=True, is_input=is_input)
        super().__init__(graph, name, schema, traits=traits, overwrites=False)

    def append(self, rows: Rows) -> None:
        """Add ``rows`` at the end, in order.

        The rows are visible when the cycle of this thread ends; outside of a cycle, at once.

        Args:
            rows: a pyarrow table or record batch, a data frame, or a mapping of column names to values, with the
                columns of the table in any order.

        Raises:
            SchemaMismatchError: the columns are not those of the table. Nothing is added then.
            UnavailableError: the update graph is closed, as it is with its server, or the table was dropped.
            TableFailedError: a cycle failed in this table.
        """
        parts = conform_parts(self.schema, rows, table=self.name)
        if parts:
            self.graph.stage(self, *(Operation(OperationKind.APPEND, part) for part in parts))

    @property
    def next_key(self) -> int:
        """The number of rows that were ever appended, and so the next row key."""
        return self._next_key

    def _resume(self, rows: RowSet, next_key: int) -> None:
        first = next_key - rows.size
        is_run = rows.first_key == first and rows.last_key == next_key - 1 if rows else not next_key
        if not is_run or (first and type(self) is AppendTable):
            raise InvalidRequestError(f"The row keys of table '{self.name}' are no run that ends before {next_key}.")
        self._rows, self._next_key = rows, next_key

    def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
        """Write the staged batches behind the last row."""
        added = self._write(operations)
        self._rows = RowSet.flat(self._next_key)
        return TableUpdate.of_added(added, len(self.schema))

    def _write(self, operations: Sequence[Operation], keep: int | None = None) -> RowSet:
        """Write batches under the next row keys; returns the row keys written.

        Args:
            operations: the batches.
            keep: the number of last rows to write, for a table that would remove the others at once; ``None`` for all.
        """
        total = sum(operation.rows for operation in operations)
        first = self._next_key
        skip = 0 if keep is None else max(0, total - keep)
        key = first
        if len(operations) > 1 and total > skip:
            rows = RowSet.from_range(first + skip, first + total - 1)
            for column in self._store.columns:
                column.expect(rows)
        for operation in operations:
            count = operation.rows
            start = min(count, max(0, first + skip - key))
            if start < count:
                rows = RowSet.from_range(key + start, key + count - 1)
                for column, values in zip(self._store.columns, operation.columns, strict=True):
                    column.write(rows, values.slice(start) if start else values, None)
            key += count
        self._next_key = key
        return RowSet.from_range(first + skip, key - 1)


def _checked_capacity(capacity: int, name: str) -> int:
    if not isinstance(capacity, int) or isinstance(capacity, bool) or not 1 <= capacity <= MAX_KEY:
        raise InvalidRequestError(f"Table '{name}' needs a capacity from 1 to {MAX_KEY:,} rows, not {shown(capacity)}.")
    return capacity


class _BoundedTable(AppendTable):
    """An append table that frees the storage before a moving first key."""

    def __init__(self, graph: UpdateGraph, name: str, schema: SchemaLike, capacity: int, traits: TableTraits) -> None:
        self.capacity = _checked_capacity(capacity, name)
        self._next_key = 0
        bits = max(_MIN_PAGE_BITS, min(MAX_PAGE_BITS, (capacity // _PAGES_PER_CAPACITY).bit_length()))
        RestorableTable.__init__(self, graph, name, schema, traits=traits, overwrites=False, page_bits=bits)

    def _free_before(self, first: int) -> None:
        for column in self._store.columns:
            column.drop_before(first)


@public
class RingTable(_BoundedTable):
    """The last ``capacity`` appended rows; older ones are removed.

    Rows of one cycle that would be pushed out by the same cycle never appear. Row keys count up from 0.

    Args:
        graph: the update graph whose cycles move this table.
        name: its name in messages and logs.
        schema: column names and Arrow types, in order; or a mapping of names to types.
        capacity: rows that are kept, at least one.

    Raises:
        InvalidRequestError: ``capacity`` is not a positive number.
        UnsupportedTypeError: a column has a type that tables cannot hold.
    """

    def __init__(self, graph: UpdateGraph, name: str, schema: SchemaLike, capacity: int) -> None:
        traits = TableTraits(ring_capacity=_checked_capacity(capacity, name))
        super().__init__(graph, name, schema, capacity, traits)

    def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
        """Write the staged batches, and push out what exceeds the capacity."""
        added = self._write(operations, keep=self.capacity)
        before = self._rows
        first = max(0, self._next_key - self.capacity)
        removed = before.restrict(0, first - 1) if before and before.first_key < first else RowSet.empty()
        self._rows = RowSet.from_range(first, self._next_key - 1)
        if removed:
            self._free_before(first)
        return TableUpdate(added, removed, RowSetShiftData.empty(), (RowSet.empty(),) * len(self.schema))


@public
class BlinkTable(_BoundedTable):
    """A table whose rows live for one cycle; the next cycle removes them.

    The last ``history`` rows stay readable for subscribers that look less often than the table blinks, so that they
    miss none. Row keys count up from 0.

    Args:
        graph: the update graph whose cycles move this table.
        name: its name in messages and logs.
        schema: column names and Arrow types, in order; or a mapping of names to types.
        history: rows that stay readable, at least one; all rows of the last cycle do in any case.
        is_input: whether clients of Deephaven may write to it.

    Raises:
        InvalidRequestError: ``history`` is not a positive number.
        UnsupportedTypeError: a column has a type that tables cannot hold.
    """

    def __init__(
        self,
        graph: UpdateGraph,
        name: str,
        schema: SchemaLike,
        history: int = 1_000_000,
        *,
        is_input: bool = False,
    ) -> None:
        super().__init__(graph, name, schema, history, TableTraits(is_blink=True, is_input=is_input))

    @property
    def changes_by_itself(self) -> bool:
        """Whether there are rows, which the next cycle removes."""
        return bool(self._rows)

    def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
        """Write the staged batches; they replace the rows of the cycle before."""
        removed = self._rows
        added = self._write(operations)
        self._rows = added
        self._free_before(self._first_readable())
        return TableUpdate(added, removed, RowSetShiftData.empty(), (RowSet.empty(),) * len(self.schema))

    def readable_rows(self) -> RowSet:
        """The rows of this cycle and of earlier ones within the history."""
        return RowSet.from_range(self._first_readable(), self._next_key - 1) if self._next_key else RowSet.empty()

    def _first_readable(self) -> int:
        alive = self._rows.first_key if self._rows else self._next_key
        return max(0, min(alive, self._next_key - self.capacity))
