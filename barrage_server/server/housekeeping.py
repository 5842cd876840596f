"""The periodic work of a server, which no call causes."""

from __future__ import annotations

import logging
from typing import Final

from barrage_server.process import return_memory
from barrage_server.server.server_state import ServerState

__all__ = ["Housekeeping"]

_RETURN_SECONDS: Final = 10.0
"""Seconds between two returns of free memory from the allocator to the system."""

logger: Final = logging.getLogger("barrage_server.server")


class Housekeeping:
    """Removes expired state, and ends streams whose credentials have expired.

    Args:
        server_state: the state of the server.

    """

    def __init__(self, server_state: ServerState) -> None:
        self._server_state = server_state
        self._undefined_roles: frozenset[str] = frozenset()
        self._returned_at = server_state.clock()

    def tidy(self, now: float) -> None:
        """Do the work due at ``now``, in seconds of the server's clock.

        Called about once a second.
        """
        server_state = self._server_state
        server_state.staging.expire(now)
        server_state.ledger.expire(server_state.wall_clock())
        server_state.feeds.tidy(now)
        server_state.resumption.history.tidy(now)
        server_state.access.tidy(now)
        server_state.leases.tidy()
        server_state.results.tidy(now)
        for stream in reversed(server_state.streams.subscriptions()):  # newest first, so that histories fold once
            stream.tidy(now)
        server_state.authentication.refresh()
        self._tell_undefined_roles()
        server_state.end_disallowed()
        if now - self._returned_at >= _RETURN_SECONDS:
            self._returned_at = now
            return_memory()

    def _tell_undefined_roles(self) -> None:
        """Log undefined roles that credentials name since their file was read again."""
        undefined = self._server_state.authentication.named_roles - self._server_state.access.roles.keys()
        if undefined - self._undefined_roles:
            told = ", ".join(sorted(undefined))
            logger.error("the credentials name roles that are not defined, and allow nothing: %s", told)
        self._undefined_roles = undefined
