"""Random plans: up to six operations on the tables ``grown``, ``keyed`` and ``lookup``, written for pydeephaven.

A plan is valid by the types of its columns, and has one result: operations that depend on the order of rows follow only
where that order is defined, and no row is chosen by a cell whose last digits may differ.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from .planned_table import SOURCES, PlannedTable
from .random_aggregations import aggregation_of_all, aggregations
from .random_formulas import Column, condition, formula, structured_condition
from .random_moves import moves

__all__ = ["random_plan"]

_MOST_ROWS: Final = 1500


def random_plan(seed: int) -> PlannedTable:
    """The plan of that number."""
    chance = random.Random(seed)
    drawer = _Drawer(chance)
    source = SOURCES[chance.choice(["grown", "grown", "keyed", "keyed", "keyed", "lookup"])]
    plan = drawer.plan(source, chance.randint(1, 6))
    if plan.batch and "sort_descending" not in plan.text and chance.random() < 0.3:
        table, calls = plan.text.split(".", 1)
        plan = replace(plan, text=f"session.query({table}).{calls}.exec()")
    return plan


class _Drawer:
    """Draws operations."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.made = 0
        self.operations: list[Callable[[PlannedTable], PlannedTable | None]] = [
            *[self.formulas] * 4,
            self.dropped,
            *[self.where] * 3,
            self.where_in,
            *[self.part] * 2,
            *[self.sort] * 2,
            *[self.natural_join] * 2,
            self.exact_join,
            self.join,
            *[self.as_of] * 2,
            self.merged,
            self.counted,
            *[self.aggregated] * 3,
            *[self.aggregated_all] * 2,
            self.grouped,
            self.ungrouped,
            self.one_of_each,
            self.some_of_each,
            self.distinct,
            *[self.moved] * 2,
            self.snapshot,
            self.snapshot_when,
        ]

    def plan(self, source: PlannedTable, length: int) -> PlannedTable:
        """A plan of ``length`` operations."""
        plan = source
        while length:
            found = self.chance.choice(self.operations)(plan)
            if found is not None and len(found.columns) > 0 and found.rows <= _MOST_ROWS:
                plan, length = found, length - 1
        return plan

    def name(self) -> str:
        """A name that no column has."""
        self.made += 1
        return f"c{self.made}"

    def some(self, names: Sequence[str], least: int, most: int) -> list[str]:
        """Some of the names, in any order."""
        return self.chance.sample(names, min(len(names), self.chance.randint(least, most)))

    # Columns

    def formulas(self, plan: PlannedTable) -> PlannedTable | None:
        method = self.chance.choice(["select", "view", "update", "update_view", "lazy_update"])
        fresh = method in ("select", "view")
        texts: list[str] = []
        made: dict[str, Column] = {}
        if fresh:
            kept = self.some(list(plan.columns), 1, 8)
            texts, made = list(kept), {name: plan.columns[name] for name in kept}
        for _ in range(self.chance.randint(0 if fresh else 1, 3)):
            text, column = formula(self.chance, {**plan.columns, **made})
            name = self.name() if fresh or self.chance.random() < 0.8 else self.chance.choice(list(plan.columns))
            texts.append(f"{name} = {text}")
            made[name] = column
        columns = made if fresh else {**plan.columns, **made}
        same = set(made) & set(plan.columns) if fresh else set(plan.columns) - set(made)
        same = {name for name in same if fresh is False or name in texts}
        return plan.call(f"{method}({texts!r})", columns=columns, unique=plan.still_unique(same))

    def dropped(self, plan: PlannedTable) -> PlannedTable | None:
        if len(plan.columns) < 3:
            return None
        gone = self.some(list(plan.columns), 1, 2)
        columns = {name: column for name, column in plan.columns.items() if name not in gone}
        return plan.call(f"drop_columns({gone!r})", columns=columns, unique=plan.still_unique(set(columns)))

    # Rows

    def where(self, plan: PlannedTable) -> PlannedTable | None:
        if self.chance.random() < 0.3:
            tree = structured_condition(self.chance, plan.columns)
            return None if tree is None else plan.call(f"where({tree})")
        found = [condition(self.chance, plan.columns) for _ in range(self.chance.choice([1, 1, 2]))]
        return None if None in found else plan.call(f"where({found!r})")

    def where_in(self, plan: PlannedTable) -> PlannedTable | None:
        right, on = self.right(plan)
        if right is None or not on:
            return None
        method = self.chance.choice(["where_in", "where_not_in"])
        return plan.call(f"{method}({right.text}, cols={on!r})", grows=False)

    def part(self, plan: PlannedTable) -> PlannedTable | None:
        if not plan.ordered:
            return None
        first, last = self.chance.choice([(0, 5), (3, 30), (1, -1), (-8, 0), (-6, -2), (-20, 10), (2, -5)])
        size = self.chance.choice([1, 5, 17, 40])
        call = self.chance.choice([f"head({size})", f"tail({size})", f"slice({first}, {last})"])
        return plan.call(call, grows=plan.grows and call.startswith("head"))

    def sort(self, plan: PlannedTable) -> PlannedTable | None:
        names = self.some(plan.keys, 1, 3)
        if not names:
            return None
        total = any(one <= set(names) for one in plan.unique)
        ways = [self.chance.choice(["SortDirection.ASCENDING", "SortDirection.DESCENDING"]) for _ in names]
        call = self.chance.choice(
            [f"sort({names!r})", f"sort_descending({names!r})", f"sort({names!r}, [{', '.join(ways)}])"]
        )
        return plan.call(call, ordered=plan.ordered or total, grows=False)

    # Several tables

    def right(self, plan: PlannedTable, *, unique: bool = False) -> tuple[PlannedTable | None, list[str]]:
        """Another table, and pairs of columns that both have; with ``unique`` no two of its rows are equal there."""
        source = SOURCES[self.chance.choice(list(SOURCES))]
        right = self.plan(source, self.chance.choice([0, 0, 1]))
        if unique and self.chance.random() < 0.5:
            shared = [name for name in right.keys if name in plan.columns]
            by = self.some(shared, 1, 2)
            if by and right.ordered:
                call = self.chance.choice([f"last_by({by!r})", f"first_by({by!r})"])
                right = right.call(call, ordered=right.grows, grows=False, unique=frozenset([frozenset(by)]))
        pairs = [
            (left, other)
            for other in right.keys
            for left in plan.keys
            if plan.columns[left].type == right.columns[other].type and (left == other or self.chance.random() < 0.1)
        ]
        if unique:
            keys = self.chance.choice(sorted(map(sorted, right.unique))) if right.unique else []
            by_key = {key: pair for pair in reversed(pairs) if (key := pair[1]) in keys}
            if not keys or len(by_key) < len(keys):
                return None, []
            pairs = [by_key[key] for key in keys]
        else:
            pairs = self.chance.sample(pairs, min(len(pairs), self.chance.randint(1, 2)))
        return right, [left if left == other else f"{left} = {other}" for left, other in pairs]

    def added(self, plan: PlannedTable, right: PlannedTable, on: list[str]) -> tuple[list[str], dict[str, Column]]:
        """Columns that a join adds: how it is told, and what they are."""
        joins, columns = [], {}
        compared = {one.split(" = ")[-1] for one in on}
        for name in self.some([name for name in right.columns if name not in compared], 1, 4):
            new = name if name not in plan.columns and self.chance.random() < 0.5 else self.name()
            joins.append(name if name == new else f"{new} = {name}")
            columns[new] = right.columns[name]
        return joins, columns

    def natural_join(self, plan: PlannedTable) -> PlannedTable | None:
        way = self.chance.choice(["ERROR_ON_DUPLICATE", "FIRST_MATCH", "LAST_MATCH"])
        right, on = self.right(plan, unique=way == "ERROR_ON_DUPLICATE")
        if right is None or not on or (not right.ordered and way != "ERROR_ON_DUPLICATE"):
            return None
        joins, columns = self.added(plan, right, on)
        if not joins:
            return None
        call = f"natural_join({right.text}, on={on!r}, joins={joins!r}, type=NaturalJoinType.{way})"
        return plan.call(call, columns={**plan.columns, **columns}, grows=False)

    def exact_join(self, plan: PlannedTable) -> PlannedTable | None:
        by = self.some(plan.keys, 1, 2)
        if not by or not plan.ordered:
            return None
        right = plan.call(f"last_by({by!r})")
        joins, columns = self.added(plan, right, by)
        if not joins:
            return None
        call = f"exact_join({right.text}, on={by!r}, joins={joins!r})"
        return plan.call(call, columns={**plan.columns, **columns}, grows=False, batch=False)

    def join(self, plan: PlannedTable) -> PlannedTable | None:
        right, on = self.right(plan)
        if right is None or (not on and right.rows > 10):
            return None
        joins, columns = self.added(plan, right, on)
        if not joins:
            return None
        bits = self.chance.choice(["", ", reserve_bits=3"])
        return plan.call(
            f"join({right.text}, on={on!r}, joins={joins!r}{bits})",
            columns={**plan.columns, **columns},
            ordered=plan.ordered and right.ordered,
            grows=False,
            unique=frozenset(),
            rows=plan.rows * right.rows // (1 if not on else 3),
        )

    def as_of(self, plan: PlannedTable) -> PlannedTable | None:
        source = SOURCES[self.chance.choice(["grown", "keyed"])]
        right = self.plan(source, self.chance.choice([0, 0, 1]))
        if not right.ordered:
            return None
        stamps = [
            (left, other)
            for left in plan.keys
            for other in right.keys
            if plan.columns[left].type == right.columns[other].type
            and plan.columns[left].type not in ("boolean", "String")
        ]
        if not stamps:
            return None
        left, other = self.chance.choice(stamps)
        method = self.chance.choice(["aj", "raj"])
        sign = self.chance.choice([">", ">="] if method == "aj" else ["<", "<="])
        equal = [name for name in ("sym", "level") if name in plan.keys and name in right.keys and name != left]
        equal = [name for name in equal if plan.columns[name].type == right.columns[name].type]
        on = [*self.some(equal, 0, 1), f"{left} {sign} {other}"]
        joins, columns = self.added(plan, right, [*on[:-1], other])
        if not joins:
            return None
        compared = [*on[:-1], other]
        given = {name: right.columns[name] for name in compared if name not in plan.columns}
        call = f"{method}({right.text}, on={on!r}, joins={joins!r})"
        return plan.call(call, columns={**plan.columns, **given, **columns}, grows=False)

    def merged(self, plan: PlannedTable) -> PlannedTable | None:
        other = self.chance.choice([self.where, self.sort, self.part])(plan)
        if other is None:
            return None
        return replace(
            plan,
            text=f"session.merge_tables([{plan.text}, {other.text}])",
            ordered=plan.ordered and other.ordered,
            grows=False,
            unique=frozenset(),
            rows=2 * plan.rows,
            batch=False,
        )

    # Groups

    def result(self, plan: PlannedTable, call: str, by: list[str], columns: Mapping[str, Column]) -> PlannedTable:
        """A row for each group. Where groups vanish and come back, their order differs."""
        return plan.call(
            call,
            columns={**{name: plan.columns[name] for name in by}, **columns},
            ordered=plan.grows or not by,
            grows=False,
            unique=frozenset([frozenset(by)]) if by else frozenset(),
        )

    def by(self, plan: PlannedTable, least: int = 0) -> list[str]:
        """Columns to group by."""
        likely = [name for name in ("sym", "level", "flag", "text") if name in plan.keys]
        return self.some(likely if likely and self.chance.random() < 0.6 else plan.keys, least, 2)

    def counted(self, plan: PlannedTable) -> PlannedTable | None:
        by, name = self.by(plan), self.name()
        return self.result(plan, f"count_by({name!r}, by={by!r})", by, {name: Column("long", fine=True)})

    def aggregated(self, plan: PlannedTable) -> PlannedTable | None:
        by = self.by(plan)
        columns = {name: column for name, column in plan.columns.items() if name not in by}
        found = aggregations(self.chance, columns, self.name, ordered=plan.ordered)
        if not found:
            return None
        calls = ", ".join(call for call, _ in found)
        made = {name: column for _, columns in found for name, column in columns.items()}
        return self.result(plan, f"agg_by([{calls}], by={by!r})", by, made)

    def aggregated_all(self, plan: PlannedTable) -> PlannedTable | None:
        by = self.by(plan)
        columns = {name: column for name, column in plan.columns.items() if name not in by}
        found = aggregation_of_all(self.chance, columns, by, ordered=plan.ordered)
        if found is None:
            return None
        call, made = found
        if len(made) < len(columns):
            call = f"view({[*by, *made]!r}).{call}"
        return self.result(plan, call, by, made)

    def grouped(self, plan: PlannedTable) -> PlannedTable | None:
        by = self.by(plan)
        if not plan.ordered or any(column.many for column in plan.columns.values()):
            return None
        many = self.name()
        columns = {name: replace(column, many=many) for name, column in plan.columns.items() if name not in by}
        return self.result(plan, f"group_by(by={by!r})", by, columns) if columns else None

    def ungrouped(self, plan: PlannedTable) -> PlannedTable | None:
        if len({column.many for column in plan.columns.values() if column.many}) != 1:
            return None  # Deephaven's fails at lists whose lengths differ
        columns = {name: replace(column, many="") for name, column in plan.columns.items()}
        return plan.call("ungroup()", columns=columns, grows=False, unique=frozenset(), rows=2 * plan.rows)

    def one_of_each(self, plan: PlannedTable) -> PlannedTable | None:
        by = self.by(plan)
        columns = {name: column for name, column in plan.columns.items() if name not in by}
        if not plan.ordered or not columns:
            return None
        return self.result(plan, f"{self.chance.choice(['first_by', 'last_by'])}({by!r})", by, columns)

    def some_of_each(self, plan: PlannedTable) -> PlannedTable | None:
        by = self.by(plan, 1)
        if not plan.ordered or not by or len(by) == len(plan.columns):
            return None
        if any(column.many for column in plan.columns.values()):
            return None  # Deephaven's makes text of some lists
        columns = {name: column for name, column in plan.columns.items() if name not in by}
        call = f"{self.chance.choice(['head_by', 'tail_by'])}({self.chance.randint(1, 4)}, {by!r})"
        return replace(self.result(plan, call, by, columns), unique=frozenset())

    def distinct(self, plan: PlannedTable) -> PlannedTable | None:
        by = self.by(plan, 1)
        return self.result(plan, f"select_distinct({by!r})", by, {}) if by else None

    # Windows and copies

    def moved(self, plan: PlannedTable) -> PlannedTable | None:
        if not plan.ordered:
            return None
        found = moves(self.chance, plan.columns, self.name)
        if not found:
            return None
        by = self.some([name for name in ("sym", "level", "flag") if name in plan.keys], 0, 1)
        calls = ", ".join(call for call, _ in found)
        made = {name: column for _, columns in found for name, column in columns.items()}
        call = f"update_by([{calls}], by={by!r})"
        return plan.call(call, columns={**plan.columns, **made}, grows=False)

    def snapshot(self, plan: PlannedTable) -> PlannedTable | None:
        if self.chance.random() < 0.5 or any(column.many for column in plan.columns.values()):
            return None  # lists in Deephaven's snapshots change
        return plan.call("snapshot()")

    def snapshot_when(self, plan: PlannedTable) -> PlannedTable | None:
        if any(column.many for column in plan.columns.values()):
            return None
        name = self.name()
        trigger, column = self.chance.choice([("lookup", "rank"), ("grown", "id"), ("keyed", "sym")])
        ways = ["initial=True", ""]
        if trigger == "grown" and plan.text in ("keyed", "lookup"):  # of others, Deephaven's lacks rows
            ways.append("history=True")
        if plan.text in SOURCES:  # others have more rows as modified on Deephaven's than on ours
            ways.append("incremental=True, initial=True")
        way = self.chance.choice(ways)
        stamps = {name: SOURCES[trigger].columns[column]}
        columns = {**stamps, **plan.columns} if "history" in way else {**plan.columns, **stamps}
        history = "history" in way
        return plan.call(
            f"snapshot_when({trigger}, stamp_cols=['{name} = {column}']{', ' if way else ''}{way})",
            columns=columns,
            grows=False,
            unique=frozenset() if history else plan.unique,
            rows=plan.rows * 12 if history else plan.rows,
        )
