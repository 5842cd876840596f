"""This project's engine, which computes tables from tables in its process.

Nothing is sent. Its functions are those of :mod:`benchmarks.servers.deephaven_queries`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import barrage_server as bs
from barrage_server.engine import AppendTable, KeyedTable, Table, UpdateGraph
from barrage_server.process import choose_allocators
from benchmarks import query_data as data
from benchmarks.loop import Loop

Operation = Callable[[dict[str, Table]], Table]

_KEYS: Final = {"wide": "id", "small": "id", "names": "item"}
_WORDS: Final = pa.array(data.words())

STATIC: Final[dict[str, Operation]] = {
    "where": lambda tables: tables["facts"].where(["x < 0.7", "y > 0.2"]),
    "update": lambda tables: tables["facts"].update("z = x * 2 + y"),
    "sort": lambda tables: tables["facts"].sort("x"),
    "agg_by groups": lambda tables: tables["facts"].agg_by(
        [
            bs.agg.sum_("total = x"),
            bs.agg.avg("mean = x"),
            bs.agg.min_("low = x"),
            bs.agg.max_("high = y"),
            bs.agg.count_("n"),
        ],
        "part",
    ),
    "agg_by strings": lambda tables: tables["facts"].agg_by([bs.agg.sum_("total = x"), bs.agg.count_("n")], "sym"),
    "natural_join": lambda tables: tables["facts"].natural_join(tables["names"], "item"),
    "aj": lambda tables: tables["facts"].aj(tables["quotes"], ["sym", "time >= quoted"], "bid"),
}
TICKING: Final[dict[str, Operation]] = {
    "where": lambda tables: tables["wide"].where("x < 0.5"),
    "sum, count": lambda tables: tables["wide"].agg_by([bs.agg.sum_("total = x"), bs.agg.count_("n")], "part"),
    "natural_join": lambda tables: tables["wide"].natural_join(tables["names"], "item"),
    "sort": lambda tables: tables["small"].sort("x"),
    "min, max, median": lambda tables: tables["small"].agg_by(
        [bs.agg.min_("low = x"), bs.agg.max_("high = x"), bs.agg.median("middle = x")], "bin"
    ),
    "aj": lambda tables: tables["trades"].aj(tables["quotes"], ["sym", "time >= quoted"], "bid"),
    "ema": lambda tables: tables["trades"].update_by(bs.updateby.ema_tick(10, "e = x"), "sym"),
}


class OurQueries:
    """The functions of the process."""

    def __init__(self) -> None:
        self._graph = UpdateGraph()
        self._tables: dict[str, Table] = {}
        self._sources: dict[str, AppendTable | KeyedTable] = {}
        self._rows: dict[str, int] = {}
        self._cycles: dict[str, int] = {}
        self._result: Table | None = None

    def prepare(self, rows: int) -> None:
        """The tables of the static work."""
        made = {"facts": data.facts(rows), "names": data.names(rows), "quotes": data.quotes(rows)}
        self._tables = {name: bs.table(_arrow(columns), graph=self._graph).snapshot() for name, columns in made.items()}

    def run(self, operation: str) -> float:
        """Compute a result, which is dropped; milliseconds."""
        gc.collect()
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
        self.drop()
        self._sources, self._tables, self._cycles = {}, {}, dict.fromkeys(sources, 0)
        self._graph, self._rows = UpdateGraph(), sources
        for name, rows in sources.items():
            first = _arrow(data.ticking(name, rows, 0))
            key = _KEYS.get(name)
            if key is None:
                self._sources[name] = bs.table(first, graph=self._graph)
            else:
                self._sources[name] = bs.table(first, key=key, graph=self._graph)
        self._tables = dict(self._sources)

    def follow(self, operation: str) -> None:
        """Make the result of an operation, which is kept until :meth:`drop`."""
        self._result = TICKING[operation](self._tables)

    def cycles(self, count: int, sources: list[str]) -> list[float]:
        """Change the tables in ``sources`` in ``count`` cycles; milliseconds of each."""
        return [self._one(sources) for _ in range(count)]

    def check_ticking(self, columns: list[str]) -> list[float]:
        """The checksum of the result as it is now."""
        assert self._result is not None
        return _checksum(self._result, columns)

    def drop(self) -> None:
        """Drop the result."""
        self._result = None
        gc.collect()

    def _one(self, sources: list[str]) -> float:
        batches = {}
        for name in sources:
            self._cycles[name] += 1
            batches[name] = _arrow(data.ticking(name, self._rows[name], self._cycles[name])).to_batches()[0]
        begin = time.perf_counter()
        with self._graph.cycle():
            for name, batch in batches.items():
                table = self._sources[name]
                if isinstance(table, KeyedTable):
                    table.upsert(batch)
                else:
                    table.append(batch)
        return (time.perf_counter() - begin) * 1e3


def _arrow(columns: data.Columns) -> pa.Table:
    arrays: dict[str, Any] = {
        name: _WORDS.take(pa.array(values)) if name == "sym" else pa.array(values) for name, values in columns.items()
    }
    return pa.table(arrays)


def _checksum(table: Table, columns: list[str]) -> list[float]:
    found = table.version.to_table().select(columns)
    doubles = {name: pc.fill_null(pc.cast(found[name], pa.float64()), 0.0) for name in columns}
    return data.checksum({name: np.asarray(values.to_numpy()) for name, values in doubles.items()})


def main() -> None:
    """Serve until standard input ends."""
    choose_allocators()  # as serve does
    loop = Loop()
    queries = OurQueries()
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
    loop.run()


if __name__ == "__main__":
    main()
