"""Sources beside those of all tables: rows that live for one cycle, rows that come with the time, and unique keys."""

from __future__ import annotations

import random
from typing import Any, Final

import numpy as np
import pyarrow as pa

from barrage_server.engine import BlinkTable, KeyedTable, Table, UpdateGraph
from barrage_server.engine.time_table import BlinkTimeTable, TimeTable
from tests.operations.oracle import Row, make_row
from tests.properties.sources import SCHEMA, SOURCES, Source, rows_of, to_table

PERIOD: Final = 1_000
START: Final = 1_700_000_000_000_000_000
FLAGS: Final = (None, True, False)

_MOMENT: Final = f"(epochNanos(Timestamp) - {START}L)"
_NUMBER: Final = f"floorDiv({_MOMENT}, {PERIOD}L)"
COMPUTED: Final = [
    f"key = (int)floorMod({_NUMBER} * 7, 12)",
    f"number = floorMod({_NUMBER}, 5L) == 0 ? NULL_DOUBLE : floorMod({_NUMBER}, 5L) == 1 ? NAN_DOUBLE : key / 4.0",
    f"text = floorMod({_NUMBER}, 3L) == 0 ? null : floorMod({_NUMBER}, 3L) == 1 ? `` : String.valueOf(key)",
    f"flag = floorMod({_NUMBER}, 3L) == 0 ? NULL_BOOLEAN : floorMod({_NUMBER}, 3L) == 1",
    "items = listed((short)key)",
]


def listed(values: pa.Array) -> pa.Array:
    """A list of one item for each value."""
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1, dtype=np.int32)), values.cast(pa.int16()))


def prepared(graph: UpdateGraph) -> UpdateGraph:
    """A graph whose formulas can make lists."""
    graph.functions.register("listed", listed, returns=pa.list_(pa.int16()))
    return graph


class BlinkSource(Source):
    """Rows that live for one cycle of the graph, whichever table it is of."""

    def __init__(self, graph: UpdateGraph) -> None:
        self.table = self.rows = BlinkTable(graph, "t", SCHEMA)
        self.model: list[Row] = []

    def change(self, chance: random.Random) -> None:
        rows = [make_row(chance) for _ in range(chance.choice([0, 1, 2, 7]))]
        self.rows.append(to_table(rows))
        self.model = rows or self.model  # without rows there may be no cycle

    def check(self) -> None:
        assert repr(rows_of(self.table.to_arrow())) in (repr([]), repr(self.model))


class TimeSource(Source):
    """A time table, and columns that are computed of its moments."""

    KIND: Any = TimeTable

    def __init__(self, graph: UpdateGraph) -> None:
        self.clock = self.KIND(prepared(graph), "time", START, PERIOD)
        self.table: Table = self.clock.update(COMPUTED).view(SCHEMA.names)
        self.now = START - 1
        self.moments: list[int] = []

    def change(self, chance: random.Random) -> None:
        before, self.now = self.now, self.now + chance.choice([0, 400, PERIOD, 3 * PERIOD, 5_700])
        self.clock.advance(self.now)
        new = [number for number in range(1 << 10) if before < START + number * PERIOD <= self.now]
        self.moments = self.moments + new if self.KIND is TimeTable else new or self.moments

    def check(self) -> None:
        wanted = [moment_row(number) for number in self.moments]
        passed = [] if self.KIND is BlinkTimeTable else wanted
        assert repr(rows_of(self.table.to_arrow())) in (repr(wanted), repr(passed))


class BlinkTimeSource(TimeSource):
    KIND = BlinkTimeTable


def moment_row(number: int) -> Row:
    """The computed row of a moment, by its number."""
    key = number * 7 % 12
    return (
        key,
        None if number % 5 == 0 else float("nan") if number % 5 == 1 else key / 4.0,
        None if number % 3 == 0 else "" if number % 3 == 1 else str(key),
        None if number % 3 == 0 else number % 3 == 1,
        [key],
    )


class LookupSource(Source):
    """One row for each flag, always; the other cells change."""

    def __init__(self, graph: UpdateGraph) -> None:
        self.table = self.rows = KeyedTable(graph, "lookup", SCHEMA, ["flag"])
        self.model: dict[Any, Row] = {}
        self._write(random.Random(0), FLAGS)

    def change(self, chance: random.Random) -> None:
        self._write(chance, chance.sample(FLAGS, chance.randrange(4)))

    def _write(self, chance: random.Random, flags: Any) -> None:
        rows = [(*make_row(chance)[:3], flag, make_row(chance)[4]) for flag in flags]
        self.rows.upsert(to_table(rows))
        self.model |= {row[3]: row for row in rows}

    def check(self) -> None:
        assert {row[3]: repr(row) for row in rows_of(self.table.to_arrow())} == {
            flag: repr(row) for flag, row in self.model.items()
        }


EVERY_SOURCE: list[type[Source]] = [*dict.fromkeys(SOURCES), BlinkSource, TimeSource, BlinkTimeSource]
