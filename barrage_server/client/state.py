"""The states of a live table."""

from __future__ import annotations

from enum import StrEnum

from barrage_server.public import public

__all__ = ["LiveState"]


@public
class LiveState(StrEnum):
    """The state of a live table.

    ::

        CONNECTING -> LIVE -> RECONNECTING -> LIVE ...
             any of them -> CLOSED | FAILED
    """

    CONNECTING = "connecting"
    """The first snapshot is not complete yet."""
    LIVE = "live"
    """Updates flow."""
    RECONNECTING = "reconnecting"
    """The connection is lost, and the subscription reconnects; the content is the last one seen."""
    CLOSED = "closed"
    """Closed by its owner; the content stays readable."""
    FAILED = "failed"
    """Ended by an error that a retry cannot mend: ``live.error``."""

    @property
    def is_final(self) -> bool:
        """Whether no update can follow."""
        return self in (LiveState.CLOSED, LiveState.FAILED)
