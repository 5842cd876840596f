"""Figures of a relay, as values."""

from __future__ import annotations

from dataclasses import dataclass

from barrage_server.public import public
from barrage_server.relay.state import FollowedState
from barrage_server.server import ServerStatistics

__all__ = ["FollowedStatistics", "RelayStatistics"]


@public
@dataclass(frozen=True, slots=True)
class FollowedStatistics:
    """One table that is followed.

    Attributes:
        name: what it is called here.
        uri: where it comes from.
        state: where it stands.
        state_seconds: for how long it has stood there.
        error: why it is not live; ``None`` when it is.
        rows: rows here.
        upstream_step: the upstream's clock as of its last message; -1 before, and when it does not say.
        updates: messages that changed something since the first content.
        connections: how often a content was received whole: 1, and one more for each time that it came back.

    """

    name: str
    uri: str
    state: FollowedState
    state_seconds: float
    error: str | None
    rows: int
    upstream_step: int
    updates: int
    connections: int


@public
@dataclass(frozen=True, slots=True)
class RelayStatistics(ServerStatistics):
    """The whole server.

    Attributes:
        followed: one entry per table that is followed, by name.

    """

    followed: tuple[FollowedStatistics, ...] = ()
