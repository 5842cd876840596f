"""The kind of server that a client is connected to."""

from __future__ import annotations

from enum import StrEnum

from barrage_server.subscription import Dialect

__all__ = ["ServerKind"]


class ServerKind(StrEnum):
    """Kinds of servers, which accept different requests; told by the first answer."""

    BARRAGE = "barrage"
    """A server of this project."""
    DEEPHAVEN = "deephaven"
    """A Deephaven server: sessions, reading and following tables, flattened viewports; no publishing."""
    FLIGHT = "flight"
    """Another Arrow Flight server, possibly with Barrage."""

    @classmethod
    def of(cls, *, knows_health: bool, has_session: bool) -> ServerKind:
        """Return the kind of a server.

        Args:
            knows_health: whether it has the health action, which only servers of this project have.
            has_session: whether it answered the log-in with a token.
        """
        if knows_health:
            return cls.BARRAGE
        return cls.DEEPHAVEN if has_session else cls.FLIGHT

    @property
    def dialect(self) -> Dialect:
        """The default dialect of viewports."""
        return Dialect.FLATTENED if self is ServerKind.DEEPHAVEN else Dialect.KEY_SPACE
