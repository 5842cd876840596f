"""What kind of server a client talks to, which decides what it can be asked for."""

from __future__ import annotations

from enum import StrEnum

from barrage_server.subscription import Dialect

__all__ = ["Counterpart"]


class Counterpart(StrEnum):
    """Kinds of servers, told by their first answer."""

    BARRAGE = "barrage"
    """This project's: everything works."""
    DEEPHAVEN = "deephaven"
    """Deephaven's: sessions, tables to look at and to follow, viewports flattened; no publishing as it is done here."""
    FLIGHT = "flight"
    """Some other Arrow Flight server. Whether it knows Barrage turns out when it is asked."""

    @classmethod
    def of(cls, *, knows_health: bool, has_session: bool) -> Counterpart:
        """Told by whether a server has an action of this project's, and whether it answered a log-in with a token."""
        if knows_health:
            return cls.BARRAGE
        return cls.DEEPHAVEN if has_session else cls.FLIGHT

    @property
    def dialect(self) -> Dialect:
        """How it writes viewports, unless it is asked for another way."""
        return Dialect.FLATTENED if self is Counterpart.DEEPHAVEN else Dialect.KEY_SPACE
