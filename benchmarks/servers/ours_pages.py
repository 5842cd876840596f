"""This project's server with the tables that its page shows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

import barrage_server as bs
from barrage_server.process import choose_allocators
from barrage_server.subscription import SubscriptionLimits
from benchmarks.loop import Loop
from benchmarks.pages import rows
from benchmarks.servers.writer import Writer

_PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.0005
_TICK_SECONDS = 0.02


class OurPageTables:
    """The functions of the server's process.

    Attributes:
        server: the server.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        limits = SubscriptionLimits(default_interval_ms=settings["interval_ms"])
        self.server = bs.Server(web_port=0, subscriptions=limits)
        self._writers: dict[str, Writer] = {}

    def still(self, name: str, count: int, columns: int = len(rows.STILL)) -> None:
        """A table that does not change; of its first columns only, if not of all."""
        table = self.server.append_table(name, pa.schema(list(rows.STILL)[:columns]))
        for batch in rows.still(count, columns):
            table.append(batch)

    def cells(self, name: str, count: int) -> None:
        """A table whose cells are to change."""
        self.server.keyed_table(name, rows.CELLS, key="id").upsert(rows.cells(np.arange(count), 0))

    def tick(self, name: str, count: int, batch_ms: float) -> None:
        """Begin to change ``count`` of its rows every ``batch_ms``."""
        table: Any = self.server.table(name)
        self._writers[name] = Writer(table.upsert, rows.changed(table.size, count), batch_ms / 1000, rows.stamped)

    def written(self, name: str, count: int) -> None:
        """A table that :meth:`write` changes."""
        self.cells(name, count)

    def rest(self, name: str) -> None:
        """Let it change no more."""
        self._writers.pop(name).stop()

    def write(self, name: str, pauses_ms: list[float]) -> int:
        """Change single rows with these pauses, each stamped just before its call.

        Returns:
            The last stamp.
        """
        table: Any = self.server.table(name)
        stamp = 0
        for number, pause in enumerate(pauses_ms):
            time.sleep(pause / 1000)
            row = rows.cells(np.array([number % table.size]), number)
            stamp = rows.stamp_of(row)
            table.upsert(row)
        return stamp

    def churn(self, name: str, updates: int) -> None:
        """Change all rows until a page was sent ``updates`` updates.

        Each change follows when the page has painted the one before.
        """
        table: Any = self.server.table(name)
        batches = rows.changed(table.size, table.size)
        sent = goal = self._sent()
        goal += updates
        while sent < goal:
            table.upsert(rows.stamped(next(batches), time.time()))
            end = time.monotonic() + _PATIENCE_SECONDS
            while (now := self._sent()) == sent:
                if time.monotonic() > end:
                    raise TimeoutError("the page takes no updates")
                time.sleep(_LOOK_SECONDS)
            sent = now

    def points(self, name: str, count: int) -> None:
        """A table that is plotted."""
        table = self.server.append_table(name, rows.POINTS)
        for batch in rows.points(0, count):
            table.append(batch)

    def plot_ticks(self, name: str, ticks: int, count: int) -> float:
        """Append ``count`` rows repeatedly; returns the processor seconds of each time."""
        table: Any = self.server.table(name)
        batches = [batch for tick in range(ticks) for batch in rows.points(table.size + tick * count, count)]
        begin = time.process_time()
        for batch in batches:
            table.append(batch)
            time.sleep(_TICK_SECONDS)
        return (time.process_time() - begin) / ticks

    def drop(self, name: str) -> None:
        """Take a table away."""
        self.server.drop(name)

    def close(self) -> None:
        """End."""
        for writer in self._writers.values():
            writer.stop()
        self.server.close()

    def _sent(self) -> int:
        return sum(gauges.messages for gauges in self.server.statistics().subscriptions)


def main() -> None:
    """Serve until standard input ends."""
    choose_allocators()  # as serve does
    loop = Loop()
    tables = OurPageTables(loop.settings)
    for function in (
        tables.still,
        tables.cells,
        tables.tick,
        tables.rest,
        tables.written,
        tables.write,
        tables.churn,
        tables.points,
        tables.plot_ticks,
        tables.drop,
    ):
        loop.function(function)
    loop.run(web=tables.server.web_uri)
    tables.close()


if __name__ == "__main__":
    main()
