"""What every part of a client needs: the connection, and what is open over it."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from barrage_server.arguments import shown
from barrage_server.client.channel import Channel
from barrage_server.client.counterpart import Counterpart
from barrage_server.client.live import LiveTable
from barrage_server.client.publication import Publication
from barrage_server.client.upload import Uploader
from barrage_server.engine import UpdateGraph
from barrage_server.engine.html import grid_html
from barrage_server.errors import BarrageError, InvalidRequestError
from barrage_server.flight.retry import RetryPolicy
from barrage_server.pem import Pem

__all__ = ["DEFAULT_TIMEOUT", "Connection"]

logger = logging.getLogger("barrage_server.client")

DEFAULT_TIMEOUT: Final = 30.0


class Connection:
    """A connection to a server, which ends with everything that is open over it.

    Attributes:
        graph: the update graph of all replicas of this client: tables derived from them belong here.
    """

    def __init__(
        self,
        uri: str,
        *,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retry: RetryPolicy | None = None,
        headers: Mapping[str, str] | None = None,
        tls_root_certs: Pem | None = None,
        graph: UpdateGraph | None = None,
    ) -> None:
        self._channel = Channel(
            uri,
            token=token,
            user=user,
            password=password,
            timeout=timeout,
            headers=headers,
            tls_root_certs=tls_root_certs,
        )
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise InvalidRequestError(f"retry must be a bs.RetryPolicy, not {shown(retry)}.")
        if graph is not None and not isinstance(graph, UpdateGraph):
            raise InvalidRequestError(f"graph must be an update graph, not {shown(graph)}.")
        self._timeout = timeout
        self._retry = retry if retry is not None else RetryPolicy()
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[LiveTable | Publication] = weakref.WeakSet()
        self._uploader = Uploader(self._channel, timeout)
        self.graph = graph if graph is not None else UpdateGraph()

    @property
    def uri(self) -> str:
        """The server's address."""
        return self._channel.address

    @property
    def is_deephaven(self) -> bool:
        """Whether a Deephaven server answers there: one can follow its tables, and not publish as to this project's."""
        return self._channel.counterpart is Counterpart.DEEPHAVEN

    def ping(self) -> float:
        """Seconds that the server takes to answer; raises when it does not."""
        start = time.monotonic()
        self._channel.greet()
        return time.monotonic() - start

    def check_address(self) -> None:
        """InvalidRequestError when a Deephaven address leads to a server that is none, and has no tables to follow."""
        self._channel.check_address()

    def _own(self, opened: LiveTable | Publication) -> None:
        """End ``opened`` with the connection."""
        with self._lock:
            self._open.add(opened)

    def close(self) -> None:
        """End all subscriptions and publications of this client, and the connection. May be called repeatedly."""
        with self._lock:
            still_open = list(self._open)
            self._open.clear()
        for entry in still_open:
            try:
                entry.close()
            except BarrageError as error:
                logger.warning("%r ended with %s", entry, error)
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client {self.uri}>"

    def _repr_html_(self) -> str:
        """What is open over this connection, for notebooks. The server is not asked: that could take long."""
        with self._lock:
            listed = sorted(self._open, key=lambda entry: entry.name)
        rows = [
            (entry.name, f"subscription, {entry.state}", f"{entry.size:,}" if entry.has_content else "")
            if isinstance(entry, LiveTable)
            else (entry.name, "publication" if entry.is_open else "publication, ended", f"{entry.table.size:,}")
            for entry in listed
        ]
        state = "closed" if self._channel.is_closed else "open"
        header = [(word, "") for word in ("table", "", "rows")]
        return grid_html(f"Client of {self.uri}, {state}, {len(rows)} followed or published", header, rows)
