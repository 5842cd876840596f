"""The tables of a server: making, adding, following, finding and dropping them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from barrage_server.arguments import seconds, text
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, ReplacedTable, RingTable, Table, UpdateGraph
from barrage_server.engine.schemas import SchemaLike, as_schema
from barrage_server.errors import InvalidRequestError
from barrage_server.formula import Functions
from barrage_server.pem import Pem
from barrage_server.relay import Follows
from barrage_server.server.endpoints import Endpoints
from barrage_server.server.listing import ServedTables
from barrage_server.server.server_state import ServerState
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.table_spec import TableSpec
from barrage_server.wire.tickets import path_of_name

if TYPE_CHECKING:
    from barrage_server.relay.followed_table import FollowedTable

__all__ = ["TableMethods"]

AnyTable = TypeVar("AnyTable", bound=Table)


class TableMethods:
    """The methods of :class:`~barrage_server.Server` for its tables.

    The methods that make a table return the existing one if it has the same name, kind, schema and key.
    """

    _server_state: ServerState
    _follows: Follows
    _endpoints: Endpoints

    @property
    def graph(self) -> UpdateGraph:
        """The update graph that all tables belong to."""
        return self._server_state.catalog.graph

    @property
    def functions(self) -> Functions:
        """The functions that formulas may call.

        >>> server.functions.register("score", lambda price: pc.multiply(price, 2.0), returns=pa.float64())
        >>> server.table("trades").update("s = score(price)")
        """
        return self.graph.functions

    def create_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        key: Sequence[str] | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
        durable: bool | None = None,
    ) -> Table:
        """A table of a kind that is named, or implied by a key or a capacity.

        The arguments are those of :meth:`Client.create_table`. Raises what :meth:`append_table` does, and:
            InvalidRequestError: kind, key and capacity do not go together.
            KeyMismatchError: the schema lacks a key column.
        """
        spec = TableSpec.requested(kind, key, capacity, durable)
        table, _ = self._server_state.catalog.ensure(name, as_schema(schema), spec)
        return table

    def append_table(self, name: str, schema: SchemaLike, *, durable: bool | None = None) -> AppendTable:
        """A table to which rows are appended.

        Args:
            name: the table's name.
            schema: its columns: a pyarrow schema, or a mapping of names to types such as
                ``{"sym": "string", "price": "float64"}``.
            durable: whether the table is in the data directory; when ``None``, if the server has one.

        Raises:
            AlreadyExistsError: there is a different table of that name.
            InvalidRequestError: it cannot be durable, because there is no data directory.
            UnavailableError: the server is closed.
            UnsupportedTypeError: a column has a type that tables cannot hold.
        """
        return self._ensure(name, schema, TableSpec.requested(TableKind.APPEND, None, None, durable), AppendTable)

    def ring_table(self, name: str, schema: SchemaLike, *, capacity: int, durable: bool | None = None) -> RingTable:
        """A table that keeps the last ``capacity`` appended rows.

        Raises what :meth:`append_table` does.
        """
        spec = TableSpec.requested(TableKind.RING, None, capacity, durable)
        return self._ensure(name, schema, spec, RingTable)

    def blink_table(self, name: str, schema: SchemaLike) -> BlinkTable:
        """A table whose rows live for one cycle.

        Raises what :meth:`append_table` does.
        """
        return self._ensure(name, schema, TableSpec(TableKind.BLINK), BlinkTable)

    def keyed_table(
        self, name: str, schema: SchemaLike, *, key: Sequence[str] | str, durable: bool | None = None
    ) -> KeyedTable:
        """A table with one row per value of the ``key`` columns.

        Raises what :meth:`append_table` does, and:
            KeyMismatchError: the schema lacks a key column.
        """
        spec = TableSpec.requested(TableKind.KEYED, key, None, durable)
        return self._ensure(name, schema, spec, KeyedTable)

    def replaced_table(self, name: str, schema: SchemaLike, *, durable: bool | None = None) -> ReplacedTable:
        """A table without keys that is replaced as a whole.

        Raises what :meth:`append_table` does.
        """
        return self._ensure(name, schema, TableSpec.requested(TableKind.REPLACED, None, None, durable), ReplacedTable)

    def _ensure(self, name: str, schema: SchemaLike, spec: TableSpec, made: type[AnyTable]) -> AnyTable:
        table, _ = self._server_state.catalog.ensure(name, as_schema(schema), spec)
        assert isinstance(table, made)
        return table

    def add_table(self, name: str, table: AnyTable) -> AnyTable:
        """Serve a table made by ``bs.table``, or any table of :attr:`graph`.

        The table is called ``name`` from now on. A table that is served already gets a further name, under which it can
        be read and not written. Whether clients may publish to it depends on its class. :meth:`drop` takes it out of
        the server again, and leaves it in the graph.

        >>> quotes = server.add_table("quotes", bs.table(frame, key="sym"))

        Returns:
            The table itself.

        Raises:
            AlreadyExistsError: there is a different table of that name.
            UnavailableError: the server is closed.
            InvalidRequestError: the table belongs to another graph.
        """
        path_of_name(name)
        self._server_state.catalog.add(table, name)
        return table

    def follow(
        self,
        uri: str,
        name: str | None = None,
        *,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        headers: Mapping[str, str] | None = None,
        tls_root_certs: Pem | None = None,
        tls_certificate: Pem | None = None,
        tls_key: Pem | None = None,
        columns: Sequence[str] | None = None,
        interval_ms: int = 10,
        timeout: float = 30.0,
        max_delay: float = 5.0,
        wait: float | None = 0.0,
    ) -> FollowedTable:
        """Serve a table of another server, from a replica that follows every change.

        Returns when the first content is served. While the upstream is lost, the table keeps its last content; when the
        upstream is back, the difference is one update. If the table then has other columns, keys or attributes, the
        present table is dropped, and a new one is served under its name.

        >>> with bs.Server() as relay:
        ...     quotes = relay.follow("grpc://upstream:8815/quotes")
        ...     ticks = relay.follow("dh+plain://deephaven:10000/scope/ticks", name="dh_ticks", wait=60)

        Args:
            uri: ``grpc://host:port/table`` or ``grpc+tls://``; for a Deephaven server
                ``dh+plain://host:port/scope/table`` or ``dh://``, which is TLS. Special characters of the table's name
                are percent-encoded.
            name: its name on this server; its upstream name when None.
            token: bearer token of the upstream, or pre-shared key of a Deephaven server.
            user: user name, with ``password``.
            password: the user's password.
            headers: further headers of every call upstream.
            tls_root_certs: PEM certificates to trust instead of the system's: their text, or a file's path.
            tls_certificate: a certificate of this server as a client of the upstream: PEM, or a file's path.
            tls_key: its private key, likewise.
            columns: columns to follow; None for all.
            interval_ms: least time between two updates from upstream, in milliseconds; 0 for the upstream's default.
            timeout: most seconds of a short call upstream, and most seconds without progress of a longer call.
            max_delay: most seconds between two attempts to reach a lost upstream.
            wait: seconds to wait for an upstream that does not answer or does not have the table yet. None returns at
                once, and serves the table when it appears.

        Returns:
            The followed table, with its state. Dropping the table closes it, and so does closing the server.

        Raises:
            InvalidRequestError: the URI names no table, or a table of this server.
            AlreadyExistsError: this server has a table of that name.
            UnknownTableError, UnknownColumnError: there is no such table or column upstream.
            UnavailableError, DeadlineError: the upstream does not answer, or stopped answering.
            AuthenticationError: the upstream refuses the credentials.
        """
        from barrage_server.relay.source import Source  # loads the client, which a server may never need

        max_delay = seconds(max_delay, "max_delay", positive=True)
        wait = None if wait is None else seconds(wait, "wait")
        source = Source.parse(
            uri,
            token=token,
            user=user,
            password=password,
            headers=headers,
            tls_root_certs=tls_root_certs,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            columns=columns,
            interval_ms=interval_ms,
            timeout=timeout,
        )
        if source.is_at(self._endpoints.host, self._endpoints.ports):
            raise InvalidRequestError(f"{uri!r} is a table of this server; it is served already.")
        name = source.address.name if name is None else text(name, "name")
        return self._follows.begin(name, source, max_delay=max_delay, wait=wait)

    @property
    def followed(self) -> tuple[FollowedTable, ...]:
        """The tables that follow other servers, by name."""
        return self._follows.all()

    def cycle(self) -> AbstractContextManager[None]:
        """Make all changes of the ``with`` body, to any tables, visible at once.

        When the body raises, none of them becomes visible.
        """
        return self.graph.cycle()

    def tables(self) -> ServedTables:
        """All tables, by name."""
        return ServedTables(self._server_state.catalog.tables())

    def table(self, name: str) -> Table:
        """The table of that name; UnknownTableError when there is none."""
        return self._server_state.catalog.get(name)

    def drop(self, name: str) -> None:
        """Stop serving a table. Streams of the table end with an UnknownTableError.

        For a followed table, this closes its subscription upstream.

        Raises:
            UnknownTableError: there is no table of that name.
            UnavailableError: the server is closed.
        """
        followed = self._follows.find(text(name, "A table's name"))
        if followed is not None:
            followed.close()
            return
        self.graph.check_open(name, "cannot be dropped")
        self._server_state.catalog.drop(name)
