"""Columns that repeat values of another table's last row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.storage import from_storage, storage_type, to_storage
from barrage_server.engine.values import take
from barrage_server.engine.version import TableVersion
from barrage_server.engine.view import ColumnView
from barrage_server.operations.row_places import check_copies
from barrage_server.rowset import MAX_KEY, RowSet

__all__ = ["ConstantView", "last_values", "repeated", "taken"]


class ConstantView(ColumnView):
    """A column with one value in all rows.

    Args:
        value: an array with the value.

    """

    __slots__ = ("_value", "depth", "is_frozen", "type")

    def __init__(self, value: pa.Array) -> None:
        self.type = value.type
        self.is_frozen = True
        self.depth = 0
        self._value = value

    def read(self, plan: ReadPlan) -> pa.Array:
        """Repeat the value."""
        return repeated(self._value, plan.size)

    def piece_end(self, key: int) -> int:  # noqa: ARG002  (as every view has it)
        """The end of the key space: values are copied in any case."""
        return MAX_KEY

    def compact(self) -> None:
        """Do nothing: no value is overwritten."""


def taken(values: pa.Array, places: Int64Array) -> pa.Array:
    """The values at some places, which may repeat.

    Raises:
        LimitError: the copy takes too much memory at once.

    """
    check_copies(values, places)
    return from_storage(take(to_storage(values), places), values.type)


def repeated(value: pa.Array, count: int) -> pa.Array:
    """The value of an array of one, ``count`` times.

    Raises:
        LimitError: the copy takes too much memory at once.

    """
    return taken(value, np.zeros(count, np.int64))


def last_values(version: TableVersion, columns: Sequence[int]) -> list[pa.Array]:
    """The values of columns in the last row, as arrays of one; null without rows."""
    if version.row_set:
        last = version.row_set.last_key
        return version.read(RowSet.from_range(last, last), columns)
    types = [version.schema.field(number).type for number in columns]
    return [from_storage(pa.nulls(1, storage_type(each)), each) for each in types]
