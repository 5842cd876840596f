"""A DoExchange stream that an event loop reads and writes.

A turn of the dispatcher makes the messages of a bundle and passes them to the event loop, which writes them one by
one as the client takes them. Meanwhile the subscription makes no more messages: a slow client costs the memory of one
bundle, and gets its updates later.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, Generic, TypeVar, TypeVarTuple

from barrage_server.errors import BarrageError
from barrage_server.log import about
from barrage_server.server.exchange_state import ExchangeState, MessageFormat
from barrage_server.server.exchange_stream import ExchangeStream
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.server.stall import StallWatch
from barrage_server.server.translate import safe_error
from barrage_server.subscription.feed import Message

__all__ = ["BundledExchange"]

logger = logging.getLogger("barrage_server.server")

Arguments = TypeVarTuple("Arguments")

Piece = TypeVar("Piece", bytes, bytes | str)
"""A unit of writing: a message, or a text frame of a websocket."""

_BUNDLE_BYTES: Final = 1 << 19
"""Bytes of a bundle after which a turn makes no more messages."""


class BundledExchange(ExchangeStream, Generic[Piece]):
    """A stream whose turns make bundles of messages for an event loop.

    To be made on the event loop; the arguments are those of :class:`ExchangeStream`.

    Attributes:
        loop: the event loop.

    """

    def __init__(
        self,
        server_state: ServerState,
        principal: Principal,
        peer: str,
        message_format: MessageFormat,
        stall: StallWatch,
    ) -> None:
        super().__init__(server_state, principal, peer, message_format, stall)
        self.loop: Final = asyncio.get_running_loop()
        self._bundling = threading.Lock()  # guards the next four, which the dispatcher and the event loop share
        self._is_making = False  # a turn of the dispatcher makes a bundle
        self._is_handed = False  # the event loop writes a bundle
        self._is_missed = False  # a turn came meanwhile, or the last bundle left pieces
        self._has_ended = False
        self._pieces: Iterator[Piece] | None = None
        self._begun = False
        self._following: ExchangeState | None = None

    # For the endpoint, on a thread of the dispatcher.

    @abstractmethod
    def opening(self) -> list[Piece]:
        """The first pieces of the stream, with its schema."""

    @abstractmethod
    def pieces_of(self, message: Message) -> Iterator[Piece]:
        """The pieces of a message, in order."""

    # For the endpoint, on the event loop.

    @abstractmethod
    def take(self, bundle: list[Piece]) -> None:
        """Write the pieces of ``bundle``, and then call :meth:`took`."""

    @abstractmethod
    def after_turn(self) -> None:
        """A turn of the dispatcher has ended, with or without a bundle."""

    def took(self) -> bool:
        """Note that the client has taken the bundle, and allow another one.

        Returns:
            Whether more messages are known to be due; their turn has been scheduled.

        """
        with self._bundling:
            self._is_handed = False
            again, self._is_missed = self._is_missed, False
        if again:
            self.server_state.dispatcher.wake(self.scheduled)
        return again

    def make_no_more(self) -> None:
        """End the stream: no further turn makes messages."""
        with self._bundling:
            self._has_ended = True

    @property
    def has_begun(self) -> bool:
        """Whether any message was made."""
        return self._begun

    @property
    def is_answered(self) -> bool:
        """Whether all requested messages have been written."""
        with self._bundling:
            in_turn = self._is_making or self._is_handed or self._is_missed
            return not in_turn and self._pieces is None and not self.exchange_state.has_answers

    # On a thread of the dispatcher.

    def run_turn(self, now: float) -> float | None:
        """Make a bundle of the messages due; return the time of the next."""
        with self._bundling:
            if self._has_ended:
                return None
            if self._is_handed:
                self._is_missed = True
                return math.inf  # ``took`` wakes it, and no change need do so before
            self._is_making = True
        try:
            return self._make_bundle(now)
        except Exception as error:  # the boundary: possibly an internal error
            with about(self.facts):
                self.end(safe_error(error, "a stream", self.peer))
        finally:
            with self._bundling:
                self._is_making = False
            self.after_turn()
        return None

    def _make_bundle(self, now: float) -> float | None:
        bundle: list[Piece] = []
        size, batches = 0, 0
        wake_at: float | None = now
        while size < _BUNDLE_BYTES:
            if self._pieces is None:
                self._go_over()
                due = self.exchange_state.due(now)
                wake_at = due.wake_at
                if not due.messages:
                    break
                self._pieces = chain.from_iterable(self.pieces_of(message) for message in due.messages)
                if not self._begun:
                    self._begun = True
                    bundle += self.opening()
            piece = next(self._pieces, None)
            if piece is None:
                self._pieces = None
                if wake_at is None or wake_at > now:  # nothing more was due, and a change since gets a turn of its own
                    break
            else:
                bundle.append(piece)
                batches += 1
                size += len(piece)
        if bundle:
            self.count(batches, size)
            with self._bundling:
                self._is_handed = True
                self._is_missed = self._pieces is not None
            self.on_loop(self.take, bundle)
        return math.inf if self._pieces is not None else wake_at

    def _go_over(self) -> None:
        """Continue with the subscription passed to :meth:`replace`, if there is one."""
        if self._following is None:
            return
        with self._bundling:
            following, self._following = self._following, None
        if following is not None:
            before, self.exchange_state = self.exchange_state, following
            self._begun = False
            before.close()

    # On any thread.

    def replace(self, following: ExchangeState) -> None:
        """Continue with another subscription to the same table, between two updates.

        The stream then begins again with a schema. ``following`` is closed if the stream has ended.
        """
        with self._bundling:
            skipped = [following]
            if not self._has_ended:
                skipped = [] if self._following is None else [self._following]
                if self._begun or self._is_making:
                    self._following = following
                else:  # nothing was sent yet
                    skipped.append(self.exchange_state)
                    self._following, self.exchange_state = None, following
        for state in skipped:
            state.close()

    def leave(self) -> None:
        """End the stream's work. Returns when no thread is in :meth:`run_turn` any more."""
        super().leave()
        self._pieces = None  # what a client has not taken is freed now, not when reference cycles are searched for
        if self._following is not None:
            self._following.close()

    @abstractmethod
    def settle(self, error: BarrageError | None) -> None:
        """End the stream for that reason, on the event loop."""

    def end(self, error: BarrageError) -> None:
        """Send the client the reason of the end of its stream."""
        self.on_loop(self.settle, error)

    def on_loop(self, function: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call ``function(*arguments)`` on the event loop soon, unless it is closed."""
        try:
            self.call_on_loop(function, *arguments)
        except RuntimeError:
            logger.debug("the endpoint was closed before %s got the reason", self.peer)

    def call_on_loop(self, function: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call ``function(*arguments)`` on the event loop soon.

        Raises:
            RuntimeError: the event loop is closed.

        """
        self.loop.call_soon_threadsafe(function, *arguments)
