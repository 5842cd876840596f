"""Sessions of Deephaven clients: their users, exports and ends.

Used on the endpoint's event loop. Calls keep a session alive. A session without calls for its time ends, with its
exports and open calls, so that a vanished client leaves nothing.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from barrage_server.errors import LimitError
from barrage_server.publish.caller_counts import CallerCounts
from barrage_server.server.deephaven.exports import Exports
from barrage_server.server.export_counts import ExportCounts
from barrage_server.server.principal import UNAUTHENTICATED, Principal

if TYPE_CHECKING:
    from barrage_server.server.console.console import Command

__all__ = ["Session", "Sessions"]


class Session:
    """One client's session.

    Attributes:
        token: the session's token.
        principal: the caller.
        exports: its tables by number.
        shared: number of tables that it has shared.
        calls: tasks of its calls that end with it.
        consoles: the consoles that it has started, by number, with the commands that they run.
        is_closed: whether it has ended.
        is_plain: of a plain Flight client, which names tables of the catalog only.
        until: time of its end without another call, in seconds of the clock.

    """

    def __init__(self, principal: Principal, until: float, exports: Exports, *, is_plain: bool = False) -> None:
        self.token = secrets.token_urlsafe(24)
        self.principal = principal
        self.until = until
        self.exports = exports
        self.shared = 0
        self.calls: set[asyncio.Task[object]] = set()
        self.consoles: dict[int, set[Command]] = {}
        self.is_closed = False
        self.is_plain = is_plain

    def close(self) -> None:
        """Release its exports, and end its calls."""
        self.is_closed = True
        self.exports.close()
        for task in tuple(self.calls):
            task.cancel()


class Sessions:
    """The sessions of one endpoint, by token.

    Args:
        seconds: seconds that a session lives without a call.
        limit: most sessions.
        exports: most exports of each.
        counts: the exports of all of them.
        per_caller: most sessions of one caller.
        clock: a monotonic clock, in seconds.
        ended: called with each session that has ended.
        holds: tells whether the credentials of a principal are still valid.

    """

    def __init__(
        self,
        seconds: float,
        limit: int,
        exports: int,
        clock: Callable[[], float],
        ended: Callable[[Session], None],
        holds: Callable[[Principal], bool],
        per_caller: float = math.inf,
        counts: ExportCounts | None = None,
    ) -> None:
        self.seconds = seconds
        self._limit = limit
        self._exports = exports
        self._clock = clock
        self._ended = ended
        self._holds = holds
        self._per_caller = per_caller
        self._counts = counts or ExportCounts()
        self._of_callers = CallerCounts()
        self._sessions: dict[str, Session] = {}
        self._guests: weakref.WeakSet[Session] = weakref.WeakSet()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def export_count(self) -> int:
        """Exports of all sessions. May be asked from any thread."""
        return self._counts.total

    def guest(self, principal: Principal, *, is_plain: bool = False) -> Session:
        """A session for one call of a client that shows its credentials each time."""
        exports = Exports(self._exports, may_come=False, counts=self._counts)
        session = Session(principal, self._clock() + self.seconds, exports, is_plain=is_plain)
        self._guests.add(session)
        return session

    def open(self, session: Session) -> None:
        """Keep a guest's session from now on.

        Raises:
            LimitError: the server, or the caller, has too many sessions.

        """
        self.expire()
        if len(self._sessions) >= self._limit:
            raise LimitError(
                f"This server has {self._limit} sessions open (sessions) and takes no more; try again later."
            )
        owner = session.principal.owner
        if owner and self._of_callers[owner] >= self._per_caller:
            raise LimitError(
                f"'{session.principal.name}' has {self._per_caller} sessions open (sessions_per_caller), "
                f"and may have no more; close some first."
            )
        self._of_callers.add(owner)
        session.exports.keep(owner)
        self._guests.discard(session)
        self._sessions[session.token] = session

    def find(self, token: str) -> Session | None:
        """Find a valid session by its token, and start its time anew; else ``None``."""
        session = self._sessions.get(token)
        if session is None:
            return None
        now = self._clock()
        if now >= session.until or not self._holds(session.principal):
            self.close(session)
            return None
        session.until = now + self.seconds
        return session

    def close(self, session: Session) -> None:
        """End a session."""
        if self._sessions.pop(session.token, None) is not None:
            self._of_callers.remove(session.principal.owner)
        if not session.is_closed:
            session.close()
            self._ended(session)

    def expire(self) -> None:
        """End the sessions whose time has run out."""
        now = self._clock()
        for session in tuple(self._sessions.values()):
            if now >= session.until:
                self.close(session)

    def end_invalid(self) -> None:
        """End the sessions and calls whose credentials expired or were revoked.

        Calls that have shown none yet, such as a handshake, have time limits of their own.
        """
        for session in (*self._sessions.values(), *self._guests):
            if session.principal is not UNAUTHENTICATED and not self._holds(session.principal):
                self.close(session)

    def close_all(self) -> None:
        """End all sessions."""
        for session in tuple(self._sessions.values()):
            self.close(session)
