"""The rows of a table key after key, as operations: the constituents of a partitioned table, merged."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barrage_server.errors import InvalidRequestError
from barrage_server.plan.operation import DropColumns, HeadBy, Operation, View

__all__ = ["MergeConstituents", "PartitionRows", "merged_rows"]

_ALL_ROWS: Final = (1 << 62) - 1
_NAME: Final = re.compile(r"[^\W\d][\w$]*")
_WORDS: Final = ("true", "false", "null")


@dataclass(frozen=True, slots=True)
class PartitionRows(Operation):
    """The table by the values of some columns, which makes the tables of single keys.

    It is for tables of the process, as these are made when they are asked for.

    Attributes:
        columns: those with the keys.

    """

    verb = "partition_by"

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MergeConstituents(Operation):
    """The rows of the tables that a function makes for each row of the input, which are keys.

    It is for tables of the process: a function cannot be sent.

    Attributes:
        make: makes the tables of keys, of which it gets the values, an array for each column, and the number.
        sample: makes a table such as these, if there is no key.

    """

    verb = "merge_constituents"
    is_of_its_moment = True

    make: Callable[[Sequence[Any], int], Any]
    sample: Callable[[], Any]


def merged_rows(columns: Sequence[str], keys: Sequence[str], table: str, *, drop_keys: bool) -> tuple[Operation, ...]:
    """The operations, to be applied one after the other, that put the rows of each key behind each other.

    Args:
        columns: those of the table.
        keys: those with the keys.
        table: the table's name, for errors.
        drop_keys: whether the result is without the keys.

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
