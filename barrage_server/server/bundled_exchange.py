"""A DoExchange stream whose event loop reads requests and writes messages, and whose messages the dispatcher makes.

A turn of the dispatcher makes the messages of a bundle and passes them to the event loop, which writes them one by
one as the client takes them. Meanwhile the subscription makes no more messages, so a slow client costs one bundle,
and staleness.
"""

from __future__ import annotations

import asyncio
import logging
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
from barrage_server.server.translate import identified, safe_error
from barrage_server.subscription.feed import Message

__all__ = ["BundledExchange"]

logger = logging.getLogger("barrage_server.server")

Arguments = TypeVarTuple("Arguments")

Piece = TypeVar("Piece", bytes, bytes | str)
"""What is written at once: a message, or a text frame of a websocket."""

_BUNDLE_BYTES: Final = 1 << 19
"""A turn of the dispatcher makes no more messages once it has this many bytes. A client that takes nothing costs as
many, and one message."""


class BundledExchange(ExchangeStream, Generic[Piece]):
    """See the module. To be made on the event loop; the arguments are those of :class:`ExchangeStream`.

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
        self._is_handed = False  # a bundle is under way
        self._is_missed = False  # a turn came meanwhile, or the last one left something
        self._has_ended = False
        self._pieces: Iterator[Piece] | None = None
        self._begun = False
        self._following: ExchangeState | None = None

    # For the endpoint, on a thread of the dispatcher.

    @abstractmethod
    def opening(self) -> list[Piece]:
        """What the stream begins with: its schema."""

    @abstractmethod
    def pieces_of(self, message: Message) -> Iterator[Piece]:
        """A message as what is written one by one."""

    # For the endpoint, on the event loop.

    @abstractmethod
    def take(self, bundle: list[Piece]) -> None:
        """Write what was made, and then call :meth:`took`."""

    @abstractmethod
    def after_turn(self) -> None:
        """A turn of the dispatcher has ended, with or without a bundle."""

    def took(self) -> bool:
        """The client has taken the bundle: there may be another one. Returns whether there is, to the server's
        knowledge.
        """
        with self._bundling:
            self._is_handed = False
            again, self._is_missed = self._is_missed, False
        if again:
            self.server_state.dispatcher.wake(self.scheduled)
        return again

    def make_no_more(self) -> None:
        """The stream ends: no further turn makes anything."""
        with self._bundling:
            self._has_ended = True

    @property
    def has_begun(self) -> bool:
        """Whether anything was made."""
        return self._begun

    @property
    def is_answered(self) -> bool:
        """Whether everything that was asked for has been written."""
        with self._bundling:
            in_turn = self._is_making or self._is_handed or self._is_missed
            return not in_turn and self._pieces is None and not self.exchange_state.has_answers

    # On a thread of the dispatcher.

    def run_turn(self, now: float) -> float | None:
        """Make a bundle of the messages due; returns the time of the next."""
        with self._bundling:
            if self._has_ended:
                return None
            if self._is_handed:
                self._is_missed = True
                return None
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
        size, batches, wake_at = 0, 0, None
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
                self._pieces = None  # more may be due: the next part, or what happened while these were sent
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
        return None if self._pieces is not None else wake_at

    def _go_over(self) -> None:
        """Go on with the other subscription, if there is one."""
        with self._bundling:
            following, self._following = self._following, None
        if following is not None:
            before, self.exchange_state = self.exchange_state, following
            self._begun = False
            before.close()

    # On any thread.

    def replace(self, following: ExchangeState) -> None:
        """Go on with another subscription to the same table, once no update is half sent.

        The stream then begins anew. ``following`` is closed if the stream has ended.
        """
        with self._bundling:
            skipped = [following]
            if not self._has_ended:
                skipped = [] if self._following is None else [self._following]
                if self._begun or self._is_making:
                    self._following = following
                else:  # nothing was sent: there is nothing to go over from
                    skipped.append(self.exchange_state)
                    self._following, self.exchange_state = None, following
        for state in skipped:
            state.close()

    def leave(self) -> None:
        """The stream has ended. Returns when no thread is in :meth:`run_turn` any more."""
        super().leave()
        if self._following is not None:
            self._following.close()

    @abstractmethod
    def settle(self, error: BarrageError | None) -> None:
        """End the stream, with that reason. On the event loop."""

    def end(self, error: BarrageError) -> None:
        """Send the client the reason of the end of its stream."""
        with about(self.facts):
            self.on_loop(self.settle, identified(error))

    def on_loop(self, function: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call ``function(*arguments)`` on the event loop, soon."""
        try:
            self.call_on_loop(function, *arguments)
        except RuntimeError:
            logger.debug("the endpoint was closed before %s got the reason", self.peer)

    def call_on_loop(self, function: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call ``function(*arguments)`` on the event loop, soon. RuntimeError when it is closed."""
        self.loop.call_soon_threadsafe(function, *arguments)
