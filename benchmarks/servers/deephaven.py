"""Deephaven's server.

Its own operations make the tables, within its process, in Java.

Rows come from a time table, and their cells from formulas that are compiled: nothing that it offers writes faster.
Settings: ``cycle_ms`` (how often tables tick), ``interval_ms`` (how often subscribers hear of it), ``heap``, ``state``
(a folder).
"""

from __future__ import annotations

import gc
import socket
import sys
import time
from typing import Any, Final

from benchmarks import data
from benchmarks.loop import Loop


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(settings: dict[str, Any]) -> Any:
    """Start the Java machine in this process; takes about five seconds."""
    from deephaven_server import Server

    port = settings.get("port") or _free_port()
    folders = [f"-Ddeephaven.{kind}Dir={settings['state']}/{kind}" for kind in ("cache", "config", "data")]
    server = Server(
        host="127.0.0.1",
        port=port,
        jvm_args=[
            f"-Xmx{settings['heap']}",
            "-DAuthHandlers=io.deephaven.auth.AnonymousAuthenticationHandler",
            f"-DPeriodicUpdateGraph.targetCycleDurationMillis={settings['cycle_ms']}",
            f"-Dbarrage.minUpdateInterval={settings['interval_ms']}",
            *folders,
        ],
    )
    server.start()
    return server


class DeephavenTables:
    """The functions of the server's process."""

    def __init__(self) -> None:
        # what clients see are the globals of this module, which is __main__
        self._scope: dict[str, Any] = vars(sys.modules["__main__"])
        self._writers: dict[str, Any] = {}
        self._alive: dict[str, Any] = {}

    def make(
        self, name: str, kind: str, rows: int, rate: float = 0, batch_ms: float = 0, writes: str = "", width: int = 0
    ) -> None:
        """A table of ``rows`` rows: see :meth:`benchmarks.servers.ours.OurTables.make`.

        ``batch_ms`` is the server's cycle here, and rings are not made.
        """
        import jpy
        from deephaven.liveness_scope import LivenessScope

        del batch_ms, width
        self._scope["_symbols"] = jpy.array("java.lang.String", data.SYMBOLS)
        # Without a scope of its own a table, and all that it is derived from, ticks on until garbage is collected.
        alive = self._alive[name] = LivenessScope()
        with alive.open():
            self._scope[name] = _ticking(kind, rows, rate, writes) if rate else _still(rows)

    def drop(self, name: str) -> None:
        """Take a table away."""
        del self._scope[name]
        if self._writers.pop(name, None) is None:
            self._alive.pop(name).release()
        self.collect()

    def write(self, name: str, count: int, pause_ms: float) -> None:
        """Append single rows, each stamped just before the call that writes it."""
        writer = self._writers[name]
        for number in range(count):
            writer.write_row(number, time.time(), number % 1000, "S0")
            time.sleep(pause_ms / 1000)

    def writable(self, name: str) -> None:
        """An empty table for :meth:`write`."""
        from deephaven import DynamicTableWriter, dtypes

        types = {"id": dtypes.int64, "price": dtypes.double, "quantity": dtypes.int32, "symbol": dtypes.string}
        writer = self._writers[name] = DynamicTableWriter(types)
        self._scope[name] = writer.table

    def collect(self) -> int:
        """Let the Java machine collect garbage; returns the used bytes of its heap."""
        import jpy

        gc.collect()
        jpy.get_type("java.lang.System").gc()
        runtime = jpy.get_type("java.lang.Runtime").getRuntime()
        return int(runtime.totalMemory() - runtime.freeMemory())


_CELLS: Final = ["quantity = (int) (n % 1000)", "symbol = _symbols[(int) (n * 31 % 1000)]"]


def _still(rows: int) -> Any:
    """A table that does not tick.

    Measured from outside, a keyed table is like any other.
    """
    from deephaven import empty_table

    made = empty_table(rows).update(["n = ii", "id = n", "price = n * 0.01", *_CELLS])
    return made.view(data.SCHEMA.names)


def _ticking(kind: str, rows: int, rate: float, writes: str) -> Any:
    """A table that begins with ``rows`` rows: its clock began in the past."""
    from deephaven import time_table

    period = round(1e9 / rate)
    start = time.time_ns() - rows * period
    ticks = time_table(period, start_time=start, blink_table=kind == "keyed")
    # rows are counted from the beginning; those of a blink table have no numbers that go on
    numbered = ticks.update_view(["at = epochNanos(Timestamp)", f"n = (at - {start}L) / {period}L"])
    if kind != "keyed":
        return numbered.update(["id = n", "price = at * 1e-9", *_CELLS]).view(data.SCHEMA.names)
    views = rows // 100
    later = f"n % {views} * 100 + n / {views} * 37 % 100" if writes == "views" else f"n * 2654435761L % {rows}"
    written = numbered.update([f"id = n < {rows} ? n : {later}", "price = at * 1e-9", *_CELLS])
    return written.view(data.SCHEMA.names).last_by("id")


def main() -> None:
    """Serve until standard input ends."""
    loop = Loop()
    server = start(loop.settings)
    tables = DeephavenTables()
    for function in (tables.make, tables.drop, tables.write, tables.writable, tables.collect):
        loop.function(function)
    loop.run(port=server.port)


if __name__ == "__main__":
    main()
