"""The simplest operator that has state: one row, computed anew from all rows of its inputs."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from barrage_server.engine import DerivedTable, Operator, Outcome, TableUpdate
from barrage_server.engine.operator import Changes, Inputs
from barrage_server.engine.store import ColumnStore
from barrage_server.rowset import RowSet

ONE = RowSet.flat(1)


def total(inputs: Inputs) -> int:
    """The sum of a column ``n`` over all inputs."""
    return sum(sum(version.to_table()["n"].to_pylist()) for version in inputs)


def count(inputs: Inputs) -> int:
    """The rows of all inputs together."""
    return sum(version.size for version in inputs)


class OneRow(Operator):
    """One row with what ``compute`` makes of the inputs; fails, half way through, after ``good_runs`` changes.

    ``runs``: for each change, which inputs had changed.
    """

    name = "one_row"
    schema = pa.schema([("n", pa.int64())])

    def __init__(self, compute: Callable[[Inputs], int] = total, *, good_runs: int = 1 << 30) -> None:
        self.runs: list[tuple[bool, ...]] = []
        self._compute = compute
        self._good_runs = good_runs
        self._store = ColumnStore(self.schema)

    def start(self, inputs: Inputs) -> Outcome:
        self._store.columns[0].write(ONE, self._value(inputs), None)
        return Outcome(ONE, self._store.views(), TableUpdate.of_added(ONE, 1))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        self.runs.append(tuple(change is not None for change in changes))
        if len(self.runs) > self._good_runs:
            self._store.columns[0].overwrite(ONE, pa.array([-1]), self._store.undo)
            raise ZeroDivisionError("secret")
        changed = self._store.columns[0].update(ONE, self._value(inputs), self._store.undo)
        none = TableUpdate.empty(1)
        update = TableUpdate(none.added, none.removed, none.shifted, (ONE,)) if changed.any() else none
        return Outcome(ONE, self._store.views(), update)

    def _value(self, inputs: Inputs) -> pa.Array:
        return pa.array([self._compute(inputs)], pa.int64())


def attached(table: DerivedTable) -> DerivedTable:
    """``table``, which follows its parents from now on."""
    table.graph.attach(table)
    return table
