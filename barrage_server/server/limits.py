"""What one server allows, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from barrage_server.errors import InvalidRequestError
from barrage_server.public import public
from barrage_server.publish import StagingLimits

__all__ = ["Limits"]

_COUNTS: Final = (
    "subscriptions",
    "uploads",
    "put_bytes",
    "columns",
    "request_bytes",
    "sessions",
    "exports",
    "handshakes",
    "message_bytes",
    "half_message_bytes",
)
_TIMES: Final = (
    "slow_client_seconds",
    "idle_upload_seconds",
    "goodbye_seconds",
    "session_seconds",
    "handshake_seconds",
)


@public
@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that keep one client from harming the others. Times are seconds.

    Attributes:
        subscriptions: streams of ``DoExchange`` at a time; one more is refused with
            :class:`~barrage_server.errors.LimitError`.
        uploads: streams of ``DoPut`` at a time.
        put_bytes: Arrow bytes of one plain ``DoPut``, which is kept until its client has sent everything.
        columns: of a table that a client or the server makes, with the fields within their types; and a tenth of the
            entries of metadata that its schema may have.
        request_bytes: length of one request in app_metadata, or of one action's body.
        staging: what may lie staged for a later commit.
        slow_client_seconds: a client that does not take a message for so long loses its connection. Until then it only
            falls behind: nothing is queued for it, and nobody waits for it.
        idle_upload_seconds: a plain or staging ``DoPut`` that sends nothing for so long loses its connection.
        goodbye_seconds: how long a client that was told why its stream ends may take to hang up.
        sessions: sessions of Deephaven clients at a time; one more is refused.
        exports: tables that one such session may hold at a time, and share; one more is refused.
        handshakes: Flight handshakes without credentials in the header at a time; one more is refused. At the Deephaven
            ports one in 25 of them.
        handshake_seconds: how long such a handshake may take, and a connection to the port for websockets until it
            shows credentials; then it is shut.
        message_bytes: length of one request message at the Deephaven ports, before and after decoding.
        half_message_bytes: of messages that have begun and not ended at the port for websockets, of all connections.
        session_seconds: a Deephaven session that makes no call for so long ends, with its exports and streams. Clients
            are told the time and make a call well before.

    >>> Limits(subscriptions=50, slow_client_seconds=5)

    """

    subscriptions: int = 5_000
    uploads: int = 500
    put_bytes: int = 4 << 30
    columns: int = 10_000
    request_bytes: int = 16 << 20
    staging: StagingLimits = field(default_factory=StagingLimits)
    slow_client_seconds: float = 30.0
    idle_upload_seconds: float = 600.0
    goodbye_seconds: float = 1.0
    sessions: int = 2_000
    exports: int = 10_000
    session_seconds: float = 300.0
    handshakes: int = 100
    handshake_seconds: float = 10.0
    message_bytes: int = 100 << 20
    half_message_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 0:
                raise InvalidRequestError(f"The limit {name} must not be negative, and is {getattr(self, name)}.")
        for name in _TIMES:
            if not getattr(self, name) > 0:
                raise InvalidRequestError(f"The limit {name} must be a positive number of seconds.")
