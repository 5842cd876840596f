"""Versions of tables, which readers hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index
from typing import Final

import pyarrow as pa

from barrage_server.arguments import instance, integer, shown
from barrage_server.engine.heap import READ_ROWS
from barrage_server.engine.interrupts import check_interrupt
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.update import UpdateNode
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError
from barrage_server.formula.inputs import SharedValues
from barrage_server.public import public
from barrage_server.rowset import RowSet
from barrage_server.wire.array_bound import read_in_parts
from barrage_server.wire.empty import batch_of

__all__ = ["FEW_ROWS", "SharedRowValues", "TableVersion", "shared_values"]

FEW_ROWS: Final = 1024
"""Up to this number of rows, tables computed from one table share the values of an update."""
_SHARED: Final = 4


@public
class TableVersion:
    """One version of a table. It never changes.

    Holding a version costs memory only for the changes made after it.

    Attributes:
        schema: column names and Arrow types.
        row_set: the row keys of this version.
        readable: the row keys whose cells can be read: ``row_set``, or more (the history of a blink table).
        node: this version's place in the table's history.
    """

    __slots__ = ("__weakref__", "_shared", "_views", "node", "readable", "row_set", "schema")

    def __init__(
        self,
        *,
        schema: pa.Schema,
        row_set: RowSet,
        readable: RowSet,
        node: UpdateNode,
        views: Sequence[ColumnView],
    ) -> None:
        self.schema = schema
        self.row_set = row_set
        self.readable = readable
        self.node = node
        self._views = tuple(views)
        self._shared: tuple[tuple[RowSet, SharedRowValues], ...] = ()

    @property
    def views(self) -> tuple[ColumnView, ...]:
        """The columns. Versions of other tables may share them."""
        return self._views

    @property
    def step(self) -> int:
        """The cycle that made this version; 0 if nothing was published before."""
        return self.node.step

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.row_set.size

    @property
    def is_frozen(self) -> bool:
        """Whether cells are never overwritten, so that read arrays may share memory."""
        return all(view.is_frozen for view in self._views)

    def read(self, rows: RowSet, columns: Sequence[int] | None = None) -> list[pa.Array]:
        """The values of ``rows`` in key order, one array per column.

        Args:
            rows: row keys out of :attr:`readable`.
            columns: column numbers, in the order wanted; all when ``None``.

        Returns:
            Arrays of the types of :attr:`schema`, each as long as ``rows``. Where cells are never overwritten they may
            share the memory of the table.

        Raises:
            LimitError: the values of a column are together too large for one array; read fewer rows.
            RowSetError: ``rows`` has row keys that were never written.
            InvalidRequestError: ``rows`` is no row set, or there is no such column.
        """
        if not isinstance(rows, RowSet):
            raise InvalidRequestError(f"The rows to read must be a RowSet, not {shown(rows)}.")
        plan = ReadPlan.from_row_set(rows)
        views = self._views
        try:
            wanted = views if columns is None else [views[number] for number in columns]
        except (TypeError, IndexError):
            raise self._unknown(columns) from None
        return [view.read(plan) for view in wanted]

    def read_parts(self, rows: RowSet, columns: Sequence[int] | None = None) -> Iterator[tuple[RowSet, list[pa.Array]]]:
        """The values of ``rows``, in as many parts as their size requires.

        Takes and raises what :meth:`read` does, but LimitError only for a row that is too large by itself.

        Returns:
            Pairs of some of the rows, and their values.
        """
        instance(rows, RowSet, "rows")
        whole = rows.size
        for start, stop, arrays in read_in_parts(
            lambda start, stop: self.read(rows if stop - start == whole else rows.slice(start, stop), columns), 0, whole
        ):
            yield rows if stop - start == whole else rows.slice(start, stop), arrays

    def _unknown(self, columns: object) -> InvalidRequestError:
        return InvalidRequestError(f"Columns are numbers from 0 to {len(self._views) - 1}, not {shown(columns)}.")

    def batches(
        self, columns: Sequence[int] | None = None, *, rows: RowSet | None = None, rows_per_batch: int = READ_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The content in key order as record batches; none if there are no rows.

        Args:
            columns: column numbers, in the order wanted; all when ``None``.
            rows: only these row keys.
            rows_per_batch: how many rows a batch has; the last one may have fewer, and so may those that would be too
                large for one array.

        Raises:
            InvalidRequestError: ``rows_per_batch`` is not positive, ``rows`` is no row set, or there is no such column.
            LimitError: one value is too large for an array.
        """
        integer(rows_per_batch, "rows_per_batch", least=1)
        instance(rows, RowSet, "rows")
        chosen = self.row_set if rows is None else rows
        schema = self._schema_of(columns)
        for start in range(0, chosen.size, rows_per_batch):
            for part, arrays in self.read_parts(chosen.slice(start, start + rows_per_batch), columns):
                yield batch_of(arrays, part.size, schema)

    def to_table(self, columns: Sequence[int] | None = None, *, rows: RowSet | None = None) -> pa.Table:
        """The content in key order, with one chunk per batch.

        Takes and raises what :meth:`batches` does.
        """
        return pa.Table.from_batches(list(self.batches(columns, rows=rows)), schema=self._schema_of(columns))

    def _schema_of(self, columns: Sequence[int] | None) -> pa.Schema:
        if columns is None:
            return self.schema
        try:
            return pa.schema([self.schema.field(index(number)) for number in columns])
        except (TypeError, IndexError):
            raise self._unknown(columns) from None

    def detached(self) -> TableVersion:
        """The same content without the later history, for holders of values only."""
        copy = object.__new__(TableVersion)
        copy.schema, copy.row_set, copy.readable = self.schema, self.row_set, self.readable
        copy.node = UpdateNode(self.node.step, self.node.row_set, self.node.update)
        copy._views = self._views
        copy._shared = ()
        return copy

    def with_views(self, views: Sequence[ColumnView]) -> TableVersion:
        """The same rows and values, at the same place in the history, in other views."""
        return TableVersion(
            schema=self.schema, row_set=self.row_set, readable=self.readable, node=self.node, views=views
        )

    def pieces(self, rows: RowSet, columns: Sequence[int]) -> Iterator[RowSet]:
        """Parts of ``rows`` to be read one at a time.

        A part has about 65,536 rows, and ends where a piece of storage ends. Few rows are one part.

        Args:
            rows: row keys out of :attr:`readable`.
            columns: numbers of the columns that will be read.
        """
        if 0 < rows.size <= FEW_ROWS:  # a copy is cheaper than the search for ends
            check_interrupt()
            yield rows
            return
        views = [self._views[number] for number in columns if self._views[number].is_frozen]
        start = 0
        while start < rows.size:
            check_interrupt()
            part = rows.slice(start, start + READ_ROWS)
            end = min((view.piece_end(part.first_key) for view in views), default=part.last_key)
            if end < part.last_key:
                shorter = part.restrict(part.first_key, end)
                part = shorter if 2 * shorter.size > part.size else part  # small reads cost more than copies
            start += part.size
            yield part

    def compact(self) -> None:
        """Copy the values overwritten since, and release the chain of undo records."""
        for view in self._views:
            view.compact()

    def __repr__(self) -> str:
        return f"<TableVersion step={self.step} rows={self.size}>"


class SharedRowValues(SharedValues):
    """Values of few rows of a version, shared by tables computed from it.

    Args:
        version: the version.
        rows: the rows.

    Attributes:
        plan: reads or writes cells of these rows.
    """

    __slots__ = ("plan",)

    def __init__(self, version: TableVersion, rows: RowSet) -> None:
        self.plan = plan = ReadPlan.from_row_set(rows)
        views = version.views
        super().__init__(lambda number: views[number].read(plan))


def shared_values(version: TableVersion, rows: RowSet) -> SharedRowValues | None:
    """A shared cache of values of few rows, for tables computed from one table.

    Args:
        version: a version of the table that they are computed from.
        rows: rows of an update. The same object gives the same cache; the version keeps the last four.

    Returns:
        The cache; ``None`` for more than 1,024 rows.
    """
    for known, values in version._shared:
        if known is rows:
            return values
    if rows.size > FEW_ROWS:
        return None
    values = SharedRowValues(version, rows)
    version._shared = ((rows, values), *version._shared[: _SHARED - 1])
    return values
