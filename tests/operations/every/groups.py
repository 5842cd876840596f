"""Operations on groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import barrage_server as bs
from barrage_server.engine import Table
from tests.operations import test_aggregate as totals
from tests.operations import test_group_values as values
from tests.operations.every.links import FLAG, ITEMS, KEY, NUMBER, TEXT, Given, Link, told
from tests.operations.oracle import Row, Rows

KEEPS_NO_ROWS: Final = ("median", "pct", "group", "formula", "distinct", "partition", "sorted_first", "sorted_last")


def is_still_or_ticks(table: Table) -> bool:
    """Whether a table keeps its rows from one cycle to the next."""
    return not table.traits.is_blink


def by_flag(rows: Rows) -> dict[Any, Rows]:
    groups: dict[Any, Rows] = {}
    for row in rows:
        groups.setdefault(row[FLAG], []).append(row)
    return groups


def aggregated(of_group: Callable[[Rows], Sequence[Any]]) -> Callable[[Given], Rows]:
    return lambda given: [(flag, *of_group(rows)) for flag, rows in by_flag(given.rows).items()]


def dedicated(
    verb: str, of_group: Callable[[Rows], Sequence[Any]], columns: str = "flag key number", **more: Any
) -> Link:
    """A method that applies one aggregation to all columns; numbers are those of the first one behind the key."""
    keeps = verb in ("median_by", "group_by")
    return Link(
        lambda table, _: getattr(table.view(columns.split()), verb)("flag", **more),
        aggregated(of_group),
        keys=1,
        ends=True,
        accumulates=True,
        suits=is_still_or_ticks if keeps else lambda table: True,
    )


def single(rows: Rows, number: int) -> list[Any]:
    return [row[number] for row in rows if row[number] is not None]


def both(function: Callable[[list[Any]], Any]) -> Callable[[Rows], list[Any]]:
    """Of keys and numbers."""
    return lambda rows: [function(single(rows, KEY)), function(single(rows, NUMBER))]


def extreme(place: int) -> Callable[[list[Any]], Any]:
    def found(cells: list[Any]) -> Any:
        ordered, nans = totals.in_order([(None, cell) for cell in cells], 1)
        return float("nan") if nans else ordered[place] if ordered else None

    return found


def halved(cells: list[Any]) -> Any:
    ordered, nans = totals.in_order([(None, cell) for cell in cells], 1)
    return totals.middle(ordered, nans=nans)


def whole(function: Callable[[list[Any]], Any]) -> Callable[[Rows], list[Any]]:
    """Of keys an integer, of numbers a double."""

    def found(rows: Rows) -> list[Any]:
        first = function(single(rows, KEY))
        return [None if first is None else int(first), function(single(rows, NUMBER))]

    return found


def of_some(given: Given, count: int, *, from_end: bool) -> Rows:
    """Some rows of each group, by text."""
    groups: dict[Any, Rows] = {}
    for row in given.rows:
        groups.setdefault(told(row[TEXT]), []).append(row)
    some = [rows[-count:] if from_end else rows[:count] for rows in groups.values()]
    return [(row[TEXT], row[KEY], row[NUMBER], row[FLAG], row[ITEMS]) for rows in some for row in rows]


def reordered(row: Row) -> Row:
    return (row[1], row[2], row[0], row[3], row[4])


IN_ORDER: Final = ["key", "number", "text", "flag", "items"]
TOTALS: Final = Link(
    lambda table, _: table.agg_by(totals.AGGREGATIONS, "flag"),
    aggregated(totals.expected),
    back=["key = (int)n", "number = sum", "text = least_text", "flag", "items = first_items"],
    back_row=lambda row: (
        row[1 + totals.NAMES.index("n")],
        row[1 + totals.NAMES.index("sum")],
        row[1 + totals.NAMES.index("least_text")],
        row[0],
        row[1 + totals.NAMES.index("first_items")],
    ),
    keys=1,
    suits=is_still_or_ticks,
)
_ONES: Final = [one for one in totals.AGGREGATIONS if one.function not in KEEPS_NO_ROWS]
_ONE_NAMES: Final = [column.split("=")[0].strip() for one in _ONES for column in one.columns]


def of_blink(rows: Rows) -> list[Any]:
    """The results that keep no rows."""
    found = dict(zip(totals.NAMES, totals.expected(rows), strict=True))
    return [found[name] for name in _ONE_NAMES]


VALUES: Final = Link(
    lambda table, _: table.agg_by(values.AGGREGATIONS[:11], "flag"),
    aggregated(lambda rows: values.expected(rows)[:16]),
    back=["key = (int)numbers", "number = one_number", "text = one", "flag", "items = listed((short)texts)"],
    back_row=lambda row: (row[4], row[8], row[7], row[0], [row[5]]),
    keys=1,
    suits=is_still_or_ticks,
)


def sorted_down(table: Table) -> Table:
    return table.sort_descending("key")


LINKS: Final[dict[str, Link]] = {
    "agg_by": TOTALS,
    "agg_by of rows that pass": Link(
        lambda table, _: table.agg_by(_ONES, "flag"),
        aggregated(of_blink),
        back=["key = (int)n", "number = sum", "text = least_text", "flag", "items = first_items"],
        back_row=lambda row: (
            row[1 + _ONE_NAMES.index("n")],
            row[1 + _ONE_NAMES.index("sum")],
            row[1 + _ONE_NAMES.index("least_text")],
            row[0],
            row[1 + _ONE_NAMES.index("first_items")],
        ),
        keys=1,
        accumulates=True,
    ),
    "agg_by of values": VALUES,
    "agg_by of formulas": Link(
        lambda table, _: table.agg_by(values.AGGREGATIONS[11:]),
        lambda given: [tuple(values.expected(given.rows)[16:])] if given.rows else [],
        keys=0,
        ends=True,
        suits=is_still_or_ticks,
    ),
    "agg_by of counts of what passes": Link(
        lambda table, _: table.agg_by(
            [bs.agg.count_where("large", ["number > 1", "key < 8"]), bs.agg.count_distinct("texts = text")], "flag"
        ),
        aggregated(lambda rows: [values.expected(rows)[0], values.expected(rows)[4]]),
        keys=1,
        ends=True,
        accumulates=True,
    ),
    "agg_all_by": Link(
        lambda table, _: table.view(["flag", "key", "number"]).agg_all_by(bs.agg.last(), "flag"),
        aggregated(lambda rows: [rows[-1][KEY], rows[-1][NUMBER]]),
        keys=1,
        ends=True,
        accumulates=True,
    ),
    "count_by": Link(
        lambda table, _: table.count_by("n", "flag"),
        aggregated(lambda rows: [len(rows)]),
        keys=1,
        ends=True,
        accumulates=True,
    ),
    "sum_by": dedicated("sum_by", whole(totals.total)),
    "abs_sum_by": dedicated("abs_sum_by", whole(lambda cells: totals.total(list(map(abs, cells))))),
    "avg_by": dedicated("avg_by", both(totals.mean)),
    "std_by": dedicated("std_by", both(lambda cells: totals.root(totals.variance(cells)))),
    "var_by": dedicated("var_by", both(totals.variance)),
    "min_by": dedicated("min_by", both(extreme(0))),
    "max_by": dedicated("max_by", both(extreme(-1))),
    "median_by": dedicated("median_by", both(halved)),
    "first_by": dedicated("first_by", lambda rows: rows[0][1:3], "flag number text"),
    "last_by": dedicated("last_by", lambda rows: rows[-1][1:3], "flag number text"),
    "group_by": dedicated("group_by", lambda rows: [[row[KEY] for row in rows], [row[NUMBER] for row in rows]]),
    "head_by": Link(
        lambda table, _: table.head_by(2, "text"),
        lambda given: of_some(given, 2, from_end=False),
        back=IN_ORDER,
        back_row=reordered,
        keys=0,
    ),
    "tail_by": Link(
        lambda table, _: table.tail_by(2, "text"),
        lambda given: of_some(given, 2, from_end=True),
        back=IN_ORDER,
        back_row=reordered,
        keys=0,
    ),
    "select_distinct": Link(
        lambda table, _: table.select_distinct(["flag", "text"]),
        lambda given: list(dict.fromkeys((row[FLAG], row[TEXT]) for row in given.rows)),
        back=["key = 1", "number = 2.5", "text", "flag", "items = listed((short)1)"],
        back_row=lambda row: (1, 2.5, row[1], row[0], [1]),
        keys=2,
        accumulates=True,
    ),
    "partition": Link(
        lambda table, _: table.agg_by([bs.agg.count_("n"), bs.agg.partition("rows")], "flag"),
        aggregated(lambda rows: [len(rows), "QueryTable"]),
        keys=1,
        ends=True,
        suits=is_still_or_ticks,
    ),
    "partition_by": Link(lambda table, _: table.partition_by("text").merge(), keys=0),
    "transform": Link(
        lambda table, _: table.partition_by("text").transform(sorted_down).merge(),
        keys=0,
        suits=lambda table: table.is_refreshing or bool(table.size),
    ),
}
