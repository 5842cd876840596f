"""The streams that are open: admitted up to a limit, watched, and ended in bounded time."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable
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
"""Seconds from the word that a stream ends until it is cut."""


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
        """What the stream takes of the catalog, as far as that is known."""

    @property
    def facts(self) -> CallFacts:
        """What the log says about the call."""

    @property
    def traffic(self) -> tuple[int, int]:
        """Messages with rows so far, and their Arrow bytes."""

    def describe(self) -> StreamGauges:
        """The figures of the stream."""

    def overdue(self, now: float) -> str | None:
        """Why its connection should be ended now, for the log; ``None`` when all is well."""

    def end(self, error: BarrageError) -> None:
        """Tell the client why its stream ends, as far as that can be done without waiting."""

    def cut(self) -> bool:
        """End the call, and leave its connection; whether its endpoint can do that."""


@runtime_checkable
class SubscriptionStream(Stream, Protocol):
    """A stream of the kind ``subscription``."""

    def follows(self, table: Table) -> bool:
        """Whether it is about ``table``."""

    def tidy(self, now: float) -> None:
        """Free what it keeps and does not need. Called about once a second."""

    def gauges(self) -> SubscriptionGauges | None:
        """Figures of the subscription; ``None`` while there is none."""


@dataclass(slots=True)
class Traffic:
    """The streams of one kind since the server started.

    Attributes:
        open: number that are open.
        opened: number that were opened.
        refused: number that were refused because of the limit.
        messages: messages with rows of all of them.
        nbytes: their Arrow bytes.

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
        per_caller: most open streams of one caller, of all kinds. Of one kind it has nine tenths of all at most.

    """

    def __init__(self, limits: dict[str, int], per_caller: float = math.inf) -> None:
        self._limits = limits
        self._per_caller = per_caller
        self._open: dict[Stream, None] = {}
        self._traffic: dict[str, Traffic] = {}  # messages and bytes: of those that have ended
        self._of_callers = CallerCounts()
        self._of_kinds = CallerCounts()  # by caller and kind
        self._ending: WeakKeyDictionary[Stream, tuple[str, float]] = WeakKeyDictionary()  # why, and since when
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
        """Note that ``stream`` was told to end. A client that takes nothing keeps it open; see :meth:`overdue`."""
        with self._changed:
            if stream in self._open:
                self._ending.setdefault(stream, (reason, now))

    def overdue(self, stream: Stream, now: float) -> str | None:
        """Why a stream should be cut now: it stalls, or did not end when it was told; ``None`` when all is well."""
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

    def count(self, kind: str) -> int:
        """Number of open streams of a kind."""
        with self._changed:
            traffic = self._traffic.get(kind)
            return 0 if traffic is None else traffic.open

    def traffic(self) -> dict[str, Traffic]:
        """Figures by kind, of the streams that are open and of those that have ended."""
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
        """Return when a stream is open, or this is closed, or after ``timeout`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or bool(self._open), timeout)

    def wait_empty(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for all streams to end; whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)

    def wait_closing(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for :meth:`close`; whether it was called."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closing, timeout)


class Watchdog:
    """A thread that ends streams which hold things up, and runs housekeeping.

    An overdue stream is cut off by its endpoint; its connection is ended where the endpoint cannot, or where the stream
    is open ``GRACE`` seconds later. It must be overdue in two passes in a row: where the machine paused or was too busy
    to run this thread, its client did not run either, and gets another period.

    Args:
        streams: what is watched.
        kick: ends the connection to a peer; whether there was one.
        housekeeping: called about once a second with the time.
        last: called when the streams are closed, and the last thing that the thread does: what may take long then, and
            must not need a thread that the process cannot start any more.
        clock: seconds, monotonic.

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
        self._cut: WeakKeyDictionary[Stream, float] = WeakKeyDictionary()  # since when
        self._late: WeakSet[Stream] = WeakSet()  # overdue in the last pass
        self._thread = threading.Thread(target=self._watch, name="barrage-watchdog", daemon=True)

    def start(self) -> None:
        """Begin. It ends when the streams are closed.

        Raises:
            LimitError: this process can start no further thread.
        """
        start_thread(self._thread)

    def join(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the thread to end; whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def check(self, now: float) -> None:
        """Look at every stream once."""
        for stream in self._streams.open():
            try:
                self._check(stream, now)
            except Exception:  # what one stream meets must not keep the others from being watched
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
