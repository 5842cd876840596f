"""Statistics of a relay, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from barrage_server.public import public
from barrage_server.relay.state import FollowedState
from barrage_server.server import ServerStatistics

__all__ = ["FollowedStatistics", "RelayStatistics"]


@public
@dataclass(frozen=True, slots=True)
class FollowedStatistics:
    """One followed table.

    Attributes:
        name: its name here.
        uri: the URI of the upstream table.
        state: its state.
        state_seconds: seconds in that state.
        error: why it is not live; ``None`` when it is.
        rows: number of rows here.
        upstream_step: the upstream's cycle of its last message; -1 before, and when the upstream does not send it.
        updates: number of messages with changes since the first content.
        connections: number of times that updates began to flow: 1, and one more for each reconnection.
        resumed: number of reconnections after which an update followed, and no snapshot.

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
    resumed: int = 0


@public
@dataclass(frozen=True, slots=True)
class RelayStatistics(ServerStatistics):
    """The whole server.

    Attributes:
        followed: one entry per followed table, by name.

    """

    followed: tuple[FollowedStatistics, ...] = ()

    def of_tables(self, allowed: Callable[[str], bool]) -> Self:
        """Without the entries of other tables than those whose names are ``allowed``."""
        figures = super(RelayStatistics, self).of_tables(allowed)  # `slots` makes another class than `super()` finds
        return replace(figures, followed=tuple(entry for entry in self.followed if allowed(entry.name)))
