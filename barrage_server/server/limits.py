"""The limits of one server, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

from barrage_server.arguments import instance, integer, seconds
from barrage_server.public import public
from barrage_server.publish import LEDGER_SECONDS, StagingLimits

__all__ = ["Limits"]

_POSITIVE: Final = (
    "header_bytes",
    "connections",
    "connections_per_address",
    "calls_per_connection",
    "failed_log_ins",
    "stranger_calls_per_second",
    "requests_per_second",
    "total_requests_per_second",
)
"""Counts that must be at least 1."""


@public
@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that keep one client from harming the others.

    Counts and bytes are the most that is allowed. A request beyond a bound is refused with
    :class:`~barrage_server.errors.LimitError`, unless its description says otherwise. Bounds of one caller distinguish
    callers by their credentials: the holders of one shared token without user names are one caller. A server that
    accepts every caller has no such bounds.

    Attributes:
        subscriptions: streams of ``DoExchange`` at a time.
        uploads: streams of ``DoPut`` at a time.
        downloads: streams of ``DoGet`` at a time.
        streams_per_caller: streams of these three kinds, and pages over Flight, of one caller at a time.
        put_bytes: Arrow bytes of one plain ``DoPut``, which is kept until its client has sent everything.
        columns: columns of a new table, counting the fields within their types; its schema may have ten times as many
            entries of metadata.
        schema_bytes: bytes of the schema of a new table as an Arrow message: names, types and metadata.
        request_bytes: bytes of one request in app_metadata, or of one action's body.
        call_bytes: bytes of the request of any other call with one request, batches of operations included, at the
            ports that gRPC serves.
        tables: tables of the server beyond which clients make no further one. Tables of the embedding program count,
            and are never refused.
        tables_per_caller: existing tables that one caller has made since the server's start.
        columns_per_caller: columns of these tables, counting the fields within their types, and each KiB of a schema as
            one at least.
        total_columns: columns of the existing tables that all callers have made.
        staging: limits of staged batches.
        ledger_seconds: seconds after its last commit for which the last batch of a publisher is remembered; at most an
            hour for single writes.
        ledger_per_caller: publishers and tables of one caller whose last batch is remembered, and as many single
            writes; a commit of a further one is refused.
        ledger_entries: the same for all callers together.
        slow_client_seconds: seconds without taking a message after which a client loses its connection. Until then it
            only falls behind: nothing is queued for it, and no publisher waits for it.
        idle_upload_seconds: seconds without a message after which a plain or staging ``DoPut`` loses its connection.
        goodbye_seconds: seconds in which a client must hang up after it got the reason of the end of its stream. Then
            it loses its connection, and with that its other calls.
        sessions: sessions of Deephaven clients at a time.
        sessions_per_caller: such sessions of one caller.
        exports: tables that one such session may hold and share at a time.
        exports_per_caller: tables that one caller may hold: exports of its sessions, and results of its plans.
        total_exports: tables that all callers may hold.
        handshakes: Flight handshakes without credentials in the header at a time. At the Deephaven ports a 25th of
            that.
        handshake_seconds: seconds that such a handshake may take, and that a connection to the web port may take to
            become a websocket; then it is shut.
        message_bytes: bytes of one request message at the Deephaven ports, before and after decoding.
        half_message_bytes: bytes of unfinished messages at the web port, over all connections.
        header_bytes: bytes of the headers of one call, at the ports that gRPC serves.
        connections: connections to one port at a time; further ones are closed. Fewer where the process may not open as
            many descriptors.
        connections_per_address: connections to one port from one address.
        calls_per_connection: calls of one connection at a time. Over gRPC further ones wait at their client; on a
            websocket they are refused.
        credential_seconds: seconds that a connection of the ports that gRPC or Flight serve may be open without a call
            with valid credentials; then it is shut.
        failed_log_ins: refused credentials of one address a minute; then credentials that were not accepted before are
            refused unseen. At the ports that gRPC serves.
        stranger_calls_per_second: calls without valid credentials of one address a second, and as many at once. The
            connection of a further one ends, unless a call on it has shown valid credentials. At the ports that gRPC
            serves.
        refused_address_seconds: seconds for which such an address may not connect, on Linux. An address of which
            another connection has shown valid credentials may, and loses only the one connection.
        requests_per_second: calls of one caller a second, and as many at once.
        total_requests_per_second: calls of all callers a second, and as many at once.
        idle_stream_seconds: seconds without a request after which a new stream of ``DoExchange`` ends.
        keepalive_seconds: seconds of silence after which a connection is probed; it is closed when there is no answer.
        retain_seconds: seconds for which the server keeps the changes of tables, without values, for subscribers that
            come back: they get the difference instead of a snapshot.
        retain_bytes: approximate bytes of these changes; 0: none are kept.
        batch_operations: operations of one batch, or of one plan.
        results_per_caller: tables that are computed for one caller at a time.
        total_results: tables that are computed for all callers at a time.
        result_bytes: bytes of the storage of one of these tables, without its inputs. A table that would take more is
            refused; a table that grows beyond fails.
        total_result_bytes: bytes of all these tables; one caller may take nine tenths of it. The largest fail.
        result_seconds: processor time of a cycle for all these tables; the table that exceeds it fails. Each may take a
            twentieth of it in any case.
        start_seconds: processor time of computing a table at first.
        console_commands: commands of the console that may wait while one runs.
        console_seconds: seconds that one of them may run; then it is told to stop.
        pages: pages over Flight, as those of notebooks, at a time.
        page_streams: tables that one page in a browser or a notebook may have open at a time.
        page_rows: rows in view of one such table.
        page_columns: columns in view of one such table.
        page_cells: cells in view of all tables of a page.
        session_seconds: seconds without a call after which a Deephaven session ends, with its exports and streams.
            Clients learn this time, and call well before. The results of a plan of an Arrow Flight client are released
            after the same time without a call that names one of their tickets.

    >>> Limits(subscriptions=50, slow_client_seconds=5)

    """

    subscriptions: int = 5_000
    uploads: int = 500
    downloads: int = 5_000
    streams_per_caller: int = 4_000
    put_bytes: int = 4 << 30
    columns: int = 10_000
    schema_bytes: int = 16 << 20
    tables: int = 100_000
    tables_per_caller: int = 10_000
    columns_per_caller: int = 500_000
    total_columns: int = 2_000_000
    request_bytes: int = 16 << 20
    call_bytes: int = 1 << 20
    staging: StagingLimits = field(default_factory=StagingLimits)
    slow_client_seconds: float = 30.0
    idle_upload_seconds: float = 600.0
    goodbye_seconds: float = 5.0
    sessions: int = 2_000
    sessions_per_caller: int = 1_500
    exports: int = 10_000
    exports_per_caller: int = 100_000
    total_exports: int = 500_000
    session_seconds: float = 300.0
    handshakes: int = 100
    handshake_seconds: float = 10.0
    ledger_seconds: float = LEDGER_SECONDS
    ledger_per_caller: int = 50_000
    ledger_entries: int = 100_000
    message_bytes: int = 100 << 20
    half_message_bytes: int = 256 << 20
    header_bytes: int = 32 << 10
    connections: int = 10_000
    connections_per_address: int = 2_000
    calls_per_connection: int = 2_000
    credential_seconds: float = 30.0
    failed_log_ins: int = 60
    stranger_calls_per_second: int = 100
    refused_address_seconds: float = 60.0
    requests_per_second: int = 20_000
    total_requests_per_second: int = 100_000
    idle_stream_seconds: float = 10.0
    keepalive_seconds: float = 30.0
    retain_seconds: float = 300.0
    retain_bytes: int = 64 << 20
    batch_operations: int = 10_000
    results_per_caller: int = 10_000
    total_results: int = 50_000
    result_bytes: int = 4 << 30
    total_result_bytes: int = 16 << 30
    result_seconds: float = 5.0
    start_seconds: float = 120.0
    console_commands: int = 16
    console_seconds: float = 600.0
    pages: int = 2_000
    page_streams: int = 16
    page_rows: int = 10_000
    page_columns: int = 500
    page_cells: int = 100_000

    def __post_init__(self) -> None:
        instance(self.staging, StagingLimits, "The limit staging")
        for one in fields(self):
            value, what = getattr(self, one.name), f"The limit {one.name}"
            if isinstance(one.default, float):
                seconds(value, what, positive=True)
            elif isinstance(one.default, int):
                integer(value, what, least=1 if one.name in _POSITIVE else 0)
