"""The rows for which formulas hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from barrage_server.engine.operator import Changes, Inputs, Outcome
from barrage_server.engine.version import TableVersion
from barrage_server.engine.where import Where, row_flags
from barrage_server.operations.formula_view import Computation, RowPositions
from barrage_server.operations.history import readable_with
from barrage_server.rowset import RowSet

__all__ = ["FilteredRows"]


class FilteredRows(Where):
    """The rows for which all of several formulas hold, under their keys. The columns are those of the input.

    A cycle costs the rows added, or changed in a column that a formula depends on.

    Args:
        schema: the columns of the input.
        conditions: the formulas, which give booleans.
        grows: whether rows may be added to the input later.
        keeps_history: whether rows stay readable after they have left, as far as they do in the input.

    """

    def __init__(
        self, schema: pa.Schema, conditions: Sequence[Computation], *, grows: bool, keeps_history: bool = False
    ) -> None:
        numbers = {name: number for number, name in enumerate(schema.names)}
        wanted = dict.fromkeys(numbers[name] for condition in conditions for name in condition.columns)
        super().__init__(schema, _no_predicate, tuple(wanted))
        self._numbers = numbers
        self._wanted = {schema.field(number).name: number for number in wanted}
        self._conditions = tuple(conditions)
        self._grows = grows
        self._keeps_history = keeps_history
        self._readable = RowSet.empty()

    def start(self, inputs: Inputs) -> Outcome:
        """Evaluate all rows."""
        return self._with_history(super().start(inputs), inputs[0])

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Evaluate the rows added, or changed in a column that a formula depends on."""
        return self._with_history(super().follow(changes, inputs), inputs[0])

    def chosen(self, version: TableVersion, rows: RowSet) -> RowSet:
        """The ``rows`` for which all formulas hold."""
        numbers = list(self._wanted.values())
        found: list[RowSet] = []
        for part in version.pieces(rows, numbers):
            values = dict(zip(self._wanted, version.read(part, numbers), strict=True))
            flags = np.ones(part.size, np.bool_)
            for condition in self._conditions:
                flags &= row_flags(self._evaluated(version, condition, part, values), part.size)
            places = np.flatnonzero(flags)
            if len(places):
                found.append(part if len(places) == part.size else RowSet.from_sorted_keys(part.select(places)))
        return RowSet.union_all(found)

    def _evaluated(
        self, version: TableVersion, condition: Computation, rows: RowSet, values: dict[str, pa.Array]
    ) -> pa.Array:
        inputs = {name: values[name] for name in condition.columns}
        if not condition.positions:
            return condition.evaluate(inputs, rows.size)
        views = {name: version.views[self._numbers[name]] for name in condition.arrays}
        return RowPositions(version.row_set, views, grows=self._grows).evaluate(condition, inputs, rows.keys())

    def _with_history(self, outcome: Outcome, version: TableVersion) -> Outcome:
        if not self._keeps_history:
            return outcome
        self._readable = readable_with(self._readable, outcome.rows, version)
        return outcome._replace(readable=self._readable)


def _no_predicate(batch: pa.RecordBatch) -> pa.Array:
    raise NotImplementedError
