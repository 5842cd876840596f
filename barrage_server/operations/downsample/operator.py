"""The operator of ``downsample``."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.version import TableVersion
from barrage_server.operations.downsample.by_value import ByValue
from barrage_server.operations.downsample.in_order import InOrder
from barrage_server.operations.downsample.points import Points, schema_of
from barrage_server.operations.downsample.sequence import DisorderError, Sequence, check_in_order

__all__ = ["Downsample"]


class Downsample(Operator):
    """The points of a plot.

    As long as rows come at the end, leave at the front, and do not fall along the column that they are plotted over, a
    cycle costs the rows that come and leave. Otherwise, from then on, it costs all rows.

    Args:
        schema: the columns of the input.
        x: the number of the column that rows are plotted over; None: their numbers.
        series: the numbers of the columns that are plotted.
        in_order: follows rows in order; None: they are not.
        by_value: sorts rows.
        by_key: whether rows in order are numbered by their keys.

    """

    name: ClassVar[str] = "downsample"

    def __init__(
        self,
        schema: pa.Schema,
        x: int | None,
        series: tuple[int, ...],
        in_order: InOrder | None,
        by_value: ByValue,
        *,
        by_key: bool,
    ) -> None:
        self.schema = schema_of(schema, x, series)
        self._needed = series if x is None else (x, *series)
        self._in_order = in_order
        self._by_value = by_value
        self._by_key = by_key
        self._points = Points(self.schema, x, series)

    @property
    def nbytes(self) -> int:
        """Bytes of the result, and of the state about the columns."""
        return self._points.nbytes + (0 if self._in_order is None else self._in_order.nbytes)

    @property
    def is_in_order(self) -> bool:
        """Whether rows have always come in the order of their x."""
        return self._in_order is not None

    def start(self, inputs: Inputs) -> Outcome:
        """Divide all rows into parts."""
        return self._outcome(inputs[0], None)

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Divide the new rows into parts."""
        (change,), (version,) = changes, inputs
        if change is None or not self._concerns(change):
            return self._points.unchanged()
        return self._outcome(version, change)

    def _concerns(self, change: Change) -> bool:
        update = change.update
        return bool(
            update.added or update.removed or update.shifted.size or any(update.modified[one] for one in self._needed)
        )

    def _outcome(self, version: TableVersion, change: Change | None) -> Outcome:
        if self._in_order is not None:
            try:
                if change is not None:
                    check_in_order(change, self._needed)
                rows = Sequence(version, by_key=self._by_key)
                return self._points.apply(self._in_order.follow(rows), version, rows.keys)
            except DisorderError:
                self._in_order = None
        return self._points.replace(self._by_value.marks(version), version, version.row_set.select)
