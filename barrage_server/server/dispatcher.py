"""Serves many subscriptions with few threads.

A subscription has work when its table has changed, when its update interval has passed, or when its client has sent a
request. Publishing only marks the table: one lock and one wake-up for any number of subscribers. A small pool of
threads does the rest. A thread whose client does not read stops counting against the limit, and another thread takes
its place, so that no task waits for that client.
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

__all__ = ["ChangeSignal", "Dispatcher", "ScheduledTask", "Task"]

logger = logging.getLogger("barrage_server.server")

# Seconds after which a running turn stops counting against ``parallel``. Longer than a thread switch of the
# interpreter, so that a waiting turn still counts. Multiplied by one plus the number of excess turns, so that an
# overloaded machine does not start more and more threads.
_COUNTED_SECONDS = 0.02
_MOST_COUNTED_SECONDS = 0.2
# Seconds within which a turn counts as short. No other thread begins one meanwhile: two threads with short turns hand
# the interpreter lock to each other at every write, which takes longer than the turns.
_SHORT = 0.002
# Seconds without work after which a thread ends, unless it is the last one.
_IDLE_SECONDS = 5.0


class Task(Protocol):
    """Work that the dispatcher runs."""

    def run_turn(self, now: float) -> float | None:
        """Do the work due at ``now``; must not raise.

        Turns of one task never overlap.

        Returns:
            The time of the next turn; ``None``: at the next change; infinity: when it is woken.

        """


class _State(Enum):
    IDLE = "waits for its signal to change, or to be woken"
    TIMED = "waits for a time"
    READY = "is in the queue"
    RUNNING = "a thread is in its turn"
    REMOVED = "is never run again"


class ChangeSignal:
    """A source of changes: a table. Holds the tasks that wait for it.

    Attributes:
        changed_at: time of the last change; -inf before the first one.

    """

    __slots__ = ("changed_at", "idle", "serial")

    def __init__(self) -> None:
        self.idle: set[ScheduledTask] = set()
        self.serial = 0
        self.changed_at = -math.inf


class ScheduledTask:
    """A task of the dispatcher, with its state.

    Attributes:
        not_before: time before which a change waits for ``tick``. The task may set both in its turn.
        tick: time at which a waiting change is served, ``not_before`` or later.
        waited: whether a change had to wait. The task may reset it in its turn.

    """

    __slots__ = (
        "again",
        "leaving",
        "not_before",
        "seen",
        "signal",
        "started",
        "state",
        "task",
        "tick",
        "timer",
        "waited",
    )

    def __init__(self, task: Task, signal: ChangeSignal) -> None:
        self.task = task
        self.signal = signal
        self.state = _State.IDLE
        self.seen = signal.serial
        self.again = False
        self.timer: float | None = None
        self.not_before = self.tick = -math.inf
        self.waited = False
        self.leaving = False
        self.started = 0.0


class Dispatcher:
    """The queue, the timers and the threads.

    Args:
        parallel: turns that the threads run at a time, without stuck ones. Short turns run one by one.
        clock: seconds, monotonic.

    """

    def __init__(self, parallel: int = 2, clock: Callable[[], float] = time.monotonic) -> None:
        self._parallel = parallel
        self._clock = clock
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._rest = threading.Condition(self._lock)  # a turn has ended
        self._ready: deque[ScheduledTask] = deque()
        self._changed: set[ChangeSignal] = set()
        # Times, and the tasks waiting for each: subscribers have common ticks.
        self._times: list[float] = []
        self._timers: dict[float, dict[ScheduledTask, None]] = {}
        self._running: set[ScheduledTask] = set()  # in a turn on one of the threads
        self._threads = 0
        self._busy_threads = 0
        self._idle_threads = 0
        self._leading_until: float | None = None
        self._guarded = False  # the leader checks the queue again when a thread may be stuck
        self._closed = False
        self._is_short = False  # of threads; logged once

    @property
    def threads(self) -> int:
        """Number of threads that exist now."""
        return self._threads

    def add(self, task: Task, signal: ChangeSignal) -> ScheduledTask:
        """Add ``task``, to be run at :meth:`run`, :meth:`wake` or a change of ``signal``."""
        scheduled = ScheduledTask(task, signal)
        with self._lock:
            signal.idle.add(scheduled)
        return scheduled

    def move(self, scheduled: ScheduledTask, signal: ChangeSignal) -> None:
        """Make ``scheduled`` wait for another signal, from its next turn on."""
        with self._lock:
            if scheduled in scheduled.signal.idle:
                scheduled.signal.idle.discard(scheduled)
                signal.idle.add(scheduled)
            scheduled.signal = signal
            scheduled.seen = -1  # no serial of the new signal has been seen

    def changed(self, signal: ChangeSignal) -> None:
        """Schedule all tasks waiting for ``signal``. O(1) in the number of tasks."""
        with self._lock:
            signal.serial += 1
            signal.changed_at = self._clock()
            if signal.idle and not self._closed:
                self._changed.add(signal)
                self._summon()

    def wake(self, scheduled: ScheduledTask) -> None:
        """Schedule ``scheduled``, regardless of what it waits for."""
        with self._lock:
            if scheduled.state is _State.RUNNING:
                scheduled.again = True
            elif scheduled.state in (_State.IDLE, _State.TIMED):
                self._make_ready(scheduled)
                self._summon()

    def run(self, scheduled: ScheduledTask) -> None:
        """Run a turn of ``scheduled`` on the calling thread.

        While another thread runs one, that thread runs another turn afterwards instead.
        """
        with self._lock:
            if scheduled.state is _State.REMOVED:
                return
            if scheduled.state is _State.RUNNING:
                scheduled.again = True
                return
            if scheduled.state is _State.READY:
                self._ready.remove(scheduled)
            self._unlist(scheduled)
            self._begin(scheduled, self._clock())
        wake_at: float | None = None
        try:
            wake_at = scheduled.task.run_turn(scheduled.started)
        finally:
            with self._lock:
                self._settle(scheduled, wake_at, self._clock())
                if scheduled.state is _State.READY:
                    self._summon()

    def remove(self, scheduled: ScheduledTask) -> None:
        """Never run ``scheduled`` again. Returns when no thread is in its turn any more."""
        with self._lock:
            scheduled.leaving = True
            while scheduled.state is _State.RUNNING:
                self._rest.wait()
            if scheduled.state is _State.READY:
                self._ready.remove(scheduled)
            self._unlist(scheduled)
            scheduled.state = _State.REMOVED

    def dismiss(self, scheduled: ScheduledTask) -> bool:
        """Start no further turn of ``scheduled``; return whether none is running.

        Does not wait for a running turn, unlike :meth:`remove`.
        """
        with self._lock:
            scheduled.leaving = True
            return scheduled.state is not _State.RUNNING

    def close(self) -> None:
        """Let all threads end after their running turns."""
        with self._lock:
            self._closed = True
            self._ready.clear()
            self._work.notify_all()

    def _begin(self, scheduled: ScheduledTask, now: float) -> None:
        """Begin a turn of a task that waits for nothing any more."""
        scheduled.state = _State.RUNNING
        scheduled.seen = scheduled.signal.serial
        scheduled.again = False
        scheduled.started = now

    def _settle(self, scheduled: ScheduledTask, wake_at: float | None, now: float) -> None:
        """End a turn. A thread must look at the queue then."""
        if scheduled.leaving:
            scheduled.state = _State.REMOVED
        elif scheduled.again or (wake_at is not None and wake_at <= now):
            self._make_ready(scheduled)
        elif wake_at == math.inf:
            scheduled.state = _State.IDLE  # its signal does not know of it
        elif wake_at is not None:
            self._make_timed(scheduled, wake_at)
        elif scheduled.seen != scheduled.signal.serial:
            self._notice(scheduled, now)
        else:
            scheduled.state = _State.IDLE
            scheduled.signal.idle.add(scheduled)
        timer = scheduled.timer
        if timer is not None and (self._leading_until is None or timer < self._leading_until):
            self._summon()
        if scheduled.leaving:
            self._rest.notify_all()

    def _notice(self, scheduled: ScheduledTask, now: float) -> None:
        """Handle a change of the signal of ``scheduled``."""
        if scheduled.not_before > now:
            scheduled.signal.idle.discard(scheduled)
            scheduled.waited = True
            self._make_timed(scheduled, max(scheduled.not_before, scheduled.tick))
        else:
            self._make_ready(scheduled)

    def _make_timed(self, scheduled: ScheduledTask, at: float) -> None:
        scheduled.state = _State.TIMED
        scheduled.timer = at
        waiting = self._timers.get(at)
        if waiting is None:
            waiting = self._timers[at] = {}
            heapq.heappush(self._times, at)
        waiting[scheduled] = None

    def _unlist(self, scheduled: ScheduledTask) -> None:
        """Remove ``scheduled`` from its signal and its timer."""
        scheduled.signal.idle.discard(scheduled)
        if scheduled.timer is not None:
            del self._timers[scheduled.timer][scheduled]
            scheduled.timer = None

    def _make_ready(self, scheduled: ScheduledTask) -> None:
        self._unlist(scheduled)
        scheduled.state = _State.READY
        self._ready.append(scheduled)

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
            start_thread(threading.Thread(target=self._serve, name="barrage-dispatcher", daemon=True))
        except LimitError as error:
            self._threads -= 1
            if not self._is_short:
                logger.warning("subscribers are served late: %s", error)
            self._is_short = True
        else:
            self._is_short = False

    def _serve(self) -> None:
        """Serve one task after another.

        The lock is taken once from one turn to the next.
        """
        scheduled: ScheduledTask | None = None
        wake_at: float | None = None
        while True:
            with self._lock:
                now = self._clock()
                if scheduled is not None:
                    self._leave(scheduled, wake_at, now)
                    scheduled = None  # it may leave while there is nothing to do
                scheduled = self._next(now)
                if scheduled is None:
                    self._threads -= 1
                    return
                self._busy_threads += 1
                self._hand_over()
            try:
                wake_at = scheduled.task.run_turn(scheduled.started)
            except BaseException:  # against the rule: the thread ends, and the task waits for its signal
                with self._lock:
                    self._leave(scheduled, None, self._clock())
                    self._threads -= 1
                    if self._ready:  # this thread does not look at the queue any more
                        self._summon()
                raise

    def _leave(self, scheduled: ScheduledTask, wake_at: float | None, now: float) -> None:
        """End a turn of this thread."""
        self._running.discard(scheduled)
        self._busy_threads -= 1
        self._settle(scheduled, wake_at, now)

    def _next(self, now: float) -> ScheduledTask | None:
        """Wait for the next task to serve; ``None`` when this thread is to end.

        The lock is held, except while waiting.
        """
        idle_since = now
        while not self._closed:
            self._collect(now)
            if self._ready and (not self._running or self._may_start(now)):
                scheduled = self._ready.popleft()
                self._begin(scheduled, now)
                self._running.add(scheduled)
                return scheduled
            if self._idle_threads and now - idle_since >= _IDLE_SECONDS:
                return None
            self._wait(now)
            now = self._clock()
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
        if self._ready:  # by then a turn may be long, or a thread stuck
            until = min(until, now + (_SHORT if len(self._running) < self._parallel else self._counted_seconds()))
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
        """Whether a turn may begin beside those that run."""
        counted = self._counted_seconds()
        ages = [now - scheduled.started for scheduled in self._running]
        return min(ages) >= _SHORT and sum(age < counted for age in ages) < self._parallel

    def _counted_seconds(self) -> float:
        beyond = max(0, len(self._running) - self._parallel)
        return min(_MOST_COUNTED_SECONDS, _COUNTED_SECONDS * (1 + beyond))

    def _collect(self, now: float) -> None:
        """Enqueue the tasks of changed signals and expired timers."""
        if self._changed:
            for signal in self._changed:
                for scheduled in tuple(signal.idle):
                    self._notice(scheduled, now)
            self._changed.clear()
        while self._times and self._times[0] <= now:
            for scheduled in self._timers.pop(heapq.heappop(self._times)):
                scheduled.timer = None
                self._make_ready(scheduled)
