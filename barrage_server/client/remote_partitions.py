"""Partitioned tables of a server: ``partition_by`` of a client's tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from barrage_server.arguments import callback, flag, names, shown
from barrage_server.client.remote_table import RemoteTable
from barrage_server.engine.conform import conform_key
from barrage_server.engine.key_conditions import key_conditions
from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.plan.aggregation import Filter
from barrage_server.plan.operable import merge
from barrage_server.plan.partition import merged
from barrage_server.public import public

__all__ = ["RemotePartitionedTable"]

Transform = Callable[[RemoteTable], RemoteTable]


@public
class RemotePartitionedTable:
    """A table of a server, divided into one table for each key: its *constituents*.

    Made by ``client.table(name).partition_by(by)``. Constituents are plans: the server computes a constituent when its
    content is requested, and it ticks with the whole table.

    >>> by_sym = client.table("trades").partition_by("sym")
    >>> acme = by_sym.get_constituent("ACME")
    >>> latest = by_sym.transform(lambda table: table.tail(10))

    Attributes:
        table: the whole table.
        key_columns: the columns with the keys.
        drop_keys: whether constituents are without them.

    """

    def __init__(
        self,
        table: RemoteTable,
        by: str | Sequence[str],
        drop_keys: bool = False,
        transforms: Sequence[Transform] = (),
    ) -> None:
        self.table = table
        self.key_columns = names(by, "by", single=True)
        flag(drop_keys, "drop_keys")
        self.drop_keys = drop_keys
        self._transforms = tuple(transforms)
        self._keys = table.select_distinct(list(self.key_columns))

    def __repr__(self) -> str:
        return f"<RemotePartitionedTable {self.table.name!r} by={list(self.key_columns)}>"

    def keys(self) -> RemoteTable:
        """Return a ticking table of the keys that have rows, in order of appearance."""
        return self._keys

    def get_constituent(self, key_values: Any) -> RemoteTable | None:
        """Return the constituent of one key; None if the table has no row of it now.

        Args:
            key_values: the value of the key column; a list of values for several key columns, in their order.

        Raises:
            InvalidRequestError: ``key_values`` are no values of the key columns.
            UnsupportedOperationError: a key column has a type that conditions do not compare.
            BarrageError: the server cannot be reached, or refuses.

        """
        key = conform_key(self._keys.schema, key_values, table=self._keys.name)
        filters = self._filters([values[0] for values in key])
        with self._keys.where(filters) as found:
            return self._constituent(filters) if found.size else None

    @property
    def constituents(self) -> list[RemoteTable]:
        """The constituents of all present keys, in the order of :meth:`keys`.

        Reads the keys from the server.
        """
        rows = self._keys.to_arrow()
        return [
            self._constituent(self._filters([column[number] for column in rows.columns])) for number in range(len(rows))
        ]

    def transform(self, func: Transform) -> RemotePartitionedTable:
        """Apply ``func`` to each constituent, also to constituents of future keys.

        Args:
            func: takes a constituent, and returns a table that is computed from it. It must have no side effect: it is
                called whenever a constituent is requested.

        """
        callback(func, "func")
        return RemotePartitionedTable(self.table, self.key_columns, self.drop_keys, (*self._transforms, func))

    def merge(self) -> RemoteTable:
        """Concatenate the constituents, in the order of :meth:`keys`.

        The result includes constituents of future keys. Transformed constituents can be merged only if the table never
        changes.

        Raises:
            UnsupportedOperationError: the constituents are transformed, and the table may change.
            InvalidRequestError: there is no constituent, or transformed ones differ in their columns.
            BarrageError: the server cannot be reached, or refuses.

        """
        if not self._transforms:
            return merged(self.table, self.key_columns, drop_keys=self.drop_keys)
        if not self.table.is_static:
            raise UnsupportedOperationError(
                f"Transformed constituents can be merged if the table is known never to change, as new keys would be "
                f"left out; '{self.table.name}' may change. Use merge() before what 'transform' does, agg_by or "
                f"head_by, or partition table.snapshot()."
            )
        found = self.constituents
        if not found:
            raise InvalidRequestError(f"Table '{self.table.name}' has no rows, and so no constituents to merge.")
        return merge(found)

    def _filters(self, key: Sequence[pa.Scalar]) -> list[Filter]:
        return key_conditions(self.key_columns, key)

    def _constituent(self, filters: Sequence[Filter]) -> RemoteTable:
        made = self.table.where(filters)
        if self.drop_keys:
            made = made.drop_columns(list(self.key_columns))
        for transform in self._transforms:
            made = transform(made)
            if not isinstance(made, RemoteTable):
                raise InvalidRequestError(f"func must return a table of the server, not {shown(made)}.")
        return made
