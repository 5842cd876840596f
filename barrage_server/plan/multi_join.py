"""The function that joins any number of tables at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from barrage_server.arguments import shown
from barrage_server.errors import InvalidRequestError
from barrage_server.plan.copyable import Result
from barrage_server.plan.joins import MultiJoin, MultiJoinColumns
from barrage_server.plan.operable import Operable
from barrage_server.plan.texts import Texts, texts
from barrage_server.public import public

__all__ = ["MultiJoinInput", "multi_join"]


@public
@dataclass(frozen=True, slots=True)
class MultiJoinInput(Generic[Result]):
    """A table of a multi-join.

    Attributes:
        table: the table, with one row for each key.
        on: its key columns: ``"sym"``, or ``"sym = symbol"`` for a column that the result has by another name.
        joins: the columns that it adds: ``"price"`` or ``"last = price"``; all others without.

    """

    table: Operable[Result]
    on: Texts
    joins: Texts | None = None


def multi_join(
    input: Sequence[Operable[Result]] | Sequence[MultiJoinInput[Result]],  # noqa: A002  (as Deephaven's client has it)
    on: Texts | None = None,
) -> Result:
    """A row for each key of any of the tables, with columns of all tables.

    The columns of a table are null for a key that the table lacks.

    >>> bs.multi_join([quotes, positions], on="sym")
    >>> bs.multi_join([bs.MultiJoinInput(quotes, "sym", "bid"), bs.MultiJoinInput(positions, "sym = symbol", "size")])

    Args:
        input: the tables, each with one row for each key; or inputs that say so for each of them.
        on: the key columns, where ``input`` are tables, which add all other columns.

    Raises:
        InvalidRequestError: an argument is wrong, or the key columns differ.
        UnknownColumnError: a table lacks a column.
        KeyMismatchError: a table has a key twice.

    """
    given: Any = input
    listed: list[Any] = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
    if not listed:
        raise InvalidRequestError(f"input is a list of tables or of MultiJoinInput, not {shown(given)}.")
    if on is not None and any(isinstance(entry, MultiJoinInput) for entry in listed):
        raise InvalidRequestError("A MultiJoinInput has its own on: leave out the one of multi_join.")
    if on is not None:
        listed = [MultiJoinInput(table, on) for table in listed]
    for entry in listed:
        if not isinstance(entry, MultiJoinInput):
            raise InvalidRequestError(
                f"input is a list of MultiJoinInput, or of tables beside on='sym'; one entry is {shown(entry)}."
            )
        if not isinstance(entry.table, Operable):
            raise InvalidRequestError(f"A multi_join has inputs with tables, and one of them is {shown(entry.table)}.")
    columns = tuple(
        MultiJoinColumns(texts(entry.on, "on"), () if entry.joins is None else texts(entry.joins, "joins"))
        for entry in listed
    )
    first, *others = [entry.table for entry in listed]
    made: Result = first.operate(MultiJoin(columns), *others)
    return made
