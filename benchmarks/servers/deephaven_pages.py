"""Deephaven's server with the tables that its page shows.

Its functions are those of :mod:`benchmarks.servers.ours_pages`.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import numpy as np

from benchmarks import data
from benchmarks.loop import Loop
from benchmarks.pages import rows
from benchmarks.servers.deephaven import start

_STILL: Final = [
    f"id = (int) (ii + {rows.FIRST_ID})",
    "price = ii * 0.01",
    "quantity = (int) (ii % 1000)",
    "symbol = _symbols[(int) (ii * 31 % 1000)]",
]
_NUMBERS: Final = [f"n{number} = (n * 7919 + {number * 104729}) % 100000 * 0.01" for number in range(rows.NUMBERS)]


class DeephavenPageTables:
    """The functions of the server's process."""

    def __init__(self) -> None:
        import jpy

        # what clients see are the globals of this module, which is __main__
        self._scope: dict[str, Any] = vars(sys.modules["__main__"])
        self._scope["_symbols"] = jpy.array("java.lang.String", data.SYMBOLS)
        self._writers: dict[str, Any] = {}
        self._alive: dict[str, Any] = {}
        self._counts: dict[str, int] = {}

    def still(self, name: str, count: int) -> None:
        """A table that does not change.

        Its cells are computed when they are read, which takes less memory.
        """
        from deephaven import empty_table

        self._scope[name] = empty_table(count).view(_STILL)

    def cells(self, name: str, count: int) -> None:
        """A table whose cells are to change; it is there when they do."""
        self._counts[name] = count

    def tick(self, name: str, count: int, batch_ms: float) -> None:
        """Make it: ``count`` rows change every ``batch_ms``, which is the server's cycle."""
        from deephaven import time_table
        from deephaven.liveness_scope import LivenessScope

        keys = self._counts[name]
        period = round(batch_ms * 1e6 / count)
        begin = time.time_ns() - keys * period  # so that all rows are there
        alive = self._alive[name] = LivenessScope()
        with alive.open():
            ticks = time_table(period, start_time=begin, blink_table=True)
            numbered = ticks.update_view(["ns = epochNanos(Timestamp)", f"n = (long) ((ns - {begin}L) / {period}L)"])
            written = numbered.update(
                [f"id = (int) (n % {keys} + {rows.FIRST_ID})", "at = (long) (ns / 1000L)", *_NUMBERS]
            )
            self._scope[name] = written.view(rows.CELLS.names).last_by("id")

    def rest(self, name: str) -> None:
        """Take it away."""
        del self._scope[name]
        self._alive.pop(name).release()

    def written(self, name: str, count: int) -> None:
        """A table that :meth:`write` changes."""
        from deephaven import DynamicTableWriter, dtypes

        types = {"id": dtypes.int32, "at": dtypes.int64} | {
            field.name: dtypes.double for field in rows.CELLS if field.name not in ("id", "at")
        }
        writer = self._writers[name] = DynamicTableWriter(types)
        for row in range(count):
            self._write(writer, row, row)
        self._counts[name] = count
        self._scope[name] = writer.table.last_by("id")

    def write(self, name: str, pauses_ms: list[float]) -> int:
        """Change single rows after one another, with these pauses; the last stamp."""
        stamp = 0
        for number, pause in enumerate(pauses_ms):
            time.sleep(pause / 1000)
            stamp = self._write(self._writers[name], number % self._counts[name], number)
        return stamp

    def points(self, name: str, count: int) -> None:
        """A line chart of a table: a curve with noise."""
        from deephaven import empty_table
        from deephaven.plot.figure import Figure

        times = f"x = epochNanosToInstant({rows.FIRST_TIME}L + ii * {rows.TIME_STEP}L)"
        source = empty_table(count).update([times, "y = sin(ii / 100000.0) * 50 + (ii * 7919 % 1000) * 0.002"])
        self._scope[name] = Figure().plot_xy(series_name="y", t=source, x="x", y="y").show()

    def drop(self, name: str) -> None:
        """Take a table away."""
        del self._scope[name]
        writer = self._writers.pop(name, None)
        if writer is not None:
            writer.close()

    def _write(self, writer: Any, row: int, number: int) -> int:
        numbers = np.round(np.random.default_rng(number).random(rows.NUMBERS) * 1000, 2)
        stamp = rows.now()
        writer.write_row(rows.FIRST_ID + row, stamp, *map(float, numbers))
        return stamp


def main() -> None:
    """Serve until standard input ends."""
    loop = Loop()
    server = start(loop.settings)
    tables = DeephavenPageTables()
    for function in (
        tables.still,
        tables.cells,
        tables.tick,
        tables.rest,
        tables.written,
        tables.write,
        tables.points,
        tables.drop,
    ):
        loop.function(function)
    loop.run(web=f"http://127.0.0.1:{server.port}")


if __name__ == "__main__":
    main()
