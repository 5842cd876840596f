"""The columns that a join compares, and the columns that it adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from barrage_server.engine import Table, TableVersion
from barrage_server.engine.types import check_key_type
from barrage_server.errors import InvalidRequestError, UnsupportedTypeError
from barrage_server.operations.checks import check_column_names, columns_text, known_columns, pair
from barrage_server.rowset import RowSet

__all__ = ["AddedColumns", "JoinKeys", "added_columns", "compared_columns", "join_keys", "key_pieces"]


@dataclass(frozen=True, slots=True)
class JoinKeys:
    """The columns of both tables that are compared, pair by pair.

    Attributes:
        schema: their names in the left table, and the types that they are compared in.
        left, right: their numbers.

    """

    schema: pa.Schema
    left: tuple[int, ...]
    right: tuple[int, ...]

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types that they are compared in."""
        return tuple(field.type for field in self.schema)


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """The columns of the right table that a join adds.

    Attributes:
        fields: their names in the result, and their types.
        numbers: their numbers in the right table.

    """

    fields: tuple[pa.Field, ...]
    numbers: tuple[int, ...]


def join_keys(left: Table, right: Table, pairs: Sequence[tuple[str, str]], what: str = "on") -> JoinKeys:
    """Find the columns to compare, by pairs of names in the argument ``what``.

    Raises:
        UnknownColumnError: a table lacks a column.
        InvalidRequestError: columns to compare are of different types.

    """
    if not pairs:
        return JoinKeys(pa.schema([]), (), ())
    mine = known_columns(left, [name for name, _ in pairs], what)
    theirs = known_columns(right, [name for _, name in pairs], what)
    fields = [
        compared_columns(left, right, left.schema.field(first), right.schema.field(second))
        for first, second in zip(mine, theirs, strict=True)
    ]
    return JoinKeys(pa.schema(fields), tuple(mine), tuple(theirs))


def compared_columns(left: Table, right: Table, mine: pa.Field, theirs: pa.Field, *, are_keys: bool = True) -> pa.Field:
    """The left column with the type in which both columns are compared.

    Keys are compared for equality, and others by their order, which the caller checks.

    Raises:
        InvalidRequestError: the columns cannot be compared.
        UnsupportedTypeError: values of their type cannot be.

    """
    if mine.type == theirs.type:
        try:
            if are_keys:
                check_key_type(mine.type, mine.name)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(
                f"{error} The tables are {columns_text(left)} and {columns_text(right)}."
            ) from None
        return pa.field(mine.name, mine.type)
    if {mine.type, theirs.type} == {pa.string(), pa.large_string()}:
        return pa.field(mine.name, pa.large_string())
    raise InvalidRequestError(
        f"The columns of a join must be of one type: {mine.name!r} of '{left.name}' is {mine.type}, and "
        f"{theirs.name!r} of '{right.name}' is {theirs.type}. Convert one of them in an update before, such as "
        f"'id = (long)id' for integers. The tables are {columns_text(left)} and {columns_text(right)}."
    )


def without_order(left: Table, right: Table, field: pa.Field) -> InvalidRequestError:
    """The error about a compared column whose values have no order."""
    return InvalidRequestError(
        f"Column {field.name!r} has no order: it has the type {field.type}. Compare numbers, times or strings. The "
        f"tables are {columns_text(left)} and {columns_text(right)}."
    )


def added_columns(
    left: Table, right: Table, joins: Sequence[str], others: Sequence[str], what: str = "joins"
) -> AddedColumns:
    """The right columns named by ``joins``, or by ``others`` if ``joins`` is empty.

    Entries of ``joins``, which is the argument ``what``, are ``"price"`` or ``"last = price"``.

    Raises:
        UnknownColumnError: the right table lacks a column.
        InvalidRequestError: the result would have a column twice.

    """
    pairs = [pair(entry) for entry in joins] or [(name, name) for name in others]
    names = [result for result, _ in pairs]
    known = set(left.schema.names)
    taken = next((entry for entry in pairs if entry[0] in known), None)
    if taken is not None:
        result, source = taken
        raise InvalidRequestError(
            f"The result would have the column {result!r} twice, of {columns_text(left)} and {columns_text(right)}. "
            f"Name the columns to add in {what}, with another name for this one: 'right_{result} = {source}'."
        )
    check_column_names(names)
    numbers = known_columns(right, [source for _, source in pairs], "joins") if pairs else []
    # without metadata, which may speak of the right table alone
    fields = [pa.field(name, right.schema.field(number).type) for number, name in zip(numbers, names, strict=True)]
    return AddedColumns(tuple(fields), tuple(numbers))


def key_pieces(
    version: TableVersion, rows: RowSet, columns: Sequence[int], types: Sequence[pa.DataType]
) -> Iterator[tuple[RowSet, list[pa.Array]]]:
    """The keys of rows, piece by piece, in the types in which they are compared.

    A piece has some ten thousand rows.
    """
    for part in version.pieces(rows, columns):
        read = version.read(part, columns)
        yield (
            part,
            [
                values if values.type == target else values.cast(target)
                for values, target in zip(read, types, strict=True)
            ],
        )
