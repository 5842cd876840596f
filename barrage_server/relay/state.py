"""The states of a table that is followed."""

from __future__ import annotations

from enum import StrEnum

from barrage_server.errors import BarrageError, DeadlineError, LimitError, NotFoundError, UnavailableError
from barrage_server.public import public

__all__ = ["FollowedState"]


@public
class FollowedState(StrEnum):
    """Where a table that is followed stands.

    ::

        CONNECTING -> LIVE -> RECONNECTING | MISSING | REFUSED -> LIVE ...
              any of them -> CLOSED

    None but ``CLOSED`` is final: in all others the upstream is tried again and again. From the first ``LIVE`` on the
    table is served; while the upstream is away, with its last content.
    """

    CONNECTING = "connecting"
    """The first content is being fetched."""
    LIVE = "live"
    """Updates flow."""
    RECONNECTING = "reconnecting"
    """Nobody answers upstream, or it is busy."""
    MISSING = "missing"
    """The upstream answers, and has no such table (any more)."""
    REFUSED = "refused"
    """The upstream does not let this server in, or something else is wrong that somebody has to change."""
    CLOSED = "closed"
    """Ended by its owner, or by a drop of the table here."""

    @classmethod
    def after(cls, error: BarrageError) -> FollowedState:
        """Where ``error`` leaves a table that was connecting, or live."""
        if isinstance(error, NotFoundError):
            return cls.MISSING
        if isinstance(error, UnavailableError | LimitError | DeadlineError):
            return cls.RECONNECTING
        return cls.REFUSED
