"""A DoExchange stream at any endpoint: its requests and its subscription.

An endpoint reads messages and passes their requests to ``exchange_state``. It writes the messages of
``exchange_state.due`` in :meth:`ExchangeStream.run_turn`, which the dispatcher calls.
"""

from __future__ import annotations

import hashlib
import logging
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from barrage_server.engine import Table
from barrage_server.engine.restricted import source_of
from barrage_server.errors import DeadlineError, InvalidRequestError, LimitError
from barrage_server.log import about, count
from barrage_server.server.dispatcher import ChangeSignal
from barrage_server.server.exchange_state import ExchangeState, MessageFormat, StreamRequest
from barrage_server.server.open_stream import OpenStream
from barrage_server.server.principal import Principal
from barrage_server.server.private_tables import Need
from barrage_server.server.server_state import ServerState
from barrage_server.server.stall import StallWatch
from barrage_server.server.statistics import SubscriptionGauges
from barrage_server.wire.reading import ReadingReport
from barrage_server.wire.tickets import PlanTicket, ResultTicket, parse_computed

__all__ = ["ExchangeStream"]

logger = logging.getLogger("barrage_server.server")

_STUCK_SECONDS: Final = 0.15
"""Seconds without progress of a write after which the history of the subscription is folded several times a second."""


class ExchangeStream(OpenStream):
    """A stream of subscription or snapshot requests, and of their answers.

    Args:
        server_state: the server's state.
        principal: the caller.
        peer: the client's address, as ``127.0.0.1:50000``.
        message_format: the form of messages.
        stall: the watch over the client's progress.

    Attributes:
        exchange_state: the stream's requests, and the messages due.
        scheduled: its task in the dispatcher.

    """

    kind = "subscription"

    def __init__(
        self,
        server_state: ServerState,
        principal: Principal,
        peer: str,
        message_format: MessageFormat,
        stall: StallWatch,
    ) -> None:
        super().__init__(server_state, principal, peer, stall)
        self.scheduled = server_state.dispatcher.add(self, ChangeSignal())
        self.exchange_state = ExchangeState(server_state, self.scheduled, message_format)
        self._begun_at = server_state.clock()
        self._has_asked = False
        self._computed = b""  # the digest of the stream's ticket, if its table is a result
        self._last_ticket: tuple[bytes, ResultTicket | PlanTicket | None] = (b"", None)

    @property
    def table(self) -> Table | None:
        """The table of the stream; ``None`` before the first request."""
        return self.exchange_state.table

    @abstractmethod
    def run_turn(self, now: float) -> float | None:
        """Write the messages due; return the time of the next.

        Called on any thread, never concurrently.
        """

    # Called by the endpoint for each message that it has read.

    def check_size(self, size: int) -> None:
        """Raise LimitError when an app_metadata of ``size`` bytes exceeds the limit."""
        self._has_asked = True
        most = self.server_state.limits.request_bytes
        if size > most:
            raise LimitError(f"A request has more than {most:,} bytes (request_bytes).")

    def refuse_rows(self) -> None:
        """Raise InvalidRequestError: a message has rows."""
        raise InvalidRequestError("DoExchange takes requests in app_metadata, and no rows. Publish with DoPut.")

    def reported(self, app_metadata: bytes) -> bool:
        """Apply a client's reading report, after which more messages may be due.

        Returns:
            Whether ``app_metadata`` is a report.

        Raises:
            WireFormatError: it is a damaged report.

        """
        report = ReadingReport.decode(app_metadata)
        if report is not None:
            self.exchange_state.report(report)
        return report is not None

    def known_table(self, request: StreamRequest) -> Table | None:
        """The stream's table, if the request has no ticket, or that of the same result.

        ``None``: the endpoint must look the table up.
        """
        if not request.ticket:
            return self.exchange_state.table
        computed = self.computed_of(request.ticket)
        if computed is None or self._computed != _digest(request.ticket):
            return None
        if isinstance(computed, ResultTicket):  # the lease may have expired; the stream holds the table itself
            self.server_state.leases.renew(self.principal, computed.text)
        return self.exchange_state.table

    def computed_of(self, ticket: bytes) -> ResultTicket | PlanTicket | None:
        """The ticket, parsed by :func:`parse_computed`; the last one is cached."""
        if ticket is not self._last_ticket[0]:
            self._last_ticket = (ticket, parse_computed(ticket))
        return self._last_ticket[1]

    def served(self, request: StreamRequest, table: Table, was_subscription: bool) -> None:
        """Note that ``exchange_state.serve`` has taken a request.

        Args:
            request: the request.
            table: its table.
            was_subscription: whether the stream was a subscription before.

        Raises:
            UnknownTableError: the table was dropped meanwhile.

        """
        self.facts.update(table=table.name, step=table.version.step)
        if request.ticket and self.computed_of(request.ticket) is not None:
            self._computed = _digest(request.ticket)
        if was_subscription or not self.exchange_state.is_subscription:
            return
        if table not in self.server_state.private:
            self.exchange_state.check_served(table)
        window = "" if request.viewport is None else f" {request.viewport}"
        with about(self.facts):
            logger.info("%s subscribes to %s%s", self.peer, table.name, window)

    def leave(self) -> None:
        """End the stream's work. Returns when no thread is in :meth:`run_turn` any more."""
        self.server_state.dispatcher.remove(self.scheduled)
        gauges = self.gauges()
        if gauges is not None:
            sent = f"{count(gauges.messages, 'messages')}, {count(gauges.rows, 'rows')}"
            self.facts["step"] = gauges.sent_step
            with about(self.facts):
                logger.info("%s left %s after %s", self.peer, gauges.table, sent)
        self.exchange_state.close()
        self.server_state.streams.release(self)

    # Called by the server, on any thread.

    def follows(self, table: Table) -> bool:
        """Whether the stream's table is ``table``, a part of it, or a result of it."""
        own = self.table
        if own is None or own is table:
            return own is not None
        return any(source_of(origin) is table for origin in self.server_state.private.origins(own))

    def needs(self) -> Sequence[Need]:
        """The rights to read the tables that the stream's table shows."""
        table = self.table
        return () if table is None else self.server_state.private.needs(table)

    def cut(self) -> bool:
        """False: neither Flight nor gRPC can end a call whose client reads nothing."""
        return False

    def tidy(self, now: float) -> None:
        """Fold the history of the subscription, and end a stream without a request.

        To be called about once a second.
        """
        self.exchange_state.tidy(now)
        most = self.server_state.limits.idle_stream_seconds
        if not self._has_asked and now - self._begun_at >= most:
            self._has_asked = True  # end it only once
            self.end(DeadlineError(f"This stream has asked for nothing within {most:g} s (idle_stream_seconds)."))

    def fold(self, now: float) -> None:
        """Fold the history of a subscription whose client takes nothing."""
        since = self.stall.taking_since
        if since is not None and now - since >= _STUCK_SECONDS:
            self.exchange_state.tidy(now, stuck=True)

    def gauges(self) -> SubscriptionGauges | None:
        """Figures of the subscription; ``None`` while there is none."""
        return self.exchange_state.gauges(
            peer=self.peer,
            user=self.principal.name,
            nbytes=self._carried_bytes,
            batches=self._carried,
            writing_since=self.stall.taking_since,
        )


def _digest(ticket: bytes) -> bytes:
    return hashlib.blake2b(ticket, digest_size=16).digest()
