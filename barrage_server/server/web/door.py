"""The port of the page: its files, and the websockets of those who look at it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import math
import threading
import weakref
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Final, ParamSpec, TypeVar

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

import barrage_server
from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.log import Throttle
from barrage_server.plan.plan import Plan
from barrage_server.process import most_connections
from barrage_server.server.authentication import Credentials
from barrage_server.server.event_loop import EventLoop
from barrage_server.server.figures import shown_to
from barrage_server.server.log_ins import LogIns
from barrage_server.server.plans import compute
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.server.web.files import page_file, response, text_response
from barrage_server.server.web.front import Companion, FrontSocket, SocketLimits, WebFront
from barrage_server.server.web.health import ProcessFigures, health_message
from barrage_server.server.web.hosts import is_known_host, is_own_page
from barrage_server.server.web.session import PageLimits
from barrage_server.server.web.socket import PageSocket
from barrage_server.server.web.stream import PageStream
from barrage_server.server.web.tables import TableList
from barrage_server.server.workers import Workers
from barrage_server.wire.browser_types import form_of
from barrage_server.wire.page_messages import MOST_TEXT_BYTES, SUBPROTOCOL

__all__ = ["PageDoor"]

logger = logging.getLogger("barrage_server.server")

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_REFUSALS: Final = Throttle(20, 0.2)
_LIVE_PATH: Final = "/live"
_WORKERS: Final = 8
"""Threads for what would hold the event loop up."""
_PLAN_THREADS: Final = 8
"""Threads that compute tables for pages."""
_LIGHT_COLUMNS: Final = 256
_BEAT_SECONDS: Final = 1.0
_FRESH_SECONDS: Final = 0.9 * _BEAT_SECONDS
_RESTS: Final = 10.0
"""The list of tables is made again after this multiple of the time that making it took, at the earliest."""
_CLOSE_SECONDS: Final = 5.0


class PageDoor:
    """Serves the page until :meth:`close`, on an event loop of its own, or on its companion's.

    Args:
        server_state: the server's state.
        host: address to listen on.
        port: 0 takes a free one.
        tls: certificate chain and private key, PEM.
        client_roots: certificates to trust for clients, PEM: each must present one; ``None``: none need to.
        names: names under which browsers may ask for the page, besides addresses and ``localhost``.
        companion: what else the port serves.

    Attributes:
        port: the port.
        server_state: the server's state.
        page_limits: what one page may have open.
        server_name: what pages are told of this program.
        tables: the list of tables.

    Raises:
        UnavailableError: the address cannot be listened on.
        LimitError: the process can start no further thread.

    """

    def __init__(
        self,
        server_state: ServerState,
        host: str,
        port: int,
        tls: tuple[bytes, bytes] | None,
        client_roots: bytes | None,
        names: Collection[str] = (),
        companion: Companion | None = None,
    ) -> None:
        self.server_state: Final = server_state
        self.page_limits: Final = PageLimits.of(server_state.limits)
        self.server_name: Final = f"barrage-server {barrage_server.__version__}"
        self.tables: Final = TableList(server_state.access, server_state.clock)
        self._log_ins = LogIns(server_state.limits.failed_log_ins, server_state.clock)
        self._workers = Workers(_WORKERS, "barrage-web")
        self._plans = Workers(_PLAN_THREADS, "barrage-web-plans")
        self._light: weakref.WeakKeyDictionary[Table, bool] = weakref.WeakKeyDictionary()
        self._health: dict[object, tuple[float, str]] = {}  # by what callers may see: when it was made, and the message
        self._process: ProcessFigures | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._companion = companion
        self._loop = EventLoop("barrage-web-loop") if companion is None else companion.loop
        other = None if companion is None else companion.front
        self._front = _PageFront(self, names, other, is_encrypted=tls is not None)
        try:
            self.port = self._loop.call(self._begin(host, port, tls, client_roots)).result()
        except BaseException:
            self._leave_loop()
            raise

    @property
    def connections(self) -> int:
        """Websockets that are open."""
        return self._front.connections

    def replace_tls(self, tls: tuple[bytes, bytes]) -> None:
        """Present another certificate to new connections."""

        async def replace() -> None:
            self._front.replace_tls(tls)

        self._loop.call(replace()).result()

    def close(self, grace: float) -> None:
        """End everything; what does not end within ``grace`` seconds is cut. Returns in bounded time."""
        if self._loop.is_stopped:
            return
        try:
            self._loop.call(self._close(grace)).result(grace + _CLOSE_SECONDS)
        except concurrent.futures.TimeoutError:
            logger.error("the web port does not close")
        self._workers.shutdown()
        self._plans.shutdown()
        self._leave_loop()

    # For the websockets, on the event loop.

    async def aside(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **keywords: Arguments.kwargs
    ) -> Result:
        """``function(*args, **keywords)``, called on a thread."""
        return await asyncio.wrap_future(self._workers.submit(function, *args, **keywords))

    async def computed(self, principal: Principal, plan: Plan) -> Table:
        """The result of a plan with one output, computed on a thread while the caller is there.

        Raises:
            BarrageError: the error of the operation that failed.

        """
        gone = threading.Event()
        try:
            (outcome,) = await asyncio.wrap_future(
                self._plans.submit(compute, self.server_state, principal, plan, gone.is_set)
            )
        except asyncio.CancelledError:
            gone.set()
            raise
        if isinstance(outcome, BarrageError):
            raise outcome
        return outcome

    def is_light(self, table: Table) -> bool:
        """Whether a window of the table is converted for pages in no time: it has few columns, and no nested ones."""
        known = self._light.get(table)
        if known is None:
            forms = (form_of(data_type)["form"] for data_type in table.schema.types)
            known = len(table.schema) <= _LIGHT_COLUMNS and "nested" not in forms
            self._light[table] = known
        return known

    def leave_aside(self, stream: PageStream) -> None:
        """Have a stream leave that a thread is still busy with."""
        try:
            self._workers.submit(stream.leave)
        except BarrageError:  # the port is closed, and nothing else runs on its loop
            stream.leave()

    async def principal(self, credentials: Credentials, peer: str) -> Principal:
        """The caller at ``peer`` with these credentials.

        Raises:
            AuthenticationError: they are missing or wrong.
            LimitError: the address has shown too many wrong ones.

        """
        authentication = self.server_state.authentication
        with self._log_ins.attempt(credentials, peer):
            quick = authentication.quick(credentials)
            return quick if quick is not None else await self.aside(authentication.principal, credentials)

    async def refresh_tables(self) -> None:
        """Make the lists of tables anew, for all who look; at most one at a time."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
        await asyncio.shield(self._refreshing)

    async def health(self, principal: Principal) -> str:
        """The message about the state of the server, for who may know it; made at most about once a second.

        Raises:
            ForbiddenError: the caller may not.

        """
        key, now = self.tables.key(principal), asyncio.get_running_loop().time()
        made_at, known = self._health.get(key, (-math.inf, ""))
        if now - made_at < _FRESH_SECONDS:
            return known
        found = await self.aside(self._make_health, principal)
        self._health = {other: made for other, made in self._health.items() if now - made[0] < _FRESH_SECONDS}
        self._health[key] = (now, found)
        return found

    def _make_health(self, principal: Principal) -> str:
        figures = shown_to(self.server_state, principal)
        before, self._process = self._process, ProcessFigures.now()
        return health_message(figures, self.server_state.limits, self._process, before)

    async def _refresh(self) -> None:
        principals = [socket.principal for socket in self._front.pages if socket.is_known]
        await self.aside(self.tables.refresh, principals)

    # Life and end.

    async def _begin(self, host: str, port: int, tls: tuple[bytes, bytes] | None, client_roots: bytes | None) -> int:
        bound = await self._front.start(host, port, tls, client_roots)
        self._beating = asyncio.get_running_loop().create_task(self._beat())
        return bound

    async def _beat(self) -> None:
        """Tell all pages, once a second, what is new."""
        loop = asyncio.get_running_loop()
        rested = 0.0
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            self._front.tidy(loop.time())
            pages = [page for page in self._front.pages if page.is_known]
            began = loop.time()
            if began >= rested:
                try:
                    await self.refresh_tables()
                except Exception:  # the boundary: pages keep the list that they have
                    logger.exception("the list of tables could not be made")
                rested = loop.time() + _RESTS * (loop.time() - began)
            for page in pages:
                page.start_beat()

    def _leave_loop(self) -> None:
        if self._companion is None:
            self._loop.stop()

    async def _close(self, grace: float) -> None:
        self._beating.cancel()
        if self._companion is not None:
            await self._companion.end()
        await self._front.stop(grace)
        self.tables.close()
        if self._companion is not None:
            return  # the tasks of websockets have ended, and other tasks are not of this port
        current = asyncio.current_task()
        rest = [task for task in asyncio.all_tasks() if task is not current]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


class _PageFront(WebFront):
    """The websockets and the files behind a door.

    Args:
        door: the door.
        names: names under which browsers may ask for the page.
        other: serves the websockets that ask for its subprotocols and not for the page's.
        is_encrypted: whether the port has TLS.

    """

    what = "the page for browsers (web_port)"

    def __init__(self, door: PageDoor, names: Collection[str], other: WebFront | None, *, is_encrypted: bool) -> None:
        limits = door.server_state.limits
        super().__init__(
            SocketLimits(
                message_bytes=MOST_TEXT_BYTES,
                slow_client_seconds=limits.slow_client_seconds,
                stranger_seconds=limits.handshake_seconds,
                opening_seconds=limits.handshake_seconds,
                half_message_bytes=limits.half_message_bytes,
                connections=most_connections(limits.connections),
                connections_per_address=limits.connections_per_address,
            ),
            most=limits.sessions,
            subprotocols=[SUBPROTOCOL, *([] if other is None else other.subprotocols)],
        )
        self._door = door
        self._other = other
        self._names = names
        self._is_encrypted = is_encrypted

    @property
    def pages(self) -> list[PageSocket]:
        """The pages that are connected."""
        return [socket for socket in self.sockets if isinstance(socket, PageSocket)]

    def socket(self, connection: ServerConnection) -> FrontSocket:
        """What serves a page, or a client of the other front."""
        if self._other is not None and connection.subprotocol in self._other.subprotocols:
            return self._other.socket(connection)
        return PageSocket(connection, self._door)

    def stranger_seconds(self, socket: FrontSocket) -> float:
        """As at the port of the websocket's own front."""
        if self._other is not None and not isinstance(socket, PageSocket):
            return self._other.stranger_seconds(socket)
        return super().stranger_seconds(socket)

    def refusal(self, connection: ServerConnection, request: Request) -> Response | None:
        """A refusal of websockets of other pages, or at another path."""
        refused = self._misdirected(request)
        if refused is not None:
            return refused
        host, origins = _header(request, "Host"), request.headers.get_all("Origin")
        foreign = [origin for origin in origins if not is_own_page(origin, host, is_encrypted=self._is_encrypted)]
        if self._other is not None and _is_for(self._other, request):
            return self._other.refusal(connection, request) if foreign else None
        if request.path != _LIVE_PATH:
            return text_response(HTTPStatus.NOT_FOUND, f"The websocket of the page is at {_LIVE_PATH}.")
        if foreign:
            _tell_refusal(f"a page of another origin was refused: {foreign[0][:100]!r}")
            return text_response(HTTPStatus.FORBIDDEN, "Only this server's own page may connect here.")
        return None

    def page(self, connection: ServerConnection, request: Request) -> Response:
        """A file of the page."""
        del connection
        refused = self._misdirected(request)
        if refused is not None:
            return refused
        file = page_file(request.path)
        if file is None:
            return text_response(HTTPStatus.NOT_FOUND, "There is nothing here. The page is at / of this address.")
        return response(request, file)

    def _misdirected(self, request: Request) -> Response | None:
        """A refusal of a foreign name, or of a query: what is secret would stay in logs and histories."""
        host = _header(request, "Host")
        if len(request.headers.get_all("Host")) != 1 or not is_known_host(host, self._names):
            _tell_refusal(f"a request for the page under the name {host[:100]!r} was refused")
            return text_response(
                HTTPStatus.MISDIRECTED_REQUEST,
                "This server does not know itself under this name. Use its address, or name it in web_hosts.",
            )
        if "?" in request.path:
            return text_response(HTTPStatus.BAD_REQUEST, "The page takes no query. A token is entered in the page.")
        return None


def _tell_refusal(text: str) -> None:
    """Into the log, unless there were many: strangers may ask as often as they like."""
    if (held_back := _REFUSALS.admit()) is not None:
        logger.warning("%s%s", text, f" (and {held_back:,} more, not shown)" if held_back else "")


def _is_for(front: WebFront, request: Request) -> bool:
    """Whether a websocket is for that front: it asks for one of its subprotocols, and not for the page's."""
    lines = ",".join(request.headers.get_all("Sec-WebSocket-Protocol"))
    asked = {name.strip() for name in lines.split(",")}
    return SUBPROTOCOL not in asked and not asked.isdisjoint(front.subprotocols)


def _header(request: Request, name: str) -> str:
    return next(iter(request.headers.get_all(name)), "")
