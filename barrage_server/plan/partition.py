"""Operations of partitioned tables: partition, and merge of constituents."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, TypeVar

from barrage_server.errors import InvalidRequestError
from barrage_server.plan.operation import DropColumns, HeadBy, Operation, View

__all__ = ["MergeConstituents", "PartitionRows", "merged", "merged_rows"]

_ALL_ROWS: Final = (1 << 62) - 1
_NAME: Final = re.compile(r"[^\W\d][\w$]*")
_WORDS: Final = ("true", "false", "null")


class _Whole(Protocol):
    """A table of any room."""

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> Any: ...

    def operate(self, operation: Operation, /) -> Self: ...


_Table = TypeVar("_Table", bound=_Whole)


@dataclass(frozen=True, slots=True)
class PartitionRows(Operation):
    """The table grouped by some columns, from which tables of keys are made.

    The tables of keys are made on request, hence in this process only.

    Attributes:
        columns: the key columns.

    """

    verb = "partition_by"

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MergeConstituents(Operation):
    """The merged rows of the tables that a function makes, one for each input row.

    Each row of the input is a key. A function cannot be sent, so the operation is for tables of the process only.

    Attributes:
        make: makes the tables of keys, from an array of values for each key column and the number of keys.
        sample: makes a table with the same columns, used when there are no keys.

    """

    verb = "merge_constituents"
    is_of_its_moment = True

    make: Callable[[Sequence[Any], int], Any]
    sample: Callable[[], Any]


def merged_rows(columns: Sequence[str], keys: Sequence[str], table: str, *, drop_keys: bool) -> tuple[Operation, ...]:
    """The operations, in order of application, that put rows in the order of keys.

    Args:
        columns: all columns of the table.
        keys: the key columns.
        table: the table's name, for errors.
        drop_keys: whether the result lacks the key columns.

    Raises:
        InvalidRequestError: the columns cannot be put back into their order, because of their names.

    """
    grouped = HeadBy(_ALL_ROWS, tuple(keys))
    if drop_keys:
        return grouped, DropColumns(tuple(keys))
    if tuple(columns[: len(keys)]) == tuple(keys):
        return (grouped,)
    if not all(_NAME.fullmatch(name) and name not in _WORDS for name in columns):
        raise InvalidRequestError(
            f"Where key columns are not the first ones, a merge takes names of letters, digits and '_'. Rename "
            f"columns of '{table}' before."
        )
    return grouped, View(tuple(columns))


def merged(table: _Table, keys: Sequence[str], *, drop_keys: bool) -> _Table:
    """The rows of ``table`` in the order of keys, by :func:`merged_rows`."""
    made = table
    for operation in merged_rows(table.schema.names, keys, table.name, drop_keys=drop_keys):
        made = made.operate(operation)
    return made
