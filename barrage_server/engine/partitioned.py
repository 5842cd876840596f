"""A table as one table for each of its keys: ``partition_by``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast
from weakref import WeakKeyDictionary

import pyarrow as pa

from barrage_server.arguments import callback, flag, names, shown
from barrage_server.engine.conform import conform_key
from barrage_server.engine.table import Table
from barrage_server.errors import InvalidRequestError
from barrage_server.plan.operable import merge
from barrage_server.plan.partition import MergeConstituents, PartitionRows, merged
from barrage_server.public import public

__all__ = ["Constituents", "PartitionedTable", "constituents_of", "set_constituents"]


Transform = Callable[[Table], Table]


class Constituents(NamedTuple):
    """The constituent tables for which the cells of a column stand.

    Attributes:
        table: the table that was partitioned.
        by: the key columns.
        drop_keys: whether constituents lack the key columns.
    """

    table: Table
    by: tuple[str, ...]
    drop_keys: bool


_of_columns: Final[WeakKeyDictionary[Table, dict[str, Constituents]]] = WeakKeyDictionary()
"""The columns of constituents of each table."""


def set_constituents(made: Table, column: str, table: Table, by: tuple[str, ...], *, drop_keys: bool) -> None:
    """Let a column of ``made``, computed from ``table``, stand for its constituents."""
    _of_columns.setdefault(made, {})[column] = Constituents(table, by, drop_keys)


def constituents_of(table: Table) -> dict[str, Constituents]:
    """The constituents for which columns of ``table`` stand, by column name."""
    return _of_columns.get(table, {})


@public
class PartitionedTable:
    """A table as one table for each key, its *constituents*.

    ``table.partition_by(by)`` makes one. Constituents follow the whole table: a row that is added to it is added to the
    constituent of its key. They are made when they are asked for, and each follows in the cycles that change its rows.

    >>> by_sym = trades.partition_by("sym")
    >>> acme = by_sym.get_constituent("ACME")
    >>> latest = by_sym.transform(lambda table: table.tail(10))

    Attributes:
        table: the whole table.
        key_columns: the key columns.
        drop_keys: whether constituents lack the key columns.
    """

    def __init__(
        self, table: Table, by: str | Sequence[str], drop_keys: bool = False, transforms: Sequence[Transform] = ()
    ) -> None:
        self.table = table
        self.key_columns = names(by, "by", single=True)
        flag(drop_keys, "drop_keys")
        if not self.key_columns:
            raise InvalidRequestError("by must not be empty: name at least one column.")
        self.drop_keys = drop_keys
        self._transforms = tuple(transforms)
        table.column_numbers(self.key_columns)  # which must be there, under these names
        self._keys = table.select_distinct(list(self.key_columns))
        if drop_keys and len(self.key_columns) == len(table.schema):
            raise InvalidRequestError(f"Without its keys a constituent of '{table.name}' has no column: keep them.")
        self._whole: Table | None = None

    @classmethod
    def from_partitioned_table(cls, table: Table, constituent_column: str | None = None) -> PartitionedTable:
        """The partitioned table of a column that ``bs.agg.partition`` has made.

        Args:
            table: the result of the aggregation itself, not one that was made from it.
            constituent_column: the column; needed if there are several.

        Raises:
            InvalidRequestError: there is no such column, or there are several.
        """
        if not isinstance(table, Table):
            raise InvalidRequestError(f"table must be a table of the engine, not {shown(table)}.")
        there = constituents_of(table)
        if not there:
            raise InvalidRequestError(
                f"Table '{table.name}' has no column of constituents: it must be the result of an agg_by with "
                f"bs.agg.partition itself."
            )
        if constituent_column is None and len(there) > 1:
            raise InvalidRequestError(f"constituent_column must be given: there are {', '.join(there)}.")
        wanted = next(iter(there)) if constituent_column is None else constituent_column
        if not isinstance(wanted, str) or wanted not in there:
            raise InvalidRequestError(
                f"constituent_column must be one of {', '.join(there)}, not {shown(constituent_column)}."
            )
        return cls(*there[wanted])

    def __repr__(self) -> str:
        return f"<PartitionedTable {self.table.name!r} by={list(self.key_columns)} keys={self._keys.size}>"

    def keys(self) -> Table:
        """The keys that have rows, one row each, in the order of first appearance.

        The table ticks with the whole table.
        """
        return self._keys

    def get_constituent(self, key_values: Any) -> Table | None:
        """The constituent of one key, or ``None`` if the table has no row of it now.

        Args:
            key_values: the value of the key column; of several columns a list of their values, in their order.

        Raises:
            InvalidRequestError: these are no values of the key columns.
        """
        key = conform_key(self._keys.schema, key_values, table=self._keys.name)
        (rows,) = self._partition().constituents(key, 1)
        return self._transformed(rows) if rows.size else None

    @property
    def constituents(self) -> list[Table]:
        """The constituents of all present keys, in the order of :meth:`keys`."""
        return [made for keys in self._keys.version.batches() for made in self._made_for(keys.columns, len(keys))]

    def transform(self, func: Transform) -> PartitionedTable:
        """The partitioned table of the results of ``func`` for each constituent.

        Later keys are included.

        Args:
            func: takes a constituent, and returns a table that is computed from it. It must have no other effect,
                because it is called whenever a constituent is asked for.
        """
        callback(func, "func")
        return PartitionedTable(self.table, self.key_columns, self.drop_keys, (*self._transforms, func))

    def merge(self) -> Table:
        """The rows of all constituents, one behind the other, in the order of keys.

        Later keys are included. Transformed constituents are all made at once, and follow; the constituent of a new key
        is made in the cycle that adds the key.

        Raises:
            InvalidRequestError: transformed constituents differ in their columns; or there is none, and the table never
                changes.
        """
        if not self._transforms:
            return merged(self.table, self.key_columns, drop_keys=self.drop_keys)
        if self.table.is_refreshing:
            return self._keys.operate(MergeConstituents(self._made_for, self._sample))
        found = self.constituents
        if not found:
            raise InvalidRequestError(f"Table '{self.table.name}' has no rows, and so no constituents to merge.")
        return merge(found)

    def _made_for(self, keys: Sequence[pa.Array], count: int) -> list[Table]:
        """The constituents of ``count`` keys, with or without rows."""
        return [self._transformed(rows) for rows in self._partition().constituents(keys, count)]

    def _sample(self) -> Table:
        """A table like the constituents, without rows."""
        return self._transformed(self._partition().sample())

    def _partition(self) -> _Partition:
        """The table that makes the rows of each key, shared by equal partitions."""
        if self._whole is None or self._whole.failure is not None:
            self._whole = self.table.operate(PartitionRows(self.key_columns))
        return cast("_Partition", self._whole)

    def _transformed(self, rows: Table) -> Table:
        made = rows.drop_columns(list(self.key_columns)) if self.drop_keys else rows
        for transform in self._transforms:
            made = transform(made)
            if not isinstance(made, Table):
                raise InvalidRequestError(f"func must return a table, not {shown(made)}.")
        return made


class _Partition(Protocol):
    """A table that makes the rows of each key."""

    def constituents(self, keys: Sequence[pa.Array], count: int) -> list[Table]:
        """The rows of ``count`` keys, each with or without rows."""
        ...

    def sample(self) -> Table:
        """A table like the constituents, without rows."""
        ...
