"""What kind of server a client talks to, which decides what it can be asked for."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from barrage_server.subscription import Dialect

__all__ = ["Counterpart"]

_OUR_ACTIONS: Final = "barrage."


class Counterpart(StrEnum):
    """Kinds of servers, told by their first answer."""

    BARRAGE = "barrage"
    """This project's: everything works."""
    DEEPHAVEN = "deephaven"
    """Deephaven's: sessions, tables to look at and to follow, viewports flattened; no publishing as it is done here."""
    FLIGHT = "flight"
    """Some other Arrow Flight server. Whether it knows Barrage turns out when it is asked."""

    @classmethod
    def of(cls, actions: Iterable[str], *, has_session: bool) -> Counterpart:
        """Told by the names of a server's actions, and by whether it answered a log-in with a token."""
        if any(name.startswith(_OUR_ACTIONS) for name in actions):
            return cls.BARRAGE
        return cls.DEEPHAVEN if has_session else cls.FLIGHT

    @property
    def dialect(self) -> Dialect:
        """How it writes viewports, unless it is asked for another way."""
        return Dialect.FLATTENED if self is Counterpart.DEEPHAVEN else Dialect.KEY_SPACE
