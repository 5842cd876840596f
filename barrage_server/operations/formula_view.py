"""Columns that are computed when they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine.heap import READ_ROWS
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.storage import from_storage, to_storage
from barrage_server.engine.values import concatenated
from barrage_server.engine.view import ColumnView
from barrage_server.formula import Formula
from barrage_server.formula.constant_comparisons import ConstantComparison
from barrage_server.rowset import MAX_KEY, RowSet

__all__ = ["Clock", "Computation", "FormulaView", "Lookup", "RowCondition", "RowPositions", "TimedFormula"]

Clock = Callable[[], int]
"""The time, in nanoseconds since 1970."""

Lookup = Callable[[str, np.ndarray[Any, Any]], pa.Array]
"""The values of a column at positions; null at those that no row has."""


class Computation(Protocol):
    """The interface of a compiled formula for operators."""

    @property
    def type(self) -> pa.DataType:
        """The type of the result."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose value in the same row the formula reads."""

    @property
    def column(self) -> str | None:
        """The name of the column, if the formula is a single column."""

    @property
    def positions(self) -> bool:
        """Whether the formula depends on positions of rows."""

    @property
    def arrays(self) -> tuple[str, ...]:
        """The columns that the formula reads by position."""

    @property
    def is_pure(self) -> bool:
        """Whether equal inputs give equal results."""

    def evaluate(
        self,
        inputs: Mapping[str, pa.Array],
        rows: int,
        positions: npt.NDArray[Any] | None = None,
        lookup: Lookup | None = None,
    ) -> pa.Array:
        """The results for some rows."""


class RowCondition(Computation, Protocol):
    """The interface of a compiled condition for operators."""

    @property
    def calls_users(self) -> bool:
        """Whether the condition calls functions of users, which may raise."""

    @property
    def comparison(self) -> ConstantComparison | None:
        """The comparison of a column with a constant that it is, if it is one."""

    def flags(
        self,
        inputs: Mapping[str, pa.Array],
        rows: int,
        positions: npt.NDArray[Any] | None = None,
        lookup: Lookup | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Whether the condition holds, per row."""


class TimedFormula:
    """A formula that may name the time.

    Args:
        formula: the formula.
        now: the time, in nanoseconds since 1970.

    """

    def __init__(self, formula: Formula, now: Clock) -> None:
        self.type = formula.type
        self.columns = formula.columns
        self.column = formula.column
        self.positions = formula.positions
        self.arrays = formula.arrays
        self.is_pure = formula.is_pure
        self._formula = formula
        self._now = now

    def evaluate(
        self,
        inputs: Mapping[str, pa.Array],
        rows: int,
        positions: npt.NDArray[Any] | None = None,
        lookup: Lookup | None = None,
    ) -> pa.Array:
        """The results for some rows, at the time of the call."""
        return self._formula.evaluate(inputs, rows, positions, lookup, self._now())


class RowPositions:
    """The positions of rows, and the columns that are read by position.

    Args:
        rows: all rows.
        views: the columns that are read by position, by name.
        grows: whether rows may be added later: a row then reads none behind itself, whose values would change.

    """

    def __init__(self, rows: RowSet, views: Mapping[str, ColumnView], *, grows: bool) -> None:
        self._rows = rows
        self._views = views
        self._grows = grows

    def evaluate(self, computation: Computation, inputs: Mapping[str, pa.Array], keys: Int64Array) -> pa.Array:
        """The results for the rows with these ascending keys."""
        return computation.evaluate(inputs, len(keys), *self._arguments(keys))

    def flags(self, condition: RowCondition, inputs: Mapping[str, pa.Array], keys: Int64Array) -> npt.NDArray[np.bool_]:
        """Whether a condition holds, for each of the rows with ascending keys."""
        return condition.flags(inputs, len(keys), *self._arguments(keys))

    def _arguments(self, keys: Int64Array) -> tuple[Int64Array, Lookup]:
        """The positions of rows, and the look-up of columns by position."""
        own = self._rows.rank(keys)

        def lookup(column: str, positions: np.ndarray[Any, Any]) -> pa.Array:
            return self._read(self._views[column], np.asarray(positions, np.int64), own)

        return own, lookup

    def _read(self, view: ColumnView, positions: Int64Array, own: Int64Array) -> pa.Array:
        known = (positions >= 0) & (positions < self._rows.size)
        if self._grows and len(positions) == len(own):
            known &= positions <= own
        elif self._grows:
            known &= positions <= own[0] if len(own) else False
        keys, places = np.unique(self._rows.select(positions[known]), return_inverse=True)
        if not len(keys):
            return pa.nulls(len(positions), view.type)
        chosen = np.zeros(len(positions), np.int64)
        chosen[known] = places
        values = to_storage(view.read(ReadPlan.from_keys(keys)))
        return from_storage(values.take(pa.array(chosen, mask=~known)), view.type)


class FormulaView(ColumnView):
    """A column that is computed on reading, some 65,536 rows at a time.

    Args:
        computation: the formula.
        views: the columns of its inputs, in the order in which it names them.
        positions: the positions of the rows, if it needs them.

    """

    __slots__ = ("_computation", "_positions", "_views", "depth", "is_frozen", "type")

    def __init__(
        self, computation: Computation, views: Sequence[ColumnView], positions: RowPositions | None = None
    ) -> None:
        self.type = computation.type
        is_frozen, depth = True, 0
        for view in views:
            is_frozen = is_frozen and view.is_frozen
            depth = max(depth, view.depth)
        self.is_frozen, self.depth = is_frozen, depth + 1
        self._computation = computation
        self._views = tuple(views)
        self._positions = positions

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the inputs and evaluate the formula.

        Columns of one plan share the results that they are computed from.
        """
        found = plan.computed.get(self)
        if found is None:
            if plan.size <= READ_ROWS:
                found = self._evaluated(plan)
            else:
                rows = plan.rows
                starts = range(0, rows.size, READ_ROWS)
                parts = [ReadPlan.from_row_set(rows.slice(start, start + READ_ROWS)) for start in starts]
                found = concatenated([self._evaluated(part) for part in parts], self.type)
            plan.computed[self] = found
        return found

    def _evaluated(self, plan: ReadPlan) -> pa.Array:
        names = self._computation.columns
        inputs = {name: view.read(plan) for name, view in zip(names, self._views, strict=True)}
        if self._positions is not None:
            return self._positions.evaluate(self._computation, inputs, plan.keys)
        return self._computation.evaluate(inputs, plan.size)

    def piece_end(self, key: int) -> int:
        """The end of the shortest piece among the inputs."""
        return min((view.piece_end(key) for view in self._views if view.is_frozen), default=MAX_KEY)

    def compact(self) -> None:
        """Compact the inputs."""
        for view in self._views:
            view.compact()
