"""A server that also serves tables of other servers."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from barrage_server.arguments import integer, optional_names, seconds, text
from barrage_server.client.access import Access
from barrage_server.errors import InvalidRequestError
from barrage_server.pem import Pem
from barrage_server.public import public
from barrage_server.relay.followed_table import FollowedTable
from barrage_server.relay.follows import Follows
from barrage_server.relay.source import Source
from barrage_server.relay.statistics import RelayStatistics
from barrage_server.server import Server as TableServer
from barrage_server.server.server_state import ServerState

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["Server"]


@public
class Server(TableServer):
    """A server of live tables over Arrow Flight: its own, and tables of other servers that it follows.

    Everything except :meth:`follow` is inherited from :class:`barrage_server.server.Server`, which documents the
    arguments.

    >>> with Server() as server:
    ...     quotes = server.keyed_table("quotes", schema, key=["sym"])
    ...     trades = server.follow("grpc://upstream:8815/trades")
    """

    def _prepare(self, server_state: ServerState) -> None:
        self._follows = Follows(server_state.catalog)

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
        integer(interval_ms, "interval_ms", most=(1 << 31) - 1)
        timeout = seconds(timeout, "timeout", positive=True)
        max_delay = seconds(max_delay, "max_delay", positive=True)
        wait = None if wait is None else seconds(wait, "wait")
        if name is not None:
            text(name, "name")
        access = Access(token, user, password, headers, tls_root_certs)
        wanted = optional_names(columns, "columns")
        source = Source.parse(uri, access, columns=wanted, interval_ms=interval_ms, timeout=timeout)
        if source.is_at(self.host, self._endpoints.ports):
            raise InvalidRequestError(f"{uri!r} is a table of this server; it is served already.")
        name = source.address.name if name is None else name
        return self._follows.begin(name, source, max_delay=max_delay, wait=wait)

    @property
    def followed(self) -> tuple[FollowedTable, ...]:
        """The tables that follow other servers, by name."""
        return self._follows.all()

    def drop(self, name: str) -> None:
        """Drop a table; UnknownTableError when there is none. Streams that follow it end with that error too.

        For a followed table, this closes its subscription upstream.
        """
        followed = self._follows.find(text(name, "A table's name"))
        if followed is None:
            super().drop(name)
        else:
            followed.close()

    def statistics(self) -> RelayStatistics:
        """The current statistics."""
        figures = super().statistics()
        fields = {field.name: getattr(figures, field.name) for field in dataclasses.fields(figures)}
        return RelayStatistics(**fields, followed=tuple(entry.statistics() for entry in self.followed))

    def _metric_families(self) -> Iterator[Metric]:
        from barrage_server.relay.metrics import followed_families

        yield from super()._metric_families()
        if not self._readiness.is_starting:
            yield from followed_families([entry.statistics() for entry in self.followed])

    def close(self, grace: float = 2.0) -> None:
        """Stop following, then stop serving.

        Subscribers get an error; connections that do not end within ``grace`` seconds are cut. Returns in bounded time,
        independently of clients and upstreams. May be called again.
        """
        if self._pid != os.getpid():
            return
        grace = seconds(grace, "grace")
        self._follows.close()
        super().close(grace)

    shutdown = close
