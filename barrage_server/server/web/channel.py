"""Both ways between the server and one page, whatever carries them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.server.principal import Principal
from barrage_server.server.stall import StallWatch

__all__ = ["ChannelClosedError", "PageChannel"]


class ChannelClosedError(Exception):
    """The page is gone: nothing can be sent to it any more."""


class PageChannel(ABC):
    """Carries the frames of one page. Everything here is called on the event loop of the pages.

    Attributes:
        peer: the page's address, as ``127.0.0.1:50000``.
        stall: the watch over what the page takes.
        principal: the caller, where the channel knows it; ``None``: the page says who it is in its ``hello``.

    """

    peer: str
    stall: StallWatch
    principal: Principal | None = None

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the page may still be there."""

    @abstractmethod
    def texts(self) -> AsyncIterator[str]:
        """The messages of the page as they come; ends when it has left.

        Raises:
            WireFormatError: something else than a text came.

        """

    @abstractmethod
    async def send(self, *frames: str | bytes) -> None:
        """Send frames; returns when they are on their way and there is room for more.

        Raises:
            ChannelClosedError: the page is gone.

        """

    def send_at_once(self, frames: Sequence[str | bytes]) -> bool:
        """Send frames, if :meth:`send` would not wait for room; whether that is so. Otherwise nothing is sent."""
        del frames
        return False

    @abstractmethod
    async def close(self, reason: BarrageError) -> None:
        """End it from this side, for that reason, with word to the page if that can be done."""

    async def table(self, ticket: bytes) -> Table | None:
        """The table of a ticket that only this channel knows, as an export of its session; ``None``: it knows none.

        Raises:
            BarrageError: the table is not there, or the caller may not read it.

        """
        del ticket
        return None
