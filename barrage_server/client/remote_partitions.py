"""A table of a server as one table for each of its keys: ``partition_by`` of a client's tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pat

from barrage_server.arguments import callback, names, shown
from barrage_server.client.remote_table import RemoteTable
from barrage_server.engine.conform import conform_key
from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.plan.aggregation import Filter
from barrage_server.plan.condition import All, Column, Compare, Comparison, Instant, IsNan, IsNull, Not
from barrage_server.plan.expression import Expression, col
from barrage_server.plan.operable import merge
from barrage_server.plan.partition import merged_rows
from barrage_server.public import public

__all__ = ["RemotePartitionedTable"]

_INSTANT: Final = pa.timestamp("ns", "UTC")

Transform = Callable[[RemoteTable], RemoteTable]


@public
class RemotePartitionedTable:
    """A table of a server as one table for each key, its *constituents*. ``client.table(name).partition_by(by)`` makes
    one.

    Constituents are plans: the server computes those that are asked for, and they follow the whole table.

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
        if not isinstance(drop_keys, bool):
            raise InvalidRequestError(f"drop_keys must be True or False, not {shown(drop_keys)}.")
        self.drop_keys = drop_keys
        self._transforms = tuple(transforms)
        self._keys = table.select_distinct(list(self.key_columns))

    def __repr__(self) -> str:
        return f"<RemotePartitionedTable {self.table.name!r} by={list(self.key_columns)}>"

    def keys(self) -> RemoteTable:
        """The keys, a row for each that has rows, in the order of their appearance. It ticks as the table does."""
        return self._keys

    def get_constituent(self, key_values: Any) -> RemoteTable | None:
        """The constituent of one key, or None if the table has no row of it now. Asks the server whether it has.

        Args:
            key_values: the value of the key column; of several columns a list of their values, in their order.

        Raises:
            InvalidRequestError: these are no values of the key columns.
            UnsupportedOperationError: a key column has a type that conditions do not compare.
            BarrageError: the server cannot be reached, or refuses.

        """
        key = conform_key(self._keys.schema, key_values, table=self._keys.name)
        filters = self._filters([values[0] for values in key])
        with self._keys.where(filters) as found:
            return self._constituent(filters) if found.size else None

    @property
    def constituents(self) -> list[RemoteTable]:
        """The constituents of all keys that there are now, in the order of :meth:`keys`. Reads these."""
        rows = self._keys.to_arrow()
        return [
            self._constituent(self._filters([column[number] for column in rows.columns])) for number in range(len(rows))
        ]

    def transform(self, func: Transform) -> RemotePartitionedTable:
        """The results of ``func`` for each constituent, also for those of keys that come later.

        Args:
            func: takes a constituent, and returns a table that is computed from it. It must have no other effect, as it
                is called whenever a constituent is asked for.

        """
        callback(func, "func")
        return RemotePartitionedTable(self.table, self.key_columns, self.drop_keys, (*self._transforms, func))

    def merge(self) -> RemoteTable:
        """The rows of all constituents, one behind the other, in the order of :meth:`keys`.

        Keys that come later are in it, too. That of transformed constituents can be made only while no key can come.

        Raises:
            UnsupportedOperationError: the constituents are transformed, and the table may change.
            InvalidRequestError: there is no constituent, or transformed ones differ in their columns.
            BarrageError: the server cannot be reached, or refuses.

        """
        if not self._transforms:
            return self._merged()
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

    def _merged(self) -> RemoteTable:
        columns, made = self.table.schema.names, self.table
        for operation in merged_rows(columns, self.key_columns, self.table.name, drop_keys=self.drop_keys):
            made = made.operate(operation)
        return made

    def _filters(self, key: Sequence[pa.Scalar]) -> list[Filter]:
        return [_equal(name, value) for name, value in zip(self.key_columns, key, strict=True)]

    def _constituent(self, filters: Sequence[Filter]) -> RemoteTable:
        made = self.table.where(filters)
        if self.drop_keys:
            made = made.drop_columns(list(self.key_columns))
        for transform in self._transforms:
            made = transform(made)
            if not isinstance(made, RemoteTable):
                raise InvalidRequestError(f"func must return a table of the server, not {shown(made)}.")
        return made


def _equal(name: str, value: pa.Scalar) -> Filter:
    """The condition that a column has that value: null equals null, and NaN equals NaN."""
    column, kind = Column(name), value.type
    if not value.is_valid:
        return IsNull(column)
    if pat.is_timestamp(kind):
        return Compare(Comparison.EQUAL, column, Instant(value.cast(_INSTANT).value))
    if pat.is_date(kind) or pat.is_time(kind) or pat.is_duration(kind):
        same: Expression = col(name) == value.as_py()
        return same
    if not (pat.is_boolean(kind) or pat.is_integer(kind) or pat.is_floating(kind) or _is_text(kind)):
        raise UnsupportedOperationError(
            f"The key column '{name}' has the type {kind}, of which a server cannot be asked for one value. Use "
            f"where_in with a table of the key."
        )
    given = value.as_py()
    if isinstance(given, float) and math.isnan(given):
        return IsNan(column)
    if given == math.inf:  # which is no number of JSON
        return Compare(Comparison.GREATER, column, sys.float_info.max)
    if given == -math.inf:  # null is lower
        return All((Compare(Comparison.LESS, column, -sys.float_info.max), Not(IsNull(column))))
    return Compare(Comparison.EQUAL, column, given)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pat.is_string(kind) or pat.is_large_string(kind))
