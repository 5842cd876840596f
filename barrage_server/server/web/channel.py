"""The connection between the server and one page, over any transport."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.server.principal import Principal
from barrage_server.server.stall import StallWatch

__all__ = ["ChannelClosedError", "PageChannel"]


class ChannelClosedError(Exception):
    """The page has disconnected: nothing can be sent to it any more."""


class PageChannel(ABC):
    """Carries the frames of one page. Used on the event loop of the pages.

    Attributes:
        peer: the page's address, as ``127.0.0.1:50000``.
        stall: the watch over the page's progress in taking frames.
        principal: the caller, if the transport knows it; ``None``: the page's ``hello`` has credentials.
    """

    peer: str
    stall: StallWatch
    principal: Principal | None = None

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the page may still be connected."""

    @abstractmethod
    def texts(self) -> AsyncIterator[str]:
        """The messages of the page, until it disconnects.

        Raises:
            WireFormatError: a message is no text.
        """

    @abstractmethod
    async def send(self, *frames: str | bytes) -> None:
        """Send frames; returns when they are on their way and there is room for more.

        Raises:
            ChannelClosedError: the page has disconnected.
        """

    def send_at_once(self, frames: Sequence[str | bytes]) -> bool:
        """Send frames if :meth:`send` would not wait for room.

        Returns:
            Whether they were sent.
        """
        del frames
        return False

    @abstractmethod
    async def close(self, reason: BarrageError) -> None:
        """End the connection, and tell the page the reason if that is possible."""

    async def table(self, ticket: bytes) -> Table | None:
        """The table of a ticket that only this channel knows, such as an export.

        ``None``: it knows no such ticket.

        Raises:
            BarrageError: the table does not exist, or the caller may not read it.
        """
        del ticket
        return None
