"""Iterators over the updates of a live table, blocking and for event loops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Self

from barrage_server.client.cursor import Cursor
from barrage_server.client.status import again
from barrage_server.client.subscription_worker import SubscriptionWorker
from barrage_server.client.update import Update
from barrage_server.public import public

__all__ = ["AsyncUpdates", "Updates"]


class _Place:
    """A position in the updates of a live table, returned when its iterator ends."""

    _cursor: Cursor | None = None  # __del__ needs it, also when a signal has interrupted __init__

    def __init__(self, worker: SubscriptionWorker) -> None:
        self._worker = worker
        self._cursor = worker.positions.begin()

    def _take(self) -> Update | None:
        """Take the next update that is not empty; None when there is none now."""
        cursor = self._cursor
        while cursor is not None and (update := self._worker.positions.take(cursor)) is not None:
            if update:
                return update
        return None

    def _end(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            self._worker.positions.end(cursor)

    def __del__(self) -> None:
        self._end()


@public
class Updates(_Place, Iterator[Update]):
    """Iterates over the updates, waiting for each.

    Threads that share one iterator get different updates.

    Args:
        worker: the subscription.
        timeout: seconds without an update after which the iteration ends; None for never.
    """

    def __init__(self, worker: SubscriptionWorker, timeout: float | None) -> None:
        super().__init__(worker)
        self._timeout = timeout
        self._ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Update:
        worker = self._worker
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        while not self._ended:
            with worker.status.changed:
                update = self._take()
                if update is not None:
                    return update
                if worker.brings_no_more:
                    self.close()
                    if worker.status.error is not None:
                        raise again(worker.status.error)
                    break
                rest = None if deadline is None else deadline - time.monotonic()
                if rest is not None and rest <= 0:
                    self.close()
                    break
                worker.status.changed.wait(rest)
        raise StopIteration

    def close(self) -> None:
        """End the iteration. The next iterator of the live table continues from here."""
        self._ended = True
        self._end()


@public
class AsyncUpdates(_Place, AsyncIterator[Update]):
    """Iterates over the updates without blocking the event loop.

    A cancelled task returns its position.
    """

    def __init__(self, worker: SubscriptionWorker) -> None:
        super().__init__(worker)
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Update:
        worker, positions = self._worker, self._worker.positions
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        positions.watch(wake)
        try:
            if self._cursor is None and not self._ended:  # a cancelled wait has returned it
                self._cursor = positions.begin()
            while not self._ended:
                changed.clear()
                is_final = worker.brings_no_more  # read before _take: updates before the end are delivered
                update = self._take()
                if update is not None:
                    return update
                if is_final:
                    await self.aclose()
                    if worker.status.error is not None:
                        raise again(worker.status.error)
                    break
                await changed.wait()
        except asyncio.CancelledError:
            self._end()
            raise
        finally:
            positions.unwatch(wake)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the iteration. The next iterator of the live table continues from here."""
        self._ended = True
        self._end()
