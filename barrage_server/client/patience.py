"""Waiting for blocking calls in such a way that Ctrl-C and deadlines act at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from barrage_server.errors import DeadlineError, UnavailableError
from barrage_server.process import Ending, end_with_process, start_thread

__all__ = ["Progress", "patiently"]

T = TypeVar("T")


class Progress:
    """How a long call shows that it is getting on, and how it can be ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancel: Callable[[], None] | None = None
        self._given_up = False
        self.last = time.monotonic()

    def advance(self) -> None:
        """Something arrived: the deadline counts anew."""
        self.last = time.monotonic()

    def check(self) -> None:
        """Raise UnavailableError when nobody waits any more."""
        with self._lock:
            if self._given_up:
                raise UnavailableError("Given up by the caller.")

    def cancel_with(self, cancel: Callable[[], None]) -> None:
        """What to call when nobody waits any more; called at once when that is so already."""
        with self._lock:
            self._cancel = cancel
            late = self._given_up
        if late:
            cancel()

    def give_up(self) -> None:
        """Nobody waits any more."""
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


def patiently(call: Callable[[Progress], T], *, timeout: float, what: str) -> T:
    """The result of ``call(progress)``, which runs on a thread of its own.

    A blocking Flight call lets no signal through: Ctrl-C would act only when the server says something. Here it acts at
    once, and the call is cancelled.

    Args:
        call: what to do; it reports to the progress that it is given.
        timeout: seconds without progress after which it is given up.
        what: what is waited for, for the text.

    Raises:
        DeadlineError: no progress for ``timeout`` seconds.
        LimitError: this process can start no further thread.
        BaseException: whatever ``call`` raised.
    """
    progress = Progress()
    outcome: _Outcome[T] = _Outcome(progress)

    def run() -> None:
        try:
            outcome.value = call(progress)
        except BaseException as error:  # it is raised again where it is waited for
            outcome.error = error
        finally:
            outcome.done.set()

    start_thread(threading.Thread(target=run, name="barrage-call", daemon=True))
    end_with_process(outcome, Ending.SUBSCRIPTION)  # a thread inside of Flight must not outlive the interpreter
    try:
        while not outcome.done.wait(max(0.0, progress.last + timeout - time.monotonic())):
            if time.monotonic() - progress.last >= timeout:
                raise DeadlineError(f"{what}: nothing came for {timeout:g} s.")
    except BaseException:
        progress.give_up()
        raise
    if outcome.error is not None:
        raise outcome.error
    return outcome.value  # type: ignore[return-value]  # it has a value when there is no error
