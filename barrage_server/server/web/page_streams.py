"""The streams of one page: opening, moving and leaving them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from barrage_server.engine import Table
from barrage_server.engine.kinds import kind_name
from barrage_server.engine.restricted import source_of
from barrage_server.errors import BarrageError, InvalidRequestError, LimitError
from barrage_server.log import about, note, serving_call
from barrage_server.server.access import Right
from barrage_server.server.exchange_state import is_light
from barrage_server.server.translate import safe_error
from barrage_server.server.web.channel import ChannelClosedError, PageChannel
from barrage_server.server.web.page_writer import PageWriter
from barrage_server.server.web.query import operations_of
from barrage_server.server.web.session import PageSession
from barrage_server.server.web.stream import PageStream
from barrage_server.wire.browser_types import form_of, whole_text
from barrage_server.wire.page_messages import Ack, CellRequest, Close, Move, Open, PageMessage, Pause, Resume
from barrage_server.wire.tickets import name_of_ticket, parse_computed

if TYPE_CHECKING:
    from barrage_server.server.web.page import Page
    from barrage_server.server.web.service import PageService

__all__ = ["PageStreams"]

_MOST_WAITING: Final = 64
"""Most messages for a stream that is not open yet."""
_MOST_CELL: Final = 1 << 20
"""Most characters of a whole cell."""


class PageStreams:
    """The streams of one page, by number.

    Args:
        page: has the caller.
        channel: carries the frames of the page.
        service: the state that all pages share.
        session: the protocol state of the page, with its limits.
        writer: writes to the page.
    """

    def __init__(
        self, page: Page, channel: PageChannel, service: PageService, session: PageSession, writer: PageWriter
    ) -> None:
        self._page = page
        self._channel = channel
        self._service = service
        self._server_state = service.server_state
        self._session = session
        self._writer = writer
        self._streams: dict[int, PageStream] = {}
        self._opening: dict[int, _Opening] = {}
        self._computing = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._streams)

    def end(self, error: BarrageError) -> None:
        """End all streams with that reason."""
        for stream in tuple(self._streams.values()):
            stream.settle(error)

    def leave(self) -> None:
        """Remove all streams: the page has disconnected."""
        for stream in tuple(self._streams.values()):
            self._leave(stream)

    async def handle(self, message: PageMessage) -> None:
        """Act on a message for one stream.

        Raises:
            LimitError: too many messages came before the stream is open.
        """
        assert isinstance(message, Move | Pause | Resume | Close | Ack | CellRequest)
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

    def begin(self, message: Open) -> None:
        """Open a stream in a task of its own, because its table may have to be computed."""
        try:
            self._session.begin(message.stream)
        except LimitError as error:
            self._writer.start(self._writer.tell_ended(message.stream, error))
            return
        opening = _Opening(message.stream)
        self._opening[message.stream] = opening
        opening.task = self._writer.start(self._open_noted(message, opening))
        opening.task.add_done_callback(lambda _: self._give_up(opening))

    def _give_up(self, opening: _Opening) -> None:
        """Clean up after an opening, which may have been cancelled before it began."""
        del opening.task  # breaks a cycle: a cancelled task keeps its frames, which refer to the opening
        if self._opening.pop(opening.stream, None) is not None:
            self._session.ended(opening.stream)
            self._writer.start(self._writer.tell_ended(opening.stream, None))

    async def _open_noted(self, message: Open, opening: _Opening) -> None:
        with serving_call(self._channel.peer):  # the log tells the streams of a page apart
            note(principal=self._page.principal.name)
            await self._open(message, opening)

    async def _open(self, message: Open, opening: _Opening) -> None:
        stream: PageStream | None = None
        reason: BarrageError | None = None
        try:
            self._server_state.request_rate.admit(self._page.principal)
            table, keys = await self._table(message)
            self._session.look(message, len(table.schema))
            stream = self._new_stream(message)
            self._server_state.streams.admit(stream)
            self._streams[message.stream] = stream
            if self._service.is_light(table):
                await self._writer.tell(_opened(message, table, keys))
            else:
                await self._writer.tell(await self._service.workers.run(_opened, message, table, keys))
            await self._ask(stream, message, table)
            while opening.waiting:
                await self._of_stream(opening.waiting.popleft())
            return
        except asyncio.CancelledError:
            if not self._channel.is_open:
                raise
        except ChannelClosedError:
            return  # the page has disconnected, and its streams leave
        except Exception as error:  # the boundary: other streams of the page go on
            reason = safe_error(error, "a stream", self._channel.peer)
        finally:
            self._opening.pop(message.stream, None)
        if stream is not None and message.stream in self._streams:
            stream.settle(reason)
            return
        if stream is not None:
            self._server_state.dispatcher.remove(stream.scheduled)
            stream.exchange_state.close()
        self._session.ended(message.stream)
        await self._writer.tell_ended(message.stream, reason)

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
                stream.settle(safe_error(error, "a stream", self._channel.peer))

    async def _ask(self, stream: PageStream, message: Open | Move, table: Table) -> None:
        dispatcher = self._server_state.dispatcher
        light = self._service.is_light(table) and is_light(stream.request(message, message.columns), table)
        if light:
            stream.ask(message, table)
            dispatcher.run(stream.scheduled)
        else:
            await self._service.workers.run(stream.ask, message, table)
            dispatcher.wake(stream.scheduled)

    async def _table(self, message: Open) -> tuple[Table, frozenset[str]]:
        """The table that a page opens, computed if need be, and its key columns."""
        table = await self._source(message)
        keys = frozenset(table.key_columns if message.plot is None else ())  # filters and sorts keep the keys
        operations = operations_of(message, table.schema)
        if not operations:
            return table, keys
        async with self._computing:  # one at a time: all pages share the threads
            return await self._service.computed_from(self._page.principal, table, operations), keys

    async def _source(self, message: Open) -> Table:
        """The table that a page names."""
        if message.ticket is None:
            assert message.table is not None
            return await self._named(message.table)
        ticket = message.ticket_bytes()
        known = await self._channel.table(ticket)
        if known is not None:
            return known
        computed = parse_computed(ticket)
        if computed is None:
            return await self._named(name_of_ticket(ticket))
        async with self._computing:
            return await self._service.computed(self._page.principal, computed)

    async def _named(self, name: str) -> Table:
        access, principal = self._server_state.access, self._page.principal
        if access.takes_long(principal, name):
            return await self._service.workers.run(access.get, principal, name, Right.READ)
        return access.get(principal, name, Right.READ)

    async def _cell(self, message: CellRequest) -> None:
        stream = self._streams.get(message.stream)
        answer: dict[str, Any] = {"type": "cell", "request": message.request}
        try:
            self._server_state.request_rate.admit(self._page.principal)
            table = None if stream is None else stream.table
            if table is None:
                raise InvalidRequestError("The stream shows nothing.")
            answer["text"] = await self._service.workers.run(_whole_cell, table, message.row, message.column)
        except Exception as error:  # the boundary: the stream goes on
            safe = safe_error(error, "a cell", self._channel.peer)
            answer |= {"type": "failed", "error": type(safe).__name__, "text": str(safe)}
        await self._writer.tell(answer)

    def _new_stream(self, message: Open) -> PageStream:
        return PageStream(
            self._server_state,
            self._page.principal,
            self._channel.peer,
            self._channel.stall,
            self._service.calls,
            message,
            self._deliver,
            self._ended,
        )

    def _deliver(self, stream: PageStream, bundle: list[bytes | str]) -> None:
        if self._writer.send_at_once(bundle):
            stream.delivered()
        else:
            self._writer.start(self._write(stream, bundle))

    async def _write(self, stream: PageStream, bundle: list[bytes | str]) -> None:
        with contextlib.suppress(ChannelClosedError):
            await self._writer.send(*bundle)
            stream.delivered()

    def _ended(self, stream: PageStream, error: BarrageError | None) -> None:
        if self._streams.get(stream.number) is stream:
            self._leave(stream)
            self._writer.start(self._writer.tell_ended(stream.number, error))

    def _leave(self, stream: PageStream) -> None:
        self._streams.pop(stream.number, None)
        self._session.ended(stream.number)
        stream.make_no_more()
        if self._server_state.dispatcher.dismiss(stream.scheduled):
            stream.leave()
        else:  # a thread is in its turn, which may take long
            self._service.leave_aside(stream)


class _Opening:
    """A stream that is being opened, and the messages for it meanwhile."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.task: asyncio.Task[None]
        self.waiting: deque[PageMessage] = deque()


def _opened(message: Open, table: Table, keys: frozenset[str]) -> dict[str, Any]:
    columns = [
        {"name": name, "type": str(data_type), **form_of(data_type), **({"key": True} if name in keys else {})}
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
