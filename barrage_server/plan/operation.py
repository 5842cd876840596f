"""The operations that make tables from tables, as values.

They say what is to be computed and hold no table. Formulas are text in the language of ``docs/queries.md``, and are
checked when an operation meets the columns of its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from barrage_server.plan.aggregation import Aggregation
from barrage_server.plan.condition import Condition
from barrage_server.plan.update_by import UpdateByOperation

__all__ = [
    "AggregateAllBy",
    "AggregateBy",
    "DropColumns",
    "EmptyTable",
    "Flatten",
    "Head",
    "HeadBy",
    "HeadShare",
    "LazyUpdate",
    "Merge",
    "MetaTable",
    "Operation",
    "PairOperation",
    "RenameColumns",
    "Reverse",
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
]


class Operation:
    """The base of all operations. Equal operations on a table give one result.

    Attributes:
        verb: the name of its method.
        least_inputs: the least number of input tables.
        most_inputs: the largest number of input tables; None: any number.
        is_of_its_moment: whether the result depends on when it is made, so that equal operations have results of their
            own.

    """

    __slots__ = ()

    verb: ClassVar[str]
    least_inputs: ClassVar[int] = 1
    most_inputs: ClassVar[int | None] = 1
    is_of_its_moment: ClassVar[bool] = False


class PairOperation(Operation):
    """The base of operations on two tables."""

    __slots__ = ()

    least_inputs = 2
    most_inputs = 2


@dataclass(frozen=True, slots=True)
class Select(Operation):
    """A table of the stored results of formulas, computed when their inputs change.

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
    """The table with stored columns of formulas, computed when their inputs change."""

    verb = "update"

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpdateView(Operation):
    """The table with columns of formulas, evaluated when they are read."""

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
