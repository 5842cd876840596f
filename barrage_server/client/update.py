"""Updates of a live table, with the values before and after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

import pyarrow as pa

from barrage_server.arguments import names, shown, text
from barrage_server.engine import TableUpdate, TableVersion, coalesce
from barrage_server.errors import UnknownColumnError
from barrage_server.public import public
from barrage_server.rowset import RowSet, RowSetShiftData
from barrage_server.wire.empty import table_of

__all__ = ["Update", "together"]


@public
class Update:
    """The difference between two versions of a live table.

    Rows are named by their row keys, which order the rows and are not their positions. ``removed`` has keys of before
    the update; all others have keys of after it. Apply an update in the order removed, shifted, added, modified. A key
    can be in ``removed`` and in ``added``: one row went, and another took its key.

    Old and new values stay readable as long as the object is referenced; that keeps the values changed since in memory.

    Attributes:
        before: the version of the table before the update.
        after: the version after it.
        is_snapshot: whether the update comes from a changed view or a reconnection, and not from a change of the table.
        step: the server's step after the update; -1 when it does not say.

    """

    __slots__ = ("_change", "after", "before", "is_snapshot", "step")

    def __init__(
        self,
        before: TableVersion,
        after: TableVersion,
        change: TableUpdate,
        *,
        is_snapshot: bool = False,
        step: int = -1,
    ) -> None:
        self.before = before
        self.after = after
        self.is_snapshot = is_snapshot
        self.step = step
        self._change = change

    @classmethod
    def of_other_columns(cls, before: TableVersion, after: TableVersion, *, step: int = -1) -> Update:
        """Make the update to a view of other columns: all rows are removed and added.

        Args:
            before: the version with the old columns.
            after: the version with the new columns.
            step: the server's step after the update; -1 when it does not say.

        """
        nothing = (RowSet.empty(),) * len(after.schema)
        change = TableUpdate(after.row_set, before.row_set, RowSetShiftData.empty(), nothing)
        return cls(before, after, change, is_snapshot=True, step=step)

    @property
    def change(self) -> TableUpdate:
        """The row sets, as an update of the engine; modified rows by column number."""
        return self._change

    @property
    def added(self) -> RowSet:
        """Keys of the added rows, after the update."""
        return self._change.added

    @property
    def removed(self) -> RowSet:
        """Keys of the removed rows, before the update."""
        return self._change.removed

    @property
    def shifted(self) -> RowSetShiftData:
        """How the keys of rows that stayed have moved."""
        return self._change.shifted

    @property
    def modified(self) -> dict[str, RowSet]:
        """For each column, the keys, after the update, of the rows modified in it."""
        return _ByColumn(zip(self.after.schema.names, self._change.modified, strict=True))

    @property
    def modified_rows(self) -> RowSet:
        """Keys, after the update, of the rows modified in any column."""
        return self._change.modified_rows

    def added_values(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the added rows, in the order of :attr:`added`.

        Args:
            columns: names of the columns; None for all.

        Raises:
            UnknownColumnError: a column that is not in view.

        """
        return _table(self.after, self.added, columns)

    def removed_values(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the last values of the removed rows, in the order of :attr:`removed`.

        Takes and raises what :meth:`added_values` does.
        """
        return _table(self.before, self.removed, columns)

    def modified_values(self, column: str | None = None) -> pa.Table:
        """Read the new values of modified rows, in key order.

        Args:
            column: reads this column, of the rows modified in it; None reads all columns, of :attr:`modified_rows`.

        Raises:
            UnknownColumnError: a column that is not in view.

        """
        return _table(self.after, self._modified_in(column), None if column is None else [column])

    def modified_previous_values(self, column: str | None = None) -> pa.Table:
        """Read the values before the update of the rows of :meth:`modified_values`.

        Rows are in the same order. Takes and raises what :meth:`modified_values` does.
        """
        rows = self._modified_in(column)
        if not rows:  # after a change of columns, ``before`` may lack the column
            return _table(self.after, rows, None if column is None else [column])
        previous = self.shifted.unapply(rows) if self.shifted.size else rows
        return _table(self.before, previous, None if column is None else [column])

    def then(self, later: Update) -> Update:
        """Coalesce this update and ``later``, which follows it."""
        snapshot = self.is_snapshot or later.is_snapshot
        if self.before.schema != later.after.schema or self.after.schema != self.before.schema:
            return Update.of_other_columns(self.before, later.after, step=later.step)
        change = coalesce(self._change, later._change, self.before.row_set)
        return Update(self.before, later.after, change, is_snapshot=snapshot, step=later.step)

    def __bool__(self) -> bool:
        return not self._change.is_empty

    def __repr__(self) -> str:
        kind = " snapshot" if self.is_snapshot else ""
        return f"<Update{kind} {self._change} step={self.step}>"

    def _modified_in(self, column: str | None) -> RowSet:
        if column is None:
            return self.modified_rows
        return self._change.modified[_number(self.after.schema, column)]


class _ByColumn(dict[str, RowSet]):
    """Row sets by column name; UnknownColumnError for an unknown name."""

    def __missing__(self, name: str) -> NoReturn:
        raise _unknown(name, self)


def together(updates: Sequence[Update]) -> Update:
    """Coalesce one or more successive updates.

    Pairs of neighbours first, so that few merges are of large updates.
    """
    while len(updates) > 1:
        pairs = [first.then(second) for first, second in zip(updates[::2], updates[1::2], strict=False)]
        updates = [*pairs, *updates[2 * len(pairs) :]]
    return updates[0]


def _table(version: TableVersion, rows: RowSet, columns: Sequence[str] | None) -> pa.Table:
    schema = version.schema
    numbers = range(len(schema)) if columns is None else [_number(schema, name) for name in names(columns, "columns")]
    fields = pa.schema([schema.field(number) for number in numbers])
    return table_of(version.read(rows, numbers), rows.size, fields)


def _number(schema: pa.Schema, name: str) -> int:
    number: int = schema.get_field_index(text(name, "A column's name"))
    if number < 0:
        raise _unknown(name, schema.names)
    return number


def _unknown(name: str, columns: Iterable[str]) -> UnknownColumnError:
    return UnknownColumnError(f"There is no column {shown(name)} in view; there are: {', '.join(columns)}.")
