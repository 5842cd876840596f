"""A server in any process: its ports, its settings and its life."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Self

from barrage_server.arguments import as_path, choice, instance, integer, names, seconds, text
from barrage_server.errors import InvalidRequestError, UnavailableError
from barrage_server.log import count
from barrage_server.pem import Pem
from barrage_server.process import Ending, end_with_process
from barrage_server.public import public
from barrage_server.relay import Follows
from barrage_server.server.access import Role, checked_roles
from barrage_server.server.assembly import assemble
from barrage_server.server.authentication import AnyToken, as_authenticator, named_roles
from barrage_server.server.endpoints import Endpoints, authority, listening_uri
from barrage_server.server.figures import collected
from barrage_server.server.front import Front
from barrage_server.server.fsync import Fsync
from barrage_server.server.housekeeping import Housekeeping
from barrage_server.server.limits import Limits
from barrage_server.server.listing import tables_html
from barrage_server.server.options import (
    authentication_of,
    check_console,
    check_exposed,
    check_host,
    check_named_roles,
    check_ports,
    check_tls,
    checked_client_roots,
    chosen_front,
    role_names,
    tls_identity,
)
from barrage_server.server.readiness import Readiness
from barrage_server.server.statistics import ServerStatistics
from barrage_server.server.table_methods import TableMethods
from barrage_server.subscription import SubscriptionLimits

if TYPE_CHECKING:
    from prometheus_client import Metric

    from barrage_server.server.http_endpoint import HttpEndpoint

__all__ = ["Server"]

logger = logging.getLogger("barrage_server.server")


@public
class Server(TableMethods):
    """Live tables over Arrow Flight: its own, and followed tables of other servers.

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
        roles: :class:`~barrage_server.Role` by name. With roles, everything that no role of a caller allows is denied;
            without, every caller may do everything. This process is not restricted.
        default_roles: roles of callers whose credentials name none: callers with the token, and anonymous ones.
        limits: bounds for clients.
        subscriptions: default update interval, and the sizes of first snapshots.
        tls_certificate: certificate chain, to serve ``grpc+tls`` together with ``tls_key``: PEM text, or the path of a
            PEM file.
        tls_key: its private key, likewise.
        tls_client_root_certs: certificates to trust for clients, as PEM or a path; every client must then present a
            certificate. Without ``token`` every such client is accepted; with it, the clients that a
            :class:`~barrage_server.CredentialFile` has.
        allow_anonymous: allow to listen beyond this machine although every caller is accepted.
        allow_plaintext: allow to listen beyond this machine without TLS: tokens and tables can be read in transit.
        insecure: both ``allow_anonymous`` and ``allow_plaintext``.
        writers: threads that write to subscribers at a time, not counting threads stuck with a slow client.
        deephaven_port: a second port, for stock Deephaven clients; 0 takes a free one, see :attr:`deephaven_uri`.
            ``None``: none. Needs the extra ``deephaven``, as does ``deephaven_web_port``.
        deephaven_web_port: a third port, for Deephaven's JavaScript client (websockets); see
            :attr:`deephaven_web_uri`.
        deephaven_web_origins: origins of web pages that may connect there without a token, such as
            ``https://dashboards.example.com``; ``*`` for all. Pages of this machine always may.
        data_dir: a folder that keeps the tables, except blink tables and tables of other servers; a server that starts
            with it again recovers them. ``None``: tables are in memory only.
        fsync: when changes reach the disk: ``always`` before the publisher gets its answer, ``interval`` at most ten
            milliseconds later, ``os`` when the operating system writes them. ``always`` needs ``data_dir``.
        release_publishers: names of publishers, or patterns of them as tables of roles have, that no longer belong to
            the users who published under them first. The next user that publishes under one gets it, and goes on behind
            its last batches.
        http_port: a port for probes and for Prometheus: ``/health``, ``/ready``, ``/metrics``, without credentials and
            without names of clients; 0 takes a free one, see :attr:`http_uri`. ``None``: none.
        http_host: address for that port to listen on.
        web_port: a port for browsers: a page that shows the tables live; 0 takes a free one, see :attr:`web_uri`.
            ``None``: none. With a port for Deephaven's clients it serves Deephaven's JavaScript client too.
        web_hosts: host names that browsers may use for the page, such as ``tables.example.com``, besides addresses and
            ``localhost``.
        front: the implementation that serves the port for Flight: ``pyarrow``; ``grpc``, which bounds the resources of
            callers without credentials; or ``auto``, which is ``grpc`` on addresses beyond this machine. ``grpc`` needs
            the extra ``deephaven``.
        console: let Deephaven's clients run Python in this process: callers with every right on all tables, or all
            callers without ``roles``. Needs a Deephaven port; and if there are no credentials, an address of this
            machine and no port for web pages.

    Raises:
        InvalidRequestError: the host is not an address, the token is empty, credentials name an undefined role, or the
            server would listen beyond this machine without a token or without TLS, and that is not allowed.
        UnavailableError: the address cannot be listened on.
        DependencyError: a Deephaven port or the front ``grpc`` is requested, and its packages are not installed.
        JournalError: the data directory is damaged, or is not a data directory.
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
        tls_certificate: Pem | None = None,
        tls_key: Pem | None = None,
        tls_client_root_certs: Pem | None = None,
        allow_anonymous: bool = False,
        allow_plaintext: bool = False,
        insecure: bool = False,
        writers: int = 2,
        deephaven_port: int | None = None,
        deephaven_web_port: int | None = None,
        deephaven_web_origins: Collection[str] = (),
        data_dir: str | os.PathLike[str] | None = None,
        fsync: Fsync | str = Fsync.INTERVAL,
        release_publishers: Collection[str] = (),
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
        origins = names(deephaven_web_origins, "deephaven_web_origins", single=True) if deephaven_web_origins else ()
        instance(limits, Limits, "limits")
        instance(subscriptions, SubscriptionLimits, "subscriptions")
        integer(writers, "writers", least=1, most=10_000)
        chosen = chosen_front(front)
        has_credentials = token is not None or tls_client_root_certs is not None
        if not insecure:
            check_exposed(
                host,
                is_guarded=has_credentials or allow_anonymous,
                is_encrypted=tls_certificate is not None or allow_plaintext,
            )
        check_console(
            console,
            host,
            is_guarded=has_credentials,
            has_port=deephaven_port is not None or deephaven_web_port is not None,
            has_web=deephaven_web_port is not None,
        )
        identity, client_roots = tls_identity(tls_certificate, tls_key), None
        if tls_client_root_certs is not None:
            client_roots = checked_client_roots(tls_client_root_certs, is_encrypted=identity is not None)
        check_tls(identity, client_roots)
        authentication = authentication_of(token, roles, default_roles, shows_certificates=client_roots is not None)
        released = names(release_publishers, "release_publishers", single=True) if release_publishers else ()
        folder = None if data_dir is None else as_path(data_dir, "data_dir")
        policy = Fsync(choice(fsync, Fsync, "fsync") or Fsync.INTERVAL)
        if folder is None and policy is Fsync.ALWAYS:
            raise InvalidRequestError(
                "With fsync='always' a server needs a data directory, data_dir= (--data-dir on the command line): "
                "without one the tables are in memory only."
            )
        self._started = time.monotonic()
        self._closed = threading.Event()
        self._close_lock = threading.Lock()
        self._pid = os.getpid()
        self._ends_with_process = False
        self._readiness = Readiness()
        self._http_host = http_host
        # opened first and closed last: it tells why the other ports are not open
        self._http = None if http_port is None else self._open_http(http_port)
        with ExitStack() as undo:
            if self._http is not None:
                undo.callback(self._http.close)
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
                    release_publishers=released,
                )
            if self._server_state.durability is not None:
                undo.callback(self._server_state.durability.close)
            self._follows = Follows(self._server_state.catalog)
            tidy = Housekeeping(self._server_state).tidy
            self._endpoints = Endpoints(self._server_state, host, port, identity, client_roots, tidy, chosen)
            undo.pop_all()
        end_with_process(self, Ending.SERVER)
        try:
            self._endpoints.open_deephaven(deephaven_port, deephaven_web_port, origins)
            self._endpoints.open_pages(web_port, page_names)
        except BaseException:
            self.close(0.1)
            raise
        self._readiness.serve()
        uris = [(uri, host) for uri in (self.uri, self.deephaven_uri, self.deephaven_web_uri, self.web_uri)]
        uris.append((self.http_uri, http_host))
        logger.info("serving on %s", ", ".join(listening_uri(uri, at) for uri, at in uris if uri is not None))
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
        """The URI for Deephaven's clients, such as ``dh+plain://127.0.0.1:40001``.

        ``None`` without a port for them.
        """
        return self._endpoints.deephaven_uri

    @property
    def deephaven_web_uri(self) -> str | None:
        """The URI for Deephaven's JavaScript client, such as ``http://127.0.0.1:40002``.

        ``None`` without a port for it.
        """
        return self._endpoints.deephaven_web_uri

    @property
    def web_uri(self) -> str | None:
        """The URI of the page for browsers, such as ``http://127.0.0.1:40004``.

        ``None`` without a port for it.
        """
        return self._endpoints.web_uri

    @property
    def accepts_everyone(self) -> bool:
        """Whether every caller is accepted, with any credentials."""
        return self._server_state.authentication.is_open

    @property
    def http_uri(self) -> str | None:
        """The URI for probes and Prometheus, such as ``http://127.0.0.1:40003``.

        ``None`` without a port for them.
        """
        return None if self._http is None else f"http://{authority(self._http_host, self._http.port)}"

    def not_ready(self, reason: str) -> AbstractContextManager[None]:
        """Answer "not ready" at ``/ready`` while the ``with`` body runs.

        The server serves meanwhile. ``reason`` is part of the answer.

        >>> with server.not_ready("loading"):
        ...     quotes.append(pq.read_table("quotes.parquet"))
        """
        return self._readiness.holding(text(reason, "reason"))

    def statistics(self) -> ServerStatistics:
        """The current statistics."""
        # callers of the HTTP port may ask before the other ports are open
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
        tls_certificate: Pem | None = None,
        tls_key: Pem | None = None,
    ) -> None:
        """Replace credentials, roles and certificates while clients are connected.

        Streams and sessions end within two seconds when their credentials are no longer accepted, or their roles no
        longer allow them. New connections get the new certificate, except at a Flight port that pyarrow serves: it
        keeps its certificate until the server is started anew.

        Args:
            token: the new credentials, as for the constructor; ``None`` keeps them, and reads their files again.
            roles: the new roles; ``None`` or an empty mapping keeps them.
            default_roles: with ``token``, the new roles of callers whose credentials name none.
            tls_certificate: the new certificate chain, with ``tls_key``; ``None`` keeps both.
            tls_key: its private key.

        Raises:
            InvalidRequestError: an argument or a file of credentials is wrong, credentials name an undefined role, or a
                server without credentials or TLS would require them from now on. Nothing has changed then.

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
        identity = tls_identity(tls_certificate, tls_key)
        if identity is not None:
            self._endpoints.replace_tls(identity)
        if roles:
            access.replace(roles)
        put_into_force()
        logger.info("credentials, roles and certificates replaced")

    # Life and end.

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the server is closed.

        Args:
            timeout: most seconds to wait; ``None``: no limit.

        Returns:
            Whether the server is closed.

        """
        return self._closed.wait(None if timeout is None else seconds(timeout, "timeout"))

    def serve_forever(self) -> None:
        """Serve until another thread calls :meth:`close`, or until Ctrl-C; then close."""
        try:
            # in steps, because some systems cannot interrupt a wait without a time-out
            while not self.wait(1.0):
                pass
        except KeyboardInterrupt:
            logger.info("interrupted")
        finally:
            self.close()

    def close(self, grace: float = 2.0) -> None:
        """Stop following, then stop serving.

        Subscribers get an error; connections that do not end within ``grace`` seconds are cut. Afterwards the content
        of tables can still be read; to write, make or drop a table raises
        :class:`~barrage_server.errors.UnavailableError`.

        Returns in bounded time, independently of clients and upstreams, and starts no thread. May be called again. In a
        forked child it does nothing: the server belongs to the parent.
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
            if not self._ends_with_process:  # otherwise a daemon thread that feeds tables would print a traceback
                self.graph.close("its server is closed")
            durability = server_state.durability
            if durability is not None:
                durability.let_publishers_go()
            self._endpoints.close(grace)
            server_state.pages.close()
            server_state.dispatcher.close()
            server_state.checks.shutdown()
            server_state.leases.close()
            if durability is not None:
                durability.close()
            if self._http is not None:
                self._http.close()
            self._closed.set()  # last, because a program that waits for it may end then
            gone = [table for table in self.tables() if durability is None or not durability.keeps(table)]
            rows = sum(table.size for table in gone)
            lost = f"{count(rows, 'rows')} of {count(len(gone), 'tables')}"
            told = f"; in memory only, and gone now: {lost}" if rows else ""
            logger.info("closed %s%s", self.uri, told)

    shutdown = close

    def end_with_process(self, timeout: float) -> None:
        """Stop serving at the end of the interpreter."""
        self._ends_with_process = True
        self.close(min(1.0, timeout))
        self.graph.halt(min(1.0, timeout))

    def __enter__(self) -> Self:
        """Return the server itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed.is_set() else f"tables={len(self.tables())}"
        return f"<Server {self.uri} {state}>"

    def _open_http(self, port: int) -> HttpEndpoint:
        # imports prometheus-client and h11, which other servers do not need
        from barrage_server.server.http_endpoint import HttpEndpoint
        from barrage_server.server.metrics import Metrics

        return HttpEndpoint(self._http_host, port, self._readiness, Metrics(self._metric_families).render)

    def _metric_families(self) -> Iterator[Metric]:
        """All metrics except the process's own; only the readiness while it starts."""
        from barrage_server.server import metrics

        yield from metrics.readiness_families(self._readiness)
        if self._readiness.is_starting:
            return
        connections = self._endpoints.connections()
        if self._http is not None:
            connections["http"] = self._http.connections
        yield from metrics.server_families(self._server_state, connections)

    def _repr_html_(self) -> str:
        """The URI and the tables, for notebooks."""
        state = ", closed" if self._closed.is_set() else ""
        return tables_html(f"Server {self.uri}{state}", self.tables())
