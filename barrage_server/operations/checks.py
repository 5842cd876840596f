"""Checks of the arguments of operations, with errors that name the table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from barrage_server.arguments import names as checked_names
from barrage_server.arguments import number, shown, text, unbroken
from barrage_server.engine.schemas import unknown_column
from barrage_server.engine.table import Table
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.fixed_limits import OPERATION_RESULTS

__all__ = [
    "check_column_names",
    "check_results",
    "columns_by_name",
    "columns_text",
    "key_text",
    "known_columns",
    "new_name",
    "pair",
    "part",
]

_LONGEST: Final = 100
_MOST_LISTED: Final = 20
_LONGEST_KEY: Final = 200


def key_text(values: Iterable[object]) -> str:
    """Key values for the text of an error, cut where they are long."""
    told = ", ".join(map(repr, values))
    return told if len(told) <= _LONGEST_KEY else f"{told[:_LONGEST_KEY]}..."


def check_results(operation: str, what: str, count: int) -> None:
    """Raise LimitError if an operation has too many results.

    Args:
        operation: with its article, as the beginning of a sentence.
        what: the word for the results.
        count: how many there are.

    """
    if count > OPERATION_RESULTS.most:
        raise LimitError(
            f"{operation} has at most {OPERATION_RESULTS.most:,} {what} ({OPERATION_RESULTS.name}), not {count:,}."
        )


def columns_by_name(schema: pa.Schema) -> dict[str, int]:
    """The numbers of the columns."""
    return {name: place for place, name in enumerate(schema.names)}


def known_columns(table: Table, names: Iterable[str], what: str) -> list[int]:
    """The numbers of columns of ``table``.

    Raises:
        InvalidRequestError: ``names`` are no list of names; ``what`` is the argument.
        UnknownColumnError: the table lacks one.

    """
    known = columns_by_name(table.schema)
    wanted = checked_names(names, what, single=True)
    for name in wanted:
        if name not in known:
            raise unknown_column(name, known, table.name)
    return [known[name] for name in wanted]


def check_column_names(names: Iterable[str]) -> None:
    """Raise InvalidRequestError for an empty, broken or repeated name of a column."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise InvalidRequestError("A column must have a name.")
        unbroken(name, f"The column {shown(name)}")
        if name in seen:
            raise InvalidRequestError(f"The result would have the column {name!r} twice.")
        seen.add(name)


def new_name(value: Any, what: str) -> str:
    """Check the name of a new column that is computed from no column, and return it.

    Raises:
        InvalidRequestError: it is no string, or written as ``"n = x"``.

    """
    name = text(value, what)
    if "=" in name:
        raise InvalidRequestError(f"{what} must be the name of the new column alone, not {shown(name)}.")
    return name


def columns_text(table: Table) -> str:
    """The columns of a table as text: ``'trades' (sym: string, price: double)``."""
    shown = [f"{field.name[:_LONGEST]}: {str(field.type)[:_LONGEST]}" for field in table.schema]
    others = f", and {len(shown) - _MOST_LISTED:,} more" if len(shown) > _MOST_LISTED else ""
    return f"'{table.name}' ({', '.join(shown[:_MOST_LISTED])}{others})"


def pair(entry: str) -> tuple[str, str]:
    """Parse ``"total = price"`` or ``"price"``: a result and its column.

    Raises:
        InvalidRequestError: it is written in another way.

    """
    result, equals, source = (part.strip() for part in entry.replace("==", "=").partition("="))
    found = (result, source) if equals else (result, result)
    if not all(found) or "=" in source:
        raise InvalidRequestError(f"A column is written 'total = price' or 'price', not {entry[:100]!r}.")
    unbroken(result, f"The column {shown(result)}")
    return found


def part(value: object, what: str) -> float:
    """Check that ``value`` is a number from 0 to 1, and return it.

    Raises:
        InvalidRequestError: it is not; ``what`` is the argument.

    """
    found = number(value, what)
    if not 0 <= found <= 1:
        raise InvalidRequestError(f"{what} must be from 0 to 1, not {found}.")
    return found
