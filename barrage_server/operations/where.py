"""The operator of filters by formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.operator import Change, Changes, Inputs, Outcome
from barrage_server.engine.version import TableVersion, shared_values
from barrage_server.engine.where import Flags, Where
from barrage_server.formula.constant_comparisons import SharedComparison
from barrage_server.formula.inputs import NamedValues, SharedValues
from barrage_server.operations.formula_view import RowCondition, RowPositions
from barrage_server.operations.history import readable_with
from barrage_server.rowset import RowSet

__all__ = ["FilteredRows"]

_MANY: Final = 8
"""Constants from which on filters compare rows with all of them at once, before and after a change."""


class FilteredRows(Where):
    """The rows for which all formulas hold, with the keys and columns of the input.

    A cycle costs the rows added, or changed in a column that a formula depends on. Functions of users are called only
    for rows for which the formulas before them hold, since these may keep the functions from raising.

    Args:
        schema: the columns of the input.
        conditions: the formulas, which give booleans.
        grows: whether rows may be added to the input later.
        keeps_history: whether rows stay readable after they have left, as far as they do in the input.
        comparisons: the formulas, if each of them compares a column with a constant; shared by the filters of the
            input.

    """

    def __init__(
        self,
        schema: pa.Schema,
        conditions: Sequence[RowCondition],
        *,
        grows: bool,
        keeps_history: bool = False,
        comparisons: Sequence[SharedComparison] = (),
    ) -> None:
        numbers = {name: number for number, name in enumerate(schema.names)}
        wanted = dict.fromkeys(numbers[name] for condition in conditions for name in condition.columns)
        super().__init__(schema, _no_predicate, tuple(wanted))
        self._numbers = numbers
        self._conditions = [(each, {name: numbers[name] for name in each.columns}) for each in conditions]
        self._comparisons = tuple(comparisons)
        self._grows = grows
        self._keeps_history = keeps_history
        self._readable = RowSet.empty()

    def start(self, inputs: Inputs) -> Outcome:
        """Evaluate all rows."""
        return self._with_history(super().start(inputs), inputs[0])

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Evaluate the rows added, or changed in a column that a formula reads."""
        return self._with_history(super().follow(changes, inputs), inputs[0])

    def changed_flags(self, change: Change, rows: RowSet) -> tuple[Flags, Flags]:
        """Whether each row was in, and is in; see :meth:`Where.changed_flags`."""
        if not any(each.constants >= _MANY for each in self._comparisons):
            return super().changed_flags(change, rows)
        after = self._compared(change.after, rows)
        # What is computed on reading may be another value the next time, with a function of a user.
        is_stored = all(change.before.views[number].depth == 0 for number in self._columns)
        before = self._compared(change.before, rows) if is_stored else None
        return (
            self.rows.contains(rows.keys()) if before is None else before,
            self.flags(change.after, rows) if after is None else after,
        )

    def _compared(self, version: TableVersion, rows: RowSet) -> Flags | None:
        """Whether all formulas hold; ``None`` if the shared comparisons do not tell."""
        values, found = shared_values(version, rows), None
        for each in self._comparisons:
            flags = None if values is None else each.flags(values)
            if flags is None:
                return None
            found = flags if found is None else found & flags
        return found

    def flags(self, version: TableVersion, rows: RowSet) -> Flags:
        """Whether all formulas hold, for each of ``rows``."""
        values: SharedValues | None = shared_values(version, rows)
        if values is None:
            arrays = dict(zip(self._columns, version.read(rows, self._columns), strict=True))
            values = SharedValues(arrays.__getitem__)
        found: Flags | None = None
        for condition, numbers in self._conditions:
            inputs = NamedValues(values, numbers)
            if found is None:
                found = self._held(version, condition, inputs, rows)
            elif not condition.calls_users:
                found = found & self._held(version, condition, inputs, rows)
            elif found.any():
                left = RowSet.from_sorted_keys(rows.keys()[found])
                chosen = {name: array.filter(pa.array(found)) for name, array in inputs.items()}
                found = found.copy()
                found[found] = self._held(version, condition, chosen, left)
        return np.ones(rows.size, np.bool_) if found is None else found

    def _held(
        self, version: TableVersion, condition: RowCondition, inputs: Mapping[str, pa.Array], rows: RowSet
    ) -> Flags:
        if not condition.positions:
            return condition.flags(inputs, rows.size)
        views = {name: version.views[self._numbers[name]] for name in condition.arrays}
        return RowPositions(version.row_set, views, grows=self._grows).flags(condition, inputs, rows.keys())

    def _with_history(self, outcome: Outcome, version: TableVersion) -> Outcome:
        if not self._keeps_history:
            return outcome
        self._readable = readable_with(self._readable, outcome.rows, version)
        return outcome._replace(readable=self._readable)


def _no_predicate(batch: pa.RecordBatch) -> pa.Array:
    raise NotImplementedError
