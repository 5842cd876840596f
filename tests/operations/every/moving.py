"""Functions that move along rows."""

from __future__ import annotations

from typing import Any, Final

from barrage_server.engine import Table
from barrage_server.plan.update_by import UpdateByOperation
from tests.operations.every.links import FLAG, KEY, NUMBER, Given, Link
from tests.operations.oracle import Row, Rows
from tests.operations.update_by import test_update_by as functions
from tests.operations.update_by.model import results

TAMED: Final = (
    "number = isNull(number) || !isFinite(number) ? number : number > -8 && number < 8 ? rint(number * 4) / 4 : 4.0"
)
"""Numbers whose sums and products are the same in any order."""


def tamed(number: float | None) -> float | None:
    if number is None or number != number or number in (float("inf"), float("-inf")):
        return number
    return round(number * 4) / 4 if -8 < number < 8 else 4.0


def expected(rows: Rows, operations: list[UpdateByOperation], times: bool) -> Rows:
    names = ["key", "number", "text", "flag", "items"]
    groups: dict[Any, list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(row[FLAG], []).append(place)
    found: list[list[Any]] = [[*row] for row in rows]
    for operation in operations:
        column = names.index(operation.columns[0].partition("=")[2].strip()) if "=" in operation.columns[0] else 0
        for places in groups.values():
            part = [rows[place] for place in places]
            wanted = results(
                operation,
                [row[column] for row in part],
                [row[KEY] if times else 0 for row in part],
                [row[NUMBER] for row in part],
                [row[KEY] > 4 for row in part],
            )
            for place, value in zip(places, wanted, strict=True):
                found[place].append(value)
    return [tuple(row) for row in found]


def update_by(operations: list[UpdateByOperation]) -> Link:
    """Functions by flags; those of times take the keys for times, in whose order the rows are then."""
    named = functions.named(operations)
    times = any(operation.time_column for operation in named)

    def make(table: Table, _: object) -> Table:
        calm = table.update_view([TAMED])
        return (calm.update_view("time = (long)key").sort("time") if times else calm).update_by(named, "flag")

    def rows_of(given: Given) -> Rows:
        rows: Rows = [(row[KEY], tamed(row[NUMBER]), *row[2:]) for row in given.rows]
        if not times:
            return expected(rows, named, times=False)
        rows.sort(key=lambda row: row[KEY])
        return [(*row[:5], row[KEY], *row[5:]) for row in expected(rows, named, times=True)]

    first = 6 if times else 5

    def back_row(row: Row) -> Row:
        return (row[KEY], row[first], *row[2:5])

    return Link(make, rows_of, back=["key", "number = out0", "text", "flag", "items"], back_row=back_row)


LINKS: Final[dict[str, Link]] = {
    "cumulative": update_by(functions.CUMULATIVE),
    "moving by ticks": update_by(functions.MOVING),
    "moving by time": update_by(functions.TIMED),
    "rolling by ticks": update_by(functions.rolling(3, 1)),
    "rolling by ticks before": update_by(functions.rolling(2, 0)),
    "rolling by ticks behind": update_by(functions.rolling(-1, 3)),
    "rolling by time": update_by(functions.rolling(3, 1, "time")),
    "rolling by time before": update_by(functions.rolling(5, -2, "time")),
}
