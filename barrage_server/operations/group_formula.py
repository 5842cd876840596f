"""Formulas over the lists of values of each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.ranges import ranges_of
from barrage_server.engine.redirected import in_order
from barrage_server.engine.values import concatenated, take
from barrage_server.operations.accumulators import Accumulator
from barrage_server.operations.formula_view import Computation
from barrage_server.operations.group_totals import GroupArray, GroupTotals
from barrage_server.operations.members import lists_of
from barrage_server.operations.ranking import Ranking

__all__ = ["GroupFormula"]

_ROWS: Final = 1 << 18
"""Rows with values in memory at a time; a single group may be larger."""


class GroupFormula(Accumulator):
    """The result of a formula for each group; no state.

    The rows of changed groups are read again.

    Args:
        formula: the formula, compiled for lists of the columns' types, and for single values of key columns.
        inputs: the columns whose lists it reads, and their numbers.
        keys: the key columns that it reads, and their numbers among the key columns.

    Attributes:
        ranking: the rows of each group in the order of their keys; set by the operator, as the others are.
        groups: the key values of groups.
        sizes: the number of rows of each group.

    """

    ranking: Ranking
    groups: GroupIndex
    sizes: GroupArray

    def __init__(self, formula: Computation, inputs: dict[str, int], keys: dict[str, int]) -> None:
        self._formula = formula
        self._inputs = inputs
        self._keys = keys
        super().__init__([formula.type])

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """The type of the formula's result."""
        return types[0]

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """Nothing."""
        return ()

    def change(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Nothing."""

    def results(self, groups: Int64Array) -> pa.Array:
        """Read the rows of the groups, and evaluate the formula, some groups at a time."""
        if not len(groups):
            return pa.array([], self.type)
        first, lengths = self.ranking.firsts(groups), self.sizes.array[groups]
        parts = [self._evaluated(groups[part], first[part], lengths[part]) for part in _pieces(lengths)]
        return concatenated(parts, self.type)

    def _evaluated(self, groups: Int64Array, first: Int64Array, lengths: Int64Array) -> pa.Array:
        plan, places = in_order(self.ranking.keys_at(ranges_of(first, lengths)))
        views = self.ranking.version.views
        values = {
            name: lists_of(take(views[number].read(plan), places), lengths) for name, number in self._inputs.items()
        }
        columns = self.groups.store.columns
        values |= {name: columns[number].read_current(groups) for name, number in self._keys.items()}
        return self._formula.evaluate(values, len(groups))


def _pieces(lengths: Int64Array) -> Iterator[slice]:
    """Slices of the groups, each with about ``_ROWS`` rows, or one large group."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _ROWS, "right")))
        yield slice(start, stop)
        start = stop
