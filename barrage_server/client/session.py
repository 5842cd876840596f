"""The shared state of a client's parts: the connection and the open streams."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Final

from barrage_server.arguments import shown
from barrage_server.client.access import Access
from barrage_server.client.channel import Channel
from barrage_server.client.held_result import Releases
from barrage_server.client.live import LiveTable
from barrage_server.client.plan_calls import ChosenPlanCalls
from barrage_server.client.publication import Publication
from barrage_server.engine import UpdateGraph
from barrage_server.engine.html import grid_html
from barrage_server.errors import BarrageError, InvalidRequestError
from barrage_server.flight.retry import RetryPolicy

__all__ = ["Session"]

logger = logging.getLogger("barrage_server.client")

_GOODBYE_SECONDS: Final = 2.0
"""Seconds that the release of results may take when the connection closes."""


class Session:
    """A connection and its open streams. Its arguments are those of ``connect``.

    Attributes:
        channel: the connection.
        timeout: most seconds of a short call, and most seconds without progress of a longer one.
        retry: how subscriptions reconnect after a lost connection.
        graph: the update graph of all replicas.
        plans: the calls about plans.
        releases: releases the results of plans.

    Raises:
        InvalidRequestError: an argument is wrong.
    """

    def __init__(
        self, uri: str, access: Access, *, timeout: float, retry: RetryPolicy | None, graph: UpdateGraph | None
    ) -> None:
        self.channel = Channel(uri, access, timeout=timeout)
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise InvalidRequestError(f"retry must be a bs.RetryPolicy, not {shown(retry)}.")
        if graph is not None and not isinstance(graph, UpdateGraph):
            raise InvalidRequestError(f"graph must be an update graph, not {shown(graph)}.")
        self.timeout = timeout
        self.retry = retry if retry is not None else RetryPolicy()
        self.graph = graph if graph is not None else UpdateGraph()
        self.plans = ChosenPlanCalls(self.channel)
        self.releases = Releases(self.plans)
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[LiveTable | Publication] = weakref.WeakSet()

    def own(self, opened: LiveTable | Publication) -> None:
        """Close ``opened`` with the connection."""
        with self._lock:
            self._open.add(opened)

    def close(self) -> None:
        """End everything that is open, and the connection. May be called repeatedly."""
        with self._lock:
            still_open = list(self._open)
            self._open.clear()
        for entry in still_open:
            try:
                entry.close()
            except BarrageError as error:
                logger.warning("%r ended with %s", entry, error)
        self.releases.close(_GOODBYE_SECONDS)
        self.channel.close()
        self.plans.close()  # after the channel, so that no call reopens their connection

    def html(self) -> str:
        """Render the open streams for notebooks, without a call to the server."""
        with self._lock:
            listed = sorted(self._open, key=lambda entry: entry.name)
        rows = [
            (entry.name, f"subscription, {entry.state}", f"{entry.size:,}" if entry.has_content else "")
            if isinstance(entry, LiveTable)
            else (entry.name, "publication" if entry.is_open else "publication, ended", f"{entry.table.size:,}")
            for entry in listed
        ]
        state = "closed" if self.channel.is_closed else "open"
        header = [(word, "") for word in ("table", "", "rows")]
        return grid_html(f"Client of {self.channel.address}, {state}, {len(rows)} followed or published", header, rows)
