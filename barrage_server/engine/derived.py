"""Tables computed from other tables, which follow them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from barrage_server.engine.interrupts import interruptible
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.schemas import SchemaLike, as_schema
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.table import Table
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.update import TableUpdate, coalesce_nodes
from barrage_server.engine.version import TableVersion
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.rowset import RowSet

__all__ = ["DerivedTable", "check_one_graph", "row_bytes"]

_LEAST_SHARE: Final = 0.05
"""The share of a cycle's seconds that each table may take in any case."""


class DerivedTable(Table):
    """The result of an operator over other tables.

    Its content is computed at its construction, from versions of the parents, while they keep changing. It follows them
    once the graph has attached it: in each cycle in which a parent changed, the graph calls :meth:`follow` once, after
    all parents. A parent that does not tick is always read as it was at construction, even if it takes rows later, as
    a named upload may: the operator was made for a constant parent.

    Args:
        parents: the inputs of the operator, in order.
        name: its name in messages and logs.
        operator: the operator that computes it; no other table may use it. A schema instead makes a table without
            rows, whose class may have a :meth:`follow` of its own.
        key_columns: the columns whose values identify a row.
        traits: the promises to subscribers.

    Attributes:
        cycles: the number of cycles in which it has followed its parents.
        changed_rows: rows that these cycles added, removed and modified.
        seconds: the duration of these cycles, by the graph's clock; 0 without one.
        most_seconds: the time of a cycle for all tables with such a bound; the table that exceeds it fails. Each may
            take a twentieth of it in any case.

    Raises:
        InvalidRequestError: there are no parents, they belong to several graphs, or one of them is not attached.
        TableFailedError: a derived parent has failed.
    """

    def __init__(
        self,
        parents: Sequence[Table],
        name: str,
        operator: Operator | SchemaLike,
        *,
        key_columns: Sequence[str] = (),
        traits: TableTraits | None = None,
    ) -> None:
        if not parents:
            raise InvalidRequestError("A derived table needs at least one parent.")
        check_one_graph(parents)
        graph = parents[0].graph
        self._operator = operator if isinstance(operator, Operator) else _NoRows(as_schema(operator))
        self.parents = tuple(parents)
        self.height = 1 + max(parent.height for parent in parents)
        self.number = 0  # order of attachment: tables of one height run in that order
        self.cycles = 0
        self.changed_rows = 0
        self.seconds = 0.0
        self.most_seconds = math.inf
        self.check_parents()
        versions = graph.versions(self.parents)
        self._fixed = tuple(
            None if parent.is_refreshing else version.detached()
            for parent, version in zip(self.parents, versions, strict=True)
        )
        self._inputs: Inputs = self._with_fixed(versions)
        self._outcome = self._operator.start(self._inputs)
        super().__init__(graph, name, self._operator.schema, key_columns=key_columns, traits=traits)

    @property
    def operation(self) -> str:
        """The operation of a cycle on it, for error texts."""
        return f"'{self._operator.name}'"

    @property
    def remedy(self) -> str:
        """What to do about a failed table, for error texts."""
        return "Make it again."

    @property
    def hides_rows(self) -> bool:
        """Whether its readers may not see all rows of its parents."""
        return False

    @property
    def nbytes(self) -> int:
        """Bytes of the operator's state, and of all that it is computed from.

        Its columns may be shared.
        """
        return sum(table.own_bytes for table in self.lineage())

    @property
    def own_bytes(self) -> int:
        """Bytes of the operator's state."""
        return self._operator.nbytes

    def bound(self, seconds: float) -> None:
        """Set :attr:`most_seconds` of this table and of those that it owns."""
        self.most_seconds = seconds
        for table in self._owned_derived():
            table.bound(seconds)

    @property
    def all_seconds(self) -> float:
        """The seconds of this table and of those that it owns."""
        return self.seconds + sum(table.all_seconds for table in self._owned_derived())

    def _owned_derived(self) -> Iterator[DerivedTable]:
        return (table for table in self.owned if isinstance(table, DerivedTable))

    @property
    def included(self) -> Sequence[Table]:
        """The parents whose storage is in :attr:`state_bytes`."""
        return self.owned

    @property
    def state_bytes(self) -> int:
        """Bytes of its own: the operator's state, a row set, and the tables that it owns."""
        own = self._operator.nbytes + row_bytes(self._outcome.rows, [parent.version for parent in self.parents])
        return own + sum(table.state_bytes for table in self.owned)

    def current_rows(self) -> RowSet:
        """The rows of the last outcome."""
        return self._outcome.rows

    def readable_rows(self) -> RowSet:
        """The rows that can be read in the last outcome."""
        readable = self._outcome.readable
        return self._outcome.rows if readable is None else readable

    def make_views(self) -> Sequence[ColumnView]:
        """The columns of the last outcome."""
        return self._outcome.views

    def check_parents(self) -> None:
        """Raise if a derived parent does not follow its own parents.

        Raises:
            TableFailedError: the parent has failed.
            InvalidRequestError: the graph has not attached the parent.
        """
        for parent in self.parents:
            if isinstance(parent, DerivedTable):
                parent.check_usable()
                if not parent.number:
                    raise InvalidRequestError(
                        f"Table '{parent.name}' follows its parents after the graph has attached it. Attach it before "
                        f"others are derived from it."
                    )

    def catch_up(self) -> int:
        """Apply the changes of the parents since the last call.

        Before the graph attaches this table, the call may run beside cycles; the last call is between two cycles.

        Returns:
            The number of changed rows.
        """
        inputs = self._with_fixed(self.graph.versions(self.parents))
        changes = tuple(
            None if before is after else Change(coalesce_nodes(before.node, after.node), before, after)
            for before, after in zip(self._inputs, inputs, strict=True)
        )
        if not any(changes):
            return 0
        self._outcome = self._operator.follow(changes, inputs)
        self._inputs = inputs
        return sum(_size(change.update) for change in changes if change is not None)

    def enter(self, step: int, number: int) -> None:
        """Start to follow the parents after the cycle ``step``.

        Args:
            step: the number of the cycle.
            number: the position of this table in the order of attachments.
        """
        self.number = number
        self._inputs = ()  # from now on those of the parents
        self._version = self._make_version(step, TableUpdate.empty(len(self.schema)))

    def follow(self, updates: Mapping[Table, TableUpdate]) -> TableUpdate:
        """Compute the update of this table in a cycle.

        Args:
            updates: the update of each parent that changed in this cycle.

        Raises:
            LimitError: it took longer than it may.
        """
        if self.most_seconds == math.inf:
            return self._follow(updates)
        graph, clock = self.graph, self.graph.clock
        began = clock()
        if graph.bounded_step != graph.step:  # the first one of this cycle
            graph.bounded_step, graph.bounded_seconds = graph.step, 0.0
        end = began + max(_LEAST_SHARE * self.most_seconds, self.most_seconds - graph.bounded_seconds)

        def check() -> None:
            if clock() > end:
                raise LimitError(
                    f"A cycle took more than the {self.most_seconds:g} s that it may take for such tables "
                    f"(result_seconds), most of them here. Compute from fewer rows."
                )

        try:
            with interruptible(check):
                update = self._follow(updates)
            check()
        finally:
            graph.bounded_seconds += clock() - began
        return update

    def affected_children(self) -> Iterable[DerivedTable]:
        """The children that a cycle computes after this table has changed or failed."""
        return self.children

    def _follow(self, updates: Mapping[Table, TableUpdate]) -> TableUpdate:
        clock = self.graph.clock
        began = clock()
        changes: list[Change | None] = []
        inputs: list[TableVersion] = []
        for parent, fixed in zip(self.parents, self._fixed, strict=True):
            now = parent.peek() if fixed is None else fixed
            inputs.append(now)
            update = updates.get(parent) if fixed is None else None
            changes.append(None if update is None else Change(update, parent.version, now))
        if not any(changes):
            return TableUpdate.empty(len(self.schema))
        self._outcome = outcome = self._operator.follow(tuple(changes), tuple(inputs))
        self.cycles += 1
        self.changed_rows += _size(outcome.update)
        self.seconds += clock() - began
        return outcome.update

    def _with_fixed(self, versions: Sequence[TableVersion]) -> Inputs:
        """``versions``, with the first version of each parent that does not tick."""
        return tuple(version if fixed is None else fixed for fixed, version in zip(self._fixed, versions, strict=True))

    def repoint(self) -> bool:
        """Point the visible version to the views of this cycle.

        The rows and values are equal, but the previous views would keep values alive that the parents overwrite later.
        It is no step of the history, and listeners are not called.
        """
        self._next_version = self._version.with_views(self._outcome.views)
        return True


class _NoRows(Operator):
    """An operator without rows."""

    name = "nothing"

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def start(self, inputs: Inputs) -> Outcome:  # noqa: ARG002  (as every operator has it)
        """No rows."""
        return Outcome(RowSet.empty(), ColumnStore(self.schema).views(), TableUpdate.empty(len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:  # noqa: ARG002
        """No rows."""
        return self.start(inputs)


def _size(update: TableUpdate) -> int:
    added = update.added.size
    return added if update.only_adds else added + update.removed.size + update.modified_rows.size


def row_bytes(rows: RowSet, versions: Iterable[TableVersion]) -> int:
    """Bytes of a result's row set.

    They are 0 if it is that of one of the ``versions`` that the result is computed from.
    """
    return 0 if any(rows is version.row_set for version in versions) else rows.nbytes


def check_one_graph(parents: Sequence[Table]) -> None:
    """Raise InvalidRequestError unless all tables belong to one update graph."""
    first = parents[0]
    for other in parents:
        if other.graph is not first.graph:
            raise InvalidRequestError(
                f"Tables '{first.name}' and '{other.name}' belong to different update graphs. Add both to one server "
                f"before, or make both with one graph: bs.table(rows, graph=server.graph)."
            )
