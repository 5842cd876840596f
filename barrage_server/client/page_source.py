"""A table of the server as what a page is to show: what the page opens, and the way to the server."""

from __future__ import annotations

import base64
from typing import Final

from barrage_server.client.channel import Channel
from barrage_server.client.held_result import HeldResult
from barrage_server.client.names import TableAddress
from barrage_server.client.page_link import PageLink

__all__ = ["PageSource"]

_MOST_PLAN_BYTES: Final = 32 << 10
"""Of a plan that is its own ticket: a message of a page has 64 KiB at most, and more than a ticket in it."""


class PageSource:
    """See the module.

    Args:
        channel: the connection.
        address: the table.

    Attributes:
        title: what it is called.

    """

    def __init__(self, channel: Channel, address: TableAddress) -> None:
        self.title = address.name
        self._channel = channel
        self._address = address

    def target(self) -> dict[str, str]:
        """What the page opens: a table by name, or by ticket. May call the server.

        Raises:
            UnsupportedOperationError: it is a Deephaven server.
            BarrageError: a plan that is too long to be its own ticket cannot be computed.

        """
        self._channel.need("pages in notebooks")
        address = self._address
        if not isinstance(address, HeldResult):
            return {"table": address.name, "title": self.title}
        # a plan can be opened again after the server has been restarted, and keeps nothing there meanwhile
        ticket = address.plan_ticket()
        if len(ticket) > _MOST_PLAN_BYTES:
            ticket = address.ticket(self._channel.server_kind)
            address.use()  # until it is freed with this
        return {"ticket": base64.b64encode(ticket).decode("ascii"), "title": self.title}

    def open(self) -> PageLink:
        """A page session. Raises what :class:`PageLink` does."""
        return PageLink(self._channel)
