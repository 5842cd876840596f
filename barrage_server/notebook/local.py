"""Pages of tables of this process, without a server or a socket.

The pages are those of a server, on an event loop of their own.
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import os
import queue
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from barrage_server.engine import Table, UpdateGraph
from barrage_server.errors import UnavailableError
from barrage_server.process import Ending, end_with_process
from barrage_server.server.assembly import assemble
from barrage_server.server.authentication import Authentication
from barrage_server.server.figures import collected
from barrage_server.server.fsync import Fsync
from barrage_server.server.limits import Limits
from barrage_server.server.principal import UNAUTHENTICATED
from barrage_server.server.server_state import ServerState
from barrage_server.server.stall import StallWatch
from barrage_server.server.statistics import ServerStatistics
from barrage_server.server.web.channel import ChannelClosedError
from barrage_server.server.web.exchange_channel import ExchangeChannel
from barrage_server.server.web.page import Page
from barrage_server.server.web.service import PageService
from barrage_server.subscription import SubscriptionLimits
from barrage_server.wire.page_messages import ExchangeKind

__all__ = ["LocalLink", "LocalSource"]

_HERE: Final = b"here"
"""The ticket of the table that a widget shows."""
_TIDY_SECONDS: Final = 1.0
_FIRST_SECONDS: Final = 60.0
_PEER: Final = "this process"


class LocalSource:
    """A table of this process as the source of a widget.

    Args:
        table: the table.

    Attributes:
        title: the table's name.
    """

    def __init__(self, table: Table) -> None:
        self.title = table.name
        self._table = table

    def target(self) -> dict[str, str]:
        """The page's address of the table."""
        return {"ticket": base64.b64encode(_HERE).decode("ascii"), "title": self.title}

    def open(self) -> LocalLink:
        """Open a page session.

        Raises:
            LimitError: this process can start no further thread.
        """
        return LocalLink(self._table)


class _Host:
    """Serves pages of the tables of one graph, while there are any."""

    def __init__(self, graph: UpdateGraph) -> None:
        self.links = 0
        self._began = time.monotonic()
        self.state: Final[ServerState] = assemble(
            data_dir=None,
            fsync=Fsync.OS,
            limits=Limits(),
            subscriptions=SubscriptionLimits(),
            writers=2,
            authentication=Authentication(),
            roles=None,
            drop=lambda _name: None,
            statistics=self._statistics,
            graph=graph,
        )
        self.service: Final = PageService(self.state)
        self.service.call(self._begin()).result()

    def close(self) -> None:
        """End all pages and threads."""
        self.state.streams.close()
        self.service.close()
        self.state.dispatcher.close()
        self.state.checks.shutdown()

    async def _begin(self) -> None:
        self._tidying = asyncio.get_running_loop().create_task(self._tidy())

    async def _tidy(self) -> None:
        """Do once a second what a server's watchdog does for subscriptions."""
        state = self.state
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            now = time.monotonic()
            await self.service.workers.run(state.feeds.tidy, now)
            state.resumption.history.tidy(now)
            state.results.tidy(now)

    def _statistics(self) -> ServerStatistics:
        return collected(self.state, uptime_seconds=time.monotonic() - self._began, evicted=0, sessions=0, exports=0)


_lock = threading.Lock()
_hosts: Final[weakref.WeakKeyDictionary[UpdateGraph, _Host]] = weakref.WeakKeyDictionary()


def _start_over() -> None:
    """Forget the hosts in a forked process, which lacks their threads."""
    global _lock
    _lock = threading.Lock()
    _hosts.clear()


os.register_at_fork(after_in_child=_start_over)


def _entered(graph: UpdateGraph) -> _Host:
    with _lock:
        host = _hosts.get(graph)
        if host is None:
            host = _hosts[graph] = _Host(graph)
        host.links += 1
        return host


def _left(graph: UpdateGraph, host: _Host) -> None:
    with _lock:
        host.links -= 1
        if host.links:
            return
        del _hosts[graph]
    host.close()


class LocalLink:
    """One page session. One thread reads; any thread may send or close."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._graph = table.graph
        self._host = _entered(self._graph)
        self._lock = threading.Lock()
        self._is_over = False
        self._is_closed = False
        self._written: set[concurrent.futures.Future[None]] = set()  # of messages that were not taken yet
        # messages, and the future to set when they were taken; None after the last ones
        self._frames: queue.SimpleQueue[tuple[Sequence[bytes], concurrent.futures.Future[None]] | None]
        self._frames = queue.SimpleQueue()
        try:
            self._host.state.private.add(table)
            self._channel, self._serving = self._host.service.call(self._begin()).result()
        except BaseException:
            _left(self._graph, self._host)
            raise
        end_with_process(self, Ending.SUBSCRIPTION)

    def send(self, text: str) -> None:
        """Send a message of the page.

        Raises:
            UnavailableError: the session has ended.
        """
        with self._lock:
            if self._is_over or self._is_closed:
                raise UnavailableError("The page is closed.")
            putting = self._host.service.call(self._channel.put(text))
        try:
            putting.result()
        except concurrent.futures.CancelledError:
            raise UnavailableError("The page is closed.") from None

    def frames(self) -> Iterator[str | bytes]:
        """Yield the frames as they come.

        Raises:
            UnavailableError: the session has ended.
        """
        while (entry := self._frames.get()) is not None:
            messages, taken = entry
            for message in messages:
                if message[0] == ExchangeKind.END:
                    raise UnavailableError(message[1:].decode("utf-8", "replace"))
                yield message[1:] if message[0] == ExchangeKind.BINARY else message[1:].decode("utf-8", "replace")
            with suppress(concurrent.futures.InvalidStateError):  # the page has ended meanwhile
                taken.set_result(None)
        raise UnavailableError("The page is closed.")

    def cancel(self) -> None:
        """End the session without waiting; threads that read or send return."""
        self._is_over = True
        with suppress(RuntimeError):  # the loop has ended with the last session
            self._host.service.loop.call_soon_threadsafe(self._channel.stop)

    def close(self) -> None:
        """End the session, and wait for its end. May be called repeatedly."""
        self._close(None)

    def end_with_process(self, timeout: float) -> None:
        """Close, because the interpreter ends."""
        self._close(timeout)

    def _close(self, timeout: float | None) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            self._host.service.call(self._leave()).result(timeout)
        except (concurrent.futures.CancelledError, concurrent.futures.TimeoutError):
            pass  # the host is closed, or the process ends
        finally:
            self._frames.put(None)
            _left(self._graph, self._host)

    # On the event loop.

    async def _begin(self) -> tuple[ExchangeChannel, asyncio.Task[None]]:
        channel = ExchangeChannel(
            UNAUTHENTICATED,
            _PEER,
            StallWatch(self._host.state.clock),
            self._write,
            self._over,
            _FIRST_SECONDS,
            self._found,
        )
        return channel, asyncio.get_running_loop().create_task(Page(channel, self._host.service).run())

    async def _leave(self) -> None:
        self._channel.stop()
        for taken in tuple(self._written):  # the reader may have stopped between two messages
            with suppress(concurrent.futures.InvalidStateError):
                taken.set_exception(ChannelClosedError())
        await asyncio.wait([self._serving])

    async def _write(self, messages: Sequence[bytes]) -> None:
        taken: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._written.add(taken)
        self._frames.put((messages, taken))
        try:
            await asyncio.wrap_future(taken)
        finally:
            self._written.discard(taken)

    def _over(self) -> None:
        self._frames.put(None)

    async def _found(self, ticket: bytes) -> Table | None:
        return self._table if ticket == _HERE else None
