"""Perspective's server, whose Tornado handler serves tables over websockets.

Tables are written to from a thread of the server's process, by a client that needs no network.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from benchmarks import data
from benchmarks.loop import Loop
from benchmarks.servers.writer import Writer, appended, upserted

LARGEST_MESSAGE: Final = 2 << 30


def serve(server: Any, more: Sequence[tuple[str, Any]] = ()) -> int:
    """Serve ``server`` on a thread of its own, and return the port.

    ``more``: further handlers of Tornado with their paths.
    """
    import tornado.httpserver
    import tornado.netutil
    import tornado.web
    from perspective.handlers.tornado import PerspectiveTornadoHandler

    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")

    def run() -> None:
        async def forever() -> None:
            handlers = [
                (
                    r"/websocket",
                    PerspectiveTornadoHandler,
                    {"perspective_server": server, "max_buffer_size": LARGEST_MESSAGE},
                ),
                *more,
            ]
            application = tornado.web.Application(handlers, websocket_max_message_size=LARGEST_MESSAGE)
            tornado.httpserver.HTTPServer(application).add_sockets(sockets)
            await asyncio.Event().wait()

        asyncio.run(forever())

    threading.Thread(target=run, name="tornado", daemon=True).start()
    port: int = sockets[0].getsockname()[1]
    return port


class PerspectiveTables:
    """The functions of the server's process."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._tables: dict[str, Any] = {}
        self._writers: dict[str, Writer] = {}

    def make(
        self, name: str, kind: str, rows: int, rate: float = 0, batch_ms: float = 10, writes: str = "", width: int = 0
    ) -> None:
        """A table of ``rows`` rows: see :meth:`benchmarks.servers.ours.OurTables.make`."""
        del writes, width
        more = {"index": "id"} if kind == "keyed" else {}
        table = self._tables[name] = self._client.table(encoded(data.batch(0, 1)), name=name, **more)
        table.clear()
        for batch in data.batches(rows):
            table.update(encoded(batch))
        if rate:
            self.tick(name, rate, batch_ms)

    def tick(self, name: str, rate: float, batch_ms: float) -> None:
        """Begin to write to a table."""
        table = self._tables[name]
        rows, count = table.size(), max(1, round(rate * batch_ms / 1000))
        batches = appended(rows, count) if table.get_index() is None else upserted(rows, count)
        self._writers[name] = Writer(_writing(table), batches, batch_ms / 1000)

    def still(self, name: str) -> None:
        """Let a table tick no more."""
        self._writers.pop(name).stop()

    def drop(self, name: str) -> None:
        """Take a table away; views of clients that are still there keep it."""
        writer = self._writers.pop(name, None)
        if writer is not None:
            writer.stop()
        self._tables.pop(name).delete(lazy=True)

    def write(self, name: str, count: int, pause_ms: float) -> None:
        """Append single rows, each stamped just before the call that writes it."""
        table, row = self._tables[name], data.batch(0, 1)
        for _ in range(count):
            table.update(encoded(data.stamped(row, time.time())))
            time.sleep(pause_ms / 1000)


def encoded(batch: pa.RecordBatch) -> bytes:
    """Rows as Perspective takes them: an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _writing(table: Any) -> Callable[[pa.RecordBatch], object]:
    return lambda batch: table.update(encoded(batch))


def main() -> None:
    """Serve until standard input ends."""
    import perspective

    loop = Loop()
    server = perspective.Server()
    tables = PerspectiveTables(server.new_local_client())
    for function in (tables.make, tables.tick, tables.still, tables.drop, tables.write):
        loop.function(function)
    loop.run(port=serve(server))


if __name__ == "__main__":
    main()
