"""Tables of a Deephaven server that change at random: appended to, keyed, sorted, removed from, of all column types."""

from __future__ import annotations

import random
from typing import Any, Final

import jpy
from deephaven import dtypes, input_table, merge, new_table, ring_table
from deephaven.column import double_col, long_col, string_col
from deephaven.table import Table
from deephaven.update_graph import shared_lock

__all__ = ["TickingTables"]

COLUMNS: Final = {"K": dtypes.long, "A": dtypes.long, "B": dtypes.long, "S": dtypes.string, "D": dtypes.double}

# Every column type there is, each from the numbers A and B and now and then null; some follow A, some B, some both.
ALL_TYPES: Final = [
    "Byte = A % 7 == 0 ? NULL_BYTE : (byte)(A * 3)",
    "Short = B % 7 == 1 ? NULL_SHORT : (short)(B * 300)",
    "Int = A % 7 == 2 ? NULL_INT : (int)(A * 30000)",
    "Long = B % 7 == 3 ? NULL_LONG : B * 3000000000L",
    "Char = A % 7 == 4 ? NULL_CHAR : (char)(A + 65)",
    "Float = B % 7 == 5 ? NULL_FLOAT : (float)(B / 3.0)",
    "Double = A % 7 == 6 ? NULL_DOUBLE : A % 7 == 4 ? Double.POSITIVE_INFINITY : A / 7.0",
    "Bool = A % 7 == 0 ? null : B % 2 == 0",
    "Text = A % 7 == 1 ? null : `t` + A",
    "Instant = B % 7 == 2 ? null : epochNanosToInstant(1700000000000000000L + B * 1000000001L)",
    "Zoned = A % 7 == 2 ? null : epochNanosToZonedDateTime(1700000000000000000L + A, 'America/New_York')",
    "Date = B % 7 == 3 ? null : java.time.LocalDate.of(2020, 1, 1).plusDays(B)",
    "Time = A % 7 == 4 ? null : java.time.LocalTime.ofNanoOfDay(A * 1000000007L)",
    "Duration = B % 7 == 5 ? null : java.time.Duration.ofNanos(B * 12345)",
    "Decimal = A % 7 == 6 ? null : java.math.BigDecimal.valueOf(A * 101, 2)",
    "Integer = B % 7 == 0 ? null : java.math.BigInteger.valueOf(B).pow(20)",
    "Bytes = A % 7 == 1 ? null : new byte[]{(byte)A, (byte)(A + 1)}",
    "Longs = B % 7 == 2 ? null : B % 7 == 3 ? new long[0] : new long[]{A, NULL_LONG, -B}",
    "Texts = A % 7 == 3 ? null : new String[]{`a` + A, null, `c`}",
    "Instants = B % 7 == 3 ? null : new java.time.Instant[]{Instant, null}",
    "Object = B % 7 == 4 ? null : new java.util.UUID(A, B)",
]


class TickingTables:
    """Makes the tables, and changes them.

    Args:
        seed: of everything random.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._keyed = input_table(col_defs=COLUMNS, key_cols="K")
        self._log = input_table(col_defs=COLUMNS)
        self._last = -1
        self._keys: set[int] = set()
        types = self._keyed.update(ALL_TYPES)
        even = types.where("B % 2 == 0")
        self.tables: dict[str, Table] = {
            "append": self._log.update(ALL_TYPES),
            "keyed": types,
            "sorted": types.sort(["A", "K"]),
            "removed_from": even,
            "flat": even.flatten(),
            "ring": ring_table(self._log, 50),
            "reversed": self._log.reverse(),
            "merged": merge([even, self._log.update(ALL_TYPES)]),
            "grouped": self._keyed.view(["G = A % 5", "K", "S", "D"]).group_by("G"),
        }

    def change(self, times: int) -> None:
        """That many random changes, each in a cycle of its own."""
        for _ in range(times):
            what = self._random.random()
            if what < 0.3:
                self._log.add(self._rows(self._random.choice([1, 3, 40]), appended=True))
            elif what < 0.8 or not self._keys:
                self._keyed.add(self._rows(self._random.choice([1, 2, 10, 60])))
            else:
                gone = self._random.sample(sorted(self._keys), min(len(self._keys), self._random.choice([1, 5, 30])))
                self._keys -= set(gone)
                self._keyed.delete(new_table([long_col("K", gone)]))

    def steps(self) -> dict[str, int]:
        """For every table the step of the update graph at which it changed last, as updates name it."""
        # A change is done when its source table has it; the lock is free when all others have followed.
        with shared_lock(self._keyed):
            return {name: _base(table).getLastNotificationStep() for name, table in self.tables.items()}

    def _rows(self, count: int, *, appended: bool = False) -> Table:
        if appended:
            keys = list(range(self._last + 1, self._last + 1 + count))
            self._last += count
        else:
            keys = self._random.sample(range(300), count)
            self._keys |= set(keys)
        columns: list[Any] = [
            long_col("K", keys),
            long_col("A", [self._random.randrange(40) for _ in keys]),
            long_col("B", [self._random.randrange(40) for _ in keys]),
            string_col("S", [self._random.choice(["x", "", "longer text", None]) for _ in keys]),
            double_col("D", [self._random.choice([0.5, -1e300, 3.25]) for _ in keys]),
        ]
        return new_table(columns)


def _base(table: Table) -> Any:
    return jpy.cast(table.j_table, jpy.get_type("io.deephaven.engine.table.impl.BaseTable"))
