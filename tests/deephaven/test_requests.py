"""Plans as batches of Deephaven: what is written is read again as the same operation, or is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from barrage_proto import deephaven_pb2
from barrage_proto import table_pb2 as proto
from hypothesis import given, settings

from barrage_server.deephaven.operations import planned
from barrage_server.deephaven.requests import Batch, batch_of
from barrage_server.errors import BarrageError, InvalidRequestError, UnsupportedOperationError
from barrage_server.plan import agg, copies, downsample, updateby
from barrage_server.plan import operation as plan
from barrage_server.plan.aggregation import Aggregation
from barrage_server.plan.condition import (
    All,
    AnyOf,
    BigDecimal,
    Column,
    Compare,
    Comparison,
    Condition,
    Contains,
    Instant,
    IsNan,
    IsNull,
    LocalDate,
    Matches,
    Not,
    OneOf,
    Search,
)
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
from barrage_server.plan.json_form import verbs
from barrage_server.plan.plan import NamedTable, Plan, Result, Step, TicketTable
from barrage_server.plan.update_by import (
    CUMULATIVE,
    MOVING,
    ROLLING,
    BadDataBehavior,
    DeltaControl,
    OperationControl,
    UpdateByOperation,
)
from tests.plan.plans import plans

RESULT = b"e\x07\0\0\0"
PRICE = Column("price")
CONTROL = OperationControl(BadDataBehavior.RESET, BadDataBehavior.POISON)
AGGREGATIONS: list[Aggregation] = [
    *(make(["a = x", "b"]) for make in (agg.sum_, agg.abs_sum, agg.avg, agg.std, agg.var, agg.min_, agg.max_)),
    *(make(["a = x", "b"]) for make in (agg.median, agg.first, agg.last, agg.group)),
    agg.weighted_avg("w", "a"),
    agg.weighted_sum("w", "a"),
    agg.median("a", average_evenly_divided=False),
    agg.pct(0.25, "a"),
    agg.pct(0.25, "a", average_evenly_divided=True),
    agg.sorted_first(["t", "u"], "a"),
    agg.sorted_last("t", "a"),
    agg.count_("n"),
    agg.count_where("n", ["x > 1", "y == `A`"]),
    agg.count_distinct("a", count_nulls=True),
    agg.distinct("a", include_nulls=True),
    *(agg.unique("a", True, sentinel) for sentinel in (None, "s", True, 5, 2.5)),
    agg.partition("rows", include_by_columns=False),
    agg.formula("out = max(a) - min(b)"),
    agg.formula("avg(each)", "each", ["half = a"]),
]
MOVES: list[UpdateByOperation] = [
    *(make("s = x") for make in (updateby.cum_sum, updateby.cum_prod, updateby.cum_min, updateby.cum_max)),
    updateby.cum_count_where("n", ["x > 1"]),
    updateby.forward_fill([]),
    updateby.delta("x", DeltaControl.ZERO_DOMINATES),
    *(make(2.5, "x", CONTROL) for make in (updateby.ema_tick, updateby.ems_tick, updateby.emmin_tick)),
    *(make("t", "PT1S", "x", CONTROL) for make in (updateby.emmax_time, updateby.emstd_time)),
    *(make("s = x", 3, -1) for make in (updateby.rolling_sum_tick, updateby.rolling_avg_tick)),
    *(make("x", 3, 1) for make in (updateby.rolling_min_tick, updateby.rolling_max_tick, updateby.rolling_prod_tick)),
    *(make("x", 3) for make in (updateby.rolling_count_tick, updateby.rolling_std_tick, updateby.rolling_group_tick)),
    updateby.rolling_sum_time("t", "x", "PT5S", -1_000_000),
    updateby.rolling_wavg_tick("w", "x", 2, 2),
    updateby.rolling_formula_tick("max(each)", "each", "m = x", 4),
    updateby.rolling_formula_time("t", "m = max(x)", rev_time="PT1M"),
    updateby.rolling_count_where_time("t", "n", "x > 1", "PT1S"),
]
CONDITIONS: list[Condition] = [
    *(Compare(comparison, PRICE, 3) for comparison in Comparison),
    Compare(Comparison.LESS, 2.5, PRICE),
    Compare(Comparison.GREATER, Column("at"), Instant(5)),
    Compare(Comparison.EQUAL, Column("flag"), True),
    OneOf(Column("sym"), ("A", "B"), ignores_case=True, inverted=True),
    IsNull(PRICE),
    IsNan(PRICE),
    Matches(Column("sym"), "[AB].*", ignores_case=True),
    Contains(Column("sym"), "A", inverted=True),
    Search("x"),
    Search("x", (PRICE, Column("sym"))),
    Not(IsNull(PRICE)),
    All((IsNull(PRICE), AnyOf((IsNan(PRICE), Contains(Column("sym"), "A"))))),
]
OPERATIONS: list[plan.Operation] = [
    plan.EmptyTable(5),
    plan.TimeTable(1_000, None, blink=True),
    plan.TimeTable("PT1S", "2024-06-15T10:00:00Z"),
    plan.TimeTable(7, 99),
    *(made(("A = b + 1", "c")) for made in (plan.Select, plan.View, plan.Update, plan.UpdateView, plan.LazyUpdate)),
    plan.Select(),
    plan.DropColumns(("a", "b")),
    plan.SelectDistinct(("a",)),
    plan.Where(("a > 1", "b < 2")),
    *(plan.Where((condition,)) for condition in CONDITIONS),
    plan.Head(3),
    plan.Tail(4),
    plan.HeadBy(2, ("a",)),
    plan.TailBy(2, ("a", "b")),
    plan.Slice(-5, -1),
    plan.Flatten(),
    plan.Reverse(),
    plan.Sort((plan.SortColumn("a"), plan.SortColumn("b", True), plan.SortColumn("c", False, True))),
    plan.Ungroup(("a",), null_fill=False),
    plan.Merge(),
    plan.Merge("a"),
    plan.Snapshot(),
    plan.MetaTable(),
    *(NaturalJoin(("a", "b = c"), ("x = y",), match) for match in NaturalJoinType),
    ExactJoin(("a",), ("x",)),
    Join(("a",), ("x",), 5),
    Join(),
    AsOfJoin(("a", "t >= u"), ("x",)),
    ReverseAsOfJoin(("t <= u",)),
    RangeJoin(("a", "<- x <= t < y"), (agg.group("g = t"),)),
    MultiJoin((MultiJoinColumns(("a",), ("x",)), MultiJoinColumns(("a = b",)))),
    WhereIn(("a",)),
    WhereNotIn(("a = b",)),
    *(plan.AggregateBy((one,), ("k",)) for one in AGGREGATIONS),
    plan.AggregateBy(tuple(AGGREGATIONS[:3])),
    plan.AggregateAllBy(agg.avg(), ("k",)),
    plan.AggregateAllBy(agg.pct(0.1)),
    *(plan.UpdateBy((one,), ("k",)) for one in MOVES),
    copies.SnapshotWhen(("t",), initial=True, incremental=True),
    copies.SnapshotWhen(history=True),
]
UNSUPPORTED: list[tuple[plan.Operation, str]] = [
    (plan.RenameColumns(("a = b",)), "'rename_columns'. Use view"),
    (plan.HeadShare(0.5), "'head_pct'. Use head"),
    (plan.TailShare(0.5), "'tail_pct'. Use tail"),
    (LeftOuterJoin(("a",)), "'left_outer_join'. natural_join"),
    (FullOuterJoin(("a",)), "'full_outer_join'. natural_join"),
    (copies.BlinkToAppendOnly(), "'blink_to_append_only'. Call it in a script"),
    (copies.Ring(5), "'ring_table'. Call it in a script"),
    (downsample.Downsample(None, ("a",)), "'downsample'."),
    (plan.SelectDistinct(), "'select_distinct' of all columns: name them"),
    (plan.AggregateBy((), ("a",)), "'agg_by' without aggregations. Use select_distinct"),
    (plan.AggregateBy((agg.count_where("n", IsNull(PRICE)),)), "conditions of 'count_where' are texts"),
    (plan.UpdateBy((updateby.cum_count_where("n", IsNull(PRICE)),)), "conditions of 'cum_count_where' are texts"),
    (plan.Where((Compare(Comparison.EQUAL, PRICE, BigDecimal("1.10")),)), "no literal of Deephaven for a BigDecimal"),
    (plan.Where((Compare(Comparison.LESS, Column("sym"), "a", True),)), "for equality alone"),
    (plan.Where((Not(Compare(Comparison.EQUAL, Column("sym"), Column("b"), True)),)), "for equality alone"),
    (plan.Where((OneOf(PRICE, (LocalDate(3),)),)), "no literal of Deephaven for a LocalDate"),
    (plan.Where((Not(Compare(Comparison.LESS, PRICE, 5)),)), "Write the condition as text"),
    (plan.Where((Not(All((IsNull(PRICE), Not(Compare(Comparison.LESS, PRICE, 5))))),)), "Write the condition as text"),
]


def batch(*steps: Step) -> Batch:
    return batch_of(Plan(steps, (len(steps) - 1,)), RESULT, lambda name: b"s/" + name.encode())


def step(operation: plan.Operation) -> Step:
    number = max(operation.least_inputs, 2 if operation.most_inputs is None else operation.least_inputs)
    return Step(operation, tuple(NamedTable(f"t{one}") for one in range(number)))


def read(operation: proto.BatchTableRequest.Operation) -> tuple[plan.Operation, Sequence[Any]]:
    kind = operation.WhichOneof("op")
    assert kind is not None
    found = planned(kind, getattr(operation, kind))
    return found.operation, found.inputs


@pytest.mark.parametrize("operation", OPERATIONS, ids=repr)
def test_an_operation_that_is_written_is_read_again(operation: plan.Operation) -> None:
    (written,) = batch(step(operation)).request.ops
    message = proto.BatchTableRequest.Operation.FromString(written.SerializeToString())
    found, inputs = read(message)
    assert found == operation
    assert [one.ticket.ticket for one in inputs] == [f"s/t{one}".encode() for one in range(len(step(operation).inputs))]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (Compare(Comparison.EQUAL, Column("sym"), "a", True), OneOf(Column("sym"), ("a",), True)),
        (Compare(Comparison.NOT_EQUAL, "a", Column("sym"), True), OneOf(Column("sym"), ("a",), True, True)),
        (Not(Compare(Comparison.EQUAL, Column("sym"), "a", True)), Not(OneOf(Column("sym"), ("a",), True))),
        (Compare(Comparison.LESS, PRICE, 3, True), Compare(Comparison.LESS, PRICE, 3)),
    ],
)
def test_equality_without_regard_to_case_is_sent_as_a_list(condition: Condition, wanted: Condition) -> None:
    """A Deephaven server (42.7) takes every comparison without regard to case for that of equality."""
    (written,) = batch(step(plan.Where((condition,)))).request.ops
    assert read(written)[0] == plan.Where((wanted,))


def test_every_operation_and_function_is_tried() -> None:
    tried = {operation.verb for operation in [*OPERATIONS, *(one for one, _ in UNSUPPORTED)]}
    assert tried == set(verbs())
    assert {one.function for one in MOVES} == {*CUMULATIVE, *MOVING, *ROLLING}
    assert {one.function for one in AGGREGATIONS} >= {name.rstrip("_") for name in agg.__all__ if name.islower()}


@pytest.mark.parametrize(("operation", "text"), UNSUPPORTED, ids=lambda value: value if isinstance(value, str) else "")
def test_what_deephaven_has_no_message_for_is_named(operation: plan.Operation, text: str) -> None:
    with pytest.raises(UnsupportedOperationError) as told:
        batch(step(operation))
    assert text in str(told.value)


def test_steps_refer_to_each_other_and_the_last_one_has_the_ticket() -> None:
    asked = batch(
        Step(plan.Where(("a > 1", IsNull(PRICE), IsNan(PRICE), "b < 2")), (NamedTable("t"),)),
        Step(plan.Head(3), (Result(0),)),
        Step(plan.Merge(), (Result(1), Result(0), TicketTable("other"))),
    )
    assert asked.verbs == ("where", "where", "where", "head", "merge")
    first, trees, last, head, merge = asked.request.ops
    assert list(first.unstructured_filter.filters) == ["a > 1"]
    assert first.unstructured_filter.source_id.ticket.ticket == b"s/t"
    assert len(trees.filter.filters) == 2
    assert [trees.filter.source_id.batch_offset, last.unstructured_filter.source_id.batch_offset] == [0, 1]
    assert head.head.source_id.batch_offset == 2
    assert [one.batch_offset for one in merge.merge.source_ids] == [3, 2, 0]
    assert merge.merge.source_ids[2] == deephaven_pb2.TableReference(ticket=deephaven_pb2.Ticket(ticket=b"other"))
    tickets = [getattr(one, one.WhichOneof("op") or "").result_id.ticket for one in asked.request.ops]
    assert tickets == [b"", b"", b"", b"", RESULT]


def test_a_filter_without_conditions_is_a_message_too() -> None:
    """What comes after it refers to it, and not to what comes before."""
    asked = batch(
        Step(plan.Head(1), (NamedTable("t"),)),
        Step(plan.Where(()), (NamedTable("u"),)),
        Step(plan.Merge(), (Result(0), Result(1))),
    )
    _, same, merge = asked.request.ops
    assert asked.verbs == ("head", "where", "merge")
    assert same.fetch_table.source_id.ticket.ticket == b"s/u"
    assert [one.batch_offset for one in merge.merge.source_ids] == [0, 1]
    (alone,) = batch(step(plan.Where(()))).request.ops
    assert alone.fetch_table.result_id.ticket == RESULT


def test_what_is_behind_the_output_is_not_sent() -> None:
    steps = (step(plan.Head(3)), step(plan.Tail(3)))
    assert batch_of(Plan(steps, (0,)), RESULT, str.encode).verbs == ("head",)


def test_a_value_that_a_message_cannot_hold_is_told_with_its_operation() -> None:
    with pytest.raises(InvalidRequestError, match="'join' has a value that cannot be sent"):
        batch(step(Join(("a",), (), 1 << 40)))
    with pytest.raises(InvalidRequestError, match="'count' names one column"):
        batch(step(plan.AggregateBy((Aggregation("count"),))))
    with pytest.raises(InvalidRequestError, match="'cum_count_where' names one column"):
        batch(step(plan.UpdateBy((UpdateByOperation("cum_count_where"),))))


@given(plans())
@settings(deadline=None, max_examples=20)
def test_any_plan_is_written_or_refused(asked: Plan) -> None:
    one = Plan(asked.steps, asked.outputs[:1])
    try:
        found = batch_of(one, RESULT, str.encode)
    except BarrageError as error:
        assert str(error).endswith((".", "them."))
        return
    assert len(found.request.ops) == len(found.verbs)
    proto.BatchTableRequest.FromString(found.request.SerializeToString())
