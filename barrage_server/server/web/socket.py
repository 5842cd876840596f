"""One websocket of a page: reads its messages, runs its streams, and writes to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.protocol import State

from barrage_server.engine import Table
from barrage_server.engine.kinds import kind_name
from barrage_server.engine.restricted import source_of
from barrage_server.errors import BarrageError, InvalidRequestError, LimitError, WireFormatError
from barrage_server.log import Throttle, about
from barrage_server.server.access import Right
from barrage_server.server.authentication import Credentials
from barrage_server.server.exchange_state import is_light
from barrage_server.server.principal import UNAUTHENTICATED, Principal
from barrage_server.server.stall import StallWatch
from barrage_server.server.translate import safe_error
from barrage_server.server.web.front import close_reason, peer_of
from barrage_server.server.web.progress import ProgressWatch
from barrage_server.server.web.query import OPERATIONS, plan_of
from barrage_server.server.web.session import PageSession
from barrage_server.server.web.stream import PageStream
from barrage_server.wire.browser_types import form_of, whole_text
from barrage_server.wire.page_messages import (
    PAGE_VERSION,
    Ack,
    CellRequest,
    Close,
    Health,
    Hello,
    Move,
    Open,
    PageMessage,
    Pause,
    Ping,
    Resume,
)

if TYPE_CHECKING:
    from barrage_server.server.web.door import PageDoor

__all__ = ["PageSocket"]

logger = logging.getLogger("barrage_server.server")

_REFUSALS: Final = Throttle(20, 0.2)
_MOST_WAITING: Final = 64
"""Messages for a stream that is not open yet."""
_AT_ONCE: Final = 8
"""Messages of a page that are done before another page has its turn."""
_MOST_TASKS: Final = 100
"""Streams that open, and frames that wait to be taken, at which no more is read from the page."""
_MOST_CELL: Final = 1 << 20
"""Characters of a whole cell."""


class PageSocket:
    """Serves one websocket.

    Args:
        connection: the websocket, open.
        door: the port that it came to.

    """

    def __init__(self, connection: ServerConnection, door: PageDoor) -> None:
        self.peer: Final = peer_of(connection)
        self.stall: Final = StallWatch(time.monotonic)
        self.principal: Principal = UNAUTHENTICATED
        self._connection = connection
        self._door = door
        self._session = PageSession(door.page_limits)
        self._streams: dict[int, PageStream] = {}
        self._opening: dict[int, _Opening] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self._computing = asyncio.Lock()
        self._edition = 0
        self._wants_health = False
        self._is_known = False
        self._gone = asyncio.Event()

    @property
    def streams(self) -> int:
        """Streams that are open."""
        return len(self._streams)

    @property
    def is_known(self) -> bool:
        """Whether the page has shown good credentials."""
        return self._is_known

    @property
    def half_bytes(self) -> int:
        """Nothing: messages are not assembled here."""
        return 0

    async def run(self) -> None:
        """Serve the websocket until it is closed and its streams have ended."""
        try:
            taken = 0
            async for text in self._connection:
                taken += 1
                if not taken % _AT_ONCE:  # the loop is for all pages: one read may hold thousands of messages
                    await asyncio.sleep(0)
                if not isinstance(text, str):
                    raise WireFormatError("A page sends text frames only.")
                message = self._session.receive(text)
                if message is not None:
                    await self._handle(message)
                while len(self._tasks) > _MOST_TASKS:  # a page that asks and takes no answers
                    await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        except ConnectionClosed:
            pass  # without a word
        except BarrageError as error:
            await self._refuse(error)
        except Exception as error:  # the boundary: a fault must not take the other pages along
            await self._refuse(safe_error(error, "a page", self.peer))
        finally:
            for stream in tuple(self._streams.values()):
                self._leave(stream)
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            self._gone.set()

    async def say_goodbye(self) -> None:
        """Return when the page has left. It is told by the end of its streams."""
        await self._connection.close(CloseCode.GOING_AWAY, "The server is shutting down.")
        await self._gone.wait()

    async def cut(self) -> None:
        """End everything."""
        await self._connection.close(CloseCode.GOING_AWAY, "The server is shutting down.")
        await self._gone.wait()

    def start_beat(self) -> None:
        """Tell the page what is new about the tables, and that the server is there, unless it has not taken the last
        one. Called once a second.
        """
        if self._is_known and not self._turn.locked():
            self._start(self._beat())

    async def _beat(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            await self._tell_news()

    async def _tell_news(self) -> None:
        try:
            self._door.server_state.authentication.check(self.principal)
        except BarrageError as error:
            await self._refuse(error)
            return
        tables = self._door.tables
        if tables.is_large(self.principal):
            self._edition, news = await self._door.aside(tables.news, self.principal, self._edition)
        else:
            self._edition, news = tables.news(self.principal, self._edition)
        if news:
            await self._send(news)
        if self._wants_health:
            await self._tell_health()
        await self._tell({"type": "beat"})

    async def _tell_health(self) -> None:
        try:
            await self._send(await self._door.health(self.principal))
        except BarrageError as error:
            self._wants_health = False
            await self._tell({"type": "health", "error": type(error).__name__, "text": str(error)})

    # What the page sends.

    async def _handle(self, message: PageMessage) -> None:
        match message:
            case Hello():
                await self._greet(message)
                return
            case Open():
                self._begin(message)
                return
            case Ping(number):
                await self._tell({"type": "pong", "n": number})
                return
            case Health(is_on):
                self._wants_health = is_on
                if is_on:
                    await self._tell_health()
                return
        opening = self._opening.get(message.stream)
        if opening is None:
            await self._of_stream(message)
        elif isinstance(message, Close):
            opening.task.cancel()
        elif len(opening.waiting) >= _MOST_WAITING:
            raise LimitError(f"A stream that opens takes {_MOST_WAITING} messages at most.")
        else:
            opening.waiting.append(message)

    async def _of_stream(self, message: PageMessage) -> None:
        match message:
            case Move():
                await self._move(message)
            case Ack(stream, updates):
                if stream in self._streams:
                    self._streams[stream].painted(updates)
            case Pause(stream):
                if stream in self._streams:
                    self._streams[stream].pause(paused=True)
            case Resume(stream):
                if stream in self._streams:
                    self._streams[stream].pause(paused=False)
            case Close(stream):
                if stream in self._streams:
                    self._streams[stream].settle(None)
            case CellRequest():
                await self._cell(message)

    async def _greet(self, message: Hello) -> None:
        if message.token is None:
            credentials = Credentials("anonymous", "", "")
        elif message.user is None:
            credentials = Credentials("bearer", "", message.token)
        else:
            credentials = Credentials("basic", message.user, message.token)
        try:
            self.principal = await self._door.principal(credentials, self.peer)
        except BarrageError as error:
            if (held_back := _REFUSALS.admit()) is not None:
                more = f" (and {held_back:,} more, not shown)" if held_back else ""
                logger.warning("a page at %s was not let in: %s%s", self.peer, type(error).__name__, more)
            raise
        self._is_known = True
        logger.info("a page of %s at %s", self.principal.name, self.peer)
        await self._tell(
            {
                "type": "welcome",
                "version": PAGE_VERSION,
                "server": self._door.server_name,
                "limits": asdict(self._session.limits),
                "operations": OPERATIONS,
            }
        )
        await self._door.refresh_tables()
        await self._tell_news()

    def _begin(self, message: Open) -> None:
        """Open a stream beside what else the page does: its table may have to be computed."""
        try:
            self._session.begin(message.stream)
        except LimitError as error:
            self._start(self._tell_ended(message.stream, error))
            return
        opening = _Opening(message.stream)
        opening.task = asyncio.get_running_loop().create_task(self._open(message, opening))
        self._opening[message.stream] = opening
        self._tasks.add(opening.task)
        opening.task.add_done_callback(self._tasks.discard)
        opening.task.add_done_callback(lambda _: self._give_up(opening))

    def _give_up(self, opening: _Opening) -> None:
        """The opening of a stream was cancelled before it had begun."""
        if self._opening.pop(opening.stream, None) is not None:
            self._session.ended(opening.stream)
            self._start(self._tell_ended(opening.stream, None))

    async def _open(self, message: Open, opening: _Opening) -> None:
        stream: PageStream | None = None
        reason: BarrageError | None = None
        try:
            self._door.server_state.request_rate.admit(self.principal)
            table = await self._table(message)
            self._session.look(message, len(table.schema))
            stream = self._new_stream(message)
            self._door.server_state.streams.admit(stream)
            self._streams[message.stream] = stream
            if self._door.is_light(table):
                await self._tell(_opened(message, table))
            else:
                await self._tell(await self._door.aside(_opened, message, table))
            await self._ask(stream, message, table)
            while opening.waiting:
                await self._of_stream(opening.waiting.popleft())
            return
        except asyncio.CancelledError:
            if self._connection.state is not State.OPEN:
                raise
        except ConnectionClosed:
            return  # the page is gone, and its streams leave
        except Exception as error:  # the boundary: other streams of the page go on
            reason = safe_error(error, "a stream", self.peer)
        finally:
            self._opening.pop(message.stream, None)
        if stream is not None and message.stream in self._streams:
            stream.settle(reason)
            return
        if stream is not None:
            self._door.server_state.dispatcher.remove(stream.scheduled)
            stream.exchange_state.close()
        self._session.ended(message.stream)
        await self._tell_ended(message.stream, reason)

    async def _move(self, message: Move) -> None:
        stream = self._streams.get(message.stream)
        table = None if stream is None else stream.table
        if stream is None or table is None:
            return
        try:
            self._session.look(message, len(table.schema))
            await self._ask(stream, message, table)
        except Exception as error:  # the boundary: other streams of the page go on
            with about(stream.facts):
                stream.settle(safe_error(error, "a stream", self.peer))

    async def _ask(self, stream: PageStream, message: Open | Move, table: Table) -> None:
        dispatcher = self._door.server_state.dispatcher
        light = self._door.is_light(table) and is_light(stream.request(message, message.columns), table)
        if light:
            stream.ask(message, table)
            dispatcher.run(stream.scheduled)
        else:
            await self._door.aside(stream.ask, message, table)
            dispatcher.wake(stream.scheduled)

    async def _table(self, message: Open) -> Table:
        """What a page opens: a table, or what is computed from one."""
        access, name = self._door.server_state.access, message.table
        if access.takes_long(self.principal, name):
            table = await self._door.aside(access.get, self.principal, name, Right.READ)
        else:
            table = access.get(self.principal, name, Right.READ)
        plan = plan_of(message, table.schema)
        if plan is None:
            return table
        async with self._computing:  # one at a time: the threads are for all pages
            return await self._door.computed(self.principal, plan)

    async def _cell(self, message: CellRequest) -> None:
        stream = self._streams.get(message.stream)
        answer: dict[str, Any] = {"type": "cell", "request": message.request}
        try:
            self._door.server_state.request_rate.admit(self.principal)
            table = None if stream is None else stream.table
            if table is None:
                raise InvalidRequestError("The stream shows nothing.")
            answer["text"] = await self._door.aside(_whole_cell, table, message.row, message.column)
        except Exception as error:  # the boundary: the stream goes on
            safe = safe_error(error, "a cell", self.peer)
            answer |= {"type": "failed", "error": type(safe).__name__, "text": str(safe)}
        await self._tell(answer)

    # Streams.

    def _new_stream(self, message: Open) -> PageStream:
        return PageStream(
            self._door.server_state, self.principal, self.peer, self.stall, message, self._deliver, self._ended
        )

    def _deliver(self, stream: PageStream, bundle: list[bytes | str]) -> None:
        self._start(self._write(stream, bundle))

    async def _write(self, stream: PageStream, bundle: list[bytes | str]) -> None:
        with contextlib.suppress(ConnectionClosed):
            await self._send(*bundle)
            stream.delivered()

    def _ended(self, stream: PageStream, error: BarrageError | None) -> None:
        if self._streams.get(stream.number) is stream:
            self._leave(stream)
            self._start(self._tell_ended(stream.number, error))

    def _leave(self, stream: PageStream) -> None:
        self._streams.pop(stream.number, None)
        self._session.ended(stream.number)
        stream.make_no_more()
        if self._door.server_state.dispatcher.dismiss(stream.scheduled):
            stream.leave()
        else:  # a thread is in its turn, which may take long
            self._door.leave_aside(stream)

    # What the page is sent.

    async def _refuse(self, error: BarrageError) -> None:
        """End the websocket, with the reason."""
        code = CloseCode.POLICY_VIOLATION
        if isinstance(error, WireFormatError):
            code = CloseCode.PROTOCOL_ERROR
        with contextlib.suppress(ConnectionClosed):
            await self._tell({"type": "refused", "error": type(error).__name__, "text": str(error)})
        await self._connection.close(code, close_reason(str(error)))

    async def _tell_ended(self, stream: int, error: BarrageError | None) -> None:
        told: dict[str, Any] = {"type": "ended", "stream": stream}
        if error is not None:
            told |= {"error": type(error).__name__, "text": str(error)}
        with contextlib.suppress(ConnectionClosed):
            await self._tell(told)

    async def _tell(self, message: Mapping[str, Any]) -> None:
        await self._send(json.dumps(message, separators=(",", ":")))

    async def _send(self, *frames: str | bytes) -> None:
        # one message at a time is in the transport's buffer, for any number of streams
        async with self._turn:
            for frame in frames:
                with ProgressWatch(self._connection, self.stall, self._door.server_state.limits.slow_client_seconds):
                    await self._connection.send(frame)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Opening:
    """A stream that opens, and what the page has sent for it meanwhile."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.task: asyncio.Task[None]
        self.waiting: deque[PageMessage] = deque()


def _opened(message: Open, table: Table) -> dict[str, Any]:
    columns = [
        {"name": name, "type": str(data_type), **form_of(data_type)}
        for name, data_type in zip(table.schema.names, table.schema.types, strict=True)
    ]
    kind = kind_name(source_of(table))
    told = {"type": "opened", "stream": message.stream, "columns": columns, "kind": kind, "rows": table.size}
    if message.plot is not None:
        from barrage_server.operations.downsample.build import is_sorted  # which a server may never need

        told["plot"] = {"sorted": is_sorted(table)}
    return told


def _whole_cell(table: Table, row: int, column: int) -> str | None:
    """The cell at a row position and column number, as text."""
    version = table.version
    if column >= len(table.schema):
        raise InvalidRequestError(f"There is no column {column}; the table has {len(table.schema):,}.")
    if row >= version.size:
        raise InvalidRequestError(f"There is no row {row:,} any more; the table has {version.size:,}.")
    keys = version.row_set.slice(row, row + 1)
    return whole_text(version.read(keys, (column,))[0], _MOST_CELL)
