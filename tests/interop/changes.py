"""The changes of the tables that random plans begin with: the same ones for several servers."""

from __future__ import annotations

import math
import random
from typing import Any, Final, Protocol

import pyarrow as pa

__all__ = ["LOOKUP", "SCHEMA", "Stream", "Target"]

SECOND: Final = 1_000_000_000
START: Final = 1_718_461_472 * SECOND  # 2024-06-15T14:24:32Z
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("sym", pa.string()),
        ("level", pa.int32()),
        ("at", pa.timestamp("ns", "UTC")),
        ("moment", pa.timestamp("ns", "UTC")),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("whole", pa.int32()),
        ("large", pa.int64()),
        ("single", pa.float32()),
        ("price", pa.float64()),
        ("wild", pa.float64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
    ]
)
LOOKUP: Final = pa.schema(
    [("sym", pa.string()), ("rank", pa.int32()), ("rate", pa.float64()), ("since", pa.timestamp("ns", "UTC"))]
)


class Target(Protocol):
    """What is changed: the tables ``grown``, ``keyed`` and ``lookup``, by number, of several servers."""

    def give(self, name: str, table: pa.Table) -> None:
        """Put the next rows into a variable: ``data``."""

    def execute(self, code: str) -> None:
        """Call ``add(number)`` or ``delete(number)`` with those rows."""


def row_of(chance: random.Random, number: int) -> dict[str, Any]:
    """A random row: every fifth cell is null, ``wild`` has NaN and infinities."""
    cells: dict[str, Any] = {
        "level": chance.randint(0, 3),
        "moment": START + chance.randint(-60, 60) * SECOND,
        "tiny": chance.randint(-60, 60),
        "small": chance.randint(-1000, 1000),
        "whole": chance.randint(-100_000, 100_000),
        "large": chance.randint(-(10**12), 10**12),
        "single": chance.randint(-200, 200) / 4,
        "price": chance.randint(-200, 200) / 4,
        "wild": chance.choice([1.5, -2.0, 3.0, 0.0, 7.0, 11.0, math.nan, math.inf, -math.inf]),
        "text": chance.choice(["", "a", "b", "Z", "A", "ä"]),
        "flag": chance.choice([True, False]),
    }
    cells = {name: None if chance.random() < 0.2 else cell for name, cell in cells.items()}
    return {"id": number, "sym": chance.choice(["A", "B", "C", None]), "at": START + number // 3 * SECOND, **cells}


def lookup_of(chance: random.Random, sym: str | None) -> dict[str, Any]:
    """A random row of the keyed table with few rows."""
    cells = {
        "rank": chance.randint(0, 3),
        "rate": chance.randint(-20, 20) / 4,
        "since": START + chance.randint(-5, 60) * SECOND,
    }
    return {"sym": sym, **{name: None if chance.random() < 0.2 else cell for name, cell in cells.items()}}


class Stream:
    """What changes in the tables that plans begin with, in both servers."""

    def __init__(self, both: Target, seed: int) -> None:
        self.both = both
        self.chance = random.Random(seed)
        self.next_id = 0
        self.alive: list[int] = []  # in the keyed table; a row that is made anew has its old place in Deephaven's
        self.syms: list[str | None] = ["A", "B", None, "b"]
        self.spare = ["C", "D", "Z", "a", ""]

    def _send(self, call: str, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
        if rows:
            self.both.give("data", pa.Table.from_pylist(rows, schema=schema))
            self.both.execute(call)

    def begin(self) -> None:
        """The first rows."""
        self.change(15)
        self._send("add(2)", [lookup_of(self.chance, sym) for sym in self.syms], LOOKUP)

    def change(self, count: int = 8) -> None:
        """Rows are added to all tables, and changed and removed in the keyed ones."""
        chance = self.chance
        numbers = range(self.next_id, self.next_id + count)
        self.next_id += count
        self._send("add(0)", [row_of(chance, number) for number in numbers], SCHEMA)
        changed = chance.sample(self.alive, min(len(self.alive), 4))
        self.alive += numbers
        self._send("add(1)", [row_of(chance, number) for number in [*changed, *numbers]], SCHEMA)

    def step(self) -> None:
        """One step: some cycles of each table."""
        self.change()
        gone = self.chance.sample(self.alive, 4)
        self.alive = [number for number in self.alive if number not in gone]
        self._send("delete(1)", [{"id": number} for number in gone], pa.schema([SCHEMA.field("id")]))
        changed = [self.chance.choice(self.syms), self.spare.pop()]
        self.syms.append(changed[1])
        self._send("add(2)", [lookup_of(self.chance, sym) for sym in changed], LOOKUP)
        left = self.syms.pop(self.chance.randrange(len(self.syms)))
        self._send("delete(2)", [{"sym": left}], pa.schema([LOOKUP.field("sym")]))
