"""A client of a server: lists tables, reads them, follows them, publishes them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.arguments import callback, integer, seconds, shown
from barrage_server.client.connection import DEFAULT_TIMEOUT
from barrage_server.client.content import Content
from barrage_server.client.counterpart import Counterpart
from barrage_server.client.failures import translated
from barrage_server.client.follower import Follower
from barrage_server.client.info import TableInfo, TableList
from barrage_server.client.live import LiveTable
from barrage_server.client.lookup import look_up, table_info
from barrage_server.client.names import checked_name
from barrage_server.client.patience import patiently
from barrage_server.client.publishing import Publishing
from barrage_server.client.snapshot import take_snapshot
from barrage_server.client.update import Update
from barrage_server.client.upload import act
from barrage_server.client.view import View, column_names
from barrage_server.client.window import Viewport, positions_of
from barrage_server.engine import ReplicaTable, UpdateGraph
from barrage_server.errors import InvalidRequestError, UnavailableError, UnsupportedOperationError
from barrage_server.flight.errors import other_protocol
from barrage_server.flight.retry import RetryPolicy
from barrage_server.pem import Pem
from barrage_server.public import public
from barrage_server.subscription import Dialect
from barrage_server.wire.metadata import SubscriptionOptions
from barrage_server.wire.protocol import STATISTICS_ACTION, TABLES_ACTION

__all__ = ["Client", "connect"]


def connect(
    uri: str,
    *,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    retry: RetryPolicy | None = None,
    headers: Mapping[str, str] | None = None,
    tls_root_certs: Pem | None = None,
    wait: float = 0.0,
    graph: UpdateGraph | None = None,
) -> Client:
    """Connect to a server, this project's or Deephaven's, and make sure that it answers.

    Args:
        uri: ``grpc://host:port``, ``grpc+tls://host:port`` or ``host:port``, 8815 being the port when none is named;
            as Deephaven writes it ``dh+plain://host:port``, or ``dh://host:port`` for TLS.
        token: the server's secret: the bearer token of a server of this project, the pre-shared key of Deephaven's.
        user: user name, where the server knows users, with ``password``. Without token and user the log-in is
            anonymous.
        password: the user's password.
        timeout: seconds that a short call may take, and that a longer one may stand still.
        retry: how subscriptions come back after their connection is lost.
        headers: further headers of every call. ``authorization`` among them is a way to log in that is not known here,
            such as ``"some.company.Handler secret"``.
        tls_root_certs: PEM certificates to trust instead of the system's: their text, or a file's path.
        wait: keep trying for so many seconds when nobody answers yet.
        graph: the update graph that replicas are to live in; one of the client's own when None.

    Raises:
        UnavailableError: nothing answers there.
        InvalidRequestError: the address is none, or what answers there is no server of this kind: a web server, say.
        AuthenticationError: the credentials are missing or wrong.
    """
    patience = seconds(wait, "wait")
    client = Client(
        uri,
        token=token,
        user=user,
        password=password,
        timeout=timeout,
        retry=retry,
        headers=headers,
        tls_root_certs=tls_root_certs,
        graph=graph,
    )
    deadline = time.monotonic() + patience
    delays = RetryPolicy(max_delay=1.0, deadline=None).delays()
    try:
        while True:
            try:
                client.ping()
            except UnavailableError as error:
                wrong = other_protocol(error, client.uri)
                if wrong is not None:
                    raise wrong from None
                rest = deadline - time.monotonic()
                if rest <= 0:
                    raise
                threading.Event().wait(min(rest, next(delays)))
            else:
                client.check_address()
                return client
    except BaseException:
        client.close()
        raise


@public
class Client(Publishing):
    """A connection to a server. Made by :func:`connect`, which says what its arguments mean.

    Use it as a context manager, or :meth:`close` it: that ends its subscriptions and publications too. All methods may
    be called from any thread.

    Attributes:
        graph: the update graph of all replicas of this client: tables derived from them belong here.
    """

    def tables(self) -> TableList:
        """The tables that the server has now, by name."""
        counterpart = self._channel.counterpart

        def ask() -> list[flight.FlightInfo]:
            flights, options = self._channel.client(), self._channel.short()
            with translated(self.uri):
                if counterpart is not Counterpart.BARRAGE:
                    return list(flights.list_flights(options=options))
                # When a server cancels list_flights, pyarrow interrupts the main thread, whatever thread calls.
                results = list(flights.do_action(flight.Action(TABLES_ACTION, b""), options))
                return [flight.FlightInfo.deserialize(result.body.to_pybytes()) for result in results]

        found = (table_info(info) for info in self._channel.logged_in(ask))
        return TableList(sorted((info for info in found if info is not None), key=lambda info: info.name))

    def table(self, name: str) -> TableInfo:
        """One table of the server.

        Raises:
            UnknownTableError: there is none of that name.
        """
        return look_up(self._channel, name)

    def snapshot(
        self, name: str, columns: Sequence[str] | None = None, viewport: Viewport = None, *, reverse: bool = False
    ) -> pa.Table:
        """The present content of a table, or of a part of it, as of one version.

        Args:
            name: the table.
            columns: columns wanted; None for all. They come in the table's order.
            viewport: row positions wanted, such as ``range(0, 100)``; None for all.
            reverse: count positions from the end of the table.

        Raises:
            UnknownTableError, UnknownColumnError: there is no such table or column.
            DeadlineError: the server sent nothing for as long as the client's timeout.
        """
        checked_name(name)
        view = View(positions_of(viewport), bool(reverse), column_names(columns))
        return self._channel.logged_in(
            lambda: patiently(
                lambda progress: take_snapshot(self._channel, name, view, progress),
                timeout=self._timeout,
                what=f"snapshot of '{name}'",
            )
        )

    def statistics(self) -> dict[str, Any]:
        """The server's figures: tables, subscriptions, memory.

        Raises:
            UnsupportedOperationError: the server is Deephaven's.
        """
        self._channel.need("these figures")
        found = json.loads(act(self._channel, STATISTICS_ACTION, b"{}"))
        return found if isinstance(found, dict) else {}

    def subscribe(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        viewport: Viewport = None,
        *,
        reverse: bool = False,
        interval_ms: int = 50,
        dialect: Dialect | str | None = None,
        timeout: float | None = None,
        onto: ReplicaTable | None = None,
        on_update: Callable[[Update], object] | None = None,
    ) -> LiveTable:
        """Follow a table, or a window of it. Returns when the first content is complete.

        Args:
            name: the table.
            columns: columns wanted; None for all.
            viewport: row positions wanted, such as ``range(0, 100)``; None for the whole table. It stays put while rows
                move through it.
            reverse: count positions from the end of the table: ``range(0, 10)`` follows the last ten rows.
            interval_ms: milliseconds between two updates at least; 0 leaves it to the server.
            dialect: how the server writes messages of a viewport; the content is the same. None is what the server
                does best; a Deephaven server knows only the flattened way.
            timeout: seconds that the first content may stand still; the client's timeout when None.
            onto: the ``table`` of a live table that has ended, of the same columns. Instead of making a replica of its
                own, this subscription goes on with that one: what differs goes into it in one update. Its attributes
                and keys stay as they are. With other columns it is left alone, and :attr:`LiveTable.table` is another.
            on_update: what :meth:`LiveTable.on_update` takes, from the very first update on. They are not kept for
                :meth:`LiveTable.updates` then.

        Raises:
            UnknownTableError, UnknownColumnError: there is no such table or column.
            UnavailableError: the server is gone.
            DeadlineError: the first content did not come.
        """
        checked_name(name)
        integer(interval_ms, "interval_ms", most=(1 << 31) - 1)
        if timeout is not None:
            seconds(timeout, "timeout")
        if on_update is not None:
            callback(on_update, "on_update")
        if onto is not None and not isinstance(onto, ReplicaTable):
            raise InvalidRequestError(f"onto is the table of a live table that has ended, not {shown(onto)}.")
        spoken = self._dialect(dialect)
        view = View(positions_of(viewport), bool(reverse), column_names(columns))
        follower = Follower(
            self._channel,
            name,
            view,
            Content(self.graph if onto is None else onto.graph, name, onto),
            options=SubscriptionOptions(min_update_interval_ms=interval_ms, columns_as_list=True),
            dialect=spoken,
            retry=self._retry,
            on_update=on_update,
        )
        live = LiveTable(follower, self._timeout)
        self._own(live)
        follower.start()
        try:
            live.wait_for_content(self._timeout if timeout is None else timeout)
        except BaseException:
            live.close()
            raise
        return live

    def _dialect(self, dialect: Dialect | str | None) -> Dialect | None:
        try:
            wanted = None if dialect is None else Dialect(dialect)
        except ValueError:
            raise InvalidRequestError(f"dialect is 'key-space' or 'flattened', not {dialect!r}.") from None
        if wanted is Dialect.KEY_SPACE and self._channel.counterpart is Counterpart.DEEPHAVEN:
            raise UnsupportedOperationError("A Deephaven server writes viewports flattened; leave dialect out.")
        return wanted
