"""A table that is computed from others, and follows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barrage_server.engine.operator import Change, Inputs, Operator
from barrage_server.engine.table import Table
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.update import TableUpdate, coalesce_nodes
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError
from barrage_server.rowset import RowSet

__all__ = ["DerivedTable"]


class DerivedTable(Table):
    """The result of an operator over other tables.

    Its content is computed when it is made, from versions of the parents, while they go on changing. It follows them
    once the graph has attached it: per cycle in which a parent changed, the graph calls :meth:`follow` once, after all
    parents are done.

    Args:
        operator: what computes it; no other table may use it.
        parents: the inputs of the operator, in order.
        name: what messages and logs call it.
        key_columns: the columns whose values identify a row.
        traits: what subscribers may rely on.

    Raises:
        InvalidRequestError: there are no parents, they belong to several graphs, or one of them is not attached.
        TableFailedError: a derived parent has failed, so that there is nothing to follow.

    """

    def __init__(
        self,
        operator: Operator,
        parents: Sequence[Table],
        name: str,
        *,
        key_columns: Sequence[str] = (),
        traits: TableTraits | None = None,
    ) -> None:
        if not parents:
            raise InvalidRequestError("A derived table needs at least one parent.")
        graph = parents[0].graph
        if any(parent.graph is not graph for parent in parents):
            raise InvalidRequestError("All parents of a derived table must belong to one update graph.")
        self._operator = operator
        self.parents = tuple(parents)
        self.height = 1 + max(parent.height for parent in parents)
        self.number = 0  # of attaching: tables of one height run in that order
        self.check_parents()
        self._inputs: Inputs = graph.versions(self.parents)
        self._outcome = operator.start(self._inputs)
        super().__init__(graph, name, operator.schema, key_columns=key_columns, traits=traits)

    @property
    def operation(self) -> str:
        """What a cycle does to it, for the error that says that it failed."""
        return f"'{self._operator.name}'"

    @property
    def nbytes(self) -> int:
        """Bytes of what the operator keeps, and of all parents: their columns may be shared."""
        return self._operator.nbytes + sum(parent.nbytes for parent in self.parents)

    def current_rows(self) -> RowSet:
        """The rows of the last outcome."""
        return self._outcome.rows

    def make_views(self) -> Sequence[ColumnView]:
        """The columns of the last outcome."""
        return self._outcome.views

    def check_parents(self) -> None:
        """Raise if a derived parent follows nothing: TableFailedError, or InvalidRequestError if it never did."""
        for parent in self.parents:
            if isinstance(parent, DerivedTable):
                parent.check_usable()
                if not parent.number:
                    raise InvalidRequestError(
                        f"Table '{parent.name}' follows its parents once the graph has attached it. Attach it before "
                        f"others are derived from it."
                    )

    def catch_up(self) -> int:
        """Take in what the parents have done since this was last called; how many rows that concerned.

        Before the graph attaches this table, it may run beside cycles; at last it runs between two of them.
        """
        inputs = self.graph.versions(self.parents)
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
        """Begin to follow, after the cycle ``step``: the graph has attached this table, as the one with ``number``."""
        self.number = number
        self._inputs = ()  # from now on the parents' own
        self._version = self._make_version(step, TableUpdate.empty(len(self.schema)))

    def follow(self, updates: Mapping[Table, TableUpdate]) -> TableUpdate:
        """Bring this table up to date within a cycle.

        Args:
            updates: for each parent that changed in this cycle, how.

        """
        changes = tuple(
            Change(updates[parent], parent.version, parent.peek()) if parent in updates else None
            for parent in self.parents
        )
        self._outcome = self._operator.follow(changes, tuple(parent.peek() for parent in self.parents))
        return self._outcome.update

    def repoint(self) -> bool:
        """Have the visible rows in the views that the cycle has led to.

        They are the same rows with the same values. But the views of before would keep alive what the parents overwrite
        from now on. It is no step of the history: nobody is told.
        """
        self._next_version = self._version.with_views(self._outcome.views)
        return True


def _size(update: TableUpdate) -> int:
    return update.added.size + update.removed.size + update.modified_rows.size
