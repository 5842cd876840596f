"""The operation that joins tables by ranges, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from barrage_server.plan.aggregation import Aggregation
from barrage_server.plan.operation import Operation

__all__ = ["RangeJoin"]


@dataclass(frozen=True, slots=True)
class RangeJoin(Operation):
    """The first table with lists of values of the second within each row's range.

    Attributes:
        on: the columns that are equal, and last the range, as ``"start <= time <= end"``.
        aggregations: the columns of the second table that are listed, with the function ``group``.

    """

    verb = "range_join"
    least_inputs = 2
    most_inputs = 2

    on: tuple[str, ...]
    aggregations: tuple[Aggregation, ...]
