"""What one server allows, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from barrage_server.arguments import instance, integer, seconds
from barrage_server.public import public
from barrage_server.publish import LEDGER_SECONDS, StagingLimits

__all__ = ["Limits"]

_COUNTS: Final = (
    "subscriptions",
    "uploads",
    "downloads",
    "streams_per_caller",
    "sessions_per_caller",
    "put_bytes",
    "columns",
    "tables",
    "tables_per_caller",
    "columns_per_caller",
    "total_columns",
    "request_bytes",
    "call_bytes",
    "sessions",
    "exports",
    "exports_per_caller",
    "total_exports",
    "ledger_per_caller",
    "ledger_entries",
    "handshakes",
    "message_bytes",
    "half_message_bytes",
    "retain_bytes",
    "batch_operations",
    "results_per_caller",
    "total_results",
    "result_bytes",
    "total_result_bytes",
    "console_commands",
    "pages",
    "page_streams",
    "page_rows",
    "page_columns",
    "page_cells",
)
_POSITIVE_COUNTS: Final = (
    "header_bytes",
    "connections",
    "connections_per_address",
    "calls_per_connection",
    "failed_log_ins",
    "stranger_calls_per_second",
    "requests_per_second",
    "total_requests_per_second",
)
_TIMES: Final = (
    "slow_client_seconds",
    "idle_upload_seconds",
    "goodbye_seconds",
    "session_seconds",
    "handshake_seconds",
    "ledger_seconds",
    "credential_seconds",
    "refused_address_seconds",
    "idle_stream_seconds",
    "keepalive_seconds",
    "retain_seconds",
    "result_seconds",
    "start_seconds",
    "console_seconds",
)


@public
@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that keep one client from harming the others. Times are seconds.

    Attributes:
        subscriptions: streams of ``DoExchange`` at a time; one more is refused with
            :class:`~barrage_server.errors.LimitError`.
        uploads: streams of ``DoPut`` at a time.
        downloads: streams of ``DoGet`` at a time.
        streams_per_caller: streams of these three kinds, and pages over Flight, at a time of one caller. As for every
            bound per caller, a caller is who its credentials say; the holders of one shared token without user names
            are one caller, and a server that accepts every caller has no such bounds.
        put_bytes: Arrow bytes of one plain ``DoPut``, which is kept until its client has sent everything.
        columns: most columns of a new table, counting the fields within their types; its schema may have ten times as
            many entries of metadata.
        request_bytes: length of one request in app_metadata, or of one action's body.
        call_bytes: length of the request of any other call with one request, batches of operations included, at the
            ports that gRPC serves.
        tables: tables of the server at which clients make no further one; those of the embedding program are counted
            and not refused.
        tables_per_caller: tables that one caller has made since the start and that are still there, at which it makes
            no further one. A server that accepts every caller has no such bound.
        columns_per_caller: columns, counting the fields within their types, of the tables that one caller has made
            since the start and that are still there, beyond which it makes no further table. A server that accepts
            every caller has no such bound.
        total_columns: columns of the tables that all callers have made.
        staging: limits of staged batches.
        ledger_seconds: seconds after its last commit for which the last batch of a publisher is remembered; an hour at
            most for single writes.
        ledger_per_caller: publishers and tables of one caller whose last batch is remembered, and as many single
            writes; a commit of a further one is refused. A server that accepts every caller has no such bound.
        ledger_entries: the same of all callers.
        slow_client_seconds: seconds without taking a message after which a client loses its connection. Until then it
            only falls behind: nothing is queued for it, and no publisher waits for it.
        idle_upload_seconds: seconds without a message after which a plain or staging ``DoPut`` loses its connection.
        goodbye_seconds: seconds that a client has to hang up after it got the reason of the end of its stream. Then
            it loses its connection, and with that its other calls.
        sessions: sessions of Deephaven clients at a time; further ones are refused.
        sessions_per_caller: of these, of one caller.
        exports: tables that one such session may hold at a time, and share; further ones are refused.
        exports_per_caller: tables that one caller may hold: exports of its sessions, and results of its plans.
        total_exports: tables that all callers may hold.
        handshakes: Flight handshakes without credentials in the header at a time; further ones are refused. At the
            Deephaven ports a 25th of that.
        handshake_seconds: seconds that such a handshake may take, and that a connection to the web port may take to
            become a websocket; then it is shut.
        message_bytes: length of one request message at the Deephaven ports, before and after decoding.
        half_message_bytes: bytes of unfinished messages at the web port, over all connections.
        header_bytes: bytes of the headers of one call, at the ports that gRPC serves.
        connections: connections to one port at a time; further ones are closed. Fewer where the process may not open as
            many descriptors.
        connections_per_address: of these, from one address.
        calls_per_connection: calls of one connection at a time. Over gRPC further ones wait at their client; on a
            websocket they are refused.
        credential_seconds: seconds that a connection of the ports that gRPC or Flight serve may be open without a call
            with valid credentials; then it is shut.
        failed_log_ins: refused credentials of one address a minute; then credentials that were not accepted before are
            refused unseen. At the ports that gRPC serves.
        stranger_calls_per_second: calls of one address a second without valid credentials, and as many at once; the
            connection of a further one ends, unless a call on it has shown some. At the ports that gRPC serves.
        refused_address_seconds: seconds for which such an address may not connect, on Linux. It may, and loses no
            connection but that, while another one of it has shown valid credentials.
        requests_per_second: calls of one caller a second, and as many at once; further ones are refused. A server that
            accepts every caller has no such bound.
        total_requests_per_second: calls of all callers a second, and as many at once.
        idle_stream_seconds: seconds without a request after which a stream of ``DoExchange`` that has asked for nothing
            ends.
        keepalive_seconds: seconds of silence after which a connection is probed; it is closed when there is no answer.
        retain_seconds: seconds for which the server remembers what tables did, without values, for subscribers that
            come back: they get the difference instead of a snapshot.
        retain_bytes: bytes of all that it remembers, about; 0: nothing.
        batch_operations: operations of one batch, or of one plan.
        results_per_caller: tables that are computed for one caller at a time. A server that accepts every caller has no
            such bound.
        total_results: tables that are computed for all of them.
        result_bytes: bytes of storage that one of these tables may take beside that of the tables that it is computed
            from. One that would take more is refused; one that grows beyond fails.
        total_result_bytes: bytes that all of them may take; one caller nine tenths of it. The largest fail.
        result_seconds: processor time that a cycle may take for all of them; the one that goes beyond fails. Each may
            take a twentieth of it in any case.
        start_seconds: processor time that computing a table may take before it is there; then it is refused.
        console_commands: commands of the console that may wait while one runs; further ones are refused.
        console_seconds: seconds that one of them may run; then it is told to stop.
        pages: pages at a time that come over Flight, as those of notebooks; further ones are refused.
        page_streams: tables that one page in a browser or a notebook may have open at a time.
        page_rows: rows in view of one of them.
        page_columns: columns in view of one of them.
        page_cells: cells in view of all of them.
        session_seconds: seconds without a call after which a Deephaven session ends, with its exports and streams.
            Clients get this time, and call well before. The results of a plan that a client of Arrow Flight has asked
            for are let go when no call has named one of their tickets for as long.

    >>> Limits(subscriptions=50, slow_client_seconds=5)

    """

    subscriptions: int = 5_000
    uploads: int = 500
    downloads: int = 5_000
    streams_per_caller: int = 4_000
    put_bytes: int = 4 << 30
    columns: int = 10_000
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
        for name in _COUNTS:
            integer(getattr(self, name), f"The limit {name}")
        for name in _POSITIVE_COUNTS:
            integer(getattr(self, name), f"The limit {name}", least=1)
        for name in _TIMES:
            seconds(getattr(self, name), f"The limit {name}", positive=True)
