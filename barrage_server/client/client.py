"""A client of a server: lists, reads, follows and publishes tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self, overload

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.arguments import (
    Duration,
    Moment,
    choice,
    duration_nanoseconds,
    flag,
    integer,
    moment_nanoseconds,
    optional_names,
    shown,
    text,
    unbroken,
)
from barrage_server.client.access import Access
from barrage_server.client.failures import translated
from barrage_server.client.info import TableList
from barrage_server.client.live import LiveTable
from barrage_server.client.lookup import look_up, table_info
from barrage_server.client.names import NamedAddress, checked_name
from barrage_server.client.publication import Publication
from barrage_server.client.reading import follow, read_once
from barrage_server.client.remote_table import RemoteTable, planned, remote_table
from barrage_server.client.server_kind import ServerKind
from barrage_server.client.session import Session
from barrage_server.client.update import Update
from barrage_server.client.upload import PublishResult, Uploadable, Uploader, act
from barrage_server.client.window import Viewport
from barrage_server.engine import ReplicaTable, Table, UpdateGraph
from barrage_server.engine.schemas import SchemaLike, as_schema
from barrage_server.errors import InvalidRequestError
from barrage_server.flight.retry import RetryPolicy
from barrage_server.function_signature import FunctionSignature
from barrage_server.pem import Pem
from barrage_server.plan.operation import EmptyTable, TimeTable
from barrage_server.public import public
from barrage_server.subscription import Dialect
from barrage_server.wire.commit_messages import CommitRequest
from barrage_server.wire.json_message import parse_object
from barrage_server.wire.plan_messages import FUNCTIONS_ACTION, FunctionsResult
from barrage_server.wire.protocol import (
    CREATE_ACTION,
    DROP_ACTION,
    STATISTICS_ACTION,
    TABLES_ACTION,
    CreateRequest,
    DropRequest,
    PublishMode,
    TableKind,
)
from barrage_server.wire.table_spec import TableSpec
from barrage_server.wire.target import check_target

__all__ = ["DEFAULT_TIMEOUT", "Client"]

DEFAULT_TIMEOUT: Final = 30.0
_MOST_NANOSECONDS: Final = (1 << 62) - 1
_PUBLISHING: Final = "staging and committing rows"


@public
class Client:
    """A connection to a server, made by :func:`connect` with the same arguments.

    Use it as a context manager, or :meth:`close` it; both also end its subscriptions and publications. All methods may
    be called from any thread.

    Attributes:
        graph: the update graph of all replicas of this client, and of tables derived from them.
    """

    def __init__(
        self,
        uri: str,
        *,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retry: RetryPolicy | None = None,
        headers: Mapping[str, str] | None = None,
        tls_root_certs: Pem | None = None,
        tls_certificate: Pem | None = None,
        tls_key: Pem | None = None,
        graph: UpdateGraph | None = None,
    ) -> None:
        access = Access(token, user, password, headers, tls_root_certs, tls_certificate, tls_key)
        self._session = Session(uri, access, timeout=timeout, retry=retry, graph=graph)
        self._channel = self._session.channel
        self._uploader = Uploader(self._channel, timeout)
        self.graph = self._session.graph

    @property
    def uri(self) -> str:
        """The server's address."""
        return self._channel.address

    @property
    def is_deephaven(self) -> bool:
        """Whether the server is Deephaven's, to which rows cannot be published."""
        return self._channel.server_kind is ServerKind.DEEPHAVEN

    def ping(self) -> float:
        """Measure the seconds that the server takes to answer.

        Raises:
            UnavailableError: the server does not answer, or this client is closed.
            AuthenticationError: the server refuses the credentials.
        """
        start = time.monotonic()
        self._channel.greet()
        return time.monotonic() - start

    def check_address(self) -> None:
        """Check that a Deephaven server answers at a Deephaven address.

        Raises:
            InvalidRequestError: another Flight server answers there.
        """
        self._channel.check_address()

    # Tables.

    def tables(self) -> TableList:
        """List the tables of the server, sorted by name. Raises what :meth:`ping` does."""
        server_kind = self._channel.server_kind

        def ask() -> list[flight.FlightInfo]:
            flights, options = self._channel.client(), self._channel.short()
            with translated(self.uri):
                if server_kind is not ServerKind.BARRAGE:
                    return list(flights.list_flights(options=options))
                # When a server cancels list_flights, pyarrow interrupts the main thread, from any calling thread.
                results = list(flights.do_action(flight.Action(TABLES_ACTION, b""), options))
                return [flight.FlightInfo.deserialize(result.body.to_pybytes()) for result in results]

        found = (table_info(info) for info in self._channel.logged_in(ask))
        return TableList(sorted((info for info in found if info is not None), key=lambda info: info.name))

    def table(self, name: str) -> RemoteTable:
        """Look up one table of the server.

        Its methods describe tables that the server computes from it:

        >>> large = client.table("trades").where("size > 1000").sort_descending("price")

        Raises what :meth:`ping` does, and:
            UnknownTableError: there is no table of that name.
        """
        return remote_table(self._session, look_up(self._channel, name))

    def empty_table(self, size: int) -> RemoteTable:
        """Plan a table of ``size`` rows without columns, to which formulas add columns.

        >>> client.empty_table(10).update(["x = i", "y = x * x"]).to_arrow()
        """
        return planned(self._session, EmptyTable(integer(size, "size")))

    def time_table(self, period: Duration, start_time: Moment | None = None, blink_table: bool = False) -> RemoteTable:
        """Plan a table that gets a row each period, by the clock of the server.

        >>> client.time_table("PT1S").update("x = ii % 10").subscribe()

        Args:
            period: nanoseconds, a text such as ``"PT0.1S"``, or a duration of Python, pandas or numpy.
            start_time: the time of the first row: nanoseconds since 1970 UTC, a text such as
                ``"2024-06-15T10:00:00Z"``, a datetime with a zone, or one of numpy. None for the time at which the
                server makes the table.
            blink_table: whether rows live for one cycle.
        """
        every, start = duration_nanoseconds(period), moment_nanoseconds(start_time, "start_time")
        for value, what in ((every, "period"), (0 if start is None else start, "start_time")):
            if isinstance(value, bool) or not isinstance(value, int | str):
                raise InvalidRequestError(
                    f"{what} must be a number of nanoseconds, a text, or a value of Python, pandas or numpy, not "
                    f"{shown(value)}."
                )
            if isinstance(value, str):
                unbroken(value, what)
            else:
                integer(value, what, least=-_MOST_NANOSECONDS, most=_MOST_NANOSECONDS, unit="ns")
        flag(blink_table, "blink_table")
        return planned(self._session, TimeTable(every, start, blink_table))

    def snapshot(
        self, name: str, columns: Sequence[str] | None = None, viewport: Viewport = None, *, reverse: bool = False
    ) -> pa.Table:
        """Read the present content of a table, or of a part of it, as of one version.

        Args:
            name: the table.
            columns: names of the columns; None for all. They come in the table's order.
            viewport: row positions wanted, such as ``range(0, 100)``; None for all.
            reverse: count positions from the end of the table.

        Raises:
            UnknownTableError, UnknownColumnError: there is no such table or column.
            UnavailableError: the server is unreachable.
            DeadlineError: the server sent nothing for as long as the client's timeout.
        """
        return read_once(self._session, NamedAddress(name), columns, viewport, reverse=reverse)

    def statistics(self) -> dict[str, Any]:
        """Read the server's statistics: tables, subscriptions, memory.

        Sizes are in bytes, times in seconds.

        Raises what :meth:`ping` does, and:
            UnsupportedOperationError: the server is Deephaven's.
            WireFormatError: the answer has none.
        """
        self._channel.need("these figures")
        return parse_object(act(self._channel, STATISTICS_ACTION, b"{}"), "statistics")

    def functions(self) -> tuple[FunctionSignature, ...]:
        """List the registered functions that formulas of plans may call.

        These are the functions of ``server.functions.register``, in the order of their first registration; the
        built-in ones are in ``docs/queries.md``.

        >>> [function.name for function in client.functions()]

        Raises what :meth:`ping` does, and:
            UnsupportedOperationError: the server is Deephaven's.
        """
        self._channel.need("a list of functions")
        return FunctionsResult.from_json(act(self._channel, FUNCTIONS_ACTION, b"{}")).functions

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
        """Follow a table, or a window of it; returns when the first content is complete.

        Args:
            name: the table.
            columns: names of the columns; None for all.
            viewport: row positions, such as ``range(0, 100)``; None for the whole table. The positions stay while rows
                move through them.
            reverse: count positions from the end of the table: ``range(0, 10)`` follows the last ten rows.
            interval_ms: least time between two updates, in milliseconds; 0 for the server's default.
            dialect: the dialect of viewport messages, which does not change the content. None for the server's default;
                a Deephaven server has the flattened dialect only.
            timeout: most seconds without progress of the first content; the client's timeout when None.
            onto: the ``table`` of an ended live table. If its columns are the same, the subscription continues with
                that replica, and applies the difference to it in one update; its attributes and keys stay. Otherwise
                :attr:`LiveTable.table` is a new replica.
            on_update: a callback as for :meth:`LiveTable.on_update`, called from the first update on. Updates are then
                not kept for :meth:`LiveTable.updates`.

        Raises:
            UnknownTableError, UnknownColumnError: there is no such table or column.
            UnavailableError: the server is unreachable.
            DeadlineError: the first content did not come in time.
            InvalidRequestError: an argument is out of its range.
            UnsupportedOperationError: the Deephaven server lacks the dialect.
        """
        return follow(
            self._session,
            NamedAddress(name),
            columns,
            viewport,
            reverse=reverse,
            interval_ms=interval_ms,
            dialect=dialect,
            timeout=timeout,
            onto=onto,
            on_update=on_update,
        )

    # Publishing.

    @overload
    def publish(
        self,
        name: str,
        data: Uploadable,
        *,
        key: Sequence[str] | str | None = None,
        mode: PublishMode | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
    ) -> int: ...

    @overload
    def publish(
        self,
        name: str,
        data: Uploadable,
        *,
        key: Sequence[str] | str | None = None,
        mode: PublishMode | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
        publisher: str,
        batch: int,
        epoch: str | None = None,
        takeover: bool = False,
        allow_gap: bool = False,
    ) -> PublishResult: ...

    def publish(
        self,
        name: str,
        data: Uploadable,
        *,
        key: Sequence[str] | str | None = None,
        mode: PublishMode | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
        publisher: str | None = None,
        batch: int | None = None,
        epoch: str | None = None,
        takeover: bool = False,
        allow_gap: bool = False,
    ) -> int | PublishResult:
        """Publish rows; all become visible in one cycle, or none.

        A table that does not exist is created: keyed with ``key``, a ring with ``capacity``, else an append table.

        With ``publisher`` and ``batch`` the rows apply exactly once, even when another process repeats the call: the
        server remembers the publisher's last batch for the table, and takes a batch up to that number for a repetition.
        Batches are numbered from 0 without gaps; :meth:`last_batch` says where to continue.

        Args:
            name: the table on the server.
            data: a pyarrow table, batch or reader, a mapping of columns, or a data frame. Python values in a mapping
                take the types of the table's columns.
            key: key columns. They must match those of an existing table.
            mode: ``append``, ``upsert``, ``replace`` or ``delete``; by default append, or upsert where there are keys.
            kind: kind of a new table.
            capacity: number of rows of a new ring.
            publisher: the name under which the server remembers the batch. The name belongs to its first user.
            batch: the number of the batch.
            epoch: the run of the publisher that ``batch`` counts in. The server refuses another epoch, unless
                ``takeover`` is set.
            takeover: begin a new epoch, which counts from 0 again; the server then refuses earlier epochs.
            allow_gap: commit although earlier batches are missing.

        Returns:
            The number of rows published; with ``publisher`` whether the batch was applied or a repetition.

        Raises:
            FencedError: another epoch, or another user, has the publisher's name.
            LostBatchesError: earlier batches are missing on the server.
            SchemaMismatchError, KeyMismatchError, UnsupportedTypeError: the rows do not fit; nothing is changed.
            InvalidRequestError: ``data`` is a ticking table: use :meth:`publish_live`.
            UnsupportedOperationError: it is a Deephaven server.
            UnavailableError: the server is unreachable.
        """
        if isinstance(data, LiveTable | Table):
            raise InvalidRequestError("Publish a ticking table with publish_live(name, table).")
        target = self._target(name, key=key, mode=mode, kind=kind, capacity=capacity)
        if publisher is None:
            if batch is not None or epoch is not None or takeover or allow_gap:
                raise InvalidRequestError(
                    "The arguments batch, epoch, takeover and allow_gap need a publisher's name: publisher=."
                )
            return self._uploader.publish(target, data)
        if batch is None:
            raise InvalidRequestError(
                "A publisher's name needs the batch's number: batch=. last_batch() has the last one."
            )
        target = replace(
            target,
            publisher=text(publisher, "publisher"),
            batch=integer(batch, "batch"),
            epoch=None if epoch is None else text(epoch, "epoch"),
            takeover=bool(takeover),
            allow_gap=bool(allow_gap),
        )
        return self._uploader.publish_batch(target, data)

    def last_batch(self, name: str, publisher: str, *, epoch: str | None = None) -> int | None:
        """Return the last batch that ``publisher`` committed to a table; None for none.

        A publisher continues with the next one.

        Args:
            name: the table.
            publisher: the publisher's name.
            epoch: only batches of this epoch; None for any epoch.

        Raises:
            FencedError: another epoch than ``epoch``, or another user, has the publisher's name.
        """
        self._channel.need(_PUBLISHING)
        chosen = None if epoch is None else text(epoch, "epoch")
        return self._uploader.last_batch(text(publisher, "publisher"), checked_name(name), chosen)

    def publish_live(self, name: str, table: Table | LiveTable, *, interval_ms: int = 10) -> Publication:
        """Keep a table on the server equal to a local ticking table.

        The publication runs until it is closed.

        Args:
            name: the table on the server.
            table: an engine table, or a live table of any server.
            interval_ms: least time between two updates, in milliseconds.

        Raises:
            InvalidRequestError: ``table`` does not tick: use :meth:`publish`.
            UnsupportedOperationError: it is a Deephaven server.
            UnavailableError: the server is unreachable.
        """
        self._channel.need(_PUBLISHING)
        source = table.table if isinstance(table, LiveTable) else table
        if not isinstance(source, Table):
            raise InvalidRequestError(
                f"publish_live takes a live table or a table of the engine, not {shown(table)}; rows are published "
                "with publish(name, rows)."
            )
        integer(interval_ms, "interval_ms")
        publication = Publication(self._channel, name, source, interval_ms=interval_ms, timeout=self._session.timeout)
        self._session.own(publication)
        return publication

    def append(self, name: str, rows: Uploadable) -> int:
        """Add rows to a table; into a keyed table they are upserted.

        Returns the number of rows sent. Raises what :meth:`publish` does.
        """
        return self.publish(name, rows, mode=PublishMode.APPEND)

    def upsert(self, name: str, rows: Uploadable) -> int:
        """Insert rows into a keyed table, or overwrite rows with the same key.

        Of rows with one key the last is kept. Returns the number of rows sent. Raises what :meth:`publish` does.
        """
        return self.publish(name, rows, mode=PublishMode.UPSERT)

    def delete(self, name: str, keys: Uploadable) -> int:
        """Delete rows of a keyed table by their keys; unknown keys are ignored.

        ``keys`` has the key columns. Returns the number of keys sent. Raises what :meth:`publish` does.
        """
        return self.publish(name, keys, mode=PublishMode.DELETE)

    def replace(self, name: str, rows: Uploadable) -> int:
        """Make ``rows`` the whole content of a table; subscribers get the difference.

        Returns the number of rows sent. Raises what :meth:`publish` does.
        """
        return self.publish(name, rows, mode=PublishMode.REPLACE)

    def create_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        key: Sequence[str] | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
        durable: bool | None = None,
    ) -> None:
        """Make an empty table, unless one of the same kind, schema and keys exists.

        Args:
            name: the table on the server.
            schema: its columns: a pyarrow schema, or a mapping of names to types such as
                ``{"sym": "string", "price": "float64"}``.
            key: key columns, which make it a keyed table.
            kind: its kind; by default keyed with a key, a ring with a capacity, else append.
            capacity: rows that a ring keeps.
            durable: whether the server's data directory keeps it; by default if the server has one and the kind allows.

        Raises:
            AlreadyExistsError: there is another table of that name.
            InvalidRequestError: kind, key and capacity contradict each other.
            KeyMismatchError: the schema lacks a key column.
            UnsupportedTypeError: a column has a type that tables cannot hold.
            UnsupportedOperationError: it is a Deephaven server.
            UnavailableError: the server is unreachable.
        """
        self._channel.need("making tables")
        spec = TableSpec.requested(kind, key, capacity, durable)
        request = CreateRequest(checked_name(name), as_schema(schema), spec.kind, spec.key, spec.capacity, durable)
        act(self._channel, CREATE_ACTION, request.to_json())

    def drop(self, name: str) -> None:
        """Remove a table from the server; subscriptions to it end with an error.

        Raises:
            UnknownTableError: there is no table of that name.
            UnsupportedOperationError: it is a Deephaven server.
            UnavailableError: the server is unreachable.
        """
        self._channel.need("dropping tables")
        act(self._channel, DROP_ACTION, DropRequest(checked_name(name)).to_json())

    # The connection.

    def close(self) -> None:
        """End all subscriptions and publications, and the connection.

        May be called repeatedly.
        """
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client {self.uri}>"

    def _repr_html_(self) -> str:
        """The open streams of this connection, for notebooks."""
        return self._session.html()

    def _target(
        self,
        name: str,
        *,
        key: Sequence[str] | str | None = None,
        mode: PublishMode | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
    ) -> CommitRequest:
        self._channel.need(_PUBLISHING)
        keys = optional_names(key, "key", single=True) if key is not None and key != () else None
        wanted, named = choice(mode, PublishMode, "mode"), choice(kind, TableKind, "kind")
        rows = None if capacity is None else integer(capacity, "capacity", least=1)
        check_target(named, keys, rows, wanted, is_new=False)
        chosen = wanted or (PublishMode.UPSERT if keys else PublishMode.APPEND)
        return CommitRequest("", checked_name(name), 0, mode=chosen, key=keys, kind=named, capacity=rows)
