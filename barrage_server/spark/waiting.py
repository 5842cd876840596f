"""Waiting for an unreachable server: its limit, its log, and its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from barrage_server.errors import BarrageError, DeadlineError, UnavailableError
from barrage_server.flight.errors import other_protocol
from barrage_server.flight.retry import RetryPolicy

__all__ = ["Wait", "WaitPolicy", "has_given_up"]

_log: Final = logging.getLogger("barrage_server.spark")

# ``WaitPolicy`` has the limit, which counts all the time that has passed, and not pauses alone.
_PAUSES: Final = RetryPolicy(deadline=None)
_SECONDS_BETWEEN_LOGS: Final = 30.0
# A mark in the text of an error: only the text of a task's error reaches the driver.
_GAVE_UP: Final = "; gave up after waiting for "

_T = TypeVar("_T")


def has_given_up(error: BarrageError) -> bool:
    """Whether ``error`` ended a wait that took its full time, here or in a task."""
    return _GAVE_UP in str(error)


@dataclass(frozen=True)
class WaitPolicy:
    """The limit of waiting for a server.

    Attributes:
        address: the server, for the log.
        seconds: most seconds of one wait; 0 does not wait, infinity has no end.
        sleep: pauses for a number of seconds; it raises when the wait has lost its purpose.
    """

    address: str
    seconds: float
    sleep: Callable[[float], None] = time.sleep

    def retried(self, action: Callable[[], _T], *, may_repeat: Callable[[], bool] = lambda: True) -> _T:
        """Run ``action()`` again while the server cannot be reached; return its result.

        Args:
            action: the call; it must be safe to repeat as long as ``may_repeat()``.
            may_repeat: asked after a failure.

        Raises:
            InvalidRequestError: another kind of program answers, so that waiting does not help.
            UnavailableError, DeadlineError: the time is over.
        """
        wait = Wait(self)
        while True:
            try:
                result = action()
            except (UnavailableError, DeadlineError) as error:
                if not may_repeat():
                    raise
                wait.pause(error)
            else:
                wait.end()
                return result


@dataclass
class Wait:
    """One wait, from the first failure on."""

    policy: WaitPolicy
    _began: float | None = None
    _logged: float = 0.0
    _pauses: Iterator[float] = field(default_factory=_PAUSES.delays)

    def pause(self, error: BarrageError) -> None:
        """Wait before the next attempt, after a failure with ``error``.

        Raises:
            InvalidRequestError: waiting cannot help.
            BarrageError: ``error``, with the time waited in its text.
        """
        address, seconds = self.policy.address, self.policy.seconds
        wrong = other_protocol(error, address)
        if wrong is not None:
            raise wrong from error
        now = time.monotonic()
        if self._began is None:
            self._began = now
        left = self._began + seconds - now
        if seconds == 0:
            raise error
        if left <= 0:
            raise type(error)(f"{str(error).rstrip('. ')}{_GAVE_UP}{address} for {seconds:g} s.") from error
        if self._logged == 0.0 or now - self._logged >= _SECONDS_BETWEEN_LOGS:
            self._logged = now
            rest = "without end" if left == float("inf") else f"for up to {left:.0f} s more"
            _log.warning("waiting for the server at %s, %s (retry_seconds=%g): %s", address, rest, seconds, error)
        self.policy.sleep(min(left, next(self._pauses)))

    def end(self) -> None:
        """End the wait: the server has answered."""
        if self._began is not None:
            away = time.monotonic() - self._began
            _log.warning("the server at %s answers again, after %.1f s", self.policy.address, away)
        self._began, self._logged, self._pauses = None, 0.0, _PAUSES.delays()
