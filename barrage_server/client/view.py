"""The part of a table that a user requests, and its columns on the wire."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pyarrow as pa

from barrage_server.engine.types import check_type
from barrage_server.errors import UnknownColumnError, UnsupportedTypeError
from barrage_server.rowset import RowSet
from barrage_server.subscription import Window

__all__ = ["View", "tell_left_out", "unreadable"]

logger = logging.getLogger("barrage_server.client")


@dataclass(frozen=True, slots=True)
class View:
    """The requested part of a table.

    Attributes:
        positions: the row positions; None for the whole table.
        reverse: whether positions count from the end of the table.
        columns: names of the columns; None for all.
    """

    positions: RowSet | None
    reverse: bool
    columns: tuple[str, ...] | None

    def moved(self, before: View, window: Window) -> Window | None:
        """Return the view with the column numbers of ``before``; None if columns differ."""
        if self.columns != before.columns:
            return None
        return Window(window.columns, self.positions, self.reverse and self.positions is not None)

    def window(self, schema: pa.Schema, table: str) -> Window:
        """Return the view with column numbers; columns that cannot be read are left out.

        Raises:
            UnknownColumnError: a column that the schema lacks.
            UnsupportedTypeError: a requested column cannot be read here, or no column can.
        """
        numbers = {name: number for number, name in enumerate(schema.names)}
        unfit = unreadable(schema)
        if self.columns is None:
            columns = tuple(number for number in range(len(schema)) if number not in unfit)
            if unfit and not columns:
                raise UnsupportedTypeError(
                    f"Table '{table}' has no column whose type can be read here: {', '.join(map(str, schema.types))}."
                )
        else:
            missing = [name for name in self.columns if name not in numbers]
            if missing:
                raise UnknownColumnError(
                    f"Table '{table}' has no column {', '.join(map(repr, missing))}; it has: {', '.join(schema.names)}."
                )
            columns = tuple(sorted({numbers[name] for name in self.columns}))
        for number in columns:
            if number in unfit:
                raise UnsupportedTypeError(
                    f"Column '{schema.names[number]}' of table '{table}' has the type {schema.types[number]}, which "
                    f"cannot be read here; convert it on the server, or leave it out."
                )
        return Window(columns, self.positions, self.reverse and self.positions is not None)


def unreadable(schema: pa.Schema) -> frozenset[int]:
    """Return the numbers of the columns whose types tables cannot hold.

    An example is Deephaven's ``java.time.Period``.
    """
    return frozenset(number for number, data_type in enumerate(schema.types) if not _is_readable(data_type))


def tell_left_out(schema: pa.Schema, table: str) -> None:
    """Log the columns that a view of all columns omits."""
    names = [schema.field(number).name for number in sorted(unreadable(schema))]
    if names:
        logger.warning("table %r: left out, because their types cannot be read here: %s", table, ", ".join(names))


def _is_readable(data_type: pa.DataType) -> bool:
    try:
        check_type(data_type)
    except UnsupportedTypeError:
        return False
    return True
