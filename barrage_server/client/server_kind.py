"""The kind of server that a client is connected to, which decides the possible requests."""

from __future__ import annotations

from enum import StrEnum

from barrage_server.subscription import Dialect

__all__ = ["ServerKind"]


class ServerKind(StrEnum):
    """Kinds of servers, recognised by their first answer."""

    BARRAGE = "barrage"
    """A server of this project."""
    DEEPHAVEN = "deephaven"
    """A Deephaven server: sessions, reading and following tables, flattened viewports; no publishing."""
    FLIGHT = "flight"
    """Another Arrow Flight server, possibly with Barrage."""

    @classmethod
    def of(cls, *, knows_health: bool, has_session: bool) -> ServerKind:
        """Told by whether a server has an action of this project's, and whether it answered a log-in with a token."""
        if knows_health:
            return cls.BARRAGE
        return cls.DEEPHAVEN if has_session else cls.FLIGHT

    @property
    def dialect(self) -> Dialect:
        """Its default dialect of viewports."""
        return Dialect.FLATTENED if self is ServerKind.DEEPHAVEN else Dialect.KEY_SPACE
