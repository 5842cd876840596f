"""Cumulative, moving and rolling functions of rows, as values.

The names of the functions are those of Deephaven. ``bs.updateby`` has the functions that make them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from barrage_server.plan.condition import Condition
from barrage_server.public import public

__all__ = [
    "CUMULATIVE",
    "FIELDS",
    "MOVING",
    "ROLLING",
    "BadDataBehavior",
    "DeltaControl",
    "OperationControl",
    "UpdateByOperation",
]

CUMULATIVE: Final = ("cum_sum", "cum_prod", "cum_min", "cum_max", "cum_count_where", "forward_fill", "delta")
"""Functions of a row and those before it."""
MOVING: Final = ("ema", "ems", "emmin", "emmax", "emstd")
"""Functions of a row and those before it, whose weight decays."""
ROLLING: Final = (
    "rolling_sum",
    "rolling_avg",
    "rolling_min",
    "rolling_max",
    "rolling_prod",
    "rolling_count",
    "rolling_std",
    "rolling_wavg",
    "rolling_group",
    "rolling_formula",
    "rolling_count_where",
)
"""Functions of the rows of a window around a row."""


FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "time_column": (*MOVING, *ROLLING),
    "decay": MOVING,
    "before": ROLLING,
    "after": ROLLING,
    "weight": ("rolling_wavg",),
    "filters": ("cum_count_where", "rolling_count_where"),
    "formula": ("rolling_formula",),
    "parameter": ("rolling_formula",),
    "control": MOVING,
    "delta": ("delta",),
}
"""The functions that have each of these fields."""


@public
class BadDataBehavior(StrEnum):
    """The reaction of a moving function to a value that is null or NaN."""

    SKIP = "skip"
    """Leave the row out: the result is the result of the row before."""
    RESET = "reset"
    """Start again behind the row, whose result is null, or NaN for a deviation."""
    POISON = "poison"
    """After NaN, all results are NaN; null is left out."""
    THROW = "throw"
    """Fail the table."""


@public
class DeltaControl(StrEnum):
    """The difference of a value and a predecessor that is null or missing."""

    NULL_DOMINATES = "null_dominates"
    """Null."""
    VALUE_DOMINATES = "value_dominates"
    """The value."""
    ZERO_DOMINATES = "zero_dominates"
    """Zero."""


@public
@dataclass(frozen=True, slots=True)
class OperationControl:
    """The reactions of moving functions to null and NaN.

    Attributes:
        on_null: at null.
        on_nan: at NaN.

    """

    on_null: BadDataBehavior = BadDataBehavior.SKIP
    on_nan: BadDataBehavior = BadDataBehavior.SKIP


@public
@dataclass(frozen=True, slots=True)
class UpdateByOperation:
    """One function along the rows of each group, for some columns.

    Attributes:
        function: one of :data:`CUMULATIVE`, :data:`MOVING` or :data:`ROLLING`.
        columns: results and the columns they are of: ``"total = price"`` or ``"price"``; none: every column that the
            function is defined for. Of functions that count rows where conditions hold the result alone.
        time_column: the column of instants that decay and windows are measured by, ascending in each group; None: rows
            are counted.
        decay: rows or nanoseconds after which a weight has fallen to 1/e; of moving functions.
        before: how far a window goes back from its row: rows with the row itself, or nanoseconds; of rolling functions.
        after: how far it goes on behind its row: rows, or nanoseconds.
        weight: the column with the weights; of ``rolling_wavg``.
        filters: the conditions that rows must meet; of functions that count them.
        formula: ``"out = f(a, b)"``, or with a parameter the formula alone; of ``rolling_formula``.
        parameter: the name in the formula that stands for the column.
        control: what to do at null and NaN; of moving functions.
        delta: the differences next to null; of ``delta``.

    """

    function: str
    columns: tuple[str, ...] = ()
    time_column: str | None = None
    decay: int | float | None = None
    before: int = 0
    after: int = 0
    weight: str | None = None
    filters: tuple[str | Condition, ...] = ()
    formula: str | None = None
    parameter: str | None = None
    control: OperationControl = OperationControl()
    delta: DeltaControl = DeltaControl.NULL_DOMINATES
