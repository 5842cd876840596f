"""One RPC as the services see it, over gRPC or a websocket."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from barrage_server.errors import DeadlineError
from barrage_server.log import encodable
from barrage_server.server.stall import StallWatch
from barrage_server.wire.families import ClientFamily

__all__ = ["CODES", "Call", "RequestBound", "Service", "Status"]

CODES: Final[Mapping[str, int]] = {
    "OK": 0,
    "CANCELLED": 1,
    "UNKNOWN": 2,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}
"""Names of gRPC's status codes, and their numbers on the wire."""


@dataclass(frozen=True, slots=True)
class Status:
    """How a call ended: gRPC's status number, and a text for the caller."""

    code: int = 0
    text: str = ""

    OK: ClassVar[Status]

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", encodable(self.text))  # a call with another text would never end

    @classmethod
    def of(cls, name: str, text: str) -> Status:
        """The status with that name."""
        return cls(CODES.get(name, CODES["UNKNOWN"]), text)


Status.OK = Status()


@dataclass(frozen=True, slots=True)
class RequestBound:
    """The most bytes of a request that is decoded as a whole.

    Decoding holds the GIL, so that no other thread runs meanwhile.

    Attributes:
        nbytes: the number of bytes.
        limit: the name of the server's limit with this number.
    """

    nbytes: int
    limit: str


class Call(ABC):
    """One RPC. It runs on the endpoint's event loop.

    Attributes:
        method: full name, such as ``/arrow.flight.protocol.FlightService/DoGet``.
        metadata: the request's headers by lower-case name; the first value of each.
        peer: the caller's address, as ``127.0.0.1:50000``.
        family: the client family, by headers and transport.
        stall: the watch over the client's progress in :meth:`write`.
        first_seconds: seconds that :meth:`read_first` waits.
        request_bound: the most bytes of its request, if the call has a single one.
    """

    first_seconds: float = 10.0
    request_bound: RequestBound

    method: str
    metadata: Mapping[str, str]
    peer: str
    family: ClientFamily
    stall: StallWatch

    @property
    def identity(self) -> str:
        """The identity of the client's verified certificate; empty without one."""
        return ""

    def let_in(self) -> None:  # noqa: B027  (most transports make no difference)
        """Note that the call has shown valid credentials."""

    @abstractmethod
    async def read(self) -> bytes | None:
        """The next request message; ``None`` when the caller sends no more."""

    async def read_first(self) -> bytes | None:
        """Return the first message, which clients send with the call.

        Raises:
            DeadlineError: it does not come in time.
        """
        try:
            async with asyncio.timeout(self.first_seconds):
                return await self.read()
        except TimeoutError:
            raise DeadlineError(f"The call sent no message within {self.first_seconds:g} s.") from None

    @abstractmethod
    async def confirm_end(self) -> None:
        """Return when the caller has half-closed, not merely disconnected.

        To be called after :meth:`read` has returned ``None``.

        Raises:
            UnavailableError: the caller has disconnected.
        """

    @abstractmethod
    async def send_headers(self, headers: Sequence[tuple[str, str]]) -> None:
        """Send the response's headers, once; else the first message sends empty ones."""

    @abstractmethod
    async def write(self, message: bytes) -> None:
        """Send a message; returns when the transport can take another one."""


Service = Callable[[Call], Awaitable[Status]]
"""Runs one call to its end. Raises ``CancelledError`` only: the client has disconnected, or the call was cut."""
