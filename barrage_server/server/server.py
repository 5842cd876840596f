"""A server that lives in any process: tables in, Flight out."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from barrage_server.arguments import choice, instance, integer, names, seconds, shown, text
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, ReplacedTable, RingTable, Table, UpdateGraph
from barrage_server.engine.kinds import kind_name
from barrage_server.engine.schemas import SchemaLike, as_schema
from barrage_server.errors import InvalidRequestError, UnavailableError
from barrage_server.log import count
from barrage_server.pem import Pem, read_pem
from barrage_server.process import Ending, end_with_process
from barrage_server.publish import Committer, Ledger, StagingArea
from barrage_server.server.access import AccessControl, Role, checked_roles
from barrage_server.server.authentication import AnyToken, Authentication, Certificates, as_authenticator
from barrage_server.server.catalog import Catalog, never
from barrage_server.server.dispatcher import Dispatcher
from barrage_server.server.endpoints import Endpoints, authority
from barrage_server.server.flight_endpoint import TlsIdentity
from barrage_server.server.front import Front, is_loopback
from barrage_server.server.fsync import Fsync
from barrage_server.server.limits import Limits
from barrage_server.server.listing import ServedTables, tables_html
from barrage_server.server.readiness import Readiness
from barrage_server.server.server_state import ServerState
from barrage_server.server.statistics import ServerStatistics, TableStatistics
from barrage_server.server.stream_ends import StreamEnds
from barrage_server.server.streams import Streams, SubscriptionStream
from barrage_server.server.table_feeds import TableFeeds
from barrage_server.server.translate import error_counts
from barrage_server.server.workers import Workers
from barrage_server.subscription import SubscriptionLimits
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.table_spec import TableSpec
from barrage_server.wire.tickets import path_of_name

if TYPE_CHECKING:
    from prometheus_client import Metric

    from barrage_server.server.durability import Durability
    from barrage_server.server.http_endpoint import HttpEndpoint

__all__ = ["Server"]

AnyTable = TypeVar("AnyTable", bound=Table)

logger = logging.getLogger("barrage_server.server")


class Server:
    """Live tables over Arrow Flight.

    It serves from its construction until :meth:`close`; as a context manager, to the end of the ``with`` block.

    >>> with Server() as server:
    ...     quotes = server.keyed_table("quotes", schema, key=["sym"])
    ...     quotes.upsert({"sym": ["A"], "price": [1.0]})

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
        front: what serves the port for Flight: ``pyarrow``; ``grpc``, which bounds what callers without credentials may
            take; or ``auto``, which is ``grpc`` on addresses beyond this machine. ``grpc`` needs the extra
            ``deephaven``.

    Raises:
        InvalidRequestError: the host is not an address, the token is empty, or it would listen beyond this machine
            without a token or without TLS, and that is not allowed.
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
        front: Front | str = Front.PYARROW,
    ) -> None:
        _check_host(text(host, "host"))
        _check_host(text(http_host, "http_host"), "http_host")
        for number, what in (
            (port, "port"),
            (0 if deephaven_port is None else deephaven_port, "deephaven_port"),
            (0 if deephaven_web_port is None else deephaven_web_port, "deephaven_web_port"),
            (0 if http_port is None else http_port, "http_port"),
        ):
            integer(number, what, most=65_535)
        instance(limits, Limits, "limits")
        instance(subscriptions, SubscriptionLimits, "subscriptions")
        integer(writers, "writers", least=1, most=10_000)
        chosen_front = _front(front)
        if not insecure and not is_loopback(host):
            _check_exposed(
                host,
                is_guarded=token is not None or client_root_certs is not None or allow_anonymous,
                is_encrypted=tls is not None or allow_plaintext,
            )
        identity = None if tls is None else _identity(tls)
        self._started = time.monotonic()
        self._closed = threading.Event()
        self._close_lock = threading.Lock()
        self._pid = os.getpid()
        self._ends_with_process = False
        client_roots = None if client_root_certs is None else read_pem(client_root_certs, "client_root_certs")
        if client_roots is not None and tls is None:
            raise InvalidRequestError(
                "client_root_certs is for a server with tls: certificates are shown in its handshake."
            )
        authenticate = as_authenticator(token, _role_names(default_roles, checked_roles(roles)))
        if authenticate is None and client_roots is not None:
            authenticate = Certificates(default_roles)
        authentication = Authentication(authenticate, default_roles)
        self._data_dir = None if data_dir is None else Path(text(os.fspath(data_dir), "data_dir"))
        self._fsync = Fsync(choice(fsync, Fsync, "fsync") or Fsync.INTERVAL)
        self._readiness = Readiness()
        self._http_host = http_host
        # the first port to open and the last one to close: it tells why the others are not open
        self._http = None if http_port is None else self._open_http(http_port)
        try:
            with nullcontext() if data_dir is None else self._readiness.holding("recovering"):
                self._hub = self._make_state(
                    limits or Limits(), subscriptions or SubscriptionLimits(), writers, authentication, roles
                )
            try:
                self._endpoints = Endpoints(self._hub, host, port, identity, client_roots, self._tidy, chosen_front)
            except BaseException:
                if self._hub.durability is not None:
                    self._hub.durability.close()
                raise
        except BaseException:
            if self._http is not None:
                self._http.close()
            raise
        end_with_process(self, Ending.SERVER)
        try:
            self._deephaven = self._endpoints.open_deephaven(deephaven_port, deephaven_web_port, deephaven_web_origins)
        except BaseException:
            self.close(0.1)
            raise
        self._readiness.serve()
        uris = (self.uri, self.deephaven_uri, self.deephaven_web_uri, self.http_uri)
        logger.info("serving on %s", ", ".join(filter(None, uris)))

    def _make_state(
        self,
        limits: Limits,
        subscriptions: SubscriptionLimits,
        writers: int,
        authentication: Authentication,
        roles: Mapping[str, Role] | None,
    ) -> ServerState:
        graph, ledger, dispatcher = UpdateGraph(), Ledger(limits.ledger_seconds), Dispatcher(writers)
        durability: Durability | None = None
        is_durable: Callable[[Table], bool] = never
        if self._data_dir is not None:
            from barrage_server.server import durability as durable_tables  # reads and writes files: only if asked for

            durability = durable_tables.Durability.of_folder(self._data_dir, graph, self._fsync)
            is_durable = durable_tables.is_durable
        staging = StagingArea(limits.staging)
        streams = Streams(
            {"subscription": limits.subscriptions, "upload": limits.uploads, "download": limits.downloads},
            limits.streams_per_caller,
        )
        ends = StreamEnds(ledger, streams)
        graph.add_failure_listener(ends.failed)
        catalog = Catalog(
            graph,
            ends.dropped,
            ledger.pass_on,
            ends.replaced,
            columns=limits.columns,
            is_durable=is_durable,
        )
        committer = Committer(catalog, staging, ledger)
        if durability is not None:
            recovered = durability.recovered
            catalog.restore(recovered.tables.values())
            ledger.restore((recovered.tables[one.table], one.entry) for one in recovered.ledger.values())
            durability.attach(ledger.export)
            durability.start()
        return ServerState(
            catalog=catalog,
            staging=staging,
            ledger=ledger,
            committer=committer,
            durability=durability,
            followers=TableFeeds(dispatcher, subscriptions),
            dispatcher=dispatcher,
            streams=streams,
            checks=Workers(os.cpu_count() or 1, "barrage-checks"),
            limits=limits,
            drop=self.drop,
            statistics=self.statistics,
            access=AccessControl(catalog, roles),
            authentication=authentication,
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
    def accepts_everyone(self) -> bool:
        """Whether every caller is accepted, with any credentials."""
        return self._hub.authentication.is_open

    @property
    def http_uri(self) -> str | None:
        """Where probes and Prometheus find it, such as ``http://127.0.0.1:40003``; ``None`` without that port."""
        return None if self._http is None else f"http://{authority(self._http_host, self._http.port)}"

    @property
    def graph(self) -> UpdateGraph:
        """The update graph that all tables belong to."""
        return self._hub.catalog.graph

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
        table, _ = self._hub.catalog.ensure(name, as_schema(schema), spec)
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
        table, _ = self._hub.catalog.ensure(name, as_schema(schema), spec)
        assert isinstance(table, made)
        return table

    def add_table(self, name: str, table: AnyTable) -> AnyTable:
        """Serve a table: one that ``bs.table`` made of rows, or any of :attr:`graph`.

        The table is called ``name`` from now on. Subscribers are what any other table has; whether it can be published
        to is for the table's class to say. :meth:`drop` takes it out of the server again, and leaves it in the graph.

        >>> quotes = server.add_table("quotes", bs.table(frame, key="sym"))

        Returns:
            The table itself.

        Raises:
            AlreadyExistsError: there is another table of that name.
            UnavailableError: the server is closed.
            InvalidRequestError: the table belongs to another graph, or is served under another name.
        """
        path_of_name(name)
        self._hub.catalog.add(table, name)
        return table

    def cycle(self) -> AbstractContextManager[None]:
        """Make all that the ``with`` body publishes, to any number of tables, visible at once.

        When the body raises, none of it becomes visible.
        """
        return self.graph.cycle()

    def tables(self) -> ServedTables:
        """All tables, by name."""
        return ServedTables(self._hub.catalog.tables())

    def table(self, name: str) -> Table:
        """The table of that name; UnknownTableError when there is none."""
        return self._hub.catalog.get(name)

    def drop(self, name: str) -> None:
        """Take a table away. Streams that follow it end with an UnknownTableError.

        Raises:
            UnknownTableError: there is none of that name.
            UnavailableError: the server is closed.
        """
        self.graph.check_open(text(name, "A table's name"), "cannot be dropped")
        self._hub.catalog.drop(name)

    def not_ready(self, reason: str) -> AbstractContextManager[None]:
        """Answer "not ready" at ``/ready`` while the ``with`` body runs, for this reason. It serves all the same.

        >>> with server.not_ready("loading"):
        ...     quotes.append(pq.read_table("quotes.parquet"))
        """
        return self._readiness.holding(text(reason, "reason"))

    def statistics(self) -> ServerStatistics:
        """The current statistics."""
        server_state = self._hub
        exchanges = [
            stream for stream in server_state.streams.open("subscription") if isinstance(stream, SubscriptionStream)
        ]
        gauges = tuple(entry for entry in (stream.gauges() for stream in exchanges) if entry is not None)
        tables = tuple(
            TableStatistics(
                name=table.name,
                kind=kind_name(table),
                rows=table.size,
                nbytes=table.nbytes,
                step=table.version.step,
                subscribers=server_state.followers.count(table),
            )
            for table in server_state.catalog.tables()
        )
        return ServerStatistics(
            uptime_seconds=time.monotonic() - self._started,
            step=self.graph.step,
            tables=tables,
            subscriptions=gauges,
            uploads=server_state.streams.count("upload"),
            downloads=server_state.streams.count("download"),
            evicted=self._endpoints.evicted,
            writer_threads=server_state.dispatcher.threads,
            staging=server_state.staging.statistics(),
            sessions=0 if self._deephaven is None else self._deephaven.session_count,
            exports=0 if self._deephaven is None else self._deephaven.export_count,
            commits=tuple(
                (publisher, table, batch) for (publisher, table), batch in server_state.ledger.entries().items()
            ),
            streams=tuple(stream.describe() for stream in server_state.streams.open()),
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
        two seconds. The Flight port keeps its certificate: pyarrow cannot exchange it. The Deephaven ports present the
        new one to new connections.

        Args:
            token: the new credentials, as for the constructor; ``None`` keeps them, and reads their files again.
            roles: the new roles; ``None`` or none keeps them.
            default_roles: new roles of callers whose credentials name none, with ``token``.
            tls: the new certificate chain and key; ``None`` keeps them.

        Raises:
            InvalidRequestError: an argument is wrong, or a server without credentials or TLS would require them from
                now on; nothing has changed.

        """
        access, authentication = self._hub.access, self._hub.authentication
        known = checked_roles(roles) or access.roles
        authenticate = as_authenticator(token, _role_names(default_roles, known))
        identity = None if tls is None else _identity(tls)
        if authenticate is not None and authentication.is_open:
            raise InvalidRequestError("This server accepts every caller; start it anew to require credentials.")
        if identity is not None:
            self._endpoints.replace_tls(identity)
        if roles:
            access.replace(roles)
        if authenticate is None:
            authentication.refresh(force=True)
        else:
            authentication.replace(authenticate, default_roles)
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
        """Stop serving. Subscribers get an error; connections that do not end within ``grace`` seconds are cut.

        From then on the tables keep their content, which can be read; writing to one, making one and dropping one raise
        :class:`~barrage_server.errors.UnavailableError`.

        Returns in bounded time, independently of clients, and starts no thread. May be called again. In a forked child
        it does nothing: the server is its parent's.
        """
        if self._pid != os.getpid():
            return
        grace = seconds(grace, "grace")
        with self._close_lock:
            if self._closed.is_set():
                return
            self._readiness.stop()
            server_state = self._hub
            server_state.streams.close()
            for stream in server_state.streams.open():
                stream.end(UnavailableError("The server is shutting down."))
            if server_state.streams.count("subscription"):
                server_state.streams.wait_empty(grace / 2)
            if server_state.streams.open():
                self._endpoints.cut()
                server_state.streams.wait_empty(grace / 2)
            if not self._ends_with_process:  # a daemon that feeds tables must not end with a traceback then
                self.graph.close("its server is closed")
            self._endpoints.close(grace)
            server_state.dispatcher.close()
            server_state.checks.shutdown()
            self._closed.set()
            if server_state.durability is not None:
                server_state.durability.close()
            if self._http is not None:
                self._http.close()
            durability = server_state.durability
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
        state = self._hub
        yield from metrics.statistics_families(self.statistics())
        yield from metrics.traffic_families(state.streams.traffic())
        yield from metrics.publish_families(state.counters.publishes())
        yield from metrics.error_families(error_counts())
        if state.durability is not None:
            yield from metrics.durability_families(state.durability.failure, state.durability.nbytes)
        connections = self._endpoints.connections()
        if self._http is not None:
            connections["http"] = self._http.connections
        yield from metrics.connection_families(connections)

    def _tidy(self, now: float) -> None:
        """Housekeeping, about once a second."""
        server_state = self._hub
        server_state.staging.expire(now)
        server_state.ledger.expire(server_state.wall_clock())
        server_state.followers.tidy(now)
        for stream in server_state.streams.open("subscription"):
            if isinstance(stream, SubscriptionStream):
                stream.tidy(now)
        server_state.authentication.refresh()
        server_state.end_disallowed()

    def _repr_html_(self) -> str:
        """Where it listens, and its tables, for notebooks."""
        state = ", closed" if self._closed.is_set() else ""
        return tables_html(f"Server {self.uri}{state}", self.tables())


def _role_names(names: Collection[str], roles: Mapping[str, Role]) -> Collection[str]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InvalidRequestError(f"default_roles must be a list of names, not {shown(names)}.")
    unknown = sorted(set(names) - set(roles))
    if unknown:
        raise InvalidRequestError(f"default_roles must be names of roles, and {shown(unknown[0])} is none.")
    return names


def _identity(tls: tuple[Pem, Pem]) -> TlsIdentity:
    if not isinstance(tls, tuple | list) or len(tls) != 2:
        raise InvalidRequestError("tls is a pair: the certificate chain and the private key, as PEM or as paths.")
    chain, key = tls
    return read_pem(chain, "tls (certificate chain)"), read_pem(key, "tls (private key)")


def _check_host(host: str, what: str = "host") -> None:
    """Raise InvalidRequestError unless ``host`` is an address, or a name that leads to one."""
    try:
        socket.getaddrinfo(host[1:-1] if host[:1] + host[-1:] == "[]" else host, None)
    except (OSError, UnicodeError):
        raise InvalidRequestError(
            f"{what} is an address of this machine, or a name of one, such as 127.0.0.1; {shown(host)} is none. "
            f"The port is an argument of its own: {what.replace('host', 'port')}=."
        ) from None


def _check_exposed(host: str, *, is_guarded: bool, is_encrypted: bool) -> None:
    """Raise InvalidRequestError unless a server that other machines reach has credentials and TLS."""
    missing = []
    if not is_guarded:
        missing.append(
            "Set a token, or allow every caller with allow_anonymous=True (--allow-anonymous on the command line)."
        )
    if not is_encrypted:
        missing.append(
            "Set tls, or allow that tokens and tables can be read in transit with allow_plaintext=True "
            "(--allow-plaintext)."
        )
    if missing:
        both = " Both together are insecure=True (--insecure)." if len(missing) > 1 else ""
        raise InvalidRequestError(f"Listening on {host} lets other machines in. {' '.join(missing)}{both}")


def _front(front: Front | str) -> Front:
    try:
        return Front(front)
    except ValueError:
        known = " or ".join(f"'{entry}'" for entry in Front)
        raise InvalidRequestError(f"front must be {known}, not {shown(front)}.") from None
