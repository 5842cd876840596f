"""The connection of a Spark task or driver that stages and commits over Flight.

There is one client per process and server: connections do not survive a fork, and Spark forks its Python workers.
"""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Final

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.address import ServerAddress
from barrage_server.errors import (
    AuthenticationError,
    DeadlineError,
    InvalidRequestError,
    NotFoundError,
    PublishError,
    UnavailableError,
    UnsupportedOperationError,
)
from barrage_server.flight.authorization import AUTHORIZATION, basic, bearer
from barrage_server.flight.errors import from_flight, other_protocol
from barrage_server.flight.staging import FLIGHT_ERRORS, CommitCalls, chunks, stage
from barrage_server.spark.keeping import kept_alive
from barrage_server.spark.settings import PublishSettings
from barrage_server.spark.waiting import WaitPolicy
from barrage_server.wire.commit_messages import StageRequest, StageResult
from barrage_server.wire.protocol import HEALTH_ACTION

__all__ = ["Publisher", "ServerAccess", "publisher_for"]

_HELD_BYTES: Final = 16 << 20
"""Most bytes of rows that are kept to be sent again. After more, a lost connection is an error."""
_ACTION_SECONDS: Final = 60.0
_CHECK_SECONDS: Final = 2.0
# A connection whose other end has vanished ends after 30 s: gRPC asks after 20 s of silence.
_CHANNEL: Final = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
]
_SLOW_SECONDS: Final = 5.0
"""Seconds of an upload after which cheap calls are made: gRPC's servers refuse a client that only pings."""
_PROBE_SECONDS: Final = 30.0
"""Three times the pause between two such calls."""

_LOG_IN: Final = " Pass token=, or set BARRAGE_TOKEN where the driver starts, or pass user= and password=."


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """A server, and how to log in to it.

    Attributes:
        uri: ``grpc://host:port``, ``grpc+tls://host:port`` or ``host:port``.
        token: the server's token, if it requires one.
        user: name of a user, instead of a token.
        password: the user's password.
        tls_root_certs: PEM text of the certificates to trust, if they are not among the system's.
        tls_certificate: PEM text of the certificate to show, if the server requires one.
        tls_key: PEM text of its private key.
    """

    uri: str
    token: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_root_certs: str | None = field(default=None, repr=False)
    tls_certificate: str | None = field(default=None, repr=False)
    tls_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, settings: PublishSettings) -> ServerAccess:
        """The access that settings name."""
        return cls(**{each.name: getattr(settings, each.name) for each in fields(cls)})

    @property
    def authorization(self) -> bytes | None:
        """The header to log in with; None without credentials."""
        if self.user is not None:
            return basic(self.user, self.password).encode()
        return None if self.token is None else bearer(self.token).encode()


class Publisher(CommitCalls):
    """A connection that stages and commits batches. Thread-safe.

    Args:
        access: the server, and the log-in.

    Attributes:
        address: the URI of the server.
    """

    def __init__(self, access: ServerAccess) -> None:
        place = ServerAddress.parse(access.uri)
        self.address = place.uri
        self._authorization = access.authorization
        self._policy = WaitPolicy(self.address, 0.0)
        given = {
            "tls_root_certs": access.tls_root_certs,
            "cert_chain": access.tls_certificate,
            "private_key": access.tls_key,
        }
        options = {name: text.encode() for name, text in given.items() if text is not None}
        with _translated(f"connect to {self.address}"):
            self._client = flight.FlightClient(place.location, generic_options=_CHANNEL, **options)

    def with_policy(self, policy: WaitPolicy) -> Publisher:
        """The same connection with another policy of waiting for an unreachable server."""
        other = copy.copy(self)
        other._policy = policy
        return other

    def check_server(self) -> None:
        """Check that a barrage-server answers, if any program does.

        Raises:
            InvalidRequestError: another kind of program answers.
            AuthenticationError: the token is missing or wrong.
        """
        try:
            with _translated(f"connect to {self.address}"):
                # Not list_actions: when a server cancels that, pyarrow interrupts the main thread of the process.
                list(self._client.do_action(flight.Action(HEALTH_ACTION, b""), self._options(_CHECK_SECONDS)))
        except (UnavailableError, DeadlineError) as error:
            wrong = other_protocol(error, self.address)
            if wrong is not None:
                raise wrong from error
        except (UnsupportedOperationError, NotFoundError, InvalidRequestError):
            raise InvalidRequestError(
                f"What answers at {self.address} speaks gRPC and is not the Arrow Flight port of a barrage-server: "
                "write the port that the server's log names, 8815 by default."
            ) from None

    def stage(self, request: StageRequest, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> StageResult | None:
        """Send ``batches``, which stay invisible until a commit names their token.

        When ``batches`` raises, the server drops the rows, because the end mark is missing. The call waits for an
        unreachable server until 16 MiB were sent.

        Returns:
            The answer of the server; None without rows.

        Raises:
            UnavailableError: the connection was lost later, or the server did not answer in time.
        """
        parts = _Parts(batches)
        if parts.is_empty:
            return None
        return self._policy.retried(lambda: self._stage(request, schema, parts), may_repeat=parts.is_whole)

    def _stage(self, request: StageRequest, schema: pa.Schema, parts: _Parts) -> StageResult:
        doing = f"stage rows for table {request.table!r} at {self.address}"
        began = time.monotonic()
        with contextlib.ExitStack() as stack:

            def sent() -> Iterator[pa.RecordBatch]:
                is_slow = False
                for batch in parts:
                    if not is_slow and time.monotonic() - began > _SLOW_SECONDS:
                        is_slow = True
                        stack.enter_context(kept_alive(self._probe))
                    yield batch

            return stage(self._open_put, request, schema, sent(), lambda: _translated(doing))

    def _probe(self) -> float:
        """Make a cheap call."""
        with _translated(f"reach {self.address}"):
            list(self._client.do_action(flight.Action(HEALTH_ACTION, b""), self._options(_ACTION_SECONDS)))
        return _PROBE_SECONDS

    def _open_put(
        self, descriptor: flight.FlightDescriptor, schema: pa.Schema
    ) -> tuple[flight.FlightStreamWriter, flight.FlightMetadataReader]:
        writer, answers = self._client.do_put(descriptor, schema, self._options())
        return writer, answers

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _options(self, seconds: float | None = None) -> flight.FlightCallOptions:
        headers = [] if self._authorization is None else [(AUTHORIZATION.encode(), self._authorization)]
        return flight.FlightCallOptions(headers=headers, timeout=seconds)

    def act(self, action: str, body: bytes, doing: str) -> bytes:
        """Run an action, and return its first result; repeated for an unreachable server.

        Raises:
            PublishError: there is no result.
            BarrageError: the error of the action.
        """
        doing = f"{doing} at {self.address}"

        def once() -> bytes:
            with _translated(doing):
                results = list(self._client.do_action(flight.Action(action, body), self._options(_ACTION_SECONDS)))
            if not results:
                raise PublishError(f"Could not {doing}: the server gave no answer; is it a barrage-server?")
            return bytes(results[0].body.to_pybytes())

        return self._policy.retried(once)


_publishers: dict[tuple[int, ServerAccess], Publisher] = {}


def publisher_for(access: ServerAccess) -> Publisher:
    """The publisher of this process for a server and a log-in."""
    place = (os.getpid(), access)
    publisher = _publishers.get(place)
    if publisher is None:
        publisher = _publishers.setdefault(place, Publisher(access))
    return publisher


@contextlib.contextmanager
def _translated(doing: str) -> Iterator[None]:
    """Translate exceptions of Flight to errors of this package, which name ``doing``."""
    try:
        yield
    except FLIGHT_ERRORS as error:
        typed = from_flight(error)
        advice = _LOG_IN if isinstance(typed, AuthenticationError) else ""
        raise type(typed)(f"Could not {doing}: {typed}{advice}") from error


class _Parts:
    """Record batches in messages of bounded size, which can be sent again.

    An iteration begins with the first message, as long as at most 16 MiB were taken.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._rest = chunks(batches)
        self._held: list[pa.RecordBatch] = []
        self._nbytes = 0
        self._whole = True
        self.is_empty = not self._take()

    def is_whole(self) -> bool:
        """Whether the next iteration begins with the first message again."""
        return self._whole

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        number = 0
        while self._whole and (number < len(self._held) or self._take()):
            yield self._held[number]
            number += 1
            if number == len(self._held) and self._nbytes > _HELD_BYTES:
                self._whole = False
                self._held.clear()
        if not self._whole:
            yield from self._rest

    def _take(self) -> bool:
        part = next(self._rest, None)
        if part is None:
            return False
        self._held.append(part)
        self._nbytes += part.nbytes
        return True
