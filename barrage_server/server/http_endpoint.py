"""The HTTP port: liveness, readiness and metrics.

It is for probes and for Prometheus, needs no credentials, and shows no client's names. What a stranger can use up is
bounded: few connections, one short request on each, no thread per connection, and metrics that are made at most once a
second.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from barrage_server.errors import BarrageError
from barrage_server.server.event_loop import EventLoop
from barrage_server.server.http_connection import Answer, HttpConnection
from barrage_server.server.listening import listening_socket
from barrage_server.server.readiness import Readiness
from barrage_server.server.workers import Workers

__all__ = ["HttpEndpoint", "HttpLimits"]

logger = logging.getLogger("barrage_server.server")

_CLOSE_SECONDS: Final = 1.0
_RESTS: Final = 10.0
"""Time for which metrics are answered from the cache, as a multiple of the time that making them took."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds of the HTTP port.

    Attributes:
        connections: most connections at a time; for one more, the oldest one is closed.
        head_bytes: most bytes of a request line and its headers.
        connection_seconds: most seconds of a connection, from its opening to its end.
        fresh_seconds: least seconds for which metrics are answered from the cache.

    """

    connections: int = 64
    head_bytes: int = 8 << 10
    connection_seconds: float = 10.0
    fresh_seconds: float = 1.0


class HttpEndpoint:
    """Serves ``/health``, ``/ready`` and ``/metrics`` until :meth:`close`.

    It has an event loop of its own.

    Args:
        host: address to listen on.
        port: 0 takes a free one.
        readiness: the state that ``/ready`` shows.
        metrics: makes the body of ``/metrics``, and its content type; called on a worker thread, one call at a time.
        limits: bounds for callers.

    Attributes:
        port: the port.

    Raises:
        UnavailableError: the address cannot be listened on.
        LimitError: the process can start no further thread.

    """

    def __init__(
        self,
        host: str,
        port: int,
        readiness: Readiness,
        metrics: Callable[[], tuple[bytes, str]],
        limits: HttpLimits | None = None,
    ) -> None:
        self._readiness = readiness
        self._metrics = metrics
        self._limits = limits or HttpLimits()
        self._open: dict[HttpConnection, None] = {}  # in the order of their opening
        self._figures: asyncio.Task[Answer] | None = None
        self._figures_until = 0.0
        self._worker = Workers(1, "barrage-metrics")
        listening = listening_socket(host, port, "http_port")
        self.port = int(listening.getsockname()[1])
        try:
            self._runner = EventLoop("barrage-http")
        except BaseException:
            listening.close()
            raise
        self._loop = self._runner.loop
        self._runner.call(self._listen(listening)).result()

    @property
    def connections(self) -> int:
        """Number of open connections. May be read on any thread."""
        return len(self._open)

    def close(self) -> None:
        """Stop listening, and close all connections.

        Returns in bounded time; may be called again.
        """
        if self._runner.is_stopped:
            return
        try:
            self._runner.call(self._close()).result(_CLOSE_SECONDS)
        except concurrent.futures.TimeoutError:
            logger.error("the HTTP port does not close")
        self._worker.shutdown()
        self._runner.stop()

    async def serve(self, path: str) -> Answer:
        """The answer to a ``GET`` of ``path``."""
        match path:
            case "/health":
                return Answer.text(HTTPStatus.OK, "alive")
            case "/ready":
                reason = self._readiness.reason
                if reason is None:
                    return Answer.text(HTTPStatus.OK, "ready")
                return Answer.text(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {reason}")
            case "/metrics":
                return await self._fresh_figures()
        return Answer.text(HTTPStatus.NOT_FOUND, "There are /health, /ready and /metrics.")

    async def _fresh_figures(self) -> Answer:
        """The metrics, made once for all requests at about the same time."""
        if self._figures is None or (self._figures.done() and self._loop.time() >= self._figures_until):
            self._figures = self._loop.create_task(self._make_figures())
        try:  # shielded: a caller that hangs up must not cancel the task for others
            return await asyncio.wait_for(asyncio.shield(self._figures), self._limits.connection_seconds / 2)
        except TimeoutError:
            return Answer.text(HTTPStatus.SERVICE_UNAVAILABLE, "The metrics take too long; try again later.")

    async def _make_figures(self) -> Answer:
        began = self._loop.time()
        try:
            body, content_type = await asyncio.wrap_future(self._worker.submit(self._metrics))
            answer = Answer(HTTPStatus.OK, body, content_type)
        except BarrageError as error:
            answer = Answer.text(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except Exception:  # the boundary: the log has the details
            logger.exception("the metrics could not be made")
            answer = Answer.text(HTTPStatus.INTERNAL_SERVER_ERROR, "The metrics could not be made; see the log.")
        now = self._loop.time()
        # metrics of many tables take long to make, and strangers may ask as often as they like
        self._figures_until = now + max(self._limits.fresh_seconds, _RESTS * (now - began))
        return answer

    async def _listen(self, listening: socket.socket) -> None:
        limits = self._limits

        def connection() -> HttpConnection:
            return HttpConnection(self.serve, self._opened, self._lost, limits.head_bytes, limits.connection_seconds)

        self._server = await self._loop.create_server(connection, sock=listening, backlog=limits.connections)

    def _opened(self, connection: HttpConnection) -> None:
        if len(self._open) >= self._limits.connections:
            oldest = next(iter(self._open))
            self._lost(oldest)
            oldest.abort()
        self._open[connection] = None

    def _lost(self, connection: HttpConnection) -> None:
        self._open.pop(connection, None)

    async def _close(self) -> None:
        self._server.close()
        for connection in tuple(self._open):
            connection.abort()
        if self._figures is not None:
            self._figures.cancel()
        await asyncio.sleep(0)  # the connections are lost in the next turn of the loop
