"""Smallest and largest numbers and times of groups whose rows never leave."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.engine.plan import Int64Array
from barrage_server.engine.types import cell_dtype
from barrage_server.engine.values import from_cells, to_cells
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.accumulators import Accumulator
from barrage_server.operations.group_totals import GroupArray, GroupTotals
from barrage_server.operations.ordering import has_codes, is_sortable

__all__ = ["Extreme"]


class Extreme(Accumulator):
    """The smallest or largest value of each group whose rows are only added.

    Null is left out, and NaN wins.

    Args:
        types: the type of the column, which :meth:`takes`.
        is_largest: whether the largest value counts.

    """

    def __init__(self, types: Sequence[pa.DataType], *, is_largest: bool) -> None:
        super().__init__(types)
        kind = "f" if pat.is_floating(types[0]) else "u" if pat.is_unsigned_integer(types[0]) else "i"
        self._dtype = dtype = np.dtype(f"{kind}{cell_dtype(types[0]).itemsize}")
        self._cells = GroupArray(dtype)
        self._has = GroupArray(np.bool_)  # a value
        self._has_nan = GroupArray(np.bool_)
        self._better = np.maximum if is_largest else np.minimum
        if dtype.kind == "f":
            self._worst = dtype.type(-np.inf if is_largest else np.inf)
        else:
            bounds = np.iinfo(dtype)
            self._worst = dtype.type(bounds.min if is_largest else bounds.max)

    @classmethod
    def takes(cls, data_type: pa.DataType) -> bool:
        """Whether values of a type are numbers or times in fixed-width arrays."""
        return has_codes(data_type) and is_sortable(data_type)

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """The type of the column."""
        return types[0]

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """The values, and which groups have one, or NaN."""
        return self._cells, self._has, self._has_nan

    def change(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Compare the rows with the present extremes."""
        if sign < 0:
            raise InvalidRequestError("A table that was to keep its rows as they are has changed some, or lost them.")
        cells, there = to_cells(columns[0])
        cells = cells.view(self._dtype)
        if pat.is_floating(columns[0].type):
            nans = np.isnan(cells)
            if nans.any():
                own = nans if there is None else nans & there
                self._has_nan.array[groups[places[own]]] = True
                there = ~nans if there is None else there & ~nans
        best = np.full(len(groups), self._worst)
        if there is not None:
            places, cells = places[there], cells[there]
            some = np.flatnonzero(np.bincount(places, minlength=len(groups)))
        self._better.at(best, places, cells)
        if there is not None:
            groups, best = groups[some], best[some]
        known = np.where(self._has.array[groups], self._cells.array[groups], self._worst)
        self._cells.array[groups] = self._better(known, best)
        self._has.array[groups] = True

    def results(self, groups: Int64Array) -> pa.Array:
        """The extremes; null for groups without values."""
        has, has_nan, cells = self._has.array[groups], self._has_nan.array[groups], self._cells.array[groups]
        if has_nan.any():
            cells[has_nan] = np.nan
            has |= has_nan
        return from_cells(self.type, cells, None if has.all() else has)
