"""The methods that make tables: each names one operation, with the arguments of Deephaven's Python client."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

import barrage_server as bs
from barrage_server.plan import agg, updateby
from barrage_server.plan.condition import Column, Compare, Comparison, Not
from barrage_server.plan.copies import BlinkToAppendOnly, Ring, SnapshotWhen
from barrage_server.plan.downsample import Downsample
from barrage_server.plan.joins import (
    AsOfJoin,
    ExactJoin,
    FullOuterJoin,
    Join,
    LeftOuterJoin,
    MultiJoin,
    MultiJoinColumns,
    NaturalJoin,
    NaturalJoinType,
    RangeJoin,
    ReverseAsOfJoin,
    WhereIn,
    WhereNotIn,
)
from barrage_server.plan.multi_join import MultiJoinInput, multi_join
from barrage_server.plan.operable import Operable, merge
from barrage_server.plan.operation import (
    AggregateAllBy,
    AggregateBy,
    DropColumns,
    Flatten,
    Head,
    HeadBy,
    HeadShare,
    LazyUpdate,
    Merge,
    MetaTable,
    Operation,
    PairOperation,
    RenameColumns,
    Reverse,
    Select,
    SelectDistinct,
    Slice,
    Snapshot,
    Sort,
    SortColumn,
    Tail,
    TailBy,
    TailShare,
    Ungroup,
    Update,
    UpdateBy,
    UpdateView,
    View,
    Where,
)
from barrage_server.plan.partition import MergeConstituents, PartitionRows


class Recorded(Operable["Recorded"]):
    """Keeps the operation that it is the result of."""

    def __init__(self, operation: Operation | None = None, *inputs: Recorded) -> None:
        self.operation = operation
        self.inputs = inputs

    def operate(self, operation: Operation, *others: Recorded) -> Recorded:
        return Recorded(operation, self, *others)


LARGE = Compare(Comparison.GREATER, Column("a"), 1)
OTHER = Recorded()
NANO = "PT0.000000001S"
CALLS: list[tuple[Callable[[Recorded], Recorded], Operation]] = [
    (lambda table: table.select(), Select()),
    (lambda table: table.select("a"), Select(("a",))),
    (lambda table: table.view(["b = a"]), View(("b = a",))),
    (lambda table: table.update(["b = a", "c = b"]), Update(("b = a", "c = b"))),
    (lambda table: table.update_view("b = a"), UpdateView(("b = a",))),
    (lambda table: table.lazy_update("b = a"), LazyUpdate(("b = a",))),
    (lambda table: table.drop_columns(["a", "b"]), DropColumns(("a", "b"))),
    (lambda table: table.rename_columns("x = a"), RenameColumns(("x = a",))),
    (lambda table: table.rename_columns({"a": "x", "b c": "y"}), RenameColumns(("x = a", "y = b c"))),
    (lambda table: table.where("a > 1"), Where(("a > 1",))),
    (lambda table: table.where(LARGE), Where((LARGE,))),
    (lambda table: table.where(["a > 1", Not(LARGE)]), Where(("a > 1", Not(LARGE)))),
    (lambda table: table.head(3), Head(3)),
    (lambda table: table.tail(), Tail(5)),
    (lambda table: table.head_pct(1), HeadShare(1.0)),
    (lambda table: table.tail_pct(0.5), TailShare(0.5)),
    (lambda table: table.slice(-3, 0), Slice(-3, 0)),
    (lambda table: table.flatten(), Flatten()),
    (
        lambda table: table.range_join(OTHER, ["a", "b <= c <= d"], agg.group("e")),
        RangeJoin(("a", "b <= c <= d"), (agg.group("e"),)),
    ),
    (lambda table: table.blink_to_append_only(), BlinkToAppendOnly()),
    (lambda table: table.ring_table(3), Ring(3)),
    (lambda table: table.downsample("t", "a"), Downsample("t", ("a",))),
    (
        lambda table: table.downsample(None, ["a", "b"], tail_x=timedelta(minutes=5), pixels=300),
        Downsample(None, ("a", "b"), tail_x="PT300.000000000S", pixels=300),
    ),
    (lambda table: table.downsample("t", "a", tail_x=pd.Timedelta(1, "ns")), Downsample("t", ("a",), tail_x=NANO)),
    (lambda table: table.downsample("t", "a", tail_x=np.timedelta64(1)), Downsample("t", ("a",), tail_x=NANO)),
    (
        lambda table: table.downsample("t", ["a"], datetime(2024, 6, 15, 10, tzinfo=UTC), 3.5),
        Downsample("t", ("a",), "2024-06-15T10:00:00+00:00", 3.5),
    ),
    (lambda table: table.downsample("t", ["a"], tail_rows=100), Downsample("t", ("a",), tail_rows=100)),
    (lambda table: table.ring_table(3, initialize=False), Ring(3, False)),
    (lambda table: table.snapshot_when(OTHER), SnapshotWhen()),
    (lambda table: table.snapshot_when(OTHER, "a", True, True), SnapshotWhen(("a",), True, True)),
    (lambda table: table.snapshot_when(OTHER, ["x = a"], history=True), SnapshotWhen(("x = a",), history=True)),
    (lambda table: table.reverse(), Reverse()),
    (lambda table: table.sort("a"), Sort((SortColumn("a"),))),
    (lambda table: table.sort(["a", "b"], ["asc", "desc"]), Sort((SortColumn("a"), SortColumn("b", descending=True)))),
    (lambda table: table.sort_descending("abs( a )"), Sort((SortColumn("a", descending=True, absolute=True),))),
    (lambda table: table.natural_join(OTHER, "a", "b"), NaturalJoin(("a",), ("b",))),
    (
        lambda table: table.natural_join(OTHER, "a", "b", type="last_match"),
        NaturalJoin(("a",), ("b",), NaturalJoinType.LAST_MATCH),
    ),
    (lambda table: table.where_in(OTHER, ["a = b", "c"]), WhereIn(("a = b", "c"))),
    (lambda table: table.where_not_in(OTHER, "a"), WhereNotIn(("a",))),
    (lambda table: table.aj(OTHER, ["a", "b >= c"]), AsOfJoin(("a", "b >= c"))),
    (lambda table: table.raj(OTHER, "b", "d"), ReverseAsOfJoin(("b",), ("d",))),
    (lambda table: table.join(OTHER), Join()),
    (lambda table: table.join(OTHER, "a", ["b"], reserve_bits=3), Join(("a",), ("b",), 3)),
    (lambda table: table.left_outer_join(OTHER, "a"), LeftOuterJoin(("a",))),
    (lambda table: table.full_outer_join(OTHER, ["a = b"], "c"), FullOuterJoin(("a = b",), ("c",))),
    (lambda table: table.exact_join(OTHER, ["a = b"]), ExactJoin(("a = b",))),
    (lambda table: table.select_distinct(), SelectDistinct()),
    (lambda table: table.agg_by(agg.sum_("b"), "a"), AggregateBy((agg.sum_("b"),), ("a",))),
    (lambda table: table.agg_all_by(agg.avg(), ["a"]), AggregateAllBy(agg.avg(), ("a",))),
    (lambda table: table.count_by("n", "a"), AggregateBy((agg.count_("n"),), ("a",))),
    *(
        (lambda table, name=name: getattr(table, f"{name}_by")("a"), AggregateAllBy(bs.Aggregation(name), ("a",)))
        for name in ("sum", "abs_sum", "avg", "std", "var", "min", "max", "median", "first", "last")
    ),
    (lambda table: table.head_by(2, "a"), HeadBy(2, ("a",))),
    (lambda table: table.tail_by(2, ["a", "b"]), TailBy(2, ("a", "b"))),
    (lambda table: table.ungroup(), Ungroup()),
    (lambda table: table.ungroup("a", null_fill=False), Ungroup(("a",), null_fill=False)),
    (lambda table: table.group_by("a"), AggregateAllBy(agg.group(), ("a",))),
    (
        lambda table: table.agg_by(agg.count_where("n", [LARGE, "b > 1"]), "a"),
        AggregateBy((bs.Aggregation("count_where", ("n",), filters=(LARGE, "b > 1")),), ("a",)),
    ),
    (
        lambda table: table.agg_by(agg.unique("b", True, np.int64(3)), "a"),
        AggregateBy((bs.Aggregation("unique", ("b",), with_nulls=True, sentinel=3),), ("a",)),
    ),
    (
        lambda table: table.agg_by([agg.formula("x = avg(b)"), agg.formula("avg(e)", "e", "b")]),
        AggregateBy(
            (
                bs.Aggregation("formula", formula="x = avg(b)"),
                bs.Aggregation("formula", ("b",), formula="avg(e)", parameter="e"),
            )
        ),
    ),
    (lambda table: table.update_by(updateby.cum_sum("b")), UpdateBy((updateby.cum_sum("b"),))),
    (
        lambda table: table.update_by([updateby.ema_tick(2, "b"), updateby.delta("c = b")], by="a"),
        UpdateBy((updateby.ema_tick(2, "b"), updateby.delta("c = b")), ("a",)),
    ),
    (lambda table: table.snapshot(), Snapshot()),
    (lambda table: table.meta_table, MetaTable()),
    (lambda table: multi_join([table, OTHER], "a"), MultiJoin((MultiJoinColumns(("a",)), MultiJoinColumns(("a",))))),
    (
        lambda table: multi_join([MultiJoinInput(table, "a", "c"), MultiJoinInput(OTHER, ["a = b"])]),
        MultiJoin((MultiJoinColumns(("a",), ("c",)), MultiJoinColumns(("a = b",)))),
    ),
    (lambda table: merge([table, OTHER]), Merge()),
    (lambda table: merge((table,), order_by="a"), Merge("a")),
]


@pytest.mark.parametrize(("call", "operation"), CALLS, ids=[f"{operation!r:.60}" for _, operation in CALLS])
def test_a_method_makes_its_operation(call: Callable[[Recorded], Recorded], operation: Operation) -> None:
    table = Recorded()
    made = call(table)
    assert made.operation == operation
    assert repr(made.operation) == repr(operation)
    assert made.inputs[0] is table
    assert all(other is OTHER for other in made.inputs[1:])
    most = operation.most_inputs
    assert operation.least_inputs <= len(made.inputs) <= (len(made.inputs) if most is None else most)


def test_every_operation_of_a_table_has_a_method() -> None:
    tested = {type(operation).__name__ for _, operation in CALLS}
    kinds = [*Operation.__subclasses__(), *PairOperation.__subclasses__()]
    assert {kind.__name__ for kind in kinds if hasattr(kind, "verb")} - tested == {
        "EmptyTable",
        MergeConstituents.__name__,  # of partitioned tables
        PartitionRows.__name__,  # of these as well
        "TimeTable",
    }


WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda table: table.update([]), "formulas must not be empty"),
    (lambda table: table.update(5), "formulas must be a string or a list of strings, not 5"),
    (lambda table: table.view(["a", 5]), "formulas must be a string"),
    (lambda table: table.rename_columns({}), "cols must not be empty"),
    (lambda table: table.rename_columns({"a": 5}), "Each name in cols must be a string, not 5"),
    (lambda table: table.rename_columns({"a": "x = b"}), "cols takes no names with '=' .* such as 'x = b'"),
    (lambda table: table.where([5]), "filters must be formulas or conditions, not 5"),
    (lambda table: table.head(-1), "num_rows must be at least 0"),
    (lambda table: table.head(1.5), "num_rows must be an integer"),
    (lambda table: table.head_by("2", "a"), "num_rows must be an integer"),
    (lambda table: table.ungroup("a", "yes"), "null_fill must be True or False"),
    (lambda table: table.ungroup(5), "cols"),
    (lambda table: table.head_pct(2), "pct is a number from 0 to 1, not 2"),
    (lambda table: table.tail_pct(float("nan")), "pct is a number from 0 to 1"),
    (lambda table: table.sort("a", "up"), 'order is "ascending" or "descending"'),
    (lambda table: table.sort(["a", "b"], ["asc"]), "The list order has 1 entries, and order_by 2"),
    (lambda table: table.agg_by(["sum"], "a"), "aggs must be such as"),
    (lambda table: table.agg_all_by("sum"), "agg must be an aggregation"),
    (lambda table: table.update_by("cum_sum"), "ops must be such as bs.updateby.cum_sum"),
    (lambda table: table.update_by([agg.sum_("b")]), "ops must be such as bs.updateby.cum_sum"),
    (lambda table: table.update_by([]), "ops must not be empty"),
    (lambda table: table.update_by(updateby.cum_sum("b"), by=5), "by must be a string or a list of strings, not 5"),
    (lambda _: merge([]), "merge takes a list of tables"),
    (lambda table: table.agg_by("sum(a)", "a"), r"not 'sum\(a\)'"),
    (lambda table: merge([table, 5]), "one entry is 5"),  # type: ignore[list-item]
    (lambda _: agg.sum_(5), "cols"),  # type: ignore[arg-type]
    (lambda _: agg.weighted_avg("", "a"), "wcol must not be empty"),
    (lambda _: agg.count_where("n", 5), "filters must be formulas or conditions, not 5"),  # type: ignore[arg-type]
    (lambda _: agg.count_distinct("a", 1), "count_nulls must be True or False"),  # type: ignore[arg-type]
    (lambda _: agg.distinct("a", "no"), "include_nulls must be True or False"),  # type: ignore[arg-type]
    (lambda _: agg.unique("a", False, [1]), "non_unique_sentinel must be a number, string or boolean"),
    (lambda _: agg.formula(5), "formula must be"),  # type: ignore[arg-type]
    (lambda _: agg.formula("x = a", cols="a"), "cols must be left out"),
]


@pytest.mark.parametrize(("call", "text"), WRONG, ids=[text for _, text in WRONG])
def test_wrong_arguments_are_told_by_their_names(call: Callable[[Any], object], text: str) -> None:
    with pytest.raises(bs.InvalidRequestError, match=text):
        call(Recorded())


@pytest.mark.parametrize(("name", "nearest"), [("mean", "avg"), ("sum", "sum_"), ("nunique", "count_distinct")])
def test_a_function_by_another_name_is_told_its_own(name: str, nearest: str) -> None:
    with pytest.raises(AttributeError, match=f"There is no aggregation '{name}'. Did you mean '{nearest}'?"):
        getattr(agg, name)
    assert not hasattr(agg, "nonsense")


@pytest.mark.parametrize(
    ("name", "nearest"), [("filter", "where"), ("groupby", "agg_by"), ("whre", "where"), ("sort_values", "sort")]
)
def test_a_method_that_is_not_there_names_the_nearest(name: str, nearest: str) -> None:
    table = bs.table({"x": [1]})
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'. Did you mean '{nearest}'?"):
        getattr(table, name)
    assert not hasattr(table, "_x")
