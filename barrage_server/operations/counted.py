"""The number of rows of each group for which conditions hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import Int64Array
from barrage_server.engine.where import row_flags
from barrage_server.operations.accumulators import Accumulator
from barrage_server.operations.formula_view import Computation
from barrage_server.operations.group_totals import GroupArray, GroupTotals

__all__ = ["CountWhere"]


class CountWhere(Accumulator):
    """The number of rows that meet all conditions; null does not.

    Args:
        names: the columns that the conditions read.
        types: their types.
        conditions: the conditions.

    """

    def __init__(self, names: Sequence[str], types: Sequence[pa.DataType], conditions: Sequence[Computation]) -> None:
        super().__init__(types)
        self._names = tuple(names)
        self._conditions = tuple(conditions)
        self._numbers = GroupArray(np.int64)

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:  # noqa: ARG003
        """A 64-bit integer."""
        return pa.int64()

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """The numbers."""
        return (self._numbers,)

    def change(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Count the rows that meet the conditions."""
        values = dict(zip(self._names, columns, strict=True))
        flags = np.ones(len(places), np.bool_)
        for condition in self._conditions:
            inputs = {name: values[name] for name in condition.columns}
            flags &= row_flags(condition.evaluate(inputs, len(places)), len(places))
        self._numbers.array[groups] += sign * np.bincount(places[flags], minlength=len(groups))

    def results(self, groups: Int64Array) -> pa.Array:
        """The numbers."""
        return pa.array(self._numbers.array[groups])
