"""Figures of followed tables, as values."""

from __future__ import annotations

from dataclasses import dataclass

from barrage_server.public import public
from barrage_server.relay.state import FollowedState

__all__ = ["FollowedStatistics"]


@public
@dataclass(frozen=True, slots=True)
class FollowedStatistics:
    """The figures of one followed table.

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
        resumed: number of reconnections that began with an update, and not with a snapshot.
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
