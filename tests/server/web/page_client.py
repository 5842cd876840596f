"""What a page does, in Python: one websocket, streams, and the rows in view of each."""

from __future__ import annotations

import asyncio
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_in_loop
from websockets.sync.client import connect
from websockets.typing import Subprotocol

import barrage_server as bs
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.page_messages import SUBPROTOCOL

PATIENCE = 20.0
UNKNOWN = (1 << 32) - 1


@dataclass
class View:
    """The rows in view of one stream, by column number."""

    opened: dict[str, Any] = field(default_factory=dict)
    schema: pa.Schema | None = None
    cells: dict[int, list[Any]] = field(default_factory=dict)
    size: int = -1
    first: int = -1
    reverse: bool = False
    updates: int = 0
    ages: list[int] = field(default_factory=list)
    ended: dict[str, Any] | None = None
    pending: UpdateMetadata | None = None
    adds: list[dict[int, list[Any]]] = field(default_factory=list)
    mods: list[dict[int, list[Any]]] = field(default_factory=list)
    adds_left: int = 0
    mods_left: int = 0
    columns: list[int] | None = None

    def begin_anew(self, columns: list[int]) -> None:
        """A wide table's columns, by their numbers there."""
        assert self.pending is None
        self.columns, self.cells = columns, {}

    def rows(self) -> list[tuple[Any, ...]]:
        """What is shown, row by row."""
        return list(zip(*(self.cells[number] for number in sorted(self.cells)), strict=True))

    def take(self, metadata: bytes, message: bytes, age: int) -> None:
        """A record batch, and the metadata of the update that it begins."""
        if metadata:
            assert self.pending is None
            begun = self.pending = UpdateMetadata.decode_payload(metadata)
            assert begun.added_rows is not None
            assert begun.modified_rows is not None
            self.adds, self.mods = [], []
            has_values = begun.effective_column_set != ()
            self.adds_left = begun.added_rows.size if has_values else 0
            self.mods_left = max(rows.size for rows in begun.modified_rows)
            self.ages.append(age)
        assert self.schema is not None
        batch = pa.ipc.read_record_batch(pa.py_buffer(message), self.schema)
        assert batch.num_rows == 1
        values = {number: column[0].as_py() or [] for number, column in enumerate(batch.columns)}
        update = self.pending
        assert update is not None
        assert update.added_rows is not None
        assert update.modified_rows is not None
        rows = max(map(len, values.values()), default=0)
        if self.adds_left > 0:
            self.adds_left -= rows
            self.adds.append(values)
        else:
            self.mods_left -= rows
            self.mods.append(values)
        assert min(self.adds_left, self.mods_left) >= 0
        if not self.adds_left and not self.mods_left:
            self._apply(update)
            self.pending = None
            self.updates += 1

    def _apply(self, update: UpdateMetadata) -> None:
        added, modified = _joined(self.adds), _joined(self.mods)
        assert update.added_rows is not None
        assert update.removed_rows is not None
        assert update.modified_rows is not None
        if update.is_snapshot:
            assert update.effective_column_set is not None
            assert update.effective_viewport is not None
            numbers = update.effective_column_set
            self.first = update.effective_viewport.first_key if update.effective_viewport else 0
            self.reverse = bool(update.effective_reverse_viewport)
            lengths = {len(cells) for cells in self.cells.values()} or {0}
            self.cells = {number: self.cells.get(number, [None] * max(lengths)) for number in numbers}
        self.size = update.table_size
        for number, cells in self.cells.items():
            for position in reversed(list(update.removed_rows)):
                del cells[position]
            for position, value in zip(update.added_rows, added.get(number, []), strict=True):
                cells.insert(position, value)
            for position, value in zip(update.modified_rows[number], modified.get(number, []), strict=True):
                cells[position] = value


class Socket(Protocol):
    """What carries the frames of a page."""

    def send(self, message: Any) -> None:
        """Send a text frame."""

    def recv(self, timeout: float | None = None) -> Any:
        """The next frame."""


class Page:
    """A page over one socket, which acknowledges updates when it is told to."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self.views: dict[int, View] = {}
        self.tables: dict[str, dict[str, Any]] = {}
        self.said: list[dict[str, Any]] = []
        self.acknowledges = True

    def send(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def greet(self, **fields: Any) -> dict[str, Any]:
        """Say hello; the answer."""
        self.send(type="hello", version=1, **fields)
        return self.until("welcome", "refused")

    def open(self, stream: int, table: str, first: int = 0, count: int = 10, **fields: Any) -> View:
        self.views[stream] = View()
        self.send(type="open", stream=stream, table=table, first=first, count=count, **fields)
        return self.views[stream]

    def receive(self, timeout: float = PATIENCE) -> dict[str, Any] | None:
        """Take one frame; the message, if it was one."""
        frame = self.socket.recv(timeout=timeout)
        if isinstance(frame, bytes):
            self._take(frame)
            return None
        message: dict[str, Any] = json.loads(frame)
        self.said.append(message)
        match message["type"]:
            case "tables":
                if message.get("all"):
                    self.tables = {}
                for name in message.get("dropped", []):
                    del self.tables[name]
                for table in message["tables"]:
                    self.tables[table["name"]] = {**self.tables.get(table["name"], {}), **table}
            case "columns":
                self.views[message["stream"]].begin_anew(message["columns"])
            case "opened":
                self.views[message["stream"]].opened = message
            case "ended":
                self.views[message["stream"]].ended = message
        return message

    def until(self, *types: str) -> dict[str, Any]:
        """Take frames up to a message of these types."""
        while True:
            message = self.receive()
            if message is not None and message["type"] in types:
                return message

    def settle(self, view: View, condition: Any) -> View:
        """Take frames until ``condition(view)``, or the stream has ended."""
        while not condition(view) and view.ended is None:
            self.receive()
        return view

    def _take(self, frame: bytes) -> None:
        stream, kind, length, age = struct.unpack_from("<IB3xII", frame)
        metadata, message = frame[16 : 16 + length], frame[16 + length + -length % 8 :]
        view = self.views[stream]
        if kind == 0:
            view.schema = pa.ipc.read_schema(pa.py_buffer(message))
            return
        assert (kind == 1) == bool(length)
        before = view.updates
        view.take(metadata, message, age)
        if self.acknowledges and view.updates > before:
            self.send(type="ack", stream=stream, updates=1)


@contextmanager
def page(server: bs.Server, *, path: str = "/live", **options: Any) -> Iterator[Page]:
    """A page that is connected, and has said nothing."""
    assert server.web_uri is not None
    uri = server.web_uri.replace("http", "ws", 1) + path
    options |= {"subprotocols": [Subprotocol(SUBPROTOCOL)], "open_timeout": PATIENCE, "max_size": None}
    with connect(uri, **options) if options.get("ssl") is None else _encrypted(uri, **options) as socket:
        yield Page(socket)


@contextmanager
def _encrypted(uri: str, **options: Any) -> Iterator[Socket]:
    """A websocket with TLS, which one thread reads and writes.

    Two threads at one TLS socket of Python, as ``websockets.sync`` has them, may lose what is sent
    (https://github.com/python/cpython/issues/143756).
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:

        async def opened() -> ClientConnection:
            return await connect_in_loop(uri, **options)

        socket = asyncio.run_coroutine_threadsafe(opened(), loop).result()
        try:
            yield _LoopSocket(socket, loop)
        finally:
            asyncio.run_coroutine_threadsafe(socket.close(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass
class _LoopSocket:
    """A websocket of an event loop in another thread."""

    socket: ClientConnection
    loop: asyncio.AbstractEventLoop

    def send(self, message: Any) -> None:
        asyncio.run_coroutine_threadsafe(self.socket.send(message), self.loop).result()

    def recv(self, timeout: float | None = None) -> Any:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(self.socket.recv(), timeout), self.loop).result()


@contextmanager
def greeted(server: bs.Server, **fields: Any) -> Iterator[Page]:
    """A page that was let in."""
    with page(server) as made:
        assert made.greet(**fields)["type"] == "welcome"
        yield made


def _joined(batches: list[dict[int, list[Any]]]) -> dict[int, list[Any]]:
    joined: dict[int, list[Any]] = {}
    for batch in batches:
        for number, values in batch.items():
            joined.setdefault(number, []).extend(values)
    return joined
