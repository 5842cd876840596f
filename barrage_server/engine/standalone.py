"""Tables made of rows, with a graph of their own until a server has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from barrage_server.arguments import integer, names, shown, text
from barrage_server.engine.append import AppendTable, RingTable
from barrage_server.engine.conform import Rows
from barrage_server.engine.cycle import Commit, Operations
from barrage_server.engine.cycle_log import CycleNote
from barrage_server.engine.frames import arrow_rows
from barrage_server.engine.graph import UpdateGraph
from barrage_server.engine.keyed import KeyedTable
from barrage_server.engine.schemas import SchemaLike, as_schema, inferred_schema
from barrage_server.engine.table import SourceTable
from barrage_server.errors import InvalidRequestError

__all__ = ["StandaloneGraph", "table"]


class _MovedError(Exception):
    """The table belongs to another graph now."""


class StandaloneGraph(UpdateGraph):
    """The update graph of one table, until :meth:`move` takes it to a server's."""

    def __init__(self) -> None:
        super().__init__()
        self._moved_to: UpdateGraph | None = None

    def move(self, table: SourceTable, graph: UpdateGraph) -> None:
        """Move ``table`` to ``graph``. Writes in progress go there.

        Raises:
            InvalidRequestError: other tables are derived from it here, or this thread is within a cycle of it.
        """
        with self._alone():
            if len(table.children):
                raise InvalidRequestError(
                    f"Table '{table.name}' has derived tables. Serve it first, and derive from it in server.graph then."
                )
            if self._thread.staged:
                raise InvalidRequestError(f"Table '{table.name}' is within a cycle; serve it before or after that.")
            graph.join(table, self.step)
            self._moved_to = graph

    def _run(self, operations: Operations, notes: Sequence[CycleNote] = ()) -> None:
        if self._moved_to is None:
            try:
                super()._run(operations, notes)
            except _MovedError:
                pass
            else:
                return
        assert self._moved_to is not None
        self._moved_to._run(operations, notes)

    def _run_cycle(self, commits: Sequence[Commit]) -> BaseException | None:
        if self._moved_to is None:
            return super()._run_cycle(commits)
        for commit in commits:  # they waited while the table moved
            commit.finish(_MovedError())
        return None


@overload
def table(
    rows: Rows,
    *,
    key: Sequence[str] | str,
    schema: SchemaLike | None = None,
    capacity: None = None,
    name: str = "table",
    graph: UpdateGraph | None = None,
) -> KeyedTable: ...


@overload
def table(
    rows: Rows,
    *,
    key: None = None,
    schema: SchemaLike | None = None,
    capacity: int,
    name: str = "table",
    graph: UpdateGraph | None = None,
) -> RingTable: ...


@overload
def table(
    rows: Rows,
    *,
    key: None = None,
    schema: SchemaLike | None = None,
    capacity: None = None,
    name: str = "table",
    graph: UpdateGraph | None = None,
) -> AppendTable: ...


def table(
    rows: Rows,
    *,
    key: Sequence[str] | str | None = None,
    schema: SchemaLike | None = None,
    capacity: int | None = None,
    name: str = "table",
    graph: UpdateGraph | None = None,
) -> AppendTable | KeyedTable | RingTable:
    """A live table with the columns and the content of ``rows``.

    It ticks like any other table: ``upsert``, ``append`` and so on change it. ``server.add_table`` serves it, and
    ``client.publish_live`` keeps a table of another server equal to it.

    >>> quotes = server.add_table("quotes", bs.table(frame, key="sym"))
    >>> quotes.upsert({"sym": ["A"], "price": [1.5]})

    Args:
        rows: a data frame, a pyarrow table, or a mapping of column names to values.
        key: key columns of a keyed table, in which the last row of each key wins. Without, rows are appended.
        schema: names and types of the columns; the schema of ``rows`` when None.
        capacity: the number of rows that the table, a ring, keeps.
        name: the name in messages and logs until the table is served.
        graph: the update graph of the table: ``server.graph``, or a ``bs.UpdateGraph()`` without a server. Only tables
            of one graph can be joined or merged. When None, the table has its own until a server adds it.

    Raises:
        SchemaMismatchError: ``rows`` hold no rows, do not fit ``schema``, or a column has no values to tell its type
            from.
        KeyMismatchError: the rows lack a key column.
        InvalidRequestError: there is a key and a capacity, the capacity is not positive, or ``graph`` is no graph.
        UnsupportedTypeError: a column has a type that tables cannot hold.
    """
    text(name, "name")
    if key is not None and capacity is not None:
        raise InvalidRequestError("A table has a key or a capacity, not both: a ring has no keys.")
    keys = None if key is None else names(key, "key", single=True)
    kept = None if capacity is None else integer(capacity, "capacity", least=1)
    if schema is None:
        rows = arrow_rows(rows)
        columns = inferred_schema(rows.schema)
    else:
        columns = as_schema(schema)
    if graph is None:
        graph = StandaloneGraph()
    elif not isinstance(graph, UpdateGraph):
        raise InvalidRequestError(f"graph must be an update graph such as server.graph, not {shown(graph)}.")
    elif isinstance(graph, StandaloneGraph):  # which moves a single table
        raise InvalidRequestError(
            "graph is that of another bs.table, which has its own. Take server.graph, or bs.UpdateGraph() for both."
        )
    made: AppendTable | KeyedTable | RingTable
    if keys is not None:
        made = KeyedTable(graph, name, columns, keys)
        made.upsert(rows)
    else:
        made = AppendTable(graph, name, columns) if kept is None else RingTable(graph, name, columns, kept)
        made.append(rows)
    return made
