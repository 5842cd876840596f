"""The state of a subscription, and callbacks for its changes."""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from barrage_server.client.state import LiveState
from barrage_server.engine.callbacks import Callbacks
from barrage_server.errors import BarrageError, DeadlineError, UnavailableError

__all__ = ["Status", "UserCallbacks", "again"]

T = TypeVar("T")

logger = logging.getLogger("barrage_server.client")


class UserCallbacks(Callbacks[Callable[[T], object]]):
    """Callbacks of the user. Safe for threads.

    Args:
        name: the table's name, for the log.

    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def tell(self, value: T) -> None:
        """Call all callbacks with ``value``; their errors are logged."""
        for callback in self:
            try:
                callback(value)
            except Exception:  # an error of the user's callback must not end the subscription
                logger.exception("a callback of table %r failed; it stays attached", self._name)


class Status:
    """The state of one subscription. Methods may be called from any thread.

    Args:
        name: the table's name.

    Attributes:
        changed: notified after every change of the subscription; its reentrant lock guards the whole subscription.
        state: the present state.
        error: why it failed; None unless the state is FAILED.
        messages: the number of messages applied.
        callbacks: called with each state that is entered.

    """

    def __init__(self, name: str) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.state = LiveState.CONNECTING
        self.error: BarrageError | None = None
        self.messages = 0
        self.callbacks: UserCallbacks[LiveState] = UserCallbacks(name)
        self._name = name
        self._untold: list[LiveState] = []

    @property
    def is_over(self) -> bool:
        """Whether the state is final."""
        return self.state.is_final

    def enter(self, state: LiveState) -> None:
        """Enter a state; :meth:`tell` makes the callbacks later."""
        with self.changed:
            logger.debug("table %r: %s -> %s", self._name, self.state, state)
            self.state = state
            self._untold.append(state)
            self.changed.notify_all()

    def fail(self, error: BarrageError) -> bool:
        """Enter FAILED unless the state is final; return whether it was entered."""
        with self.changed:
            if self.state.is_final:
                return False
            self.error = error
            self.enter(LiveState.FAILED)
            return True

    def tell(self) -> None:
        """Make the callbacks for the states entered since the last call.

        The lock must not be held, because callbacks may wait.
        """
        with self.changed:
            states, self._untold = self._untold, []
        for state in states:
            self.callbacks.tell(state)

    def wait(self, done: Callable[[], bool], timeout: float, text: str) -> None:
        """Wait until ``done()``, which is called after every change.

        Raises:
            DeadlineError: it did not hold within ``timeout`` seconds; ``text`` says so.
            BarrageError: the subscription has ended, and it does not hold.

        """
        deadline = time.monotonic() + timeout
        with self.changed:
            while not done():
                self.check_open()
                rest = deadline - time.monotonic()
                if rest <= 0:
                    raise DeadlineError(text)
                self.changed.wait(rest)

    def check_open(self) -> None:
        """Raise the error of the subscription, or UnavailableError if it is closed."""
        if self.error is not None:
            raise again(self.error)
        if self.state.is_final:
            raise UnavailableError(f"The subscription to '{self._name}' is closed.")


def again(error: BarrageError) -> BarrageError:
    """Copy an error, so that repeated raises do not pile up tracebacks on one object."""
    fresh = copy.copy(error)
    fresh.__suppress_context__ = True
    return fresh
