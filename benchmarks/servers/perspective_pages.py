"""Perspective's server with a page of its viewer.

Its functions are those of :mod:`benchmarks.servers.ours_pages`.

Tables stay until the process ends: ``Table.delete`` does not always return while views of pages are closed.
Settings: ``modules``, the folder of the packages from npm.
"""

from __future__ import annotations

import gzip
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.loop import Loop
from benchmarks.pages import rows
from benchmarks.servers.perspective import encoded, serve
from benchmarks.servers.writer import Writer

_PAGE: Final = Path(__file__).parent.parent / "pages" / "perspective.html"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm"}


def serve_pages(server: Any, modules: Path) -> int:
    """Serve ``server`` and the page on a thread of its own; the port.

    Files are compressed once, and the browser may keep them, as from any web server that is set up for it.
    """
    import tornado.web

    compressed = {
        f"/modules/{file.relative_to(modules)}": (_TYPES[file.suffix], gzip.compress(file.read_bytes(), 9))
        for file in sorted(modules.glob("@perspective-dev/*/dist/*/*"))
        if file.suffix in _TYPES
    }
    compressed["/"] = ("text/html; charset=utf-8", gzip.compress(_PAGE.read_bytes(), 9))

    class Files(tornado.web.RequestHandler):  # type: ignore[misc]  # tornado has no types
        def compute_etag(self) -> str:
            return f'"{hashlib.sha256(compressed[self.request.path][1]).hexdigest()}"'

        def get(self) -> None:
            if self.request.path not in compressed:
                raise tornado.web.HTTPError(404)
            kind, content = compressed[self.request.path]
            self.set_header("Content-Type", kind)
            self.set_header("Content-Encoding", "gzip")
            if self.request.path != "/":
                self.set_header("Cache-Control", "max-age=3600")
            self.write(content)

    return serve(server, [(r"/.*", Files)])


class PerspectivePageTables:
    """The functions of the server's process."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._tables: dict[str, Any] = {}
        self._writers: dict[str, Writer] = {}

    def still(self, name: str, count: int) -> None:
        """A table that does not change."""
        table = self._client.table(encoded(next(rows.still(1))), name=name)
        table.clear()
        for batch in rows.still(count):
            table.update(encoded(batch))
        self._tables[name] = table

    def cells(self, name: str, count: int) -> None:
        """A table whose cells are to change."""
        self._tables[name] = self._client.table(encoded(rows.cells(np.arange(count), 0)), name=name, index="id")

    def tick(self, name: str, count: int, batch_ms: float) -> None:
        """Begin to change ``count`` of its rows every ``batch_ms``."""
        table = self._tables[name]
        batches = rows.changed(table.size(), count)
        self._writers[name] = Writer(_writing(table), batches, batch_ms / 1000, rows.stamped)

    def rest(self, name: str) -> None:
        """Let it change no more."""
        self._writers.pop(name).stop()

    def written(self, name: str, count: int) -> None:
        """A table that :meth:`write` changes."""
        self.cells(name, count)

    def write(self, name: str, pauses_ms: list[float]) -> int:
        """Change single rows after one another, with these pauses; the last stamp."""
        table = self._tables[name]
        write, size, stamp = _writing(table), table.size(), 0
        for number, pause in enumerate(pauses_ms):
            time.sleep(pause / 1000)
            row = rows.cells(np.array([number % size]), number)
            stamp = rows.stamp_of(row)
            write(row)
        return stamp

    def drop(self, name: str) -> None:
        """Forget a table; see the module."""
        del self._tables[name]


def _writing(table: Any) -> Callable[[pa.RecordBatch], object]:
    return lambda batch: table.update(encoded(batch))


def main() -> None:
    """Serve until standard input ends."""
    import perspective

    loop = Loop()
    server = perspective.Server()
    tables = PerspectivePageTables(server.new_local_client())
    for function in (
        tables.still,
        tables.cells,
        tables.tick,
        tables.rest,
        tables.written,
        tables.write,
        tables.drop,
    ):
        loop.function(function)
    loop.run(web=f"http://127.0.0.1:{serve_pages(server, Path(loop.settings['modules']))}")


if __name__ == "__main__":
    main()
