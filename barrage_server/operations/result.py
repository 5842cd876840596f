"""The table of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barrage_server.arguments import text
from barrage_server.engine.derived import DerivedTable, check_one_graph, row_bytes
from barrage_server.engine.operator import Operator
from barrage_server.engine.static import StaticTable
from barrage_server.engine.table import Table
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.fixed_limits import VIEW_DEPTH

__all__ = ["make", "name_for", "owning"]

_LONGEST_NAME: Final = 200


def make(
    parents: Sequence[Table],
    operation: str,
    operator: Operator,
    traits: TableTraits,
    *,
    key_columns: Sequence[str] = (),
    name: str | None = None,
) -> Table:
    """Make the table of an operator, which follows ``parents`` from now on.

    Args:
        parents: the inputs, at least one, of one update graph.
        operation: what it is called in names.
        operator: the operator, which no other table uses.
        traits: the promises to subscribers.
        key_columns: the columns whose values identify a row.
        name: its name in messages and logs.

    Raises:
        InvalidRequestError: there are no parents, or they belong to several graphs.
        LimitError: a value of it would pass too many views on its way from storage.
        TableFailedError: a parent has failed.

    """
    if not parents:
        raise InvalidRequestError("An operation needs at least one table.")
    called = name_for(parents[0], operation, name)
    graph = parents[0].graph
    if any(parent.is_refreshing for parent in parents):
        made = DerivedTable(parents, called, operator, key_columns=key_columns, traits=traits)
        _check_depth(made.version.views, operation)
        graph.attach(made)
        return made
    check_one_graph(parents)
    versions = graph.versions(parents)
    outcome = operator.start(versions)
    _check_depth(outcome.views, operation)
    return StaticTable(
        graph,
        called,
        operator.schema,
        outcome.rows,
        outcome.views,
        nbytes=operator.nbytes,
        state_bytes=operator.nbytes + row_bytes(outcome.rows, versions),
        kept=parents,
        key_columns=key_columns,
        traits=traits,
    )


def owning(made: Table, parts: Sequence[Table]) -> Table:
    """Return a table, which owns its parents.

    Args:
        made: the table; one that does not tick owns nothing, since its storage includes that of its parents.
        parts: parents that no other code references.

    """
    if isinstance(made, DerivedTable):
        made.owned = tuple(parts)
    return made


def _check_depth(views: Sequence[ColumnView], operation: str) -> None:
    deepest = max((view.depth for view in views), default=0)
    if deepest > VIEW_DEPTH.most:
        raise LimitError(
            f"The columns of '{operation}' would be computed from others {deepest} times in a row, and "
            f"{VIEW_DEPTH.most} is the most ({VIEW_DEPTH.name}). Use 'update' or 'select' in between, which store "
            f"their results."
        )


def name_for(parent: Table, operation: str, name: str | None) -> str:
    """The given name, or a name derived from the first parent's."""
    return f"{parent.name}.{operation}"[-_LONGEST_NAME:] if name is None else text(name, "name")
