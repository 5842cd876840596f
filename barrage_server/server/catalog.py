"""The tables of one server, by name."""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from itertools import islice

import pyarrow as pa

from barrage_server.arguments import shown, text
from barrage_server.engine import (
    BlinkTable,
    ReplicaTable,
    SourceTable,
    StandaloneGraph,
    Table,
    UpdateGraph,
)
from barrage_server.engine.alias import alias
from barrage_server.engine.frames import is_rows
from barrage_server.engine.kinds import kind_name, make_table, spec_of
from barrage_server.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    LimitError,
    UnknownTableError,
)
from barrage_server.log import about, call_facts, count
from barrage_server.publish.notes import TableDropped, TableExchanged, TableMade
from barrage_server.server.name_uses import NameUses
from barrage_server.server.table_schema import has_at_most, message_bytes, own_schema
from barrage_server.wire.table_spec import TableSpec
from barrage_server.wire.tickets import RESULT_FORM, begins_as_result, path_of_name

__all__ = ["Catalog", "accept", "never"]

logger = logging.getLogger("barrage_server.server")

_NOT_MADE = "cannot be made"
_MOST_COMPARED = 1000  # names that a wrong one is compared with


def never(_table: Table) -> bool:
    """False: no table is durable."""
    return False


def accept(_schema: pa.Schema) -> None:
    """Accept a schema: no table is durable."""


class Catalog:
    """Names and the tables behind them. Methods may be called from any thread.

    Args:
        graph: the graph of all tables made here.
        dropped: called with each dropped table.
        exchanged: called within a cycle with a table, its replacement, and a function that performs the exchange.
        replaced: called with the former table after its exchange.
        columns: most columns of a table made here, counting the fields within their types.
        schema_bytes: most bytes of its schema as an Arrow message.
        is_durable: whether a new table is kept in the data directory.
        check_kept: raises UnsupportedTypeError for columns that the data directory cannot keep.
        keeps: whether the data directory has a table.

    """

    def __init__(
        self,
        graph: UpdateGraph,
        dropped: Callable[[Table], None] | None = None,
        exchanged: Callable[[Table, Table, Callable[[], None]], None] = lambda _before, _after, swap: swap(),
        replaced: Callable[[Table], None] = lambda _before: None,
        *,
        columns: int = 10_000,
        schema_bytes: int = 16 << 20,
        is_durable: Callable[[Table], bool] = never,
        check_kept: Callable[[pa.Schema], object] = accept,
        keeps: Callable[[Table], bool] = never,
    ) -> None:
        self._graph = graph
        self._columns = columns
        self._schema_bytes = schema_bytes
        self._dropped = dropped
        self._exchanged = exchanged
        self._replaced = replaced
        self._is_durable = is_durable
        self._check_kept = check_kept
        self._keeps = keeps
        self._lock = threading.Lock()
        self._tables: dict[str, Table] = {}
        self._uses = NameUses(self._lock, self._tables.__contains__)
        self._watchers: list[Callable[[], object]] = []

    @property
    def graph(self) -> UpdateGraph:
        """The update graph of all tables here."""
        return self._graph

    def find(self, name: str) -> Table | None:
        """The table of that name; ``None`` if there is none."""
        return self._tables.get(name)

    def get(self, name: str) -> Table:
        """The table of that name.

        Raises:
            UnknownTableError: there is none; the text names similar ones.

        """
        table = self._tables.get(text(name, "A table's name"))
        if table is not None:
            return table
        with self._lock:
            names = tuple(islice(self._tables, _MOST_COMPARED))
        raise self.unknown(name, names)

    def unknown(self, name: str, names: Iterable[str]) -> UnknownTableError:
        """The error for a name without a table. The text suggests similar ``names``.

        Names that begin as tickets of results do are not told: a ticket is a secret.
        """
        if begins_as_result(name):
            return UnknownTableError(
                f"There is no result under this ticket, and no table of that name. The ticket of a result is "
                f"{RESULT_FORM}."
            )
        close = difflib.get_close_matches(name[:100], sorted(islice(names, _MOST_COMPARED)), n=3)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else " List the tables to see the names."
        return UnknownTableError(f"There is no table '{name[:100]}' on this server.{hint}")

    @property
    def count(self) -> int:
        """Number of tables."""
        return len(self._tables)

    def names(self) -> frozenset[str]:
        """The names of all tables."""
        with self._lock:
            return frozenset(self._tables)

    def tables(self) -> tuple[Table, ...]:
        """All tables, by name."""
        with self._lock:
            return tuple(self._tables[name] for name in sorted(self._tables))

    def ensure(self, name: str, schema: pa.Schema, spec: TableSpec) -> tuple[Table, bool]:
        """The table of that name, made if there is none, and whether it was made.

        Args:
            name: the table's name.
            schema: columns, in order. Metadata of the protocol is left out.
            spec: the kind of table, and the parameters of that kind.

        Raises:
            AlreadyExistsError: a table of that name exists and differs, or is durable and was to be in memory, or the
                reverse.
            UnavailableError: the graph is closed.
            InvalidRequestError: the name or the schema is impossible, or the schema lacks a key column.
            LimitError: the schema has too many columns or bytes.

        """
        self._graph.check_open(text(name, "A table's name"), _NOT_MADE)
        there = self._tables.get(name)
        if there is not None:
            self._check_there(there, schema, spec)
            return there, False
        with self.making([name]):
            there = self._tables.get(name)
            if there is None:
                table = self.make(name, schema, spec)
                self._graph.note_now(self.serve(table, spec))
                return table, True
        self._check_there(there, schema, spec)
        return there, False

    def schema_of_new(self, schema: pa.Schema) -> pa.Schema:
        """:func:`own_schema` for a new table; LimitError when it is too large."""
        if not has_at_most(schema, self._columns, 10 * self._columns):
            raise LimitError(
                f"A table may have {self._columns:,} columns here (columns), counting the fields within their "
                f"types, and ten times as many entries of metadata; this schema has more."
            )
        own = own_schema(schema)
        nbytes = message_bytes(own)
        if nbytes is None or nbytes > self._schema_bytes:
            raise LimitError(
                f"The schema of a table may have {self._schema_bytes:,} bytes here (schema_bytes), and this one has "
                f"{'more than 2 GiB' if nbytes is None else f'{nbytes:,}'}: use shorter names, time zones and metadata."
            )
        return own

    def making(self, names: Collection[str]) -> AbstractContextManager[None]:
        """Exclude other makers of tables of these names; see :meth:`NameUses.making`."""
        return self._uses.making(names)

    def publisher(self, name: str) -> AbstractContextManager[None]:
        """Be the only publisher of a table; see :meth:`NameUses.publisher`."""
        return self._uses.publisher(name)

    def reserve(self, name: str, reason: str) -> Callable[[], None]:
        """Reserve a name for a table to add later; see :meth:`NameUses.reserve`."""
        return self._uses.reserve(name, reason)

    def serve(self, table: Table, spec: TableSpec) -> TableMade:
        """The note that serves a new table, within :meth:`making` of its name."""

        def happen() -> None:
            self._put(table)

        def told() -> None:
            self._tell_watchers()
            columns, extra = count(len(table.schema), "columns"), {"table": table.name}
            with about(facts):  # another publisher's thread may run the cycle
                logger.info("table %s: made, %s, %s%s", table.name, kind_name(table), columns, kept, extra=extra)

        facts, is_kept = call_facts(), self._is_kept(table, spec)
        kept = "" if self._is_durable is never else ", durable" if is_kept else ", in memory"
        return TableMade(table, happen, spec, told=told, is_durable=is_kept)

    def restore(self, tables: Iterable[Table]) -> None:
        """Serve tables that were recovered, before there are others."""
        with self._lock:
            self._tables.update((table.name, table) for table in tables)

    def make(self, name: str, schema: pa.Schema, spec: TableSpec) -> Table:
        """A new table that is not served yet.

        The caller fills it, and then passes it to :meth:`serve` or :meth:`discard`. Arguments and errors are those of
        :meth:`ensure`.
        """
        path_of_name(name)  # checks the name
        self._graph.check_open(name, _NOT_MADE)
        table = make_table(self._graph, name, self.schema_of_new(schema), spec)
        if spec.durable and not self._is_durable(table):
            raise InvalidRequestError(f"Table '{name}' cannot be durable: this server has no data directory.")
        if self._is_kept(table, spec):
            self._check_kept(table.schema)
        return table

    def offer(self, table: ReplicaTable) -> Table:
        """Serve a new replica, unless there is a table of its name.

        Returns:
            The table that is served under the name.

        Raises:
            AlreadyExistsError: the name was reserved meanwhile.

        """
        name = table.name
        with self._lock:
            there = self._tables.get(name)
            if there is not None:
                return there
            self._uses.check_free(name)
            self._tables[name] = table
        self._tell_watchers()
        logger.info(
            "table %s: made, %s, %s", name, kind_name(table), count(len(table.schema), "columns"), extra={"table": name}
        )
        return table

    def discard(self, table: Table) -> None:
        """Take a table that was made and is not served out of the graph."""
        self._graph.detach(table)

    def replica(self, name: str, schema: pa.Schema) -> tuple[ReplicaTable, bool]:
        """The table of that name that follows a publication, and whether it is served.

        A table that is not served is new; the caller fills it, and then passes it to :meth:`offer`.

        Raises:
            AlreadyExistsError: a table of that name exists and is of another kind or schema.
            LimitError: the schema of a new one has too many columns or bytes.
            UnavailableError: the graph is closed.

        """
        path_of_name(name)
        self._graph.check_open(name, _NOT_MADE)
        with self._lock:
            there = self._tables.get(name)
            if there is None:
                self._uses.check_free(name)
        if there is None:
            return ReplicaTable(self._graph, name, self.schema_of_new(schema)), False
        clean = own_schema(schema)
        if not isinstance(there, ReplicaTable):
            raise AlreadyExistsError(
                f"Table '{name}' exists and does not follow a publication; publish under another name."
            )
        if not there.schema.equals(clean):
            raise AlreadyExistsError(f"Table '{name}' exists with other columns: {_columns(there.schema)}.")
        return there, True

    def drop(self, name: str) -> None:
        """Stop serving a table.

        Raises:
            UnknownTableError: there is none of that name.

        """
        while not self._drop(name, table := self.get(name)):
            pass  # another table has taken its place meanwhile
        logger.info("table %s: dropped, with %s", name, count(table.size, "rows"), extra={"table": name})
        self._let_go(table)

    def _drop(self, name: str, table: Table) -> bool:
        """Take a table away; returns whether it was still served under its name."""
        gone = []

        def happen() -> None:
            with self._lock:
                if self._tables.get(name) is table:
                    gone.append(self._tables.pop(name))

        self._graph.note_now(TableDropped(table, happen))
        return bool(gone)

    def add(self, table: Table, name: str | None = None, *, reserved: bool = False) -> Table:
        """Serve a table of this graph, or an alias if it is served under another name.

        Args:
            table: the table.
            name: its new name; its present name when None.
            reserved: whether the caller has reserved the name.

        Returns:
            The table that is served: ``table``, or the alias.

        Raises:
            AlreadyExistsError: there is another table of that name, or the name is reserved.
            InvalidRequestError: the table belongs to another graph.
            UnavailableError: the graph is closed.

        """
        _check_table(table)
        name = table.name if name is None else name
        path_of_name(name)
        self._graph.check_open(name, "cannot be served")
        if isinstance(table, SourceTable) and isinstance(table.graph, StandaloneGraph):
            with self._lock:
                self._check_new(name, table, reserved=reserved)
            table.graph.move(table, self._graph)
        if table.graph is not self._graph:
            raise InvalidRequestError(
                f"Table '{name}' belongs to another update graph and cannot be served here. Make the tables that it is "
                f"computed from in server.graph: with the methods of the server, or bs.table(rows, graph=server.graph)."
            )
        if self._has_other_name(table, name):
            table = alias(table, name)
        with self._lock:
            if self._has_other_name(table, name):
                raise InvalidRequestError(f"This table is being served as '{table.name}'; try again.")
            self._check_new(name, table, reserved=reserved)
            table.rename(name)
            self._tables[name] = table
        self._tell_watchers()
        logger.info("table %s: added, %s", name, count(len(table.schema), "columns"), extra={"table": name})
        return table

    def exchange(self, before: Table, after: Table, spec: TableSpec) -> TableExchanged:
        """The note that serves a new table in place of ``before``, within :meth:`making`.

        Publishers continue with the new table; subscribers subscribe again.
        """
        name = before.name

        def swap() -> None:
            self._put(after)

        def happen() -> None:
            before.retire(f"Table '{name}' was overwritten by another one. Publish again.")
            self._exchanged(before, after, swap)

        def told() -> None:
            with about(facts):
                logger.info(
                    "table %s: overwritten; it takes append and replace from now on", name, extra={"table": name}
                )
            self._replaced(before)
            self._tell_watchers()

        facts = call_facts()
        return TableExchanged(after, happen, before, spec, told=told, is_durable=self._is_kept(after, spec))

    def replace(self, before: Table, table: Table) -> None:
        """Serve ``table`` in place of ``before``. Subscribers of ``before`` get an error.

        Raises:
            UnknownTableError: ``before`` is no longer served.

        """
        name = before.name
        with self._lock:
            if self._tables.get(name) is not before:
                raise UnknownTableError(f"Table '{name}' was dropped.")
            table.rename(name)
            self._tables[name] = table
        logger.info(
            "table %s: replaced by another one, %s; what it had, %s, is dropped",
            name,
            count(len(table.schema), "columns"),
            count(before.size, "rows"),
            extra={"table": name},
        )
        self._let_go(before)

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed`` whenever a table is added or dropped; return a remover.

        ``changed`` must be quick.
        """
        with self._lock:
            self._watchers.append(changed)

        def stop() -> None:
            with self._lock:
                self._watchers.remove(changed)

        return stop

    def _put(self, table: Table) -> None:
        """Serve a table, and end the exclusive use of its name.

        The maker of the table may wait for listeners that make a table of the same name.
        """
        with self._lock:
            self._tables[table.name] = table
            self._uses.end_making(table.name)

    def _has_other_name(self, table: Table, name: str) -> bool:
        return name != table.name and self._tables.get(table.name) is table

    def keeps(self, table: Table) -> bool:
        """Whether ``table`` is in the data directory."""
        return self._keeps(table)

    def _is_kept(self, table: Table, spec: TableSpec) -> bool:
        return spec.durable is not False and self._is_durable(table)

    def _check_there(self, there: Table, schema: pa.Schema, spec: TableSpec) -> None:
        """Raise AlreadyExistsError unless the table ``there`` is what was asked for."""
        _check_same(there, own_schema(schema), spec)
        if spec.durable and not self._keeps(there):
            raise AlreadyExistsError(
                f"Table '{there.name}' exists in memory only, and cannot become durable. Drop it first, or use another "
                f"name."
            )
        if spec.durable is False and self._keeps(there):
            raise AlreadyExistsError(
                f"Table '{there.name}' is durable, and stays so. Ask for it without 'durable', drop it first, or use "
                f"another name."
            )

    def _check_new(self, name: str, table: Table, *, reserved: bool) -> None:
        """Raise AlreadyExistsError if the name is in use. To be called with the lock."""
        there = self._tables.get(name)
        if there is not None and there is not table:
            raise AlreadyExistsError(f"There is a table '{name}' already; drop it first, or use another name.")
        if not reserved:
            self._uses.check_free(name)

    def _let_go(self, table: Table) -> None:
        if isinstance(table, BlinkTable):
            self._graph.detach(table)  # otherwise it would be part of every later cycle
        self._tell_watchers()
        if self._dropped is not None:
            self._dropped(table)

    def _tell_watchers(self) -> None:
        for watcher in tuple(self._watchers):
            watcher()


def _check_same(there: Table, schema: pa.Schema, spec: TableSpec) -> None:
    wrong = []
    own = spec_of(there)
    if own is None or own.kind is not spec.kind:
        wrong.append(f"it is not of the kind '{spec.kind}'")
    if set(there.key_columns) != set(spec.key):
        wrong.append(f"its key is {', '.join(there.key_columns) or 'none'}")
    if own is not None and own.capacity not in (None, spec.capacity):
        wrong.append(f"its capacity is {own.capacity} rows")
    if not there.schema.equals(schema):
        wrong.append(f"its columns are {_columns(there.schema)}")
    if wrong:
        raise AlreadyExistsError(
            f"Table '{there.name}' exists and differs: {'; '.join(wrong)}. Drop it first, or use another name."
        )


def _check_table(table: object) -> None:
    if not isinstance(table, Table):
        hint = " To make a table of rows, write bs.table(rows)." if is_rows(table) else ""
        raise InvalidRequestError(f"What is served is a table of the engine, not {shown(table)}.{hint}")


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
