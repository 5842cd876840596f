"""Operations on rows of several tables, as values: joins, and filters by keys."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from barrage_server.plan.aggregation import Aggregation
from barrage_server.plan.operation import Operation, PairOperation

__all__ = [
    "AsOfJoin",
    "ExactJoin",
    "FullOuterJoin",
    "Join",
    "LeftOuterJoin",
    "MultiJoin",
    "MultiJoinColumns",
    "NaturalJoin",
    "NaturalJoinType",
    "RangeJoin",
    "ReverseAsOfJoin",
    "WhereIn",
    "WhereNotIn",
]


@dataclass(frozen=True, slots=True)
class WhereIn(PairOperation):
    """The rows of the first table whose key the second one has.

    Attributes:
        columns: the columns that are compared, as ``"sym"`` or ``"sym = symbol"``.

    """

    verb = "where_in"

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhereNotIn(PairOperation):
    """The rows of the first table whose key the second one does not have."""

    verb = "where_not_in"

    columns: tuple[str, ...]


class NaturalJoinType(StrEnum):
    """Which row of the second table a natural join takes, if several have one key."""

    ERROR_ON_DUPLICATE = "error_on_duplicate"
    FIRST_MATCH = "first_match"
    LAST_MATCH = "last_match"


@dataclass(frozen=True, slots=True)
class NaturalJoin(PairOperation):
    """The first table with columns of the row of the second with the same key.

    The columns are null for rows without a match.

    Attributes:
        on: the columns that are compared, as ``"sym"`` or ``"sym = symbol"``.
        joins: the columns of the second table, as ``"price"`` or ``"last = price"``; none: all others.
        match: which row is taken, if the second table has several with one key.

    """

    verb = "natural_join"

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()
    match: NaturalJoinType = NaturalJoinType.ERROR_ON_DUPLICATE


@dataclass(frozen=True, slots=True)
class ExactJoin(PairOperation):
    """A natural join that fails when a row has no match."""

    verb = "exact_join"

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Join(PairOperation):
    """The pairs of rows of both tables that have the same key.

    Attributes:
        on: the columns that are compared, as ``"sym"`` or ``"sym = symbol"``; none: all pairs.
        joins: the columns of the second table, as ``"price"`` or ``"last = price"``; none: all that are not compared.
        reserve_bits: the bits of row keys for the rows of the second table that have one key.

    """

    verb = "join"

    on: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    reserve_bits: int = 10


@dataclass(frozen=True, slots=True)
class LeftOuterJoin(PairOperation):
    """The pairs of :class:`Join`, and the rows of the first table without a pair.

    Rows without a pair have nulls in the columns of the second table.

    Attributes:
        on: the columns that are compared.
        joins: the columns of the second table; none: those whose names the first one does not have.

    """

    verb = "left_outer_join"

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FullOuterJoin(PairOperation):
    """A left outer join, and the rows of the second table without a pair.

    These have nulls in the columns of the first table.
    """

    verb = "full_outer_join"

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AsOfJoin(PairOperation):
    """The first table with columns of the second's last row at or before each row.

    Attributes:
        on: the columns that are equal, and last the stamps, as ``"time"`` or ``"time >= quoted"``.
        joins: the columns of the second table, as ``"price"`` or ``"last = price"``; none: all others.

    """

    verb = "aj"

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReverseAsOfJoin(PairOperation):
    """The first table with columns of the second's first row at or after each row.

    The stamps are written ``"time <= quoted"``.
    """

    verb = "raj"

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeJoin(PairOperation):
    """The first table with lists of values of the second within each row's range.

    Attributes:
        on: the columns that are equal, and last the range, as ``"start <= time <= end"``.
        aggregations: the columns of the second table that are listed, with the function ``group``.

    """

    verb = "range_join"

    on: tuple[str, ...]
    aggregations: tuple[Aggregation, ...]


@dataclass(frozen=True, slots=True)
class MultiJoinColumns:
    """What one table contributes to a multi-join.

    Attributes:
        on: its key columns, as ``"sym"`` or ``"sym = symbol"``; the names before the sign are those of the result.
        joins: the columns that it adds, as ``"price"`` or ``"last = price"``; none: all others.

    """

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MultiJoin(Operation):
    """A row for each key of any of the tables, with columns of all tables.

    The columns of a table are null for a key that the table lacks.
    """

    verb = "multi_join"
    most_inputs = None

    columns: tuple[MultiJoinColumns, ...]
