"""The common part of streams of any kind, at any endpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from barrage_server.errors import BarrageError
from barrage_server.log import call_facts
from barrage_server.server.principal import Principal
from barrage_server.server.private_tables import Need
from barrage_server.server.server_state import ServerState
from barrage_server.server.stall import StallWatch
from barrage_server.server.statistics import StreamGauges

__all__ = ["OpenStream"]


class OpenStream(ABC):
    """A long call, with its caller, watch and figures.

    It implements :class:`~barrage_server.server.streams.Stream`, and is to be made on the thread or task that serves
    the call.

    Args:
        server_state: the server's state.
        principal: the caller.
        peer: the client's address, as ``127.0.0.1:50000``.
        stall: the watch over the client's progress.

    Attributes:
        facts: the facts of the call for the log; the table's name is one of them.

    """

    kind: ClassVar[str]

    def __init__(self, server_state: ServerState, principal: Principal, peer: str, stall: StallWatch) -> None:
        self.principal = principal
        self.peer = peer
        self.server_state = server_state
        self.stall = stall
        self.facts = call_facts()
        self._opened = server_state.clock()
        self._carried = 0
        self._carried_bytes = 0

    @abstractmethod
    def end(self, error: BarrageError) -> None:
        """End the stream with ``error``, if the client can be told without waiting."""

    @abstractmethod
    def needs(self) -> Sequence[Need]:
        """The rights that the stream needs, as far as they are known."""

    def overdue(self, now: float) -> str | None:
        """The reason to end its connection now, for the log; ``None`` without one."""
        return self.stall.overdue(now)

    def fold(self, now: float) -> None:  # noqa: B027  (most streams have no history)
        """Keep less of the history of a client that takes nothing."""

    @property
    def traffic(self) -> tuple[int, int]:
        """Number and Arrow bytes of messages with rows: sent, or received by an upload."""
        return self._carried, self._carried_bytes

    def describe(self) -> StreamGauges:
        """The figures of the stream."""
        now = self.server_state.clock()
        awaited = self.stall.awaited
        return StreamGauges(
            kind=self.kind,
            peer=self.peer,
            user=self.principal.name,
            table=self.facts.get("table"),
            request_id=str(self.facts.get("request_id") or ""),
            open_seconds=max(0.0, now - self._opened),
            awaited=None if awaited is None else awaited[0].name.lower(),
            awaited_seconds=0.0 if awaited is None else max(0.0, now - awaited[1]),
            messages=self._carried,
            nbytes=self._carried_bytes,
        )

    def count(self, messages: int, nbytes: int) -> None:
        """Count messages and their Arrow bytes."""
        self._carried += messages
        self._carried_bytes += nbytes
