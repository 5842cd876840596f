"""The source of a page: a table of the server, and the connection to it."""

from __future__ import annotations

import base64
from typing import Final

from barrage_server.client.channel import Channel
from barrage_server.client.held_result import HeldResult
from barrage_server.client.names import FlightAddress
from barrage_server.client.page_link import PageLink

__all__ = ["PageSource"]

_MOST_PLAN_BYTES: Final = 32 << 10
"""Longest plan that is its own ticket: a message of a page has at most 64 KiB, and more fields."""


class PageSource:
    """The table that a page shows.

    Args:
        channel: the connection.
        address: the table.

    Attributes:
        title: the title of the page.

    """

    def __init__(self, channel: Channel, address: FlightAddress) -> None:
        self.title = address.name
        self._channel = channel
        self._address = address

    def target(self) -> dict[str, str]:
        """Return the table for the page to open, by name or ticket. May call the server.

        Raises:
            UnsupportedOperationError: it is a Deephaven server.
            BarrageError: a plan that is too long to be its own ticket cannot be computed.

        """
        self._channel.need("pages in notebooks")
        address = self._address
        if not isinstance(address, HeldResult):
            return {"table": address.name, "title": self.title}
        # A plan can be opened again after a restart of the server, and holds no memory there meanwhile.
        ticket = address.plan_ticket()
        if len(ticket) > _MOST_PLAN_BYTES:
            ticket = address.ticket(self._channel.server_kind)
            address.use()  # without leave(): the result is released when this object is freed
        return {"ticket": base64.b64encode(ticket).decode("ascii"), "title": self.title}

    def open(self) -> PageLink:
        """Open a page session. Raises what :class:`PageLink` does."""
        return PageLink(self._channel)
