"""A server that lives in any process: tables in, Flight out."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from barrage_server.arguments import as_path, choice, instance, integer, names, seconds, text
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, ReplacedTable, RingTable, Table, UpdateGraph
from barrage_server.engine.schemas import SchemaLike, as_schema
from barrage_server.errors import InvalidRequestError, UnavailableError
from barrage_server.formula import Functions
from barrage_server.log import count
from barrage_server.pem import Pem
from barrage_server.process import Ending, end_with_process
from barrage_server.public import public
from barrage_server.relay import FollowedTable, Follows
from barrage_server.relay.source import Source
from barrage_server.server.access import Role, checked_roles
from barrage_server.server.assembly import assemble
from barrage_server.server.authentication import AnyToken, as_authenticator, named_roles
from barrage_server.server.endpoints import Endpoints, authority
from barrage_server.server.figures import collected
from barrage_server.server.front import Front
from barrage_server.server.fsync import Fsync
from barrage_server.server.housekeeping import Housekeeping
from barrage_server.server.limits import Limits
from barrage_server.server.listing import ServedTables, tables_html
from barrage_server.server.options import (
    authentication_of,
    check_console,
    check_exposed,
    check_host,
    check_named_roles,
    check_ports,
    checked_client_roots,
    chosen_front,
    role_names,
    tls_identity,
)
from barrage_server.server.readiness import Readiness
from barrage_server.server.statistics import ServerStatistics
from barrage_server.subscription import SubscriptionLimits
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.table_spec import TableSpec
from barrage_server.wire.tickets import path_of_name

if TYPE_CHECKING:
    from prometheus_client import Metric

    from barrage_server.server.http_endpoint import HttpEndpoint

__all__ = ["Server"]

AnyTable = TypeVar("AnyTable", bound=Table)

logger = logging.getLogger("barrage_server.server")


@public
class Server:
    """Live tables over Arrow Flight: its own, and tables of other servers that it follows.

    It serves from its construction until :meth:`close`; as a context manager, to the end of the ``with`` block.

    >>> with Server() as server:
    ...     quotes = server.keyed_table("quotes", schema, key=["sym"])
    ...     quotes.upsert({"sym": ["A"], "price": [1.0]})
    ...     trades = server.follow("grpc://upstream:8815/trades")

    Args:
        host: address to listen on.
        port: 0 takes a free one; see :attr:`port`.
        token: the required token, or a callable that takes :class:`~barrage_server.server.auth.Credentials` and returns
            the caller's name or :class:`~barrage_server.Principal`, or raises
            :class:`~barrage_server.errors.AuthenticationError`; or a sequence of these, any of which may accept a
            caller. ``None``: every caller is accepted.
        roles: what the roles of principals allow, by name: :class:`~barrage_server.Role`. With any, everything that no
            role of a caller allows is denied; with none, every caller may do everything. This process is not
            restricted.
        default_roles: roles of callers whose credentials name none: those with the token, and anonymous ones.
        limits: bounds of what one client may use.
        subscriptions: default update interval, and the sizes of first snapshots.
        tls: certificate chain and private key to serve ``grpc+tls``: each PEM text, or the path of a PEM file.
        client_root_certs: certificates to trust for clients, as PEM or a path: each must then present one. Without
            ``token`` every such client is accepted; with it, those that a :class:`~barrage_server.CredentialFile` has.
        allow_anonymous: allow to listen beyond this machine although every caller is accepted.
        allow_plaintext: allow to listen beyond this machine without TLS: tokens and tables can be read in transit.
        insecure: both of these.
        writers: threads that write to subscribers at a time, without those stuck with a slow client.
        deephaven_port: a second port, for stock Deephaven clients; 0 takes a free one, see :attr:`deephaven_uri`.
            ``None``: none. Needs the extra ``deephaven``, as does the next one.
        deephaven_web_port: a third port, for Deephaven's JavaScript client (websockets); see
            :attr:`deephaven_web_uri`.
        deephaven_web_origins: origins of web pages that may connect there without a token, such as
            ``https://dashboards.example.com``; ``*`` for all. Pages of this machine always may.
        data_dir: a folder that keeps the tables, but for blink tables and those of other servers: a server that is
            started with it again has them as they were. ``None``: in memory only.
        fsync: when changes are on disk: ``always`` before the publisher gets its answer, ``interval`` ten milliseconds
            later at most, ``os`` when the operating system likes.
        http_port: a port for probes and for Prometheus: ``/health``, ``/ready``, ``/metrics``, without credentials and
            without names of clients; 0 takes a free one, see :attr:`http_uri`. ``None``: none.
        http_host: address for that port to listen on.
        web_port: a port for browsers: a page that shows the tables live; 0 takes a free one, see :attr:`web_uri`.
            ``None``: none. With a port for Deephaven's clients it serves Deephaven's JavaScript client too.
        web_hosts: names under which browsers may ask for it, such as ``tables.example.com``, besides addresses and
            ``localhost``.
        front: what serves the port for Flight: ``pyarrow``; ``grpc``, which bounds what callers without credentials may
            take; or ``auto``, which is ``grpc`` on addresses beyond this machine. ``grpc`` needs the extra
            ``deephaven``.
        console: let Deephaven's clients run Python in this process: callers with every right on all tables, or all
            callers where there are no roles. It needs a Deephaven port; without credentials, an address of this
            machine and no port for web pages.

    Raises:
        InvalidRequestError: the host is not an address, the token is empty, credentials name a role that is not
            defined, or it would listen beyond this machine without a token or without TLS, and that is not allowed.
        UnavailableError: the address cannot be listened on.
        DependencyError: a Deephaven port or the front ``grpc`` is requested, and its packages are not installed.
        JournalError: the data directory is damaged, or something else.
        AlreadyExistsError: another server uses the data directory.
        ReadOnlyError: the data directory cannot be written.

    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        token: AnyToken | Sequence[AnyToken] | None = None,
        roles: Mapping[str, Role] | None = None,
        default_roles: Collection[str] = (),
        limits: Limits | None = None,
        subscriptions: SubscriptionLimits | None = None,
        tls: tuple[Pem, Pem] | None = None,
        client_root_certs: Pem | None = None,
        allow_anonymous: bool = False,
        allow_plaintext: bool = False,
        insecure: bool = False,
        writers: int = 2,
        deephaven_port: int | None = None,
        deephaven_web_port: int | None = None,
        deephaven_web_origins: Collection[str] = (),
        data_dir: str | os.PathLike[str] | None = None,
        fsync: Fsync | str = Fsync.INTERVAL,
        http_port: int | None = None,
        http_host: str = "127.0.0.1",
        web_port: int | None = None,
        web_hosts: Collection[str] = (),
        front: Front | str = Front.PYARROW,
        console: bool = False,
    ) -> None:
        check_host(text(host, "host"))
        check_host(text(http_host, "http_host"), "http_host")
        check_ports(
            port=port,
            deephaven_port=deephaven_port,
            deephaven_web_port=deephaven_web_port,
            http_port=http_port,
            web_port=web_port,
        )
        page_names = names(web_hosts, "web_hosts", single=True) if web_hosts else ()
        instance(limits, Limits, "limits")
        instance(subscriptions, SubscriptionLimits, "subscriptions")
        integer(writers, "writers", least=1, most=10_000)
        chosen = chosen_front(front)
        has_credentials = token is not None or client_root_certs is not None
        if not insecure:
            check_exposed(
                host,
                is_guarded=has_credentials or allow_anonymous,
                is_encrypted=tls is not None or allow_plaintext,
            )
        check_console(
            console,
            host,
            is_guarded=has_credentials,
            has_port=deephaven_port is not None or deephaven_web_port is not None,
            has_web=deephaven_web_port is not None,
        )
        identity = None if tls is None else tls_identity(tls)
        client_roots = None if client_root_certs is None else checked_client_roots(client_root_certs, tls)
        authentication = authentication_of(token, roles, default_roles, shows_certificates=client_roots is not None)
        folder = None if data_dir is None else as_path(data_dir, "data_dir")
        policy = Fsync(choice(fsync, Fsync, "fsync") or Fsync.INTERVAL)
        self._started = time.monotonic()
        self._closed = threading.Event()
        self._close_lock = threading.Lock()
        self._pid = os.getpid()
        self._ends_with_process = False
        self._readiness = Readiness()
        self._http_host = http_host
        # the first port to open and the last one to close: it tells why the others are not open
        self._http = None if http_port is None else self._open_http(http_port)
        try:
            with nullcontext() if data_dir is None else self._readiness.holding("recovering"):
                self._server_state = assemble(
                    data_dir=folder,
                    fsync=policy,
                    limits=limits or Limits(),
                    subscriptions=subscriptions or SubscriptionLimits(),
                    writers=writers,
                    authentication=authentication,
                    roles=roles,
                    drop=self.drop,
                    statistics=self.statistics,
                    has_console=console,
                )
            self._follows = Follows(self._server_state.catalog)
            try:
                tidy = Housekeeping(self._server_state).tidy
                self._endpoints = Endpoints(self._server_state, host, port, identity, client_roots, tidy, chosen)
            except BaseException:
                if self._server_state.durability is not None:
                    self._server_state.durability.close()
                raise
        except BaseException:
            if self._http is not None:
                self._http.close()
            raise
        end_with_process(self, Ending.SERVER)
        try:
            self._endpoints.open_deephaven(deephaven_port, deephaven_web_port, deephaven_web_origins)
            self._endpoints.open_pages(web_port, page_names)
        except BaseException:
            self.close(0.1)
            raise
        self._readiness.serve()
        uris = (self.uri, self.deephaven_uri, self.deephaven_web_uri, self.web_uri, self.http_uri)
        logger.info("serving on %s", ", ".join(filter(None, uris)))
        if console:
            logger.warning(
                "the console is on: %s may run any Python in this process, with all that it may do on this machine",
                "EVERY PROGRAM OF THIS MACHINE" if self.accepts_everyone else "callers with every right",
            )

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self._endpoints.host

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._endpoints.port

    @property
    def uri(self) -> str:
        """The URI for clients, such as ``grpc://127.0.0.1:40000``."""
        return self._endpoints.uri

    @property
    def deephaven_uri(self) -> str | None:
        """Where Deephaven's clients find it, such as ``dh+plain://127.0.0.1:40001``; ``None`` without that port."""
        return self._endpoints.deephaven_uri

    @property
    def deephaven_web_uri(self) -> str | None:
        """Where Deephaven's JavaScript client finds it, such as ``http://127.0.0.1:40002``; ``None`` without."""
        return self._endpoints.deephaven_web_uri

    @property
    def web_uri(self) -> str | None:
        """The address of the page for browsers, such as ``http://127.0.0.1:40004``; ``None`` without that port."""
        return self._endpoints.web_uri

    @property
    def accepts_everyone(self) -> bool:
        """Whether every caller is accepted, with any credentials."""
        return self._server_state.authentication.is_open

    @property
    def http_uri(self) -> str | None:
        """Where probes and Prometheus find it, such as ``http://127.0.0.1:40003``; ``None`` without that port."""
        return None if self._http is None else f"http://{authority(self._http_host, self._http.port)}"

    @property
    def graph(self) -> UpdateGraph:
        """The update graph that all tables belong to."""
        return self._server_state.catalog.graph

    @property
    def functions(self) -> Functions:
        """The functions that formulas may name.

        >>> server.functions.register("score", lambda price: pc.multiply(price, 2.0), returns=pa.float64())
        >>> server.table("trades").update("s = score(price)")
        """
        return self.graph.functions

    # Tables. Each of these returns the existing table if it is the same.

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
        """A table of the kind that is named, or that a key or a capacity implies.

        The arguments are those of :meth:`Client.create_table`, and there may be a table of the same kind, schema and
        keys already. Raises what :meth:`append_table` does, and:
            InvalidRequestError: kind, key and capacity do not go together.
            KeyMismatchError: the schema lacks a key column.
        """
        spec = TableSpec.requested(kind, key, capacity, durable)
        table, _ = self._server_state.catalog.ensure(name, as_schema(schema), spec)
        return table

    def append_table(self, name: str, schema: SchemaLike) -> AppendTable:
        """A table to whose end rows are added.

        Args:
            name: what clients call it.
            schema: its columns: a pyarrow schema, or a mapping of names to types such as
                ``{"sym": "string", "price": "float64"}``.

        Raises:
            AlreadyExistsError: there is another table of that name.
            UnavailableError: the server is closed.
            UnsupportedTypeError: a column has a type that tables cannot hold.

        """
        return self._ensure(name, schema, TableSpec(TableKind.APPEND), AppendTable)

    def ring_table(self, name: str, schema: SchemaLike, *, capacity: int) -> RingTable:
        """A table that keeps the last ``capacity`` rows of those appended. Raises what :meth:`append_table` does."""
        spec = TableSpec(TableKind.RING, capacity=integer(capacity, "capacity", least=1))
        return self._ensure(name, schema, spec, RingTable)

    def blink_table(self, name: str, schema: SchemaLike) -> BlinkTable:
        """A table whose rows live for one cycle. Raises what :meth:`append_table` does."""
        return self._ensure(name, schema, TableSpec(TableKind.BLINK), BlinkTable)

    def keyed_table(self, name: str, schema: SchemaLike, *, key: Sequence[str] | str) -> KeyedTable:
        """A table with one row per value of the ``key`` columns.

        Raises what :meth:`append_table` does, and:
            KeyMismatchError: the schema lacks a key column.
        """
        spec = TableSpec(TableKind.KEYED, tuple(names(key, "key", single=True)))
        return self._ensure(name, schema, spec, KeyedTable)

    def replaced_table(self, name: str, schema: SchemaLike) -> ReplacedTable:
        """A table without keys that is replaced as a whole. Raises what :meth:`append_table` does."""
        return self._ensure(name, schema, TableSpec(TableKind.REPLACED), ReplacedTable)

    def _ensure(self, name: str, schema: SchemaLike, spec: TableSpec, made: type[AnyTable]) -> AnyTable:
        table, _ = self._server_state.catalog.ensure(name, as_schema(schema), spec)
        assert isinstance(table, made)
        return table

    def add_table(self, name: str, table: AnyTable) -> AnyTable:
        """Serve a table: one that ``bs.table`` made of rows, or any of :attr:`graph`.

        The table is called ``name`` from now on. One that is served already gets a further name, under which it can be
        read and not written. Subscribers are what any other table has; whether it can be published to is for the
        table's class to say. :meth:`drop` takes it out of the server again, and leaves it in the graph.

        >>> quotes = server.add_table("quotes", bs.table(frame, key="sym"))

        Returns:
            The table itself.

        Raises:
            AlreadyExistsError: there is another table of that name.
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
        columns: Sequence[str] | None = None,
        interval_ms: int = 10,
        timeout: float = 30.0,
        max_delay: float = 5.0,
        wait: float | None = 0.0,
    ) -> FollowedTable:
        """Serve a table of another server, from a replica that follows every change.

        Returns when the first content is served. While the upstream is lost, the table stays with its last content;
        when it is back, the difference is one update. Only when it comes back with other columns, keys or attributes is
        the table dropped, and a new one served under its name.

        >>> with bs.Server() as relay:
        ...     quotes = relay.follow("grpc://upstream:8815/quotes")
        ...     ticks = relay.follow("dh+plain://deephaven:10000/scope/ticks", name="dh_ticks", wait=60)

        Args:
            uri: ``grpc://host:port/table`` or ``grpc+tls://``; for a Deephaven server
                ``dh+plain://host:port/scope/table`` or ``dh://``, which is TLS. Special characters of the table's name
                are percent-encoded.
            name: its name here; the upstream name when None.
            token: bearer token of the upstream, or pre-shared key of a Deephaven server.
            user: user name, with ``password``.
            password: the user's password.
            headers: further headers of every call upstream.
            tls_root_certs: PEM certificates to trust instead of the system's: their text, or a file's path.
            columns: columns to follow; None for all.
            interval_ms: least time between two updates from upstream, in milliseconds; 0 for the upstream's default.
            timeout: most seconds of a short call upstream, and most seconds without progress of a longer one.
            max_delay: longest delay between two attempts to reach a lost upstream, in seconds.
            wait: seconds to wait for an upstream that does not answer or does not have the table yet. None returns at
                once, and serves the table when it appears.

        Returns:
            The followed table, with its state. Dropping the table closes it, and so does closing the server.

        Raises:
            InvalidRequestError: the URI names no table, or a table of this server.
            AlreadyExistsError: there is a table of that name here.
            UnknownTableError, UnknownColumnError: there is no such table or column upstream.
            UnavailableError, DeadlineError: the upstream does not answer, or stopped answering.
            AuthenticationError: the upstream refuses the credentials.
        """
        max_delay = seconds(max_delay, "max_delay", positive=True)
        wait = None if wait is None else seconds(wait, "wait")
        source = Source.parse(
            uri,
            token=token,
            user=user,
            password=password,
            headers=headers,
            tls_root_certs=tls_root_certs,
            columns=columns,
            interval_ms=interval_ms,
            timeout=timeout,
        )
        if source.is_at(self.host, self._endpoints.ports):
            raise InvalidRequestError(f"{uri!r} is a table of this server; it is served already.")
        name = source.address.name if name is None else text(name, "name")
        return self._follows.begin(name, source, max_delay=max_delay, wait=wait)

    @property
    def followed(self) -> tuple[FollowedTable, ...]:
        """The tables that follow other servers, by name."""
        return self._follows.all()

    def cycle(self) -> AbstractContextManager[None]:
        """Make all that the ``with`` body publishes, to any number of tables, visible at once.

        When the body raises, none of it becomes visible.
        """
        return self.graph.cycle()

    def tables(self) -> ServedTables:
        """All tables, by name."""
        return ServedTables(self._server_state.catalog.tables())

    def table(self, name: str) -> Table:
        """The table of that name; UnknownTableError when there is none."""
        return self._server_state.catalog.get(name)

    def drop(self, name: str) -> None:
        """Take a table away. Streams that follow it end with an UnknownTableError.

        For a followed table, this closes its subscription upstream.

        Raises:
            UnknownTableError: there is none of that name.
            UnavailableError: the server is closed.
        """
        followed = self._follows.find(text(name, "A table's name"))
        if followed is not None:
            followed.close()
            return
        self.graph.check_open(name, "cannot be dropped")
        self._server_state.catalog.drop(name)

    def not_ready(self, reason: str) -> AbstractContextManager[None]:
        """Answer "not ready" at ``/ready`` while the ``with`` body runs, for this reason. It serves all the same.

        >>> with server.not_ready("loading"):
        ...     quotes.append(pq.read_table("quotes.parquet"))
        """
        return self._readiness.holding(text(reason, "reason"))

    def statistics(self) -> ServerStatistics:
        """The current statistics."""
        # callers of the first port may ask before the others are open
        endpoints = None if self._readiness.is_starting else self._endpoints
        return collected(
            self._server_state,
            uptime_seconds=time.monotonic() - self._started,
            evicted=0 if endpoints is None else endpoints.evicted,
            sessions=0 if endpoints is None else endpoints.sessions,
            exports=self._server_state.export_counts.total,
            followed=tuple(entry.statistics() for entry in self.followed),
        )

    def reload(
        self,
        *,
        token: AnyToken | Sequence[AnyToken] | None = None,
        roles: Mapping[str, Role] | None = None,
        default_roles: Collection[str] = (),
        tls: tuple[Pem, Pem] | None = None,
    ) -> None:
        """Replace credentials, roles and certificates while clients are connected.

        Streams and sessions whose credentials are no longer accepted, or whose roles no longer allow them, end within
        two seconds. New connections get the new certificate at all ports but a Flight port that pyarrow serves, which
        cannot exchange it, and keeps it until the server is started anew.

        Args:
            token: the new credentials, as for the constructor; ``None`` keeps them, and reads their files again.
            roles: the new roles; ``None`` or none keeps them.
            default_roles: new roles of callers whose credentials name none, with ``token``.
            tls: the new certificate chain and key; ``None`` keeps them.

        Raises:
            InvalidRequestError: an argument is wrong, or a file of credentials, or credentials name a role that would
                not be defined, or a server without credentials or TLS would require them from now on; nothing has
                changed.

        """
        access, authentication = self._server_state.access, self._server_state.authentication
        known = checked_roles(roles) or access.roles
        authenticate = as_authenticator(token, role_names(default_roles, known))
        if authenticate is not None and authentication.is_open:
            raise InvalidRequestError("This server accepts every caller; start it anew to require credentials.")
        if authenticate is None:
            role_names(authentication.default_roles, known)
            named, put_into_force = authentication.reread()
        else:
            named = named_roles(authenticate)
            put_into_force = partial(authentication.replace, authenticate, default_roles)
        check_named_roles(named, known)
        identity = None if tls is None else tls_identity(tls)
        if identity is not None:
            self._endpoints.replace_tls(identity)
        if roles:
            access.replace(roles)
        put_into_force()
        logger.info("credentials, roles and certificates replaced")

    # Life and end.

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds (``None``: no limit) until the server is closed; returns whether it is."""
        return self._closed.wait(None if timeout is None else seconds(timeout, "timeout"))

    def serve_forever(self) -> None:
        """Serve until :meth:`close` is called from another thread, or Ctrl-C is pressed; then close."""
        try:
            # in steps, because on some systems a wait without end cannot be interrupted
            while not self.wait(1.0):
                pass
        except KeyboardInterrupt:
            logger.info("interrupted")
        finally:
            self.close()

    def close(self, grace: float = 2.0) -> None:
        """Stop following, then stop serving.

        Subscribers get an error; connections that do not end within ``grace`` seconds are cut.

        From then on the tables keep their content, which can be read; writing to one, making one and dropping one raise
        :class:`~barrage_server.errors.UnavailableError`.

        Returns in bounded time, independently of clients and upstreams, and starts no thread. May be called again. In a
        forked child it does nothing: the server is its parent's.
        """
        if self._pid != os.getpid():
            return
        grace = seconds(grace, "grace")
        self._follows.close()
        with self._close_lock:
            if self._closed.is_set():
                return
            self._readiness.stop()
            server_state = self._server_state
            server_state.streams.close()
            for stream in server_state.streams.open():
                stream.end(UnavailableError("The server is shutting down."))
            if server_state.streams.count("subscription") or server_state.streams.count("page"):
                server_state.streams.wait_empty(grace / 2)
            if server_state.streams.open():
                self._endpoints.cut()
                server_state.streams.wait_empty(grace / 2)
            if not self._ends_with_process:  # a daemon that feeds tables must not end with a traceback then
                self.graph.close("its server is closed")
            self._endpoints.close(grace)
            server_state.pages.close()
            server_state.dispatcher.close()
            server_state.checks.shutdown()
            server_state.leases.close()
            durability = server_state.durability
            if durability is not None:
                durability.close()
            if self._http is not None:
                self._http.close()
            self._closed.set()  # last: a program that waits for it may end then
            gone = [table for table in self.tables() if durability is None or not durability.keeps(table)]
            rows = sum(table.size for table in gone)
            lost = f"{count(rows, 'rows')} of {count(len(gone), 'tables')}"
            told = f"; in memory only, and gone now: {lost}" if rows else ""
            logger.info("closed %s%s", self.uri, told)

    shutdown = close

    def end_with_process(self, timeout: float) -> None:
        """Stop serving, because the interpreter ends."""
        self._ends_with_process = True
        self.close(min(1.0, timeout))
        self.graph.halt(min(1.0, timeout))

    def __enter__(self) -> Self:
        """The server itself, which serves already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed.is_set() else f"tables={len(self.tables())}"
        return f"<Server {self.uri} {state}>"

    def _open_http(self, port: int) -> HttpEndpoint:
        # prometheus-client and h11 are imported only for it
        from barrage_server.server.http_endpoint import HttpEndpoint
        from barrage_server.server.metrics import Metrics

        return HttpEndpoint(self._http_host, port, self._readiness, Metrics(self._metric_families).render)

    def _metric_families(self) -> Iterator[Metric]:
        """All metrics, except those of the process; few while the server starts."""
        from barrage_server.server import metrics

        yield from metrics.readiness_families(self._readiness)
        if self._readiness.is_starting:
            return
        connections = self._endpoints.connections()
        if self._http is not None:
            connections["http"] = self._http.connections
        yield from metrics.server_families(self._server_state, connections)

    def _repr_html_(self) -> str:
        """Where it listens, and its tables, for notebooks."""
        state = ", closed" if self._closed.is_set() else ""
        return tables_html(f"Server {self.uri}{state}", self.tables())
