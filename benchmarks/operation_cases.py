"""Every operation on a keyed table, with a change for each cycle.

Cost and state of the operation are measured with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

import barrage_server as bs
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, Table, UpdateGraph
from barrage_server.engine.derived import DerivedTable
from barrage_server.plan import agg, updateby
from barrage_server.plan.aggregation import Aggregation
from barrage_server.plan.update_by import UpdateByOperation

__all__ = ["CASES", "NOT_LOCAL", "Case", "Sources", "derived"]

ROWS_OF_A_GROUP: Final = 100
_CHANGES_OF_A_GROUP: Final = 2
"""Rows that change for each of the groups that they are in: tables of all sizes have as many groups that change."""
PARTS: Final = 10
"""Constituents of what is partitioned."""
_HISTORY: Final = 1 << 20

Make = Callable[["Sources"], Table]


class Sources:
    """The tables that operations are measured on.

    ``table`` is keyed, with the columns ``id``, ``k`` (its group, of 100 rows), ``x`` and ``w`` (random numbers).
    ``names`` has a row for each group, with two bounds. ``log`` has as many rows as ``table``, and only grows;
    ``blink`` has the rows of a cycle.

    Args:
        rows: of ``table`` and of ``log``.
        seed: of the numbers in it.

    """

    def __init__(self, rows: int, seed: int = 7) -> None:
        self.rows, self.groups = rows, max(1, rows // ROWS_OF_A_GROUP)
        self._random = np.random.default_rng(seed)
        self.graph = UpdateGraph()
        self.graph.functions.register("pair", pairs, returns=pa.list_(pa.float64()))
        columns = {"id": "int64", "k": "int64", "x": "float64", "w": "float64"}
        self.table = KeyedTable(self.graph, "t", columns, "id")
        group_of = self._random.integers(0, self.groups, rows)
        self.table.upsert(self._some(np.arange(rows), group_of))
        by_group = np.argsort(group_of, kind="stable")
        starts = np.searchsorted(group_of[by_group], np.arange(1, self.groups))
        self._members = np.split(by_group, starts)  # to change some without a look at all: it would empty the caches
        self.names = KeyedTable(self.graph, "names", {"k": "int64", "v": "float64", "to": "float64"}, "k")
        self._write_names(np.arange(self.groups))
        self.log = AppendTable(self.graph, "log", columns)
        self.log.append(self._some(np.arange(rows)))
        self.blink = BlinkTable(self.graph, "blink", columns, _HISTORY)
        self._next = rows

    def fill_blink(self) -> None:
        """Have as many rows in ``blink`` as in ``table``, until the next cycle."""
        self.blink.append(self._some(np.arange(self.rows)))

    @property
    def nbytes(self) -> int:
        """Bytes of all tables."""
        return sum(table.nbytes for table in (self.table, self.names, self.log, self.blink))

    def change(self, kind: str, count: int) -> None:
        """Run a cycle: write ``rows`` random rows anew, or append ``appended`` rows.

        Rows come from half as many groups, and go to others of these, so that as many groups change at any size.

        ``names`` is ``rows``, and writes a row of that table, too.
        """
        match kind:
            case "rows":
                self._change_rows(count)
            case "appended":
                new = self._some(np.arange(self._next, self._next + count))
                self._next += count
                with self.graph.cycle():
                    self.log.append(new)
                    self.blink.append(new)
            case "names":
                with self.graph.cycle():
                    self._change_rows(count)
                    self._write_names(self._random.choice(self.groups, 1))

    def _change_rows(self, count: int) -> None:
        """Write rows of ``table`` anew that are in some groups, each with another one of these groups."""
        some = min(max(1, count // _CHANGES_OF_A_GROUP), self.groups)
        groups = np.sort(self._random.choice(self.groups, some, replace=False))
        members = [self._members[group] for group in groups]
        ids, group_of = np.concatenate(members), np.repeat(groups, list(map(len, members)))
        chosen = self._random.choice(len(ids), min(count, len(ids)), replace=False)
        group_of[chosen] = self._random.choice(groups, len(chosen))
        by_group = np.argsort(group_of, kind="stable")
        starts = np.searchsorted(group_of[by_group], groups[1:])
        for group, rows in zip(groups, np.split(ids[by_group], starts), strict=True):
            self._members[group] = rows
        self.table.upsert(self._some(ids[chosen], group_of[chosen]))

    def _some(self, ids: np.ndarray[Any, Any], groups: np.ndarray[Any, Any] | None = None) -> pa.RecordBatch:
        if groups is None:
            groups = self._random.integers(0, self.groups, len(ids))
        columns = [ids, groups, *self._random.random((2, len(ids)))]
        return pa.record_batch(list(map(pa.array, columns)), names=["id", "k", "x", "w"])

    def _write_names(self, keys: np.ndarray[Any, Any]) -> None:
        low = self._random.random(len(keys)) / 2
        self.names.upsert({"k": keys, "v": low, "to": low + 0.5})


@dataclass(frozen=True)
class Case:
    """An operation, and the change that it is measured with.

    Attributes:
        make: makes the table.
        change: what a cycle changes, as :meth:`Sources.change` names it.

    """

    make: Make
    change: str = "rows"


def pairs(values: pa.Array) -> pa.Array:
    """A list of two for each value."""
    offsets = pa.array(np.arange(len(values) + 1, dtype=np.int32) * 2)
    return pa.ListArray.from_arrays(offsets, pa.array(np.repeat(values.to_numpy(zero_copy_only=False), 2)))


def derived(table: Table) -> list[DerivedTable]:
    """A table, and those that it is computed from, without sources."""
    if not isinstance(table, DerivedTable):
        return []
    return list(dict.fromkeys([table, *(one for parent in table.parents for one in derived(parent))]))


def _agg(aggregation: Aggregation, change: str = "rows") -> Case:
    if change == "appended":
        return Case(lambda sources: sources.log.agg_by(aggregation, "k"), change)
    return Case(lambda sources: sources.table.agg_by(aggregation, "k"), change)


def _moving(function: UpdateByOperation, change: str = "rows") -> Case:
    if change == "appended":
        return Case(lambda sources: sources.log.update_by(function, "k"), change)
    return Case(lambda sources: sources.table.update_by(function, "k"), change)


def _parted(sources: Sources) -> Any:
    return sources.table.update_view(f"part = k % {PARTS}").partition_by("part")


def _once_each(sources: Sources) -> list[bs.MultiJoinInput[Table]]:
    last = sources.table.last_by("k")
    return [bs.MultiJoinInput(last, "k", "x"), bs.MultiJoinInput(sources.names, "k", "v")]


_TABLES: Final[dict[str, Case]] = {
    "select": Case(lambda s: s.table.select(["id", "y = x * 2"])),
    "view": Case(lambda s: s.table.view(["id", "y = x * 2"])),
    "update": Case(lambda s: s.table.update("y = x * 2")),
    "update_view": Case(lambda s: s.table.update_view("y = x * 2")),
    "lazy_update": Case(lambda s: s.table.lazy_update("y = x * 2")),
    "drop_columns": Case(lambda s: s.table.drop_columns("w")),
    "rename_columns": Case(lambda s: s.table.rename_columns("y = x")),
    "where": Case(lambda s: s.table.where("x < 0.5")),
    "head": Case(lambda s: s.table.head(s.rows // 2)),
    "tail": Case(lambda s: s.table.tail(s.rows // 2)),
    "head_pct": Case(lambda s: s.table.head_pct(0.5)),
    "tail_pct": Case(lambda s: s.table.tail_pct(0.5)),
    "slice": Case(lambda s: s.table.slice(s.rows // 4, -1)),
    "flatten": Case(lambda s: s.table.flatten()),
    "reverse": Case(lambda s: s.table.reverse()),
    "sort": Case(lambda s: s.table.sort("x")),
    "sort_descending": Case(lambda s: s.table.sort_descending(["k", "x"])),
    "merge": Case(lambda s: bs.merge([s.table, s.table])),
    "merge, sorted": Case(lambda s: bs.merge([s.table, s.names.view(["id = k", "k", "x = v", "w = to"])], "x")),
    "snapshot_when": Case(lambda s: s.table.snapshot_when(s.names, "v"), "names"),
    "snapshot_when, incremental": Case(lambda s: s.table.snapshot_when(s.names, "v", True, True), "names"),
    "snapshot_when, history": Case(
        lambda s: s.table.head(1).snapshot_when(s.blink, "at = x", history=True), "appended"
    ),
    "blink_to_append_only": Case(lambda s: s.blink.blink_to_append_only(), "appended"),
    "ring_table": Case(lambda s: s.log.ring_table(s.rows), "appended"),
    "downsample": Case(lambda s: s.log.downsample("id", "x"), "appended"),
    "downsample, of a keyed table": Case(lambda s: s.table.downsample("id", "x")),
    "select_distinct": Case(lambda s: s.table.select_distinct("k")),
    "count_by": Case(lambda s: s.table.count_by("n", "k")),
    "first_by": Case(lambda s: s.table.first_by("k")),
    "last_by": Case(lambda s: s.table.last_by("k")),
    "group_by": Case(lambda s: s.table.group_by("k")),
    "ungroup": Case(lambda s: s.table.view(["id", "both = pair(x)"]).ungroup("both")),
    "head_by": Case(lambda s: s.table.head_by(3, "k")),
    "tail_by": Case(lambda s: s.table.tail_by(3, "k")),
    "partition_by, a constituent": Case(lambda s: _parted(s).get_constituent(1)),
    "partition_by, merged": Case(lambda s: _parted(s).merge()),
    "transform, merged": Case(lambda s: _parted(s).transform(lambda part: part.where("x < 0.5")).merge()),
    "where_in": Case(lambda s: s.table.where_in(s.names, "k"), "names"),
    "where_not_in": Case(lambda s: s.table.where_not_in(s.names.where("v < 0.25"), "k"), "names"),
    "natural_join": Case(lambda s: s.table.natural_join(s.names, "k"), "names"),
    "natural_join, last match": Case(lambda s: s.table.natural_join(s.names, "k", type="last_match"), "names"),
    "exact_join": Case(lambda s: s.table.exact_join(s.names, "k"), "names"),
    "join": Case(lambda s: s.table.join(s.names, "k", reserve_bits=1), "names"),
    "left_outer_join": Case(lambda s: s.table.left_outer_join(s.names, "k"), "names"),
    "full_outer_join": Case(lambda s: s.table.full_outer_join(s.names, "k"), "names"),
    "multi_join": Case(lambda s: bs.multi_join(_once_each(s)), "names"),
    "aj": Case(lambda s: s.table.aj(s.names, ["k", "x >= v"]), "names"),
    "raj": Case(lambda s: s.table.raj(s.names, ["k", "x <= v"]), "names"),
    "range_join": Case(lambda s: s.names.range_join(s.table, ["k", "v <= x <= to"], agg.group("xs = x")), "names"),
}
_AGGREGATIONS: Final[dict[str, Case]] = {
    **{
        f"agg.{name}": _agg(function("a = x"))
        for name, function in (
            ("sum_", agg.sum_),
            ("abs_sum", agg.abs_sum),
            ("avg", agg.avg),
            ("var", agg.var),
            ("std", agg.std),
            ("min_", agg.min_),
            ("max_", agg.max_),
            ("median", agg.median),
            ("first", agg.first),
            ("last", agg.last),
            ("count_distinct", agg.count_distinct),
            ("unique", agg.unique),
            ("distinct", agg.distinct),
            ("group", agg.group),
        )
    },
    "agg.weighted_sum": _agg(agg.weighted_sum("w", "a = x")),
    "agg.weighted_avg": _agg(agg.weighted_avg("w", "a = x")),
    "agg.pct": _agg(agg.pct(0.9, "a = x")),
    "agg.sorted_first": _agg(agg.sorted_first("w", "a = x")),
    "agg.sorted_last": _agg(agg.sorted_last("w", "a = x")),
    "agg.count_": _agg(agg.count_("n")),
    "agg.count_where": _agg(agg.count_where("n", "x < 0.5")),
    "agg.formula": _agg(agg.formula("a = max(x) - min(x)")),
    "agg.partition": Case(lambda s: s.table.update_view(f"part = k % {PARTS}").agg_by(agg.partition("rows"), "part")),
    "agg.min_, appended": _agg(agg.min_("a = x"), "appended"),
    "agg.last, appended": _agg(agg.last("a = x"), "appended"),
}


def _functions() -> Iterator[tuple[str, UpdateByOperation]]:
    """Every function of ``update_by``: windows of ten rows, decays of ten."""
    yield "cum_count_where", updateby.cum_count_where("a", "x < 0.5")
    for name in ("cum_sum", "cum_prod", "cum_min", "cum_max", "forward_fill", "delta"):
        yield name, getattr(updateby, name)("a = x")
    for name in ("ema", "ems", "emmin", "emmax", "emstd"):
        yield f"{name}_tick", getattr(updateby, f"{name}_tick")(10, "a = x")
        yield f"{name}_time", getattr(updateby, f"{name}_time")("id", 1_000, "a = x")
    for name in ("sum", "avg", "min", "max", "prod", "count", "std", "group"):
        yield f"rolling_{name}_tick", getattr(updateby, f"rolling_{name}_tick")("a = x", 10)
        yield f"rolling_{name}_time", getattr(updateby, f"rolling_{name}_time")("id", "a = x", 1_000)
    yield "rolling_wavg_tick", updateby.rolling_wavg_tick("w", "a = x", 10)
    yield "rolling_wavg_time", updateby.rolling_wavg_time("id", "w", "a = x", 1_000)
    yield "rolling_formula_tick", updateby.rolling_formula_tick("sum(each)", "each", "a = x", 10)
    yield "rolling_formula_time", updateby.rolling_formula_time("id", "sum(each)", "each", "a = x", 1_000)
    yield "rolling_count_where_tick", updateby.rolling_count_where_tick("a", "x < 0.5", 10)
    yield "rolling_count_where_time", updateby.rolling_count_where_time("id", "a", "x < 0.5", 1_000)


CASES: Final[dict[str, Case]] = {
    **_TABLES,
    **_AGGREGATIONS,
    **{f"updateby.{name}": _moving(function) for name, function in _functions()},
    "updateby.cum_sum, appended": _moving(updateby.cum_sum("a = x"), "appended"),
    "updateby.ema_tick, appended": _moving(updateby.ema_tick(10, "a = x"), "appended"),
    "updateby.rolling_sum_tick, appended": _moving(updateby.rolling_sum_tick("a = x", 10), "appended"),
}
NOT_LOCAL: Final = {
    "downsample, of a keyed table": "rows that do not come in order are sorted in every cycle",
}
"""Operations whose cycle costs what the table has, and why."""
