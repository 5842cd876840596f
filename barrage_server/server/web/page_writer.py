"""The messages to one page, and the tasks that send them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from barrage_server.errors import BarrageError
from barrage_server.server.web.channel import ChannelClosedError, PageChannel
from barrage_server.wire.json_message import json_text

__all__ = ["PageWriter"]

_MOST_TASKS: Final = 100
"""Opening streams and unsent frames at which reading from the page stops."""


class PageWriter:
    """Writes to one page, one message at a time, for any number of streams.

    Args:
        channel: the connection to the page.
    """

    def __init__(self, channel: PageChannel) -> None:
        self._channel = channel
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether the page has not yet taken the last message."""
        return self._turn.locked()

    async def send(self, *frames: str | bytes) -> None:
        """Send frames, after those before.

        Raises:
            ChannelClosedError: the page has disconnected.
        """
        # the buffers of the channel hold one message at a time
        async with self._turn:
            if not self._channel.send_at_once(frames):
                await self._channel.send(*frames)

    def send_at_once(self, frames: Sequence[str | bytes]) -> bool:
        """Send frames if nothing else is being sent, and there is room for them.

        Returns:
            Whether they were sent.
        """
        return not self._turn.locked() and self._channel.send_at_once(frames)

    async def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message.

        Raises:
            ChannelClosedError: the page has disconnected.
        """
        await self.send(json_text(message))

    async def tell_ended(self, stream: int, error: BarrageError | None) -> None:
        """Tell the page that a stream has ended, and why."""
        told: dict[str, Any] = {"type": "ended", "stream": stream}
        if error is not None:
            told |= {"error": type(error).__name__, "text": str(error)}
        with contextlib.suppress(ChannelClosedError):
            await self.tell(told)

    async def refuse(self, error: BarrageError) -> None:
        """Tell the page that it must not reconnect, and end the channel."""
        with contextlib.suppress(ChannelClosedError):
            await self.tell({"type": "refused", "error": type(error).__name__, "text": str(error)})
        await self._channel.close(error)

    async def close(self, reason: BarrageError) -> None:
        """End the channel after the messages before; the page may reconnect."""
        async with self._turn:
            await self._channel.close(reason)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work`` in a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait_for_room(self) -> None:
        """Return when few enough tasks run to read from the page again."""
        while len(self._tasks) > _MOST_TASKS:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def stop(self) -> None:
        """Cancel all tasks; returns when they have ended."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
