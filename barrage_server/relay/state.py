"""The states of a followed table."""

from __future__ import annotations

from enum import StrEnum

from barrage_server.errors import BarrageError, DeadlineError, LimitError, NotFoundError, UnavailableError
from barrage_server.public import public

__all__ = ["FollowedState"]


@public
class FollowedState(StrEnum):
    """The state of a followed table.

    ::

        CONNECTING -> LIVE -> RECONNECTING | MISSING | REFUSED -> LIVE ...
              any of them -> CLOSED

    Only ``CLOSED`` is final: in all others the upstream is retried. The table is served from the first ``LIVE`` on,
    with its last content while the upstream is lost.
    """

    CONNECTING = "connecting"
    """The first content is being fetched."""
    LIVE = "live"
    """Updates flow."""
    RECONNECTING = "reconnecting"
    """The upstream does not answer, or is busy."""
    MISSING = "missing"
    """The upstream answers, and has no such table, or has it no longer."""
    REFUSED = "refused"
    """The upstream refuses the credentials or the request; a change of configuration is needed."""
    CLOSED = "closed"
    """Closed by its owner, or by a drop of the table here."""

    @classmethod
    def after(cls, error: BarrageError) -> FollowedState:
        """The state after ``error`` of a table that was connecting or live."""
        if isinstance(error, NotFoundError):
            return cls.MISSING
        if isinstance(error, UnavailableError | LimitError | DeadlineError):
            return cls.RECONNECTING
        return cls.REFUSED
