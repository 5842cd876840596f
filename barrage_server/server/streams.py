"""Open streams: admitted up to a limit, watched, and ended in bounded time."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, cast
from weakref import WeakKeyDictionary, WeakSet

from barrage_server.engine import Table
from barrage_server.errors import BarrageError, LimitError, UnavailableError
from barrage_server.log import CallFacts, about
from barrage_server.process import start_thread
from barrage_server.publish.caller_counts import CallerCounts, share_of_one
from barrage_server.server.principal import Principal
from barrage_server.server.private_tables import Need
from barrage_server.server.statistics import StreamGauges, SubscriptionGauges

__all__ = ["Stream", "Streams", "SubscriptionStream", "Traffic", "Watchdog"]

logger = logging.getLogger("barrage_server.server")

_END_SECONDS: Final = 2.0
"""Seconds after which a stream that was told to end is cut."""


class Stream(Protocol):
    """A long call that is open."""

    @property
    def kind(self) -> str:
        """``subscription``, ``upload``, ``download`` or ``page``."""

    @property
    def peer(self) -> str:
        """The client's address."""

    @property
    def principal(self) -> Principal:
        """The caller."""

    def needs(self) -> Sequence[Need]:
        """The rights that the stream needs, as far as they are known."""

    @property
    def facts(self) -> CallFacts:
        """The facts of the call for the log."""

    @property
    def traffic(self) -> tuple[int, int]:
        """Messages with rows so far, and their Arrow bytes."""

    def describe(self) -> StreamGauges:
        """The figures of the stream."""

    def overdue(self, now: float) -> str | None:
        """The reason to end its connection now, for the log; ``None`` without one."""

    def fold(self, now: float) -> None:
        """Keep less of the history of a client that takes nothing."""

    def end(self, error: BarrageError) -> None:
        """End the stream with ``error``, if the client can be told without waiting."""

    def cut(self) -> bool:
        """End the call but not its connection; return whether the endpoint can do that."""


class SubscriptionStream(Stream, Protocol):
    """A stream of the kind ``subscription``."""

    def follows(self, table: Table) -> bool:
        """Whether its table is ``table``, or is made of it."""

    def tidy(self, now: float) -> None:
        """Free memory that it does not need any more. Called about once a second."""

    def gauges(self) -> SubscriptionGauges | None:
        """Figures of the subscription; ``None`` while there is none."""


@dataclass(slots=True)
class Traffic:
    """The streams of one kind since the server started.

    Attributes:
        open: number that are open.
        opened: number that were opened.
        refused: number that were refused because of the limit.
        messages: number of messages with rows, over all these streams.
        nbytes: Arrow bytes of these messages.

    """

    open: int = 0
    opened: int = 0
    refused: int = 0
    messages: int = 0
    nbytes: int = 0


class Streams:
    """All open streams. Methods may be called from any thread.

    Args:
        limits: most open streams by kind; other kinds are not limited.
        per_caller: most open streams of one caller, of all kinds. One caller also has at most nine tenths of the limit
            of a kind.

    """

    def __init__(self, limits: dict[str, int], per_caller: float = math.inf) -> None:
        self._limits = limits
        self._per_caller = per_caller
        self._open: dict[Stream, None] = {}
        self._traffic: dict[str, Traffic] = {}  # messages and bytes only of streams that have ended
        self._of_callers = CallerCounts()
        self._of_kinds = CallerCounts()  # by caller and kind
        self._ending: WeakKeyDictionary[Stream, tuple[str, float]] = WeakKeyDictionary()  # reason and time
        self._changed = threading.Condition()
        self._closing = False

    def admit(self, stream: Stream) -> None:
        """Register an open stream.

        Raises:
            LimitError: the limit of its kind is reached.
            UnavailableError: the server is shutting down.

        """
        with self._changed:
            if self._closing:
                raise UnavailableError("The server is shutting down; connect again later.")
            traffic = self._traffic.setdefault(stream.kind, Traffic())
            limit = self._limits.get(stream.kind)
            if limit is not None and traffic.open >= limit:
                traffic.refused += 1
                raise LimitError(
                    f"This server has {limit} {stream.kind}s open ({stream.kind}s) and takes no more; try again later."
                )
            owner = stream.principal.owner
            if owner and self._of_callers[owner] >= self._per_caller:
                raise LimitError(
                    f"'{stream.principal.name}' has {self._per_caller} streams open (streams_per_caller), "
                    f"and may have no more; close some first."
                )
            if owner and limit is not None and self._of_kinds[owner, stream.kind] >= share_of_one(limit):
                raise LimitError(
                    f"'{stream.principal.name}' has {self._of_kinds[owner, stream.kind]} {stream.kind}s open, and the "
                    f"last tenth of all {limit} ({stream.kind}s) is for other callers; close some first."
                )
            self._of_callers.add(owner)
            self._of_kinds.add((owner, stream.kind))
            self._open[stream] = None
            traffic.open += 1
            traffic.opened += 1
            self._changed.notify_all()

    def release(self, stream: Stream) -> None:
        """Note that ``stream`` has ended."""
        with self._changed:
            if stream in self._open:
                del self._open[stream]
                traffic = self._traffic[stream.kind]
                messages, nbytes = stream.traffic
                traffic.open -= 1
                traffic.messages += messages
                traffic.nbytes += nbytes
                owner = stream.principal.owner
                self._of_callers.remove(owner)
                self._of_kinds.remove((owner, stream.kind))
                self._changed.notify_all()

    def expect_end(self, stream: Stream, reason: str, now: float) -> None:
        """Note that ``stream`` was told to end: if it does not, it becomes overdue."""
        with self._changed:
            if stream in self._open:
                self._ending.setdefault(stream, (reason, now))

    def overdue(self, stream: Stream, now: float) -> str | None:
        """The reason to cut a stream now; ``None`` without one.

        A stream is overdue when it stalls, or does not end after :meth:`expect_end`.
        """
        reason = stream.overdue(now)
        if reason is not None or not self._ending:
            return reason
        with self._changed:
            told = self._ending.get(stream)
        return told[0] if told is not None and now - told[1] >= _END_SECONDS else None

    def open(self, kind: str | None = None) -> list[Stream]:
        """The open streams, of one kind if given."""
        with self._changed:
            return [stream for stream in self._open if kind is None or stream.kind == kind]

    def subscriptions(self) -> list[SubscriptionStream]:
        """The open streams of the kind ``subscription``."""
        # by their kind: a check of their methods takes 30 µs a stream, of all streams once a second
        return cast("list[SubscriptionStream]", self.open("subscription"))

    def count(self, kind: str) -> int:
        """Number of open streams of a kind."""
        with self._changed:
            traffic = self._traffic.get(kind)
            return 0 if traffic is None else traffic.open

    def traffic(self) -> dict[str, Traffic]:
        """Figures by kind, over open and ended streams."""
        with self._changed:
            found = {kind: replace(traffic) for kind, traffic in self._traffic.items()}
            for stream in self._open:
                messages, nbytes = stream.traffic
                found[stream.kind].messages += messages
                found[stream.kind].nbytes += nbytes
            return found

    def close(self) -> None:
        """Admit no more streams."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    @property
    def closing(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closing

    def wait_for_any(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds until a stream is open, or this is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or bool(self._open), timeout)

    def wait_empty(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for all streams to end; return whether they did."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)

    def wait_closing(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for :meth:`close`; return whether it was called."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closing, timeout)


class Watchdog:
    """A thread that ends overdue streams, and runs housekeeping.

    The endpoint cuts an overdue stream. If it cannot, or if the stream is still open ``GRACE`` seconds later, the
    connection is ended. A stream must be overdue in two passes in a row: if the machine paused, or was too busy to run
    this thread, the client may not have run either, and gets another period.

    Args:
        streams: the streams to watch.
        kick: ends the connection to a peer; returns whether there was one.
        housekeeping: called about once a second with the time.
        last: called on this thread after the streams are closed, for work that may take long then and must not depend
            on starting another thread.
        clock: seconds, monotonic.

    Attributes:
        evicted: number of connections and calls that were ended.

    """

    PERIOD = 0.2
    IDLE_PERIOD = 1.0
    GRACE = 2.0

    def __init__(
        self,
        streams: Streams,
        kick: Callable[[str], bool],
        housekeeping: Callable[[float], object],
        last: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._streams = streams
        self._kick = kick
        self._housekeeping = housekeeping
        self._last = last
        self._clock = clock
        self.evicted = 0
        self._cut: WeakKeyDictionary[Stream, float] = WeakKeyDictionary()  # the time of the cut
        self._late: WeakSet[Stream] = WeakSet()  # overdue in the last pass
        self._thread = threading.Thread(target=self._watch, name="barrage-watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread, which ends when the streams are closed.

        Raises:
            LimitError: this process can start no further thread.

        """
        start_thread(self._thread)

    def join(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the thread to end; return whether it did."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def check(self, now: float) -> None:
        """Check every stream once, and fold the histories of stuck ones."""
        for stream in reversed(self._streams.open()):  # newest first, so that histories fold once
            try:
                self._check(stream, now)
                stream.fold(now)
            except Exception:  # an error of one stream must not stop the watch over the others
                logger.exception("a %s of %s could not be checked", stream.kind, stream.peer)

    def _check(self, stream: Stream, now: float) -> None:
        reason = self._streams.overdue(stream, now)
        if reason is None:
            self._late.discard(stream)
            return
        if stream not in self._late:
            self._late.add(stream)
            return
        since = self._cut.get(stream)
        if since is not None:
            if now - since >= self.GRACE:
                self._kick(stream.peer)
        elif stream.cut():
            self._cut[stream] = now
            self._count(stream, reason)
        elif self._kick(stream.peer):
            self._count(stream, reason)

    def _count(self, stream: Stream, reason: str) -> None:
        self.evicted += 1
        level = logging.INFO if self._streams.closing else logging.WARNING
        with about(stream.facts):
            logger.log(level, "%s of %s ended: %s", stream.kind, stream.peer, reason)

    def _watch(self) -> None:
        kept = self._clock()
        while not self._streams.closing:
            self._streams.wait_for_any(self.IDLE_PERIOD)
            self._streams.wait_closing(self.PERIOD)
            now = self._clock()
            try:
                self.check(now)
                if now - kept >= self.IDLE_PERIOD:
                    kept = now
                    self._housekeeping(now)
            except Exception:  # the watch continues after any error
                logger.exception("the watchdog met an error and continues")
        self._last()
