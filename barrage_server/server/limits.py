"""What one server allows, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from barrage_server.errors import InvalidRequestError
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
    "request_bytes",
    "sessions",
    "exports",
    "handshakes",
    "message_bytes",
    "half_message_bytes",
)
_POSITIVE_COUNTS: Final = (
    "header_bytes",
    "connections",
    "connections_per_address",
    "calls_per_connection",
    "failed_log_ins",
)
_TIMES: Final = (
    "slow_client_seconds",
    "idle_upload_seconds",
    "goodbye_seconds",
    "session_seconds",
    "handshake_seconds",
    "ledger_seconds",
    "credential_seconds",
    "idle_stream_seconds",
    "keepalive_seconds",
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
        streams_per_caller: streams of these three kinds at a time of one caller, by the name that authentication gives.
            The holders of a shared token without user names are one caller.
        put_bytes: Arrow bytes of one plain ``DoPut``, which is kept until its client has sent everything.
        columns: most columns of a new table, counting the fields within their types; its schema may have ten times as
            many entries of metadata.
        request_bytes: length of one request in app_metadata, or of one action's body.
        staging: limits of staged batches.
        ledger_seconds: seconds after its last commit for which the last batch of a publisher is remembered; an hour at
            most for single writes.
        slow_client_seconds: seconds without taking a message after which a client loses its connection. Until then it
            only falls behind: nothing is queued for it, and no publisher waits for it.
        idle_upload_seconds: seconds without a message after which a plain or staging ``DoPut`` loses its connection.
        goodbye_seconds: seconds that a client has to hang up after it got the reason of the end of its stream.
        sessions: sessions of Deephaven clients at a time; further ones are refused.
        sessions_per_caller: of these, of one caller.
        exports: tables that one such session may hold at a time, and share; further ones are refused.
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
        idle_stream_seconds: seconds without a request after which a stream of ``DoExchange`` that has asked for nothing
            ends.
        keepalive_seconds: seconds of silence after which a connection is probed; it is closed when there is no answer.
        session_seconds: seconds without a call after which a Deephaven session ends, with its exports and streams.
            Clients get this time, and call well before.

    >>> Limits(subscriptions=50, slow_client_seconds=5)

    """

    subscriptions: int = 5_000
    uploads: int = 500
    downloads: int = 5_000
    streams_per_caller: int = 10_000
    put_bytes: int = 4 << 30
    columns: int = 10_000
    request_bytes: int = 16 << 20
    staging: StagingLimits = field(default_factory=StagingLimits)
    slow_client_seconds: float = 30.0
    idle_upload_seconds: float = 600.0
    goodbye_seconds: float = 1.0
    sessions: int = 2_000
    sessions_per_caller: int = 2_000
    exports: int = 10_000
    session_seconds: float = 300.0
    handshakes: int = 100
    handshake_seconds: float = 10.0
    ledger_seconds: float = LEDGER_SECONDS
    message_bytes: int = 100 << 20
    half_message_bytes: int = 256 << 20
    header_bytes: int = 32 << 10
    connections: int = 10_000
    connections_per_address: int = 2_000
    calls_per_connection: int = 2_000
    credential_seconds: float = 30.0
    failed_log_ins: int = 60
    idle_stream_seconds: float = 10.0
    keepalive_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 0:
                raise InvalidRequestError(f"The limit {name} must not be negative, and is {getattr(self, name)}.")
        for name in _POSITIVE_COUNTS:
            if getattr(self, name) < 1:
                raise InvalidRequestError(f"The limit {name} must be positive, and is {getattr(self, name)}.")
        for name in _TIMES:
            if not getattr(self, name) > 0:
                raise InvalidRequestError(f"The limit {name} must be a positive number of seconds.")
