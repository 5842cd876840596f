"""Operations on one table, of columns and rows, and copies."""

from __future__ import annotations

import math
from typing import Final

import barrage_server as bs
from barrage_server.engine import Table, TableUpdate
from barrage_server.plan.operation import SortColumn
from tests.operations import test_snapshot_when as snapshots
from tests.operations.downsample import model as plots
from tests.operations.every.links import COLUMNS, FLAG, ITEMS, KEY, NUMBER, Arrivals, Link, Model, Sides
from tests.operations.oracle import Rows, Watch, plain_rows
from tests.operations.test_formulas import TREE, above, doubled, in_tree
from tests.operations.test_sort import in_order
from tests.operations.test_ungroup import expected as ungrouped

DOUBLED: Final = "number = number * 2"
DOUBLED_COLUMNS: Final = ["key", DOUBLED, "text", "flag", "items"]


def of_rows(rows: Rows) -> Rows:
    return [doubled(row) for row in rows]


def share(rows: Rows, part: float) -> int:
    return math.ceil(part * len(rows))


class Still(Model):
    """What a table has been."""

    def __init__(self, parent: Watch, sides: Sides) -> None:
        self.rows = plain_rows(parent.table)

    @property
    def expected(self) -> Rows:
        return self.rows


class Arrived(Model):
    """The last rows that a table has got."""

    def __init__(self, table: Table, capacity: int | None, *, initialize: bool) -> None:
        self.capacity = capacity
        self.arrivals = Arrivals(table, initialize=initialize)

    @property
    def expected(self) -> Rows:
        rows = self.arrivals.rows
        return rows if self.capacity is None else rows[-self.capacity :]


class Taken(Model):
    """What ``snapshot_when`` has to be; the trigger is the other table."""

    IN_CELLS = True

    def __init__(self, parent: Watch, sides: Sides, modes: dict[str, bool]) -> None:
        self.model = snapshots.Model(parent.table, sides.other, modes)

    def follow(self, others: TableUpdate | None) -> None:
        if others is not None:
            self.model.triggered(others)

    @property
    def expected(self) -> Rows:
        return self.model.expected


def snapshot_when(modes: dict[str, bool]) -> Link:
    stamps = [f"t_{name} = {name}" for name in snapshots.STAMPS]
    first = 3 if modes.get("history") else 0
    return Link(
        lambda table, sides: table.snapshot_when(sides.other, stamps, **modes),
        model=lambda parent, sides: Taken(parent, sides, modes),
        back=COLUMNS,
        back_row=lambda row: row[first : first + 5],
        grows=bool(modes.get("history")),
    )


def merged_empty(table: Table, sides: Sides) -> Table:
    texts = ["key = (int)ii", "number = 1.5", "text = `a`", "flag = true", "items = listed((short)ii)"]
    return bs.merge([table, bs.empty_table(2, table.graph).update(texts)])


def is_growing(table: Table) -> bool:
    """Whether rows only come, so that the last ones are known."""
    return table.traits.is_blink or table.traits.append_only


LINKS: Final[dict[str, Link]] = {
    "select": Link(lambda table, _: table.select()),
    "select formulas": Link(lambda table, _: table.select(DOUBLED_COLUMNS), lambda given: of_rows(given.rows)),
    "view": Link(lambda table, _: table.view(DOUBLED_COLUMNS), lambda given: of_rows(given.rows)),
    "update": Link(lambda table, _: table.update(DOUBLED), lambda given: of_rows(given.rows)),
    "update_view": Link(lambda table, _: table.update_view(DOUBLED), lambda given: of_rows(given.rows)),
    "lazy_update": Link(lambda table, _: table.lazy_update(DOUBLED), lambda given: of_rows(given.rows)),
    "drop_columns": Link(
        lambda table, _: table.drop_columns("flag"),
        lambda given: [(*row[:FLAG], row[ITEMS]) for row in given.rows],
        back=["key", "number", "text", "flag = key > 4", "items"],
        back_row=lambda row: (*row[:3], row[KEY] > 4, row[3]),
    ),
    "rename_columns": Link(
        lambda table, _: table.rename_columns(["amount = number", "number2 = key"]),
        back=["key = number2", "number = amount", "text", "flag", "items"],
        back_row=lambda row: row,
    ),
    "where": Link(
        lambda table, _: table.where("number > 0 && key < 8"),
        lambda given: [row for row in given.rows if above(row[NUMBER], 0) and row[KEY] < 8],
    ),
    "where of a tree": Link(
        lambda table, _: table.where([TREE, "key != 3"]),
        lambda given: [row for row in given.rows if in_tree(row) and row[KEY] != 3],
    ),
    "head": Link(lambda table, _: table.head(5), lambda given: given.rows[:5]),
    "tail": Link(lambda table, _: table.tail(5), lambda given: given.rows[-5:]),
    "head_pct": Link(lambda table, _: table.head_pct(0.7), lambda given: given.rows[: share(given.rows, 0.7)]),
    "tail_pct": Link(
        lambda table, _: table.tail_pct(0.7), lambda given: given.rows[len(given.rows) - share(given.rows, 0.7) :]
    ),
    "slice": Link(lambda table, _: table.slice(1, -1), lambda given: given.rows[1:-1]),
    "flatten": Link(lambda table, _: table.flatten()),
    "reverse": Link(lambda table, _: table.reverse(), lambda given: given.rows[::-1]),
    "sort": Link(
        lambda table, _: table.sort(["text", "number"]),
        lambda given: in_order(given.rows, [SortColumn("text"), SortColumn("number")]),
    ),
    "sort_descending": Link(
        lambda table, _: table.sort_descending("number"),
        lambda given: in_order(given.rows, [SortColumn("number", descending=True)]),
    ),
    "merge": Link(
        lambda table, sides: bs.merge([table, sides.unique, table]),
        lambda given: given.rows + given.unique + given.rows,
        grows=True,
    ),
    "sorted merge": Link(
        lambda table, sides: bs.merge([table, sides.other], order_by="number"),
        lambda given: in_order(given.rows + given.other, [SortColumn("number")]),
        grows=True,
    ),
    "empty_table": Link(merged_empty, lambda given: [*given.rows, (0, 1.5, "a", True, [0]), (1, 1.5, "a", True, [1])]),
    "snapshot": Link(lambda table, _: table.snapshot(), model=Still),
    **{f"snapshot_when {sorted(modes)}": snapshot_when(modes) for modes in snapshots.MODES},
    "blink_to_append_only": Link(
        lambda table, _: table.blink_to_append_only(),
        model=lambda parent, _: Arrived(parent.table, None, initialize=True),
        suits=lambda table: table.traits.is_blink,
    ),
    "ring_table": Link(
        lambda table, _: table.ring_table(6),
        model=lambda parent, _: Arrived(parent.table, 6, initialize=True),
        suits=is_growing,
    ),
    "ring_table of what comes": Link(
        lambda table, _: table.ring_table(6, initialize=False),
        model=lambda parent, _: Arrived(parent.table, 6, initialize=False),
        suits=is_growing,
    ),
    "ungroup": Link(
        lambda table, _: table.ungroup("items"),
        lambda given: ungrouped(given.rows, [ITEMS]),
        back=["key", "number", "text", "flag", "items = listed(items)"],
        back_row=lambda row: (*row[:ITEMS], [row[ITEMS]]),
        grows=True,
    ),
    "downsample": Link(
        lambda table, _: table.downsample("key", "number", pixels=3),
        lambda given: plots.points([(row[KEY], row[NUMBER]) for row in given.rows], pixels=3, sorts=True),
        back=[
            "key = (int)first_x",
            "number = number_least",
            "text = `a`",
            "flag = first_x > 4",
            "items = listed((short)last_x)",
        ],
        back_row=lambda row: (row[0], row[3], "a", row[0] > 4, [row[1]]),
    ),
    "meta_table": Link(
        lambda table, _: table.meta_table,
        lambda given: [
            ("key", "int", "Normal", False),
            ("number", "double", "Normal", False),
            ("text", "java.lang.String", "Normal", False),
            ("flag", "java.lang.Boolean", "Normal", False),
            ("items", "short[]", "Normal", False),
        ],
        back=["key = 1", "number = 2.5", "text = Name", "flag = IsPartitioning", "items = listed((short)1)"],
        back_row=lambda row: (1, 2.5, row[0], row[3], [1]),
    ),
}
