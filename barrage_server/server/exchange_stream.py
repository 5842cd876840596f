"""A DoExchange stream at any endpoint: requests, and the subscription that they open.

An endpoint reads messages and writes them. It passes requests to :meth:`ExchangeStream.decode` and
:meth:`ExchangeStream.serve`, and writes the messages of ``conversation.due`` in :meth:`ExchangeStream.step`, its turn
in the pump.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod

from barrage_server.engine import Table
from barrage_server.errors import BarrageError, InvalidRequestError, LimitError
from barrage_server.log import count
from barrage_server.server.conversation import Conversation, Manner, StreamRequest
from barrage_server.server.hub import Hub
from barrage_server.server.pump import Topic
from barrage_server.server.stall import StallWatch
from barrage_server.server.statistics import SubscriptionGauges
from barrage_server.wire.reading import ReadingReport

__all__ = ["ExchangeStream"]

logger = logging.getLogger("barrage_server.server")


class ExchangeStream(ABC):
    """A stream of subscription or snapshot requests, and of their answers.

    Args:
        hub: the server's state.
        peer: the client's address, as ``127.0.0.1:50000``.
        user: the caller's name.
        manner: the form of messages.
        stall: the watch over the client's progress.

    Attributes:
        conversation: the stream's requests, and the messages due.
        slot: its place in the pump.

    """

    kind = "subscription"

    def __init__(self, hub: Hub, peer: str, user: str, manner: Manner, stall: StallWatch) -> None:
        self.peer = peer
        self.hub = hub
        self.stall = stall
        self.slot = hub.pump.add(self, Topic())
        self.conversation = Conversation(hub, self.slot, manner)
        self._user = user
        self._batches = 0
        self._nbytes = 0

    @abstractmethod
    def step(self, now: float) -> float | None:
        """Write the messages due; returns the time of the next. The pump calls it on any thread, never concurrently."""

    @abstractmethod
    def end(self, error: BarrageError) -> None:
        """Send the client the reason of the end of its stream. May be called from any thread."""

    # Called by the endpoint for each message that it has read.

    def check_size(self, size: int) -> None:
        """Raise LimitError when the app_metadata of a message has more bytes than a request may have."""
        most = self.hub.limits.request_bytes
        if size > most:
            raise LimitError(f"A request has more than the {most:,} bytes that are allowed.")

    def refuse_rows(self) -> None:
        """Raise InvalidRequestError: a message has rows."""
        raise InvalidRequestError("DoExchange takes requests in app_metadata, and no rows. Publish with DoPut.")

    def reported(self, app_metadata: bytes) -> bool:
        """Take a client's report of what it has read; whether it was one. More may be due then.

        Raises:
            WireFormatError: it is a damaged one.

        """
        report = ReadingReport.decode(app_metadata)
        if report is not None:
            self.conversation.report(report)
        return report is not None

    def known_table(self, request: StreamRequest) -> Table | None:
        """The table of a request without a ticket, from an earlier request; ``None`` where it must be looked up."""
        return None if request.ticket else self.conversation.table

    def served(self, request: StreamRequest, table: Table, was_subscription: bool, *, has_name: bool = True) -> None:
        """Note that ``conversation.serve`` has taken a request.

        Args:
            request: the request.
            table: what it is about.
            was_subscription: whether the stream was a subscription before.
            has_name: whether the table is one of the catalog.

        Raises:
            UnknownTableError: the table was dropped meanwhile.

        """
        if was_subscription or not self.conversation.is_subscription:
            return
        if has_name:
            self.conversation.check_served(table)
        window = "" if request.viewport is None else f" {request.viewport}"
        logger.info("%s subscribes to %s%s", self.peer, table.name, window)

    def wrote(self, batches: int, nbytes: int) -> None:
        """Count what was written."""
        self._batches += batches
        self._nbytes += nbytes

    def leave(self) -> None:
        """The stream has ended. Returns when no thread is in :meth:`step` any more."""
        self.hub.pump.remove(self.slot)
        gauges = self.gauges()
        if gauges is not None:
            sent = f"{count(gauges.messages, 'messages')}, {count(gauges.rows, 'rows')}"
            logger.info("%s left %s after %s", self.peer, gauges.table, sent)
        self.conversation.close()
        self.hub.streams.release(self)

    # What the server asks, on any thread.

    def follows(self, table: Table) -> bool:
        """Whether this stream is about ``table``."""
        return self.conversation.table is table

    def overdue(self, now: float) -> str | None:
        """Why the connection should be ended now."""
        return self.stall.overdue(now)

    def tidy(self, now: float) -> None:
        """Fold the history that the subscription keeps alive. To be called about once a second."""
        self.conversation.tidy(now)

    def gauges(self) -> SubscriptionGauges | None:
        """Figures of the subscription; ``None`` while there is none."""
        return self.conversation.gauges(
            peer=self.peer,
            user=self._user,
            nbytes=self._nbytes,
            batches=self._batches,
            writing_since=self.stall.taking_since,
        )
