"""The state of a followed table, and waiting for it."""

from __future__ import annotations

import logging
import threading
import time

from barrage_server.arguments import seconds, shown
from barrage_server.client import TableInfo
from barrage_server.engine import Table
from barrage_server.errors import BarrageError, DeadlineError, InvalidRequestError, UnavailableError
from barrage_server.relay.state import FollowedState

__all__ = ["Progress"]

logger = logging.getLogger("barrage_server.relay")


class Progress:
    """The state of a followed table. Methods may be called from any thread.

    Args:
        name: the table's name here, for texts.

    Attributes:
        changed: notified after every change of an attribute; its lock guards all of them, and may be taken again.
        closing: set when following ends.
        state: whether updates flow.
        since: time at which the state was entered, on the monotonic clock.
        error: why updates do not flow; ``None`` when they do.
        table: the served table; ``None`` before the first content.
        info: the upstream's description of the table.
        connections: number of times that updates began to flow.
        updates: number of updates received.
        resumed: number of reconnections that began with an update, and not with a snapshot.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.changed = threading.Condition()
        self.closing = threading.Event()
        self.state = FollowedState.CONNECTING
        self.since = time.monotonic()
        self.error: BarrageError | None = None
        self.table: Table | None = None
        self.info: TableInfo | None = None
        self.connections = 0
        self.updates = 0
        self.resumed = 0

    def enter(self, state: FollowedState, error: BarrageError | None = None) -> None:
        """Enter a state."""
        with self.changed:
            if state is not self.state:
                logger.debug("table %s: %s -> %s", self.name, self.state, state)
                self.state, self.since = state, time.monotonic()
            self.error = error
            self.changed.notify_all()

    def close(self) -> None:
        """End following."""
        with self.changed:
            self.closing.set()
            self.enter(FollowedState.CLOSED)

    def check_open(self) -> None:
        """Raise UnavailableError when following has ended."""
        if self.closing.is_set():
            raise self.closed()

    def closed(self) -> UnavailableError:
        """The error of calls after the end."""
        return UnavailableError(f"Following '{self.name}' is closed.")

    def wait_for(self, state: FollowedState | str, timeout: float | None = None) -> None:
        """Wait for a state; ``timeout`` is in seconds; ``None`` has no limit.

        Raises:
            InvalidRequestError: there is no such state.
            DeadlineError: it was not entered within ``timeout``; the text has the last error.
            UnavailableError: following has ended.
        """
        wanted = _state_of(state)
        limit = None if timeout is None else seconds(timeout, "timeout")
        with self.changed:
            self.changed.wait_for(lambda: self.state in (wanted, FollowedState.CLOSED), limit)
            if self.state is wanted:
                return
            if self.state is FollowedState.CLOSED:
                raise self.closed()
            why = "" if self.error is None else f": {self.error}"
            raise DeadlineError(f"'{self.name}' was not {wanted} within {limit:g} s, but {self.state}{why}")

    def wait_first(self, wait: float) -> None:
        """Wait until the table is served.

        Transient errors are retried for ``wait`` seconds.

        Raises:
            BarrageError: the reason why the table is not served.
        """
        deadline = time.monotonic() + wait
        with self.changed:
            while self.table is None:
                self.check_open()
                error = self.error
                if error is not None:
                    passing = FollowedState.after(error) is not FollowedState.REFUSED
                    if not passing or time.monotonic() >= deadline:
                        raise error
                self.changed.wait()


def _state_of(state: FollowedState | str) -> FollowedState:
    try:
        return FollowedState(state)
    except ValueError:
        raise InvalidRequestError(f"A state is one of {', '.join(FollowedState)}, not {shown(state)}.") from None
