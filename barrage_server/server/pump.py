"""Serves many subscriptions with few threads.

A subscription has work when its table has changed, when its update interval has passed, or when its client has sent a
request. Publishing only marks the table: one lock and one wake-up for any number of subscribers. A small pool of
threads does the rest. A thread that is stuck with a client that does not read no longer counts against the limit, and
another thread takes its place, so no task waits for that client.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from barrage_server.errors import LimitError
from barrage_server.process import start_thread

__all__ = ["Pump", "Slot", "Task", "Topic"]

logger = logging.getLogger("barrage_server.server")

# Seconds after which a running step stops counting against ``parallel``. Longer than a thread switch of the
# interpreter, so that a waiting step still counts. Multiplied by one plus the number of excess steps, so that an
# overloaded machine does not start more and more threads.
_PATIENCE = 0.02
_MOST_PATIENCE = 0.2
# Seconds without work after which a thread ends, unless it is the last one.
_IDLE_SECONDS = 5.0


class Task(Protocol):
    """Work that the pump runs."""

    def step(self, now: float) -> float | None:
        """Do the work due at ``now``; returns the time of the next step (``None``: at the next change). Must not raise.

        Steps of one task never overlap.
        """


class _State(Enum):
    IDLE = "waits for its topic to change"
    TIMED = "waits for a time"
    READY = "is in the queue"
    RUNNING = "a thread is in its step"
    REMOVED = "is never run again"


class Topic:
    """A source of changes: a table. Holds the tasks that wait for it."""

    __slots__ = ("idle", "serial")

    def __init__(self) -> None:
        self.idle: set[Slot] = set()
        self.serial = 0


class Slot:
    """One task's place in the pump.

    Attributes:
        rests_until: what changes before that time is served at that time. The task may set it in its step.

    """

    __slots__ = ("again", "leaving", "rests_until", "seen", "started", "state", "task", "timer", "topic")

    def __init__(self, task: Task, topic: Topic) -> None:
        self.task = task
        self.topic = topic
        self.state = _State.IDLE
        self.seen = topic.serial
        self.again = False
        self.timer: float | None = None
        self.rests_until = -math.inf
        self.leaving = False
        self.started = 0.0


class Pump:
    """The queue, the timers and the threads.

    Args:
        parallel: steps that run at a time, those that are stuck not counted.
        clock: seconds, monotonic.

    """

    def __init__(self, parallel: int = 2, clock: Callable[[], float] = time.monotonic) -> None:
        self._parallel = parallel
        self._clock = clock
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._rest = threading.Condition(self._lock)  # a step has ended
        self._ready: deque[Slot] = deque()
        self._changed: set[Topic] = set()
        # Times, and the tasks waiting for each: subscribers have common ticks.
        self._times: list[float] = []
        self._timers: dict[float, dict[Slot, None]] = {}
        self._running: set[Slot] = set()
        self._threads = 0
        self._busy_threads = 0
        self._idle_threads = 0
        self._leading_until: float | None = None
        self._guarded = False  # the leader checks the queue again when a thread may be stuck
        self._closed = False
        self._is_short = False  # of threads; logged once

    @property
    def threads(self) -> int:
        """Threads that exist now."""
        return self._threads

    def add(self, task: Task, topic: Topic) -> Slot:
        """Take ``task`` in. It is not run before :meth:`run` or :meth:`wake`, or a change of ``topic``."""
        slot = Slot(task, topic)
        with self._lock:
            topic.idle.add(slot)
        return slot

    def move(self, slot: Slot, topic: Topic) -> None:
        """Make ``slot`` wait for another topic, from its next step on."""
        with self._lock:
            if slot in slot.topic.idle:
                slot.topic.idle.discard(slot)
                topic.idle.add(slot)
            slot.topic = topic
            slot.seen = -1  # no serial of the new topic has been seen

    def changed(self, topic: Topic) -> None:
        """Schedule all tasks waiting for ``topic``. O(1) in the number of tasks."""
        with self._lock:
            topic.serial += 1
            if topic.idle and not self._closed:
                self._changed.add(topic)
                self._summon()

    def wake(self, slot: Slot) -> None:
        """Schedule ``slot``, regardless of what it waits for."""
        with self._lock:
            if slot.state is _State.RUNNING:
                slot.again = True
            elif slot.state in (_State.IDLE, _State.TIMED):
                self._make_ready(slot)
                self._summon()

    def run(self, slot: Slot) -> None:
        """Serve ``slot`` on the calling thread, now; if another thread is at it, have it served again after that."""
        with self._lock:
            if slot.state is _State.REMOVED:
                return
            if slot.state is _State.RUNNING:
                slot.again = True
                return
            if slot.state is _State.READY:
                self._ready.remove(slot)
            self._begin(slot)
        self._step(slot)

    def remove(self, slot: Slot) -> None:
        """Never run ``slot`` again. Returns when no thread is in its step any more."""
        with self._lock:
            slot.leaving = True
            while slot.state is _State.RUNNING:
                self._rest.wait()
            if slot.state is _State.READY:
                self._ready.remove(slot)
            self._unlist(slot)
            slot.state = _State.REMOVED

    def dismiss(self, slot: Slot) -> bool:
        """Start no further step of ``slot``; whether none is running. Does not wait: :meth:`remove` does."""
        with self._lock:
            slot.leaving = True
            return slot.state is not _State.RUNNING

    def close(self) -> None:
        """Let all threads end. What is running runs on to its end."""
        with self._lock:
            self._closed = True
            self._ready.clear()
            self._work.notify_all()

    def _begin(self, slot: Slot) -> None:
        self._unlist(slot)
        slot.state = _State.RUNNING
        slot.seen = slot.topic.serial
        slot.again = False
        slot.started = self._clock()
        self._running.add(slot)

    def _step(self, slot: Slot) -> None:
        wake_at: float | None = None
        try:
            wake_at = slot.task.step(slot.started)
        finally:
            with self._lock:
                self._settle(slot, wake_at)

    def _settle(self, slot: Slot, wake_at: float | None) -> None:
        self._running.discard(slot)
        now = self._clock()
        if slot.leaving:
            slot.state = _State.REMOVED
        elif slot.again or (wake_at is not None and wake_at <= now):
            self._make_ready(slot)
        elif wake_at is not None:
            self._make_timed(slot, wake_at)
        elif slot.seen != slot.topic.serial:
            self._notice(slot, now)
        else:
            slot.state = _State.IDLE
            slot.topic.idle.add(slot)
        is_first = slot.timer is not None and (self._leading_until is None or slot.timer < self._leading_until)
        if slot.state is _State.READY or is_first:
            self._summon()
        self._rest.notify_all()

    def _notice(self, slot: Slot, now: float) -> None:
        """Handle a change of the topic of ``slot``."""
        if slot.rests_until > now:
            slot.topic.idle.discard(slot)
            self._make_timed(slot, slot.rests_until)
        else:
            self._make_ready(slot)

    def _make_timed(self, slot: Slot, at: float) -> None:
        slot.state = _State.TIMED
        slot.timer = at
        waiting = self._timers.get(at)
        if waiting is None:
            waiting = self._timers[at] = {}
            heapq.heappush(self._times, at)
        waiting[slot] = None

    def _unlist(self, slot: Slot) -> None:
        """Remove ``slot`` from the waiting ones."""
        slot.topic.idle.discard(slot)
        if slot.timer is not None:
            del self._timers[slot.timer][slot]
            slot.timer = None

    def _make_ready(self, slot: Slot) -> None:
        self._unlist(slot)
        slot.state = _State.READY
        self._ready.append(slot)

    def _summon(self) -> None:
        """Ensure that a thread checks the queue."""
        if self._idle_threads:
            self._work.notify()
        elif not self._closed and not self._threads:
            self._start_thread()

    def _start_thread(self) -> None:
        """Start a thread. If that fails, existing threads or a later attempt do the work."""
        self._threads += 1
        try:
            start_thread(threading.Thread(target=self._serve, name="barrage-pump", daemon=True))
        except LimitError as error:
            self._threads -= 1
            if not self._is_short:
                logger.warning("subscribers are served late: %s", error)
            self._is_short = True
        else:
            self._is_short = False

    def _serve(self) -> None:
        while True:
            with self._lock:
                slot = self._next()
                if slot is None:
                    self._threads -= 1
                    return
                self._busy_threads += 1
                self._hand_over()
            try:
                self._step(slot)
            finally:
                with self._lock:
                    self._busy_threads -= 1

    def _next(self) -> Slot | None:
        """Wait for the next slot to serve; ``None`` when this thread is to end. Holds the lock but for waiting."""
        idle_since = self._clock()
        while not self._closed:
            now = self._clock()
            self._collect(now)
            if self._ready and self._may_start(now):
                slot = self._ready.popleft()
                self._begin(slot)
                return slot
            if self._idle_threads and now - idle_since >= _IDLE_SECONDS:
                return None
            self._wait(now)
        return None

    def _hand_over(self) -> None:
        """Ensure that another thread watches the queue and the timers."""
        if self._threads == self._busy_threads:
            self._start_thread()
        elif (self._ready and not self._guarded) or (self._times and self._leading_until is None):
            self._work.notify()

    def _wait(self, now: float) -> None:
        """Wait for a wake-up. One thread, the leader, also waits for the next timer."""
        until = now + _IDLE_SECONDS
        if self._times:
            until = min(until, self._times[0])
        if self._ready:
            until = min(until, now + self._patience())  # a thread may be stuck by then
        self._idle_threads += 1
        try:
            if self._leading_until is not None and self._leading_until <= until:
                self._work.wait(_IDLE_SECONDS)
                return
            self._leading_until = until
            self._guarded = bool(self._ready)
            try:
                self._work.wait(max(0.0, until - now))
            finally:
                if self._leading_until == until:  # otherwise a thread with an earlier time has taken over
                    self._leading_until = None
                    self._guarded = False
        finally:
            self._idle_threads -= 1

    def _may_start(self, now: float) -> bool:
        patience = self._patience()
        lively = sum(now - slot.started < patience for slot in self._running)
        return lively < self._parallel

    def _patience(self) -> float:
        beyond = max(0, len(self._running) - self._parallel)
        return min(_MOST_PATIENCE, _PATIENCE * (1 + beyond))

    def _collect(self, now: float) -> None:
        """Enqueue the tasks of changed topics and expired timers."""
        for topic in self._changed:
            for slot in tuple(topic.idle):
                self._notice(slot, now)
        self._changed.clear()
        while self._times and self._times[0] <= now:
            for slot in self._timers.pop(heapq.heappop(self._times)):
                slot.timer = None
                self._make_ready(slot)
