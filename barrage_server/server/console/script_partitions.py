"""Partitioned tables of scripts, with the names of Deephaven's server-side API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from barrage_server.arguments import callback, flag, names, shown
from barrage_server.engine.conform import conform_key
from barrage_server.engine.key_conditions import key_conditions
from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.plan.aggregation import Filter
from barrage_server.plan.operable import merge
from barrage_server.plan.partition import merged_rows

if TYPE_CHECKING:
    from barrage_server.server.console.script_table import ScriptTable

__all__ = ["ScriptPartitionedTable"]


class ScriptPartitionedTable:
    """A table of a script, divided into one table for each key: its *constituents*.

    A constituent is computed for the caller when it is asked for, and ticks with the whole table.

    Args:
        table: the whole table.
        by: the columns with the keys.
        drop_keys: whether constituents are without them.
        transforms: what is applied to constituents, in order.

    Attributes:
        key_columns: the columns with the keys.

    """

    def __init__(
        self,
        table: ScriptTable,
        by: str | Sequence[str],
        drop_keys: bool = False,
        transforms: Sequence[Callable[[ScriptTable], ScriptTable]] = (),
    ) -> None:
        self._whole = table
        self.key_columns = list(names(by, "by", single=True))
        table.table.column_numbers(self.key_columns)  # which must be there, under these names
        self._drop_keys = flag(drop_keys, "drop_keys")
        self._transforms = tuple(transforms)
        self._keys = table.select_distinct(self.key_columns)
        if drop_keys and len(self.key_columns) == len(table.column_names):
            raise InvalidRequestError("Without its keys a constituent of this table has no column: keep them.")

    def __repr__(self) -> str:
        return f"<PartitionedTable by={self.key_columns} keys={self._keys.size}>"

    @property
    def is_refreshing(self) -> bool:
        """Whether constituents may change, and others may come."""
        return self._whole.is_refreshing

    def keys(self) -> ScriptTable:
        """A table of the keys that have rows, in order of appearance."""
        return self._keys

    def get_constituent(self, key_values: Any) -> ScriptTable | None:
        """The constituent of one key; None if the table has no row of it now.

        Args:
            key_values: the value of the key column; a list of values for several key columns, in their order.

        """
        key = conform_key(self._keys.schema, key_values, table="keys")
        filters = key_conditions(self.key_columns, [values[0] for values in key])
        return self._constituent(filters) if self._keys.where(filters).size else None

    @property
    def constituent_tables(self) -> list[ScriptTable]:
        """The constituents of all present keys, in the order of :meth:`keys`."""
        rows = self._keys.to_arrow()
        return [
            self._constituent(key_conditions(self.key_columns, [column[number] for column in rows.columns]))
            for number in range(len(rows))
        ]

    def transform(self, func: Callable[[ScriptTable], ScriptTable]) -> ScriptPartitionedTable:
        """Apply ``func`` to each constituent, whenever one is asked for."""
        callback(func, "func")
        return ScriptPartitionedTable(self._whole, self.key_columns, self._drop_keys, (*self._transforms, func))

    def merge(self) -> ScriptTable:
        """The rows of all constituents, in the order of :meth:`keys`.

        Those of keys to come are included. Transformed constituents can be merged only if the table never changes.
        """
        if not self._transforms:
            return self._merged()
        if self._whole.is_refreshing:
            raise UnsupportedOperationError(
                "Transformed constituents can be merged if the table never changes, as new keys would be left out. Use "
                "merge() before what 'transform' does, agg_by or head_by, or partition table.snapshot()."
            )
        found = self.constituent_tables
        if not found:
            raise InvalidRequestError("The table has no rows, and so no constituents to merge.")
        return merge(found)

    def _merged(self) -> ScriptTable:
        made, columns = self._whole, self._whole.column_names
        for operation in merged_rows(columns, self.key_columns, "the table", drop_keys=self._drop_keys):
            made = made.operate(operation)
        return made

    def _constituent(self, filters: Sequence[Filter]) -> ScriptTable:
        made = self._whole.where(filters)
        if self._drop_keys:
            made = made.drop_columns(self.key_columns)
        for transform in self._transforms:
            made = transform(made)
            if not isinstance(made, type(self._whole)):
                raise InvalidRequestError(f"func must return a table, not {shown(made)}.")
        return made
