"""Deephaven's engine, which computes tables from tables in its process.

Nothing is sent.

Memoisation is off, and all else is as it comes, its threads included. Tables that tick belong to an update graph of
their own, whose cycles begin when they are asked for and are timed by itself. A keyed table is a ``last_by`` of a blink
table: nothing that it offers is changed faster. Rows are handed to a publisher before the cycle begins that takes them.
Settings are those of :mod:`benchmarks.servers.deephaven`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import numpy as np

from benchmarks import query_data as data
from benchmarks.loop import Loop
from benchmarks.servers.deephaven import start

_CHUNK: Final = 1 << 14
_NEVER_MS: Final = 1 << 30
_KEYS: Final = {"wide": "id", "small": "id", "names": "item"}


def _aggregations(*names: str) -> list[Any]:
    from deephaven import agg

    every = {
        "sum": lambda: agg.sum_("total = x"),
        "count": lambda: agg.count_("n"),
        "avg": lambda: agg.avg("mean = x"),
        "min": lambda: agg.min_("low = x"),
        "max": lambda: agg.max_("high = y"),
        "high": lambda: agg.max_("high = x"),
        "median": lambda: agg.median("middle = x"),
    }
    return [every[name]() for name in names]


def _ema(tables: dict[str, Any]) -> Any:
    from deephaven import updateby

    return tables["trades"].update_by(updateby.ema_tick(10, "e = x"), by="sym")


Operation = Callable[[dict[str, Any]], Any]

STATIC: Final[dict[str, Operation]] = {
    "where": lambda tables: tables["facts"].where(["x < 0.7", "y > 0.2"]),
    "update": lambda tables: tables["facts"].update("z = x * 2 + y"),
    "sort": lambda tables: tables["facts"].sort("x"),
    "agg_by groups": lambda tables: tables["facts"].agg_by(_aggregations("sum", "avg", "min", "max", "count"), "part"),
    "agg_by strings": lambda tables: tables["facts"].agg_by(_aggregations("sum", "count"), "sym"),
    "natural_join": lambda tables: tables["facts"].natural_join(tables["names"], "item"),
    "aj": lambda tables: tables["facts"].aj(tables["quotes"], ["sym", "time >= quoted"], "bid"),
}
TICKING: Final[dict[str, Operation]] = {
    "where": lambda tables: tables["wide"].where("x < 0.5"),
    "sum, count": lambda tables: tables["wide"].agg_by(_aggregations("sum", "count"), "part"),
    "natural_join": lambda tables: tables["wide"].natural_join(tables["names"], "item"),
    "sort": lambda tables: tables["small"].sort("x"),
    "min, max, median": lambda tables: tables["small"].agg_by(_aggregations("min", "high", "median"), "bin"),
    "aj": lambda tables: tables["trades"].aj(tables["quotes"], ["sym", "time >= quoted"], "bid"),
    "ema": _ema,
}


class Source:
    """A table that ticks.

    Args:
        name: of its rows.
        rows: at first.
        graph: the update graph.
        scope: the functions of :class:`DeephavenQueries`.
    """

    def __init__(self, name: str, rows: int, graph: Any, tables: DeephavenQueries) -> None:
        import jpy
        from deephaven.table import Table

        self._name, self._rows, self._tables = name, rows, tables
        self._cycle = 0
        first = self._batch(min(rows, 2))
        publishers = jpy.get_type("io.deephaven.stream.TablePublisher")
        self._publisher = publishers.of(name, first.j_table.getDefinition(), None, None, graph, _CHUNK)
        blink = Table(self._publisher.table())
        if name in _KEYS:
            self.table = blink.last_by(_KEYS[name])
        else:
            tools = jpy.get_type("io.deephaven.engine.table.impl.BlinkTableTools")
            self.table = Table(tools.blinkToAppendOnly(blink.j_table))

    def stage(self) -> None:
        """Hand over the rows of the next cycle."""
        self._publisher.add(self._batch(self._rows).j_table)
        self._cycle += 1

    def _batch(self, rows: int) -> Any:
        return self._tables.table(data.ticking(self._name, rows, self._cycle))


class DeephavenQueries:
    """The functions of the process."""

    def __init__(self) -> None:
        import jpy
        from deephaven.execution_context import ExecutionContext, get_exec_ctx

        jpy.get_type("io.deephaven.engine.table.impl.QueryTable").setMemoizeResults(False)
        graphs = jpy.get_type("io.deephaven.engine.updategraph.impl.PeriodicUpdateGraph")
        self._graph = graphs.newBuilder("ticking").targetCycleDurationMillis(_NEVER_MS).existingOrBuild()
        self._stats = jpy.get_type("io.deephaven.engine.updategraph.impl.BaseUpdateGraph$AccumulatedCycleStats")()
        self._ticking = ExecutionContext(get_exec_ctx().j_exec_ctx.withUpdateGraph(self._graph))
        self._tables: dict[str, Any] = {}
        self._sources: dict[str, Source] = {}
        self._alive = ExitStack()
        self._result: Any = None
        self._result_alive: Any = None

    def table(self, columns: data.Columns) -> Any:
        """A table that does not tick."""
        import jpy
        from deephaven import column, new_table

        symbols = jpy.array("java.lang.String", data.words())
        kinds = {"i": column.int_col, "l": column.long_col, "d": column.double_col}
        made = new_table([kinds[values.dtype.char](name, values) for name, values in columns.items()])
        if "sym" not in columns:
            return made
        assert len(symbols)  # the formula finds it here
        return made.update("sym = symbols[sym]")

    def prepare(self, rows: int) -> None:
        """The tables of the static work."""
        self._tables = {
            "facts": self.table(data.facts(rows)),
            "names": self.table(data.names(rows)),
            "quotes": self.table(data.quotes(rows)),
        }

    def run(self, operation: str) -> float:
        """Compute a result, which is dropped; milliseconds."""
        from deephaven.liveness_scope import liveness_scope

        self.collect()
        with liveness_scope():
            begin = time.perf_counter()
            result = STATIC[operation](self._tables)
            took = time.perf_counter() - begin
            del result
        return took * 1e3

    def check(self, operation: str, columns: list[str]) -> list[float]:
        """Compute a result; its checksum by columns."""
        return _checksum(STATIC[operation](self._tables), columns)

    def tick(self, sources: dict[str, int]) -> None:
        """Make ticking tables by name, each with its rows, and drop the earlier ones."""
        from deephaven.liveness_scope import LivenessScope

        self.drop()
        self._alive.close()
        self._sources, self._tables = {}, {}
        self.collect()
        self._alive = ExitStack()
        alive = LivenessScope()
        with self._following(), alive.open():
            self._sources = {name: Source(name, rows, self._graph, self) for name, rows in sources.items()}
            self._tables = {name: source.table for name, source in self._sources.items()}
        self._alive.callback(alive.release)
        self.cycles(1, list(sources))

    def follow(self, operation: str) -> None:
        """Make the result of an operation, which is kept until :meth:`drop`."""
        from deephaven.liveness_scope import LivenessScope

        self._result_alive = LivenessScope()
        with self._following(), self._result_alive.open():
            self._result = TICKING[operation](self._tables)

    def cycles(self, count: int, sources: list[str]) -> list[float]:
        """Change the tables in ``sources`` in ``count`` cycles; milliseconds of each."""
        return [self._cycle([self._sources[name] for name in sources]) for _ in range(count)]

    def check_ticking(self, columns: list[str]) -> list[float]:
        """The checksum of the result as it is now."""
        with self._following():
            return _checksum(self._result.snapshot(), columns)

    def drop(self) -> None:
        """Drop the result."""
        self._result = None
        if self._result_alive is not None:
            self._result_alive.release()
        self._result_alive = None
        self.collect()

    def collect(self) -> None:
        """Have the garbage of both collected."""
        import jpy

        gc.collect()
        jpy.get_type("java.lang.System").gc()

    @contextmanager
    def _following(self) -> Iterator[None]:
        from deephaven.update_graph import exclusive_lock

        with self._ticking, exclusive_lock(self._ticking.update_graph):
            yield

    def _cycle(self, sources: list[Source]) -> float:
        for source in sources:
            source.stage()
        step = self._graph.clock().currentStep()
        self._graph.takeAccumulatedCycleStats(self._stats)
        self._graph.requestRefresh()
        self._graph.takeAccumulatedCycleStats(self._stats)
        while not self._stats.cycles:
            time.sleep(0.0005)
            self._graph.takeAccumulatedCycleStats(self._stats)
        assert self._graph.clock().currentStep() > step
        return float(self._stats.cycleTimesMicros[0]) / 1e3


def _checksum(table: Any, columns: list[str]) -> list[float]:
    from deephaven.numpy import to_numpy

    found = {
        name: np.asarray(to_numpy(table.view(f"v = isNull({name}) ? 0.0 : (double){name}")).ravel()) for name in columns
    }
    return data.checksum(found)


def main() -> None:
    """Serve until standard input ends."""
    loop = Loop()
    server = start(loop.settings)
    queries = DeephavenQueries()
    for function in (
        queries.prepare,
        queries.run,
        queries.check,
        queries.tick,
        queries.follow,
        queries.cycles,
        queries.check_ticking,
        queries.drop,
    ):
        loop.function(function)
    loop.run(port=server.port)


if __name__ == "__main__":
    main()
