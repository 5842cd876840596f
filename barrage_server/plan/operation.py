"""The operations that make tables from tables, as values.

They say what is to be computed and hold no table. Formulas are text in the language of ``docs/queries.md``, and are
checked when an operation meets the columns of its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from barrage_server.plan.aggregation import Aggregation
from barrage_server.plan.condition import Condition
from barrage_server.plan.update_by import UpdateByOperation

__all__ = [
    "AggregateAllBy",
    "AggregateBy",
    "AsOfJoin",
    "DropColumns",
    "EmptyTable",
    "ExactJoin",
    "Flatten",
    "FullOuterJoin",
    "Head",
    "HeadBy",
    "HeadShare",
    "Join",
    "LazyUpdate",
    "LeftOuterJoin",
    "Merge",
    "MetaTable",
    "MultiJoin",
    "MultiJoinColumns",
    "NaturalJoin",
    "NaturalJoinType",
    "Operation",
    "RenameColumns",
    "Reverse",
    "ReverseAsOfJoin",
    "Select",
    "SelectDistinct",
    "Slice",
    "Snapshot",
    "Sort",
    "SortColumn",
    "Tail",
    "TailBy",
    "TailShare",
    "TimeTable",
    "Ungroup",
    "Update",
    "UpdateBy",
    "UpdateView",
    "View",
    "Where",
    "WhereIn",
    "WhereNotIn",
]


class Operation:
    """The base of all operations. Equal operations on a table give one result.

    Attributes:
        verb: the name of its method.
        least_inputs: the tables that it is computed from, at least.
        most_inputs: those at most; None: any number.
        is_of_its_moment: whether the result depends on when it was made, so that equal ones have results of their own.

    """

    __slots__ = ()

    verb: ClassVar[str]
    least_inputs: ClassVar[int] = 1
    most_inputs: ClassVar[int | None] = 1
    is_of_its_moment: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Select(Operation):
    """A table of the results of formulas, stored when their inputs change.

    Attributes:
        columns: formulas such as ``"C = A + B"``, or names of columns; none: all columns.

    """

    verb = "select"

    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View(Operation):
    """A table of the results of formulas, evaluated when they are read."""

    verb = "view"

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Update(Operation):
    """The table with computed columns, stored when their inputs change."""

    verb = "update"

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpdateView(Operation):
    """The table with computed columns, evaluated when they are read."""

    verb = "update_view"

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LazyUpdate(Operation):
    """As :class:`UpdateView`; Deephaven caches the results for equal inputs."""

    verb = "lazy_update"

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropColumns(Operation):
    """The table without some columns."""

    verb = "drop_columns"

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenameColumns(Operation):
    """The table with other names for some columns, each written ``"New = Old"``."""

    verb = "rename_columns"

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Where(Operation):
    """The rows for which all conditions hold, each a formula or a tree."""

    verb = "where"

    conditions: tuple[str | Condition, ...]


@dataclass(frozen=True, slots=True)
class Head(Operation):
    """The first rows, at most ``rows``."""

    verb = "head"

    rows: int


@dataclass(frozen=True, slots=True)
class Tail(Operation):
    """The last rows, at most ``rows``."""

    verb = "tail"

    rows: int


@dataclass(frozen=True, slots=True)
class HeadShare(Operation):
    """The first ``share`` of the rows, a number from 0 to 1, rounded up."""

    verb = "head_pct"

    share: float


@dataclass(frozen=True, slots=True)
class TailShare(Operation):
    """The last ``share`` of the rows, a number from 0 to 1, rounded up."""

    verb = "tail_pct"

    share: float


@dataclass(frozen=True, slots=True)
class Slice(Operation):
    """The rows from position ``start`` to ``stop``, without ``stop``.

    Negative positions count from the end.
    """

    verb = "slice"

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Flatten(Operation):
    """The rows under row keys that are their positions."""

    verb = "flatten"


@dataclass(frozen=True, slots=True)
class Reverse(Operation):
    """The rows in reverse order."""

    verb = "reverse"


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A column to order rows by, or its absolute value with ``absolute``."""

    name: str
    descending: bool = False
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Sort(Operation):
    """The rows in the order of columns, the first column most significant.

    Ties keep the order of the table.
    """

    verb = "sort"

    columns: tuple[SortColumn, ...]


@dataclass(frozen=True, slots=True)
class Merge(Operation):
    """The rows of several tables, table by table or in the order of a column.

    All tables have the same columns.
    """

    verb = "merge"
    most_inputs = None

    order_by: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot(Operation):
    """The table as it is now, which does not change any more."""

    verb = "snapshot"


@dataclass(frozen=True, slots=True)
class MetaTable(Operation):
    """The columns of the table, a row for each."""

    verb = "meta_table"


@dataclass(frozen=True, slots=True)
class EmptyTable(Operation):
    """``rows`` rows without columns. It has no input."""

    verb = "empty_table"
    least_inputs = 0
    most_inputs = 0

    rows: int


@dataclass(frozen=True, slots=True)
class TimeTable(Operation):
    """A row for each period that has passed. It has no input.

    Attributes:
        period: nanoseconds from one row to the next, or a text such as ``"PT1S"``.
        start: of the first row, in nanoseconds since 1970 UTC, or a text such as ``"2024-06-15T10:00:00Z"``; none: now.
        blink: whether rows live for one cycle.

    """

    verb = "time_table"
    least_inputs = 0
    most_inputs = 0

    period: int | str
    start: int | str | None = None
    blink: bool = False


@dataclass(frozen=True, slots=True)
class AggregateBy(Operation):
    """A row of aggregates for each group of rows that are equal in some columns.

    Attributes:
        aggregations: what is computed of each group; none: the groups alone.
        by: the columns that tell groups apart, as ``"sym"`` or ``"symbol = sym"``; none: all rows are one group.

    """

    verb = "agg_by"

    aggregations: tuple[Aggregation, ...]
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AggregateAllBy(Operation):
    """One aggregation of all suitable columns, for each group."""

    verb = "agg_all_by"

    aggregation: Aggregation
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeadBy(Operation):
    """The first rows of each group, group by group.

    Attributes:
        rows: how many of each group, at most.
        by: the columns that tell groups apart, as ``"sym"`` or ``"symbol = sym"``; none: all rows are one group.

    """

    verb = "head_by"

    rows: int
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TailBy(Operation):
    """The last rows of each group, group by group."""

    verb = "tail_by"

    rows: int
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ungroup(Operation):
    """A row for each item of the lists of a row.

    Attributes:
        columns: the columns of lists; none: all that there are.
        null_fill: whether the shorter lists of a row end with nulls; otherwise they must be of one length.

    """

    verb = "ungroup"

    columns: tuple[str, ...] = ()
    null_fill: bool = True


@dataclass(frozen=True, slots=True)
class UpdateBy(Operation):
    """The table with cumulative, moving and rolling functions of each group.

    Attributes:
        operations: the functions; at least one.
        by: the columns that tell groups apart; none: all rows are one group.

    """

    verb = "update_by"

    operations: tuple[UpdateByOperation, ...]
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectDistinct(Operation):
    """A row for each combination of values in ``columns``, or in all columns."""

    verb = "select_distinct"

    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WhereIn(Operation):
    """The rows of the first table whose key the second one has.

    Attributes:
        columns: the columns that are compared, as ``"sym"`` or ``"sym = symbol"``.

    """

    verb = "where_in"
    least_inputs = 2
    most_inputs = 2

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhereNotIn(Operation):
    """The rows of the first table whose key the second one does not have."""

    verb = "where_not_in"
    least_inputs = 2
    most_inputs = 2

    columns: tuple[str, ...]


class NaturalJoinType(StrEnum):
    """Which row of the second table a natural join takes, if several have one key."""

    ERROR_ON_DUPLICATE = "error_on_duplicate"
    FIRST_MATCH = "first_match"
    LAST_MATCH = "last_match"


@dataclass(frozen=True, slots=True)
class NaturalJoin(Operation):
    """The first table with columns of the row of the second with the same key.

    The columns are null for rows without a match.

    Attributes:
        on: the columns that are compared, as ``"sym"`` or ``"sym = symbol"``.
        joins: the columns of the second table, as ``"price"`` or ``"last = price"``; none: all others.
        match: which row is taken, if the second table has several with one key.

    """

    verb = "natural_join"
    least_inputs = 2
    most_inputs = 2

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()
    match: NaturalJoinType = NaturalJoinType.ERROR_ON_DUPLICATE


@dataclass(frozen=True, slots=True)
class ExactJoin(Operation):
    """A natural join that fails when a row has no match."""

    verb = "exact_join"
    least_inputs = 2
    most_inputs = 2

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Join(Operation):
    """The pairs of rows of both tables that have the same key.

    Attributes:
        on: the columns that are compared, as ``"sym"`` or ``"sym = symbol"``; none: all pairs.
        joins: the columns of the second table, as ``"price"`` or ``"last = price"``; none: all that are not compared.
        reserve_bits: the bits of row keys for the rows of the second table that have one key.

    """

    verb = "join"
    least_inputs = 2
    most_inputs = 2

    on: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    reserve_bits: int = 10


@dataclass(frozen=True, slots=True)
class LeftOuterJoin(Operation):
    """The pairs of :class:`Join`, and the rows of the first table without a pair.

    Rows without a pair have nulls in the columns of the second table.

    Attributes:
        on: the columns that are compared.
        joins: the columns of the second table; none: those whose names the first one does not have.

    """

    verb = "left_outer_join"
    least_inputs = 2
    most_inputs = 2

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FullOuterJoin(Operation):
    """A left outer join, and the rows of the second table without a pair.

    These have nulls in the columns of the first table.
    """

    verb = "full_outer_join"
    least_inputs = 2
    most_inputs = 2

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AsOfJoin(Operation):
    """The first table with columns of the last row of the second at or before.

    Attributes:
        on: the columns that are equal, and last the stamps, as ``"time"`` or ``"time >= quoted"``.
        joins: the columns of the second table, as ``"price"`` or ``"last = price"``; none: all others.

    """

    verb = "aj"
    least_inputs = 2
    most_inputs = 2

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReverseAsOfJoin(Operation):
    """The first table with columns of the first row of the second at or after.

    The stamps are written ``"time <= quoted"``.
    """

    verb = "raj"
    least_inputs = 2
    most_inputs = 2

    on: tuple[str, ...]
    joins: tuple[str, ...] = ()


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
