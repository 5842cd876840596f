"""A client of a server: lists tables, reads them, follows them, publishes them."""

from __future__ import annotations

import json
import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, overload

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.client.annotations import user_schema
from barrage_server.client.channel import Channel
from barrage_server.client.content import Content
from barrage_server.client.failures import translated
from barrage_server.client.follower import Follower, View
from barrage_server.client.info import TableInfo
from barrage_server.client.live import LiveTable, column_names
from barrage_server.client.patience import patiently
from barrage_server.client.publication import Publication
from barrage_server.client.retry import RetryPolicy
from barrage_server.client.snapshot import whole_table, windowed
from barrage_server.client.update import Update
from barrage_server.client.upload import Uploadable, Uploader, act
from barrage_server.client.window import Viewport, positions_of
from barrage_server.engine import ReplicaTable, Table, UpdateGraph
from barrage_server.errors import BarrageError, InvalidRequestError, UnavailableError
from barrage_server.subscription import Dialect, Window
from barrage_server.wire.metadata import SubscriptionOptions
from barrage_server.wire.protocol import (
    CREATE_ACTION,
    DROP_ACTION,
    STATISTICS_ACTION,
    CommitRequest,
    CreateRequest,
    DropRequest,
    PublishMode,
    TableKind,
)
from barrage_server.wire.schema import key_columns, table_attributes
from barrage_server.wire.tickets import name_of_path, path_of_name

__all__ = ["Client", "connect"]

logger = logging.getLogger("barrage_server.client")

DEFAULT_TIMEOUT: Final = 30.0


def connect(
    uri: str,
    *,
    token: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    retry: RetryPolicy | None = None,
    headers: Mapping[str, str] | None = None,
    tls_root_certs: bytes | None = None,
    wait: float = 0.0,
    graph: UpdateGraph | None = None,
) -> Client:
    """Connect to a server, and make sure that it answers.

    Args:
        uri: ``grpc://host:port``, ``grpc+tls://host:port`` or ``host:port``.
        token: bearer token, when the server asks for one.
        timeout: seconds that a short call may take, and that a longer one may stand still.
        retry: how subscriptions come back after their connection is lost.
        headers: further headers of every call.
        tls_root_certs: PEM certificates to trust instead of the system's.
        wait: keep trying for so many seconds when nobody answers yet.
        graph: the update graph that replicas are to live in; one of the client's own when None.

    Raises:
        UnavailableError: nobody answers there.
        AuthenticationError: the token is missing or wrong.
    """
    client = Client(
        uri, token=token, timeout=timeout, retry=retry, headers=headers, tls_root_certs=tls_root_certs, graph=graph
    )
    deadline = time.monotonic() + wait
    delays = RetryPolicy(max_delay=1.0, deadline=None).delays()
    try:
        while True:
            try:
                client.ping()
            except UnavailableError:
                rest = deadline - time.monotonic()
                if rest <= 0:
                    raise
                threading.Event().wait(min(rest, next(delays)))
            else:
                return client
    except BaseException:
        client.close()
        raise


class Client:
    """A connection to a server. Made by :func:`connect`, which says what its arguments mean.

    Use it as a context manager, or :meth:`close` it: that ends its subscriptions and publications too. All methods may
    be called from any thread.

    Attributes:
        graph: the update graph of all replicas of this client: tables derived from them belong here.
    """

    def __init__(
        self,
        uri: str,
        *,
        token: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retry: RetryPolicy | None = None,
        headers: Mapping[str, str] | None = None,
        tls_root_certs: bytes | None = None,
        graph: UpdateGraph | None = None,
    ) -> None:
        self._channel = Channel(uri, token=token, timeout=timeout, headers=headers, tls_root_certs=tls_root_certs)
        self._timeout = timeout
        self._retry = retry if retry is not None else RetryPolicy()
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[LiveTable | Publication] = weakref.WeakSet()
        self._uploader = Uploader(self._channel, timeout)
        self.graph = graph if graph is not None else UpdateGraph()

    @property
    def uri(self) -> str:
        """The server's address."""
        return self._channel.address

    # Looking.

    def ping(self) -> float:
        """Seconds that the server takes to answer; raises when it does not."""
        start = time.monotonic()
        with translated(self.uri):
            list(self._channel.client().list_actions(self._channel.short()))
        return time.monotonic() - start

    def tables(self) -> list[TableInfo]:
        """The tables that the server has now, by name."""
        with translated(self.uri):
            infos = list(self._channel.client().list_flights(options=self._channel.short()))
        return sorted((_table_info(info) for info in infos), key=lambda info: info.name)

    def table(self, name: str) -> TableInfo:
        """One table of the server.

        Raises:
            UnknownTableError: there is none of that name.
        """
        descriptor = flight.FlightDescriptor.for_path(*path_of_name(name))
        with translated(self.uri):
            return _table_info(self._channel.client().get_flight_info(descriptor, self._channel.short()))

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
        what = f"snapshot of '{name}'"
        if columns is None and viewport is None:
            return patiently(
                lambda progress: whole_table(self._channel, name, progress), timeout=self._timeout, what=what
            )
        view = View(positions_of(viewport), reverse, column_names(columns))
        window = self._window(name, view)
        return patiently(
            lambda progress: windowed(self._channel, name, window, progress), timeout=self._timeout, what=what
        )

    def statistics(self) -> dict[str, Any]:
        """The server's figures: tables, subscriptions, memory."""
        return _json_object(act(self._channel, STATISTICS_ACTION, b"{}"))

    # Following.

    def subscribe(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        viewport: Viewport = None,
        *,
        reverse: bool = False,
        interval_ms: int = 50,
        dialect: Dialect | str = Dialect.KEY_SPACE,
        timeout: float | None = None,
        onto: ReplicaTable | None = None,
        on_update: Callable[[Update], None] | None = None,
    ) -> LiveTable:
        """Follow a table, or a window of it. Returns when the first content is complete.

        Args:
            name: the table.
            columns: columns wanted; None for all.
            viewport: row positions wanted, such as ``range(0, 100)``; None for the whole table. It stays put while rows
                move through it.
            reverse: count positions from the end of the table: ``range(0, 10)`` follows the last ten rows.
            interval_ms: milliseconds between two updates at least; 0 leaves it to the server.
            dialect: how the server writes messages of a viewport; the content is the same.
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
        if interval_ms < 0:
            raise InvalidRequestError(f"interval_ms must not be negative, got {interval_ms}")
        try:
            spoken = Dialect(dialect)
        except ValueError:
            raise InvalidRequestError(f"dialect is 'key-space' or 'flattened', not {dialect!r}") from None
        view = View(positions_of(viewport), reverse, column_names(columns))
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
        with self._lock:
            self._open.add(live)
        follower.start()
        try:
            live.wait_for_content(self._timeout if timeout is None else timeout)
        except BaseException:
            live.close()
            raise
        return live

    # Publishing.

    @overload
    def publish(self, name: str, data: Table | LiveTable, *, interval_ms: int = 10) -> Publication: ...

    @overload
    def publish(
        self,
        name: str,
        data: Uploadable,
        *,
        key: Sequence[str] | None = None,
        mode: PublishMode | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
    ) -> int: ...

    def publish(
        self,
        name: str,
        data: Table | LiveTable | Uploadable,
        *,
        key: Sequence[str] | None = None,
        mode: PublishMode | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
        interval_ms: int = 10,
    ) -> Publication | int:
        """Publish rows, or a table that ticks.

        Rows become visible all at once, in one cycle, or not at all. A table that does not exist is made: a keyed one
        when ``key`` is given, a ring when ``capacity`` is, else an append table.

        Args:
            name: the table on the server.
            data: rows (a pyarrow table, batch or reader, a mapping of columns, a data frame), or a table that ticks:
            one
                of the engine, or a live table, of this or of another server.
            key: key columns. In an existing table they must be its own.
            mode: ``append``, ``upsert``, ``replace`` or ``delete``; by default append, or upsert where there are keys.
            kind: kind of a new table.
            capacity: rows that a new ring keeps.
            interval_ms: for a table that ticks: milliseconds between two updates at least.

        Returns:
            The number of rows published; for a table that ticks the :class:`Publication`, to be closed by the caller.

        Raises:
            SchemaMismatchError, KeyMismatchError, UnsupportedTypeError: the rows do not fit; nothing is changed.
            UnavailableError: the server is gone.
        """
        if isinstance(data, LiveTable | Table):
            if key is not None or mode is not None or kind is not None or capacity is not None:
                raise InvalidRequestError(
                    "a table that ticks is published as it is: leave out key, mode, kind and capacity"
                )
            table = data.table if isinstance(data, LiveTable) else data
            publication = Publication(self._channel, name, table, interval_ms=interval_ms, timeout=self._timeout)
            with self._lock:
                self._open.add(publication)
            return publication
        return self._upload(name, data, key=key, mode=mode, kind=kind, capacity=capacity)

    def append(self, name: str, rows: Uploadable) -> int:
        """Add rows to a table; returns how many."""
        return self._upload(name, rows, mode=PublishMode.APPEND)

    def upsert(self, name: str, rows: Uploadable) -> int:
        """Insert rows into a keyed table, or overwrite those with the same key; the last of a key wins."""
        return self._upload(name, rows, mode=PublishMode.UPSERT)

    def delete(self, name: str, keys: Uploadable) -> int:
        """Delete rows of a keyed table: ``keys`` has its key columns."""
        return self._upload(name, keys, mode=PublishMode.DELETE)

    def replace(self, name: str, rows: Uploadable) -> int:
        """Make ``rows`` the whole content of a table; subscribers get only what differs."""
        return self._upload(name, rows, mode=PublishMode.REPLACE)

    def create_table(
        self,
        name: str,
        schema: pa.Schema,
        *,
        key: Sequence[str] | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
    ) -> None:
        """Make an empty table; fine when there is one of the same kind, schema and keys.

        Raises:
            AlreadyExistsError: there is another one of that name.
        """
        chosen = _kind(kind) or (TableKind.KEYED if key else TableKind.RING if capacity else TableKind.APPEND)
        request = CreateRequest(name, schema, chosen, None if key is None else column_names(key), capacity)
        act(self._channel, CREATE_ACTION, request.to_json())

    def drop(self, name: str) -> None:
        """Take a table off the server. Subscriptions to it end with an error."""
        act(self._channel, DROP_ACTION, DropRequest(name).to_json())

    # Ending.

    def close(self) -> None:
        """End all subscriptions and publications of this client, and the connection. May be called repeatedly."""
        with self._lock:
            still_open = list(self._open)
            self._open.clear()
        for entry in still_open:
            try:
                entry.close()
            except BarrageError as error:
                logger.warning("%r ended with %s", entry, error)
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client {self.uri}>"

    def _window(self, name: str, view: View) -> Window:
        descriptor = flight.FlightDescriptor.for_path(*path_of_name(name))
        with translated(self.uri):
            schema = self._channel.client().get_schema(descriptor, self._channel.short()).schema
        return view.window(schema, name)

    def _upload(
        self,
        name: str,
        data: Uploadable,
        *,
        key: Sequence[str] | None = None,
        mode: PublishMode | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
    ) -> int:
        keys = column_names(key) if key else None
        chosen = _mode(mode) or (PublishMode.UPSERT if keys else PublishMode.APPEND)
        target = CommitRequest("", name, 0, mode=chosen, key=keys, kind=_kind(kind), capacity=capacity)
        return self._uploader.publish(target, data)


def _mode(mode: PublishMode | str | None) -> PublishMode | None:
    try:
        return None if mode is None else PublishMode(mode)
    except ValueError:
        raise InvalidRequestError(f"mode is one of {', '.join(PublishMode)}, not {mode!r}") from None


def _kind(kind: TableKind | str | None) -> TableKind | None:
    try:
        return None if kind is None else TableKind(kind)
    except ValueError:
        raise InvalidRequestError(f"kind is one of {', '.join(TableKind)}, not {kind!r}") from None


def _table_info(info: flight.FlightInfo) -> TableInfo:
    schema = info.schema
    return TableInfo(
        name=name_of_path(info.descriptor.path),
        schema=user_schema(schema),
        size=info.total_records,
        attributes=table_attributes(schema),
        key_columns=key_columns(schema),
    )


def _json_object(body: bytes) -> dict[str, Any]:
    found = json.loads(body)
    return found if isinstance(found, dict) else {}
