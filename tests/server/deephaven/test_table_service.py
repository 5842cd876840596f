"""Operations of Deephaven's clients: each call, batches, what they refer to, what fails, and what is left behind."""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
from barrage_proto import deephaven_pb2 as proto
from barrage_proto import table_pb2

from barrage_server.engine import AppendTable
from barrage_server.server import Limits, Principal, Role, Server
from barrage_server.server.authentication import Credentials
from barrage_server.server.results import Results
from barrage_server.wire.tickets import export_ticket
from tests.server.deephaven.computing import Computing, Operation, export, numbers, offset, result, scope
from tests.waiting import until

SCHEMA = pa.schema([("n", pa.int64()), ("sym", pa.string())])


def place(server: Server) -> str:
    return (server.deephaven_uri or "").removeprefix("dh+plain://")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(deephaven_port=0) as made:
        fill(made)
        yield made


def fill(server: Server) -> AppendTable:
    table = server.append_table("t", SCHEMA)
    table.append({"n": [5, 1, 4, 2, 3], "sym": ["a", "b", "a", None, "b"]})
    return table


@pytest.fixture
def client(server: Server) -> Iterator[Computing]:
    made = Computing(place(server))
    yield made
    made.disconnect()


def texts(*values: str) -> dict[str, Any]:
    return {"column_specs": list(values)}


def of_columns(pair: str, **spec: Any) -> table_pb2.Aggregation:
    columns = table_pb2.Aggregation.AggregationColumns(spec=table_pb2.AggSpec(**spec), match_pairs=[pair])
    return table_pb2.Aggregation(columns=columns)


ONE_TABLE: list[tuple[str, Any, dict[str, list[Any]]]] = [
    ("Update", texts("m = n * 2"), {"m": [10, 2, 8, 4, 6]}),
    ("LazyUpdate", texts("m = n * 2"), {"m": [10, 2, 8, 4, 6]}),
    ("UpdateView", texts("m = n * 2"), {"m": [10, 2, 8, 4, 6]}),
    ("View", texts("m = n * 2"), {"m": [10, 2, 8, 4, 6]}),
    ("View", texts(), {"n": [5, 1, 4, 2, 3], "sym": ["a", "b", "a", None, "b"]}),
    ("Select", texts("n"), {"n": [5, 1, 4, 2, 3]}),
    ("DropColumns", {"column_names": ["sym"]}, {"n": [5, 1, 4, 2, 3]}),
    ("SelectDistinct", {"column_names": ["sym"]}, {"sym": ["a", "b", None]}),
    ("UnstructuredFilter", {"filters": ["n > 2", "sym == `a`"]}, {"n": [5, 4]}),
    ("Head", {"num_rows": 2}, {"n": [5, 1]}),
    ("Tail", {"num_rows": 2}, {"n": [2, 3]}),
    ("HeadBy", {"num_rows": 1, "group_by_column_specs": ["sym"]}, {"n": [5, 1, 2], "sym": ["a", "b", None]}),
    ("TailBy", {"num_rows": 1, "group_by_column_specs": ["sym"]}, {"n": [4, 3, 2], "sym": ["a", "b", None]}),
    ("Slice", {"first_position_inclusive": 1, "last_position_exclusive": -1}, {"n": [1, 4, 2]}),
    ("Flatten", {}, {"n": [5, 1, 4, 2, 3]}),
    ("Snapshot", {}, {"n": [5, 1, 4, 2, 3]}),
    ("MetaTable", {}, {"Name": ["n", "sym"], "DataType": ["long", "java.lang.String"]}),
    (
        "Sort",
        {"sorts": [table_pb2.SortDescriptor(column_name="n", direction=table_pb2.SortDescriptor.DESCENDING)]},
        {"n": [5, 4, 3, 2, 1]},
    ),
    ("Sort", {"sorts": [table_pb2.SortDescriptor(direction=table_pb2.SortDescriptor.REVERSE)]}, {"n": [3, 2, 4, 1, 5]}),
    (
        "AggregateAll",
        {"spec": table_pb2.AggSpec(sum=table_pb2.AggSpec.AggSpecSum()), "group_by_columns": ["sym"]},
        {"sym": ["a", "b", None], "n": [9, 4, 2]},
    ),
    (
        "Aggregate",
        {
            "aggregations": [
                table_pb2.Aggregation(
                    columns=table_pb2.Aggregation.AggregationColumns(
                        spec=table_pb2.AggSpec(max=table_pb2.AggSpec.AggSpecMax()), match_pairs=["most = n"]
                    )
                ),
                table_pb2.Aggregation(count=table_pb2.Aggregation.AggregationCount(column_name="rows")),
            ],
            "group_by_columns": ["sym"],
        },
        {"sym": ["a", "b", None], "most": [5, 3, 2], "rows": [2, 2, 1]},
    ),
    (
        "Aggregate",
        {
            "aggregations": [
                of_columns("n", count_distinct=table_pb2.AggSpec.AggSpecCountDistinct()),
                of_columns("one = n", unique=table_pb2.AggSpec.AggSpecUnique(non_unique_sentinel={"long_value": -1})),
                of_columns("all = n", group=table_pb2.AggSpec.AggSpecGroup()),
                of_columns("half = n", formula=table_pb2.AggSpec.AggSpecFormula(formula="sum(x) / 2", param_token="x")),
                table_pb2.Aggregation(
                    count_where=table_pb2.Aggregation.AggregationCountWhere(column_name="large", filters=["n > 2"])
                ),
                table_pb2.Aggregation(
                    formula=table_pb2.Aggregation.AggregationFormula(selectable={"raw": "span = max(n) - min(n)"})
                ),
            ],
            "group_by_columns": ["sym"],
        },
        {
            "n": [2, 2, 1],
            "one": [-1, -1, 2],
            "all": [[5, 4], [1, 3], [2]],
            "half": [4.5, 2.0, 1.0],
            "large": [2, 1, 0],
            "span": [1, 2, 0],
        },
    ),
    (
        "Aggregate",
        {
            "aggregations": [
                table_pb2.Aggregation(
                    partition=table_pb2.Aggregation.AggregationPartition(
                        column_name="rows", include_group_by_columns=True
                    )
                ),
            ],
            "group_by_columns": ["sym"],
        },
        {"sym": ["a", "b", None], "rows": ["QueryTable"] * 3},
    ),
    (
        "ComboAggregate",
        {
            "aggregates": [
                table_pb2.ComboAggregateRequest.Aggregate(
                    type=table_pb2.ComboAggregateRequest.AVG, match_pairs=["mean = n"]
                )
            ],
            "group_by_columns": ["sym"],
        },
        {"sym": ["a", "b", None], "mean": [4.5, 2.0, 2.0]},
    ),
]
REQUESTS: dict[str, Any] = {
    "Select": table_pb2.SelectOrUpdateRequest,
    "Update": table_pb2.SelectOrUpdateRequest,
    "LazyUpdate": table_pb2.SelectOrUpdateRequest,
    "View": table_pb2.SelectOrUpdateRequest,
    "UpdateView": table_pb2.SelectOrUpdateRequest,
    "DropColumns": table_pb2.DropColumnsRequest,
    "SelectDistinct": table_pb2.SelectDistinctRequest,
    "UnstructuredFilter": table_pb2.UnstructuredFilterTableRequest,
    "Filter": table_pb2.FilterTableRequest,
    "Head": table_pb2.HeadOrTailRequest,
    "Tail": table_pb2.HeadOrTailRequest,
    "HeadBy": table_pb2.HeadOrTailByRequest,
    "TailBy": table_pb2.HeadOrTailByRequest,
    "Slice": table_pb2.SliceRequest,
    "Flatten": table_pb2.FlattenRequest,
    "Snapshot": table_pb2.SnapshotTableRequest,
    "MetaTable": table_pb2.MetaTableRequest,
    "Sort": table_pb2.SortTableRequest,
    "AggregateAll": table_pb2.AggregateAllRequest,
    "Aggregate": table_pb2.AggregateRequest,
    "ComboAggregate": table_pb2.ComboAggregateRequest,
}


def value(given: str | float | bool) -> table_pb2.Value:
    if isinstance(given, bool):
        return table_pb2.Value(literal=table_pb2.Literal(bool_value=given))
    if isinstance(given, int):
        return table_pb2.Value(literal=table_pb2.Literal(long_value=given))
    if isinstance(given, float):
        return table_pb2.Value(literal=table_pb2.Literal(double_value=given))
    return table_pb2.Value(literal=table_pb2.Literal(string_value=given))


def column(name: str) -> table_pb2.Value:
    return table_pb2.Value(reference=table_pb2.Reference(column_name=name))


def compared(name: str, operation: str, given: str | float) -> table_pb2.Condition:
    return table_pb2.Condition(
        compare=table_pb2.CompareCondition(operation=operation, lhs=column(name), rhs=value(given))
    )


def condition(kind: str, message: Any) -> table_pb2.Condition:
    return table_pb2.Condition(**{kind: message})


SYM, X = (table_pb2.Reference(column_name=name) for name in ("sym", "x"))
CONDITIONS: list[tuple[table_pb2.Condition, list[int]]] = [
    (compared("n", "LESS_THAN", 3), [1, 2]),
    (compared("n", "GREATER_THAN_OR_EQUAL", 4.0), [5, 4]),
    (compared("sym", "NOT_EQUALS", "a"), [1, 2, 3]),
    (condition("not", table_pb2.NotCondition(filter=compared("n", "EQUALS", 3))), [5, 1, 4, 2]),
    (condition("not", table_pb2.NotCondition(filter=compared("n", "LESS_THAN", 3))), [5, 4, 3]),
    (
        condition(
            "and", table_pb2.AndCondition(filters=[compared("n", "GREATER_THAN", 1), compared("sym", "EQUALS", "b")])
        ),
        [3],
    ),
    (
        condition("or", table_pb2.OrCondition(filters=[compared("n", "EQUALS", 1), compared("sym", "EQUALS", "a")])),
        [5, 1, 4],
    ),
    (condition("in", table_pb2.InCondition(target=column("n"), candidates=[value(1), value(3)])), [1, 3]),
    (
        condition(
            "in",
            table_pb2.InCondition(
                target=column("sym"),
                candidates=[value("A")],
                case_sensitivity=table_pb2.IGNORE_CASE,
                match_type=table_pb2.INVERTED,
            ),
        ),
        [1, 2, 3],
    ),
    (condition("is_null", table_pb2.IsNullCondition(reference=SYM)), [2]),
    (condition("matches", table_pb2.MatchesCondition(reference=SYM, regex="[ab]")), [5, 1, 4, 3]),
    (condition("contains", table_pb2.ContainsCondition(reference=SYM, search_string="b")), [1, 3]),
    (condition("search", table_pb2.SearchCondition(search_string="a")), [5, 4]),
]


@pytest.mark.parametrize(("method", "given", "expected"), ONE_TABLE)
def test_each_operation_gives_a_table_and_says_what_it_is(
    client: Computing, method: str, given: Any, expected: dict[str, list[Any]]
) -> None:
    (creation,) = client.call(method, REQUESTS[method](result_id=result(1), source_id=scope("t"), **given))
    found = client.read(1)
    assert creation.success and creation.result_id.ticket.ticket == export_ticket(1)
    assert creation.size == found.num_rows
    assert creation.is_static == (method in ("Snapshot", "MetaTable"))
    assert pa.ipc.open_stream(creation.schema_header).schema.names == found.schema.names
    assert {name: found[name].to_pylist() for name in expected} == expected


@pytest.mark.parametrize(("given", "expected"), CONDITIONS)
def test_each_condition_chooses_rows(client: Computing, given: table_pb2.Condition, expected: list[int]) -> None:
    client.call("Filter", table_pb2.FilterTableRequest(result_id=result(1), source_id=scope("t"), filters=[given]))
    assert list(numbers(client.read(1))) == expected


def test_the_opposite_of_a_comparison_is_no_more_true_of_nan(server: Server, client: Computing) -> None:
    """A Deephaven server turns the comparison round, also within others."""
    table = server.append_table("f", {"n": "int64", "x": "float64"})
    table.append({"n": [1, 2, 3, 4], "x": [1.0, math.nan, None, 3.0]})
    low, null = compared("x", "LESS_THAN", 2.0), condition("is_null", table_pb2.IsNullCondition(reference=X))
    either = condition("or", table_pb2.OrCondition(filters=[low, null]))
    both = condition("and", table_pb2.AndCondition(filters=[low, null]))
    for number, (given, expected) in enumerate([(low, [4]), (either, [4]), (both, [1, 2, 4])], 1):
        opposite = condition("not", table_pb2.NotCondition(filter=given))
        request = table_pb2.FilterTableRequest(result_id=result(number), source_id=scope("f"), filters=[opposite])
        client.call("Filter", request)
        assert list(numbers(client.read(number))) == expected
    twice = condition("not", table_pb2.NotCondition(filter=condition("not", table_pb2.NotCondition(filter=low))))
    client.call("Filter", table_pb2.FilterTableRequest(result_id=result(9), source_id=scope("f"), filters=[twice]))
    assert list(numbers(client.read(9))) == [1, 3]


def test_operations_on_several_tables(server: Server, client: Computing) -> None:
    names = server.keyed_table("names", {"sym": "string", "name": "string"}, key="sym")
    names.upsert({"sym": ["a", "b"], "name": ["Acme", "Bolt"]})
    client.call(
        "NaturalJoinTables",
        table_pb2.NaturalJoinTablesRequest(
            result_id=result(1), left_id=scope("t"), right_id=scope("names"), columns_to_match=["sym"]
        ),
    )
    assert client.read(1)["name"].to_pylist() == ["Acme", "Bolt", "Acme", None, "Bolt"]
    client.where(2, export(1), ["!isNull(name)"])
    client.call(
        "ExactJoinTables",
        table_pb2.ExactJoinTablesRequest(
            result_id=result(3),
            left_id=export(2),
            right_id=scope("names"),
            columns_to_match=["sym"],
            columns_to_add=["again = name"],
        ),
    )
    assert client.read(3)["again"].to_pylist() == ["Acme", "Bolt", "Acme", "Bolt"]
    client.call(
        "WhereIn",
        table_pb2.WhereInRequest(
            result_id=result(4), left_id=scope("t"), right_id=scope("names"), inverted=True, columns_to_match=["sym"]
        ),
    )
    assert list(numbers(client.read(4))) == [2]
    client.call(
        "CrossJoinTables",
        table_pb2.CrossJoinTablesRequest(
            result_id=result(7), left_id=scope("t"), right_id=scope("names"), columns_to_match=["sym"]
        ),
    )
    assert client.read(7)["name"].to_pylist() == ["Acme", "Bolt", "Acme", "Bolt"]
    for number, method, stamp, expected in (
        (8, "AjTables", "n >= n", [5, 1, 4, 2, 3]),
        (9, "RajTables", "n", [5, 1, 4, 2, 3]),
    ):
        request = table_pb2.AjRajTablesRequest(
            result_id=result(number),
            left_id=scope("t"),
            right_id=scope("t"),
            as_of_column=stamp,
            columns_to_add=["m = n"],
        )
        client.call(method, request)
        assert list(numbers(client.read(number), "m")) == expected
    inputs = [
        table_pb2.MultiJoinInput(source_id=scope("names"), columns_to_match=["sym"], columns_to_add=[column])
        for column in ("name", "other = name")
    ]
    client.call("MultiJoinTables", table_pb2.MultiJoinTablesRequest(result_id=result(10), multi_join_inputs=inputs))
    assert client.read(10).to_pydict() == {"sym": ["a", "b"], "name": ["Acme", "Bolt"], "other": ["Acme", "Bolt"]}
    client.call("MergeTables", table_pb2.MergeTablesRequest(result_id=result(5), source_ids=[export(4), scope("t")]))
    assert list(numbers(client.read(5))) == [2, 5, 1, 4, 2, 3]
    client.call(
        "MergeTables",
        table_pb2.MergeTablesRequest(result_id=result(6), source_ids=[export(4), scope("t")], key_column="n"),
    )
    assert list(numbers(client.read(6))) == [1, 2, 2, 3, 4, 5]


def test_a_trigger_takes_snapshots(server: Server, client: Computing) -> None:
    """The batch of Deephaven's client and the unary call name the base and the trigger alike."""
    names = server.keyed_table("names", {"name": "string"}, key="name")
    names.upsert({"name": ["Acme", "Bolt"]})
    for number, has_history, columns in ((1, False, ["sym", "n", "who"]), (2, True, ["who", "sym", "n"])):
        request = table_pb2.SnapshotWhenTableRequest(
            result_id=result(number),
            base_id=scope("t"),
            trigger_id=scope("names"),
            initial=not has_history,
            history=has_history,
            stamp_columns=["who = name"],
        )
        client.call("SnapshotWhen", request)
        found = client.read(number)
        assert sorted(found.column_names) == sorted(columns)
        assert found.num_rows == (10 if has_history else 5)


def test_rows_of_a_range_are_listed(server: Server, client: Computing) -> None:
    """By the text of a range, or by columns and rules."""
    ranges = server.keyed_table("ranges", {"sym": "string", "lo": "int64", "hi": "int64"}, key="sym")
    ranges.upsert({"sym": ["a", "b"], "lo": [5, 2], "hi": [9, 3]})
    columns = table_pb2.Aggregation.AggregationColumns(
        spec=table_pb2.AggSpec(group=table_pb2.AggSpec.AggSpecGroup()), match_pairs=["ns = n"]
    )
    by_text = table_pb2.RangeJoinTablesRequest(
        result_id=result(1),
        range_match="<- lo <= n <= hi ->",
        left_id=scope("ranges"),
        right_id=scope("t"),
        exact_match_columns=["sym"],
        aggregations=[table_pb2.Aggregation(columns=columns)],
    )
    by_rules = table_pb2.RangeJoinTablesRequest(
        result_id=result(2),
        left_start_column="lo",
        range_start_rule=table_pb2.RangeJoinTablesRequest.LESS_THAN,
        right_range_column="n",
        range_end_rule=table_pb2.RangeJoinTablesRequest.GREATER_THAN_OR_EQUAL_ALLOW_FOLLOWING,
        left_end_column="hi",
        left_id=scope("ranges"),
        right_id=scope("t"),
        exact_match_columns=["sym"],
        aggregations=[table_pb2.Aggregation(columns=columns)],
    )
    for request in (by_text, by_rules):
        client.call("RangeJoinTables", request)
    assert client.read(1)["ns"].to_pylist() == [[5], [1, 3]]
    assert client.read(2)["ns"].to_pylist() == [[], [3]]


def test_a_table_of_nothing_is_static_and_so_is_what_is_computed_from_it(client: Computing) -> None:
    (made,) = client.call("EmptyTable", table_pb2.EmptyTableRequest(result_id=result(1), size=4))
    (computed,) = client.call(
        "Update",
        table_pb2.SelectOrUpdateRequest(result_id=result(2), source_id=export(1), column_specs=["x = ii * ii"]),
    )
    assert made.is_static and computed.is_static and made.size == 4
    assert list(numbers(client.read(2), "x")) == [0, 1, 4, 9]


def test_lists_are_made_and_taken_apart(client: Computing) -> None:
    group = table_pb2.AggSpec(group=table_pb2.AggSpec.AggSpecGroup())
    client.call(
        "AggregateAll",
        table_pb2.AggregateAllRequest(result_id=result(1), source_id=scope("t"), spec=group, group_by_columns=["sym"]),
    )
    client.call("Ungroup", table_pb2.UngroupRequest(result_id=result(2), source_id=export(1), null_fill=True))
    assert client.read(2).to_pydict() == {"sym": ["a", "a", "b", "b", None], "n": [5, 4, 1, 3, 2]}


def test_a_time_table_ticks_and_is_computed_from(server: Server, client: Computing) -> None:
    request = table_pb2.TimeTableRequest(result_id=result(1), start_time_nanos=0, period_string="PT0.02S")
    (made,) = client.call("TimeTable", request)
    (computed,) = client.call(
        "Update", table_pb2.SelectOrUpdateRequest(result_id=result(2), source_id=export(1), column_specs=["x = ii * 2"])
    )
    assert not made.is_static and not computed.is_static
    with client.follow(2) as follower:
        follower.wait(lambda follower: len(follower.rows) >= 4)
        assert [row[1] for row in follower.content()[:4]] == [0, 2, 4, 6]
    client.close()

    def is_gone() -> bool:
        gc.collect()
        return not server.statistics().results

    until(is_gone)


def test_a_result_ticks_for_its_subscribers(server: Server, client: Computing) -> None:
    (creation,) = client.where(1, scope("t"), ["n > 3"])
    assert not creation.is_static
    with client.follow(1) as follower:
        follower.wait(lambda follower: follower.content() == [[5, "a"], [4, "a"]])
        server.append_table("t", SCHEMA).append({"n": [6, 0], "sym": ["c", "d"]})
        follower.wait(lambda follower: follower.content() == [[5, "a"], [4, "a"], [6, "c"]])


def test_a_batch_refers_to_what_is_before(client: Computing) -> None:
    answers, error = client.batch(
        Operation(
            unstructured_filter=table_pb2.UnstructuredFilterTableRequest(source_id=scope("t"), filters=["n > 1"])
        ),
        Operation(update=table_pb2.SelectOrUpdateRequest(source_id=offset(0), column_specs=["m = n + 1"])),
        Operation(head=table_pb2.HeadOrTailRequest(result_id=result(1), source_id=offset(1), num_rows=2)),
    )
    assert error is None
    assert [answer.result_id.ticket.ticket for answer in answers] == [export_ticket(1)]
    assert list(numbers(client.read(1), "m")) == [6, 5]


def test_what_fails_in_a_batch_fails_with_what_needs_it_and_the_rest_goes_on(client: Computing) -> None:
    answers, error = client.batch(
        Operation(
            update=table_pb2.SelectOrUpdateRequest(result_id=result(1), source_id=scope("t"), column_specs=["m = nope"])
        ),
        Operation(head=table_pb2.HeadOrTailRequest(result_id=result(2), source_id=offset(0), num_rows=2)),
        Operation(head=table_pb2.HeadOrTailRequest(result_id=result(3), source_id=export(1), num_rows=2)),
        Operation(head=table_pb2.HeadOrTailRequest(result_id=result(4), source_id=scope("t"), num_rows=2)),
    )
    assert [answer.success for answer in answers] == [False, False, False, True]
    assert "nope" in answers[0].error_info
    assert "Operation 0 of the batch, which this one needs, failed" in answers[1].error_info
    assert "Export 1 was not made" in answers[2].error_info
    assert error is not None and "nope" in str(error.details())
    assert list(numbers(client.read(4))) == [5, 1]


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (Operation(head=table_pb2.HeadOrTailRequest(result_id=result(1), source_id=offset(0))), "none before this one"),
        (
            Operation(head=table_pb2.HeadOrTailRequest(result_id=result(1), source_id=offset(-1))),
            "none before this one",
        ),
        (Operation(head=table_pb2.HeadOrTailRequest(result_id=result(1))), "which table it is for"),
        (Operation(head=table_pb2.HeadOrTailRequest(result_id=result(1), source_id=export(1))), "from itself"),
        (
            Operation(head=table_pb2.HeadOrTailRequest(result_id=result(1), source_id=scope("t"), num_rows=-1)),
            "num_rows",
        ),
        (Operation(empty_table=table_pb2.EmptyTableRequest(result_id=result(1), size=1 << 60)), "size"),
        (
            Operation(head=table_pb2.HeadOrTailRequest(result_id=proto.Ticket(ticket=b"s/x"), source_id=scope("t"))),
            "export ticket",
        ),
        (Operation(sort=table_pb2.SortTableRequest(result_id=result(1), source_id=scope("t"))), "sort"),
        (Operation(merge=table_pb2.MergeTablesRequest(result_id=result(1))), "at least one table"),
        (
            Operation(filter=table_pb2.FilterTableRequest(source_id=scope("t"), filters=[table_pb2.Condition()])),
            "is empty",
        ),
        (
            Operation(
                filter=table_pb2.FilterTableRequest(
                    source_id=scope("t"),
                    filters=[table_pb2.Condition(invoke=table_pb2.InvokeCondition(method="exit"))],
                )
            ),
            "call a method",
        ),
        (
            Operation(aggregate_all=table_pb2.AggregateAllRequest(source_id=scope("t"), spec=table_pb2.AggSpec())),
            "is empty",
        ),
        (
            Operation(aggregate=table_pb2.AggregateRequest(source_id=scope("t"), preserve_empty=True)),
            "no initial groups",
        ),
        (Operation(), "not known here"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_left(
    server: Server, client: Computing, operation: Any, text: str
) -> None:
    answers, error = client.batch(operation)
    assert error is not None and text in str(error.details())
    assert [answer.success for answer in answers] == [False]
    assert server.statistics().exports == 0
    assert server.statistics().results == ()


def test_operations_that_wait_for_each_other_end(client: Computing) -> None:
    """Two calls, each with the result of the other: one is told, and so the other."""
    ends: list[str] = []

    def head(number: int, source: int) -> None:
        request = table_pb2.HeadOrTailRequest(result_id=result(number), source_id=export(source), num_rows=1)
        try:
            client.call("Head", request)
        except grpc.RpcError as error:
            ends.append(str(error.details()))

    threads = [threading.Thread(target=head, args=pair) for pair in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(ends) == 2
    assert any("from itself" in text for text in ends)


def test_an_operation_starts_when_its_input_comes(client: Computing) -> None:
    started = client.start("Head", table_pb2.HeadOrTailRequest(result_id=result(2), source_id=export(1), num_rows=1))
    client.where(1, scope("t"), ["n < 3"])
    assert [proto.ExportedTableCreationResponse.FromString(answer).success for answer in started] == [True]
    assert list(numbers(client.read(2))) == [1]


def test_a_batch_has_a_limit() -> None:
    with Server(deephaven_port=0, limits=Limits(batch_operations=2)) as server:
        fill(server)
        client = Computing(place(server))
        head = Operation(head=table_pb2.HeadOrTailRequest(source_id=scope("t"), num_rows=1))
        assert client.batch(head, head)[1] is None
        answers, error = client.batch(head, head, head)
        assert answers == [] and error is not None and "batch_operations" in str(error.details())
        client.disconnect()


@pytest.mark.parametrize("end", ["release", "close"])
def test_results_are_gone_when_nobody_holds_them(server: Server, client: Computing, end: str) -> None:
    client.where(1, scope("t"), ["n > 1"])
    client.where(2, export(1), ["n > 2"])
    (first, second) = sorted(server.statistics().results, key=lambda entry: -entry.rows)
    assert (first.operation, first.rows, first.tables) == ("where", 4, ("t",))
    assert (second.operation, second.rows, second.tables) == ("where", 3, ("t",))
    if end == "release":
        client.release(1)
        client.release(2)
    else:
        client.close()

    def is_gone() -> bool:
        gc.collect()
        return not server.statistics().results and not list(server.table("t").children)

    until(is_gone)


def test_equal_operations_of_two_clients_are_one(server: Server, client: Computing) -> None:
    other = Computing(place(server))
    client.where(1, scope("t"), ["n > 1"])
    other.where(1, scope("t"), ["n > 1"])
    assert len(server.statistics().results) == 1
    client.close()
    assert list(numbers(other.read(1))) == [5, 4, 2, 3]
    other.disconnect()


def test_a_client_that_is_gone_while_its_table_starts_leaves_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, leave = threading.Event(), threading.Event()
    started: list[Callable[[], bool]] = []
    compute = Results.compute

    def watched(results: Results, principal: Any, operation: Any, inputs: Any, is_gone: Callable[[], bool]) -> Any:
        started.append(is_gone)
        return compute(results, principal, operation, inputs, is_gone)

    monkeypatch.setattr(Results, "compute", watched)

    def slow(n: pa.Array) -> pa.Array:
        entered.set()
        leave.wait(30)
        return n

    server.functions.register("slow", slow, returns=pa.int64())
    client = Computing(place(server))
    call = client.start(
        "Update",
        table_pb2.SelectOrUpdateRequest(result_id=result(1), source_id=scope("t"), column_specs=["m = slow(n)"]),
    )
    assert entered.wait(30)
    call.cancel()
    client.disconnect()
    server.append_table("t", SCHEMA).append({"n": [9], "sym": ["z"]})  # publishers do not wait for it
    until(started[0])  # the server has noticed
    leave.set()

    def is_gone() -> bool:
        gc.collect()
        return not server.statistics().results and not list(server.table("t").children)

    until(is_gone)


def test_what_failed_leaves_nothing_of_what_it_worked_on(server: Server, client: Computing) -> None:
    """Its error is told later, and its arrays are not kept for that."""
    rows = pa.table({"n": list(range(200_000)), "sym": ["x"] * 200_000})
    server.append_table("t", SCHEMA).append(rows)
    server.functions.register("wrong", lambda n: n.slice(1), returns=pa.int64())
    before = pa.total_allocated_bytes()
    for number in range(1, 11):
        request = table_pb2.SelectOrUpdateRequest(
            result_id=result(number), source_id=scope("t"), column_specs=["a = n * 2", "m = wrong(n)"]
        )
        with pytest.raises(grpc.RpcError):
            client.call("Update", request)
        with pytest.raises(grpc.RpcError, match=f"Export {number} was not made"):
            client.where(100, export(number), ["n > 1"])

    def is_gone() -> bool:
        gc.collect()
        return bool(pa.total_allocated_bytes() < before + (1 << 20))

    until(is_gone)


def test_an_export_that_lost_its_name_gets_no_other(server: Server, client: Computing) -> None:
    request = proto.FetchTableRequest(source_id=scope("t"), result_id=result(1))
    client.call("FetchTable", request)
    server.drop("t")
    with pytest.raises(grpc.RpcError, match="is, or was, served as 't'"):
        client.bind(1, "other")
    assert server.tables() == ()


def test_results_need_the_rights_on_what_they_show() -> None:
    roles = {"all": Role(["*"], ["read", "list"]), "a": Role(["t"], ["read", "list"], where="sym == 'a'")}

    def principal(credentials: Credentials) -> Principal:
        return Principal(credentials.secret, roles=[credentials.secret])

    with Server(deephaven_port=0, token=principal, roles=roles) as server:
        fill(server)
        server.append_table("secret", SCHEMA)
        part = Computing(place(server), "Bearer a")
        part.where(1, scope("t"), ["n > 0"])
        assert list(numbers(part.read(1))) == [5, 4]
        with pytest.raises(grpc.RpcError) as caught:
            part.where(2, scope("secret"), ["n > 0"])
        assert "There is no table 'secret'" in str(caught.value.details())
        server.reload(roles={"all": roles["all"], "a": Role(["other"], ["read"])})
        with pytest.raises(Exception, match="There is no table 't'"):
            part.read(1)
        part.disconnect()


def test_a_stream_on_a_result_ends_with_the_right_to_read() -> None:
    roles = {"reader": Role(["t"], ["read", "list"])}

    def principal(credentials: Credentials) -> Principal:
        return Principal(credentials.secret, roles=["reader"])

    with Server(deephaven_port=0, token=principal, roles=roles) as server:
        fill(server)
        client = Computing(place(server), "Bearer x")
        client.where(1, scope("t"), ["n > 3"])
        with client.follow(1) as follower:
            follower.wait(lambda follower: len(follower.rows) == 2)
            server.reload(roles={"reader": Role(["other"], ["read"])})
            assert "There is no table 't'" in str(follower.wait_ended())
        client.disconnect()
