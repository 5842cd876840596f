"""Blocking calls that Ctrl-C and time-outs interrupt at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from barrage_server.errors import DeadlineError, UnavailableError
from barrage_server.process import Ending, end_with_process, start_thread

__all__ = ["Progress", "run_interruptible"]

T = TypeVar("T")


class Progress:
    """The progress and the cancellation of a long call.

    Args:
        clock: seconds, monotonic.

    Attributes:
        last: time of the last progress, in seconds of the clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._cancel: Callable[[], None] | None = None
        self._given_up = False
        self._clock = clock
        self.last = clock()

    def advance(self) -> None:
        """Record progress: the time-out restarts."""
        self.last = self._clock()

    def check(self) -> None:
        """Raise UnavailableError if the caller has given up."""
        with self._lock:
            if self._given_up:
                raise UnavailableError("Given up by the caller.")

    def cancel_with(self, cancel: Callable[[], None]) -> None:
        """Call ``cancel()`` when the caller gives up, or now if it already has."""
        with self._lock:
            self._cancel = cancel
            late = self._given_up
        if late:
            cancel()

    def give_up(self) -> None:
        """Record that the caller has given up, and cancel the call."""
        with self._lock:
            self._given_up = True
            cancel = self._cancel
        if cancel is not None:
            cancel()


class _Outcome(Generic[T]):
    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.done = threading.Event()
        self.value: T | None = None
        self.error: BaseException | None = None

    def end_with_process(self, timeout: float) -> None:
        self.progress.give_up()
        self.done.wait(timeout)


def run_interruptible(
    call: Callable[[Progress], T], *, timeout: float, what: str, clock: Callable[[], float] = time.monotonic
) -> T:
    """Run ``call(progress)`` on a thread of its own, and return its result.

    A blocking Flight call on the main thread delays Ctrl-C until the server's next message. Here Ctrl-C takes effect at
    once, and cancels the call.

    Args:
        call: the call, which reports progress to its argument.
        timeout: seconds without progress after which the call is cancelled.
        what: the name of the call, for the error's text.
        clock: seconds, monotonic.

    Raises:
        DeadlineError: no progress for ``timeout`` seconds.
        LimitError: the process cannot start a thread.
        BaseException: any error of ``call``.
    """
    progress = Progress(clock)
    outcome: _Outcome[T] = _Outcome(progress)

    def run() -> None:
        try:
            outcome.value = call(progress)
        except BaseException as error:  # raised again in the waiting thread
            outcome.error = error
        finally:
            outcome.done.set()

    start_thread(threading.Thread(target=run, name="barrage-call", daemon=True))
    end_with_process(outcome, Ending.SUBSCRIPTION)  # a thread inside of Flight must not outlive the interpreter
    try:
        while not outcome.done.wait(max(0.0, progress.last + timeout - clock())):
            if clock() - progress.last >= timeout:
                raise DeadlineError(f"{what}: nothing came for {timeout:g} s.")
    except BaseException:
        progress.give_up()
        raise
    if outcome.error is not None:
        raise outcome.error
    return outcome.value  # type: ignore[return-value]  # it has a value when there is no error
