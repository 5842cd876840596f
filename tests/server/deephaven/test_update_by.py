"""``update_by`` of Deephaven's clients: every function, what a request leaves out, and what makes no sense."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from barrage_proto import table_pb2 as proto
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.deephaven.update_by import update_by_of
from barrage_server.errors import BarrageError, InvalidRequestError, UnsupportedOperationError
from barrage_server.plan import updateby
from barrage_server.plan.update_by import BadDataBehavior, DeltaControl, OperationControl, UpdateByOperation
from barrage_server.server import Server
from tests.server.deephaven.computing import Computing, Operation, export, numbers, result, scope

Asked = proto.UpdateByRequest.UpdateByOperation
SECOND = 1_000_000_000


def asked(pairs: list[str], **spec: Any) -> Any:
    """An operation of a request; ``spec`` is its one function."""
    return Asked(column={"spec": spec, "match_pairs": pairs})


def ticks(number: float) -> Any:
    return {"ticks": {"ticks": number}}


def time(column: str = "ts", **window: Any) -> Any:
    return {"time": {"column": column, **window}}


ROWS = {"reverse_window_scale": ticks(3), "forward_window_scale": ticks(-1)}
SECONDS = {"reverse_window_scale": time(duration_string="PT3s"), "forward_window_scale": time(nanos=-SECOND)}
OPTIONS = {"on_null_value": proto.RESET, "on_nan_value": proto.POISON}
CONTROL = OperationControl(BadDataBehavior.RESET, BadDataBehavior.POISON)
ROLLING = {
    "sum": "sum",
    "group": "group",
    "avg": "avg",
    "min": "min",
    "max": "max",
    "product": "prod",
    "count": "count",
    "std": "std",
}
MOVING = {"ema": "ema", "ems": "ems", "em_min": "emmin", "em_max": "emmax", "em_std": "emstd"}
EXPECTED: list[tuple[Any, UpdateByOperation]] = [
    (asked(["s = a", "b"], sum={}), updateby.cum_sum(["s = a", "b"])),
    (asked(["a"], min={}), updateby.cum_min("a")),
    (asked(["a"], max={}), updateby.cum_max("a")),
    (asked(["a"], product={}), updateby.cum_prod("a")),
    (asked([], fill={}), updateby.forward_fill([])),
    (asked(["a"], delta={}), updateby.delta("a")),
    (
        asked(["a"], delta={"options": {"null_behavior": proto.VALUE_DOMINATES}}),
        updateby.delta("a", DeltaControl.VALUE_DOMINATES),
    ),
    (
        asked([], count_where={"result_column": "n", "filters": ["a > 1", "b > 1"]}),
        updateby.cum_count_where("n", ["a > 1", "b > 1"]),
    ),
    *(
        (asked(["a"], **{kind: {"window_scale": ticks(2.5)}}), getattr(updateby, f"{name}_tick")(2.5, "a"))
        for kind, name in MOVING.items()
    ),
    *(
        (
            asked(["a"], **{kind: {"window_scale": time(nanos=SECOND), "options": OPTIONS}}),
            getattr(updateby, f"{name}_time")("ts", SECOND, "a", CONTROL),
        )
        for kind, name in MOVING.items()
    ),
    *(
        (asked(["a"], **{f"rolling_{kind}": ROWS}), getattr(updateby, f"rolling_{name}_tick")("a", 3, -1))
        for kind, name in ROLLING.items()
    ),
    *(
        (
            asked(["a"], **{f"rolling_{kind}": SECONDS}),
            getattr(updateby, f"rolling_{name}_time")("ts", "a", 3 * SECOND, -SECOND),
        )
        for kind, name in ROLLING.items()
    ),
    (asked(["a"], rolling_wavg={**ROWS, "weight_column": "w"}), updateby.rolling_wavg_tick("w", "a", 3, -1)),
    (
        asked(["a"], rolling_wavg={**SECONDS, "weight_column": "w"}),
        updateby.rolling_wavg_time("ts", "w", "a", "PT3s", -SECOND),
    ),
    (
        asked(["a"], rolling_formula={**ROWS, "formula": "sum(e)", "param_token": "e"}),
        updateby.rolling_formula_tick("sum(e)", "e", "a", 3, -1),
    ),
    (
        asked([], rolling_formula={**SECONDS, "formula": "x = sum(a)"}),
        updateby.rolling_formula_time("ts", "x = sum(a)", rev_time="PT3s", fwd_time=-SECOND),
    ),
    (
        asked([], rolling_count_where={**ROWS, "result_column": "n", "filters": ["a > 1"]}),
        updateby.rolling_count_where_tick("n", "a > 1", 3, -1),
    ),
    (
        asked([], rolling_count_where={**SECONDS, "result_column": "n", "filters": ["a > 1"]}),
        updateby.rolling_count_where_time("ts", "n", "a > 1", "PT3s", -SECOND),
    ),
    (asked(["a"], rolling_sum={"reverse_window_scale": ticks(3)}), updateby.rolling_sum_tick("a", 3)),
]


@pytest.mark.parametrize(("message", "expected"), EXPECTED, ids=[f"{entry!r:.70}" for _, entry in EXPECTED])
def test_each_function_is_that_of_a_plan(message: Any, expected: UpdateByOperation) -> None:
    found = update_by_of(message)
    assert found == expected
    assert repr(found) == repr(expected)


def test_every_function_of_a_plan_can_be_asked_for() -> None:
    """In one way by ticks, and in one by time, where there are two."""
    found = {(entry.function, entry.time_column is None) for _, entry in EXPECTED}
    made = {name.removesuffix("_tick").removesuffix("_time") for name in updateby.__all__}
    assert {function for function, _ in found} == made
    assert len(found) == len(updateby.__all__)


NO_SCALE = "A window of update_by says neither rows nor a time."
WRONG: list[tuple[Any, str]] = [
    (Asked(), "An operation of update_by is empty, or of a kind that is not known here."),
    (asked(["a"]), "An operation of update_by is empty"),
    (asked([], count_where={"filters": ["a > 1"]}), "col must not be empty."),
    (asked(["a"], delta={"options": {"null_behavior": 9}}), "null_behavior has no behaviour of number 9."),
    (asked(["a"], ema={}), NO_SCALE),
    (asked(["a"], ema={"window_scale": time()}), NO_SCALE),
    (asked(["a"], ema={"window_scale": ticks(0)}), "decay_ticks must be a number of rows above 0, not 0.0."),
    (asked(["a"], ema={"window_scale": ticks(math.nan)}), "decay_ticks must be a number, not nan."),
    (asked(["a"], ema={"window_scale": ticks(math.inf)}), "decay_ticks must be a number, not inf."),
    (asked(["a"], ema={"window_scale": time("", nanos=5)}), "ts_col must not be empty."),
    (asked(["a"], ema={"window_scale": time(nanos=0)}), "decay_time must be at least 1 ns, not 0."),
    (asked(["a"], ema={"window_scale": time(duration_string="")}), "decay_time must be nanoseconds or a text such as"),
    (asked(["a"], ema={"window_scale": time(duration_string="P" * 10_000)}), "decay_time must be nanoseconds or a"),
    (
        asked(["a"], ema={"window_scale": ticks(1), "options": {"on_nan_value": 7}}),
        "on_nan_value has no behaviour of number 7.",
    ),
    (asked(["a"], rolling_sum={}), NO_SCALE),
    (asked(["a"], rolling_sum={"forward_window_scale": ticks(1)}), NO_SCALE),
    (asked(["a"], rolling_sum={"reverse_window_scale": ticks(1.5)}), "rev_ticks must be a whole number of rows"),
    (asked(["a"], rolling_sum={"reverse_window_scale": ticks(math.nan)}), "rev_ticks must be a whole number of rows"),
    (asked(["a"], rolling_sum={"reverse_window_scale": ticks(-math.inf)}), "rev_ticks must be a whole number of rows"),
    (asked(["a"], rolling_sum={"reverse_window_scale": ticks(1e300)}), "rev_ticks must be at most 2147483647, not 1"),
    (asked(["a"], rolling_sum={"reverse_window_scale": ticks(0)}), "The window has no rows"),
    (asked(["a"], rolling_sum={"reverse_window_scale": ticks(-3)}), "The window has no rows"),
    (
        asked(["a"], rolling_sum={"reverse_window_scale": time(nanos=1), "forward_window_scale": ticks(1)}),
        "A window is measured by rows, or by one column of instants, in both directions.",
    ),
    (
        asked(
            ["a"],
            rolling_sum={"reverse_window_scale": time(nanos=1), "forward_window_scale": time("other", nanos=1)},
        ),
        "A window is measured by rows, or by one column of instants",
    ),
    (
        asked(["a"], rolling_sum={"reverse_window_scale": time(nanos=1), "forward_window_scale": time(nanos=-2)}),
        "The window ends before it begins",
    ),
    (
        asked(["a"], rolling_sum={"reverse_window_scale": time(nanos=-(1 << 63))}),
        "rev_time must be at least -4611686018427387903",
    ),
    (asked(["a"], rolling_wavg=ROWS), "wcol must not be empty."),
    (asked(["a"], rolling_formula=ROWS), "cols must be left out without a formula_param"),
    (asked([], rolling_formula=ROWS), "formula must not be empty."),
    (asked([], rolling_count_where={**ROWS, "filters": ["a > 1"]}), "col must not be empty."),
]


@pytest.mark.parametrize(("message", "text"), WRONG, ids=[f"{number} {text}" for number, (_, text) in enumerate(WRONG)])
def test_what_makes_no_sense_is_refused(message: Any, text: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        update_by_of(message)
    assert text in str(raised.value)


@pytest.mark.parametrize("name", ["on_null_time", "on_negative_delta_time", "on_zero_delta_time"])
def test_behaviour_that_there_is_not_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=f"The only behaviour of {name} here is"):
        update_by_of(asked(["a"], ema={"window_scale": ticks(2), "options": {name: proto.RESET}}))


def test_behaviour_that_there_is_may_be_said() -> None:
    said = {"on_null_time": proto.SKIP, "on_negative_delta_time": proto.THROW, "on_zero_delta_time": proto.SKIP}
    message = asked(["a"], ema={"window_scale": ticks(2), "options": {**said, "on_null_value": proto.THROW}})
    assert update_by_of(message).control == OperationControl(on_null=BadDataBehavior.THROW)


@given(st.sampled_from([message for message, _ in [*EXPECTED, *WRONG]]), st.data())
def test_damaged_operations_are_read_or_refused(message: Any, data: st.DataObject) -> None:
    body = bytearray(message.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        if body:
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        damaged = Asked.FromString(bytes(body))
    except DecodeError:  # such a request never gets here
        return
    try:
        assert isinstance(update_by_of(damaged), UpdateByOperation)
    except BarrageError as error:
        assert str(error)


@pytest.fixture
def client() -> Iterator[Computing]:
    with Server(deephaven_port=0) as server:
        server.append_table("t", {"n": "int64", "sym": "string"}).append({"n": [5, 1, 4], "sym": ["a", "b", "a"]})
        made = Computing((server.deephaven_uri or "").removeprefix("dh+plain://"))
        yield made
        made.disconnect()


def request(number: int, source: Any, *operations: Any, by: tuple[str, ...] = ()) -> proto.UpdateByRequest:
    return proto.UpdateByRequest(
        result_id=result(number), source_id=source, operations=operations, group_by_columns=list(by)
    )


def test_a_call_gives_a_table(client: Computing) -> None:
    (creation,) = client.call("UpdateBy", request(1, scope("t"), asked(["n"], sum={}), by=("sym",)))
    assert creation.success
    assert list(numbers(client.read(1))) == [5, 1, 9]


def test_a_batch_refers_to_it(client: Computing) -> None:
    answers, error = client.batch(
        Operation(update_by=request(1, scope("t"), asked(["n"], sum={}))),
        Operation(tail=proto.HeadOrTailRequest(result_id=result(2), source_id=export(1), num_rows=1)),
    )
    assert error is None
    assert [answer.success for answer in answers] == [True, True]
    assert list(numbers(client.read(2))) == [10]


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (request(1, scope("t")), "at least one operation"),
        (request(1, scope("t"), Asked()), "An operation of update_by is empty"),
        (request(1, scope("t"), asked(["nope"], sum={})), "nope"),
        (request(1, scope("t"), asked(["sym"], sum={})), "sym"),
        (request(1, scope("t"), asked(["n"], sum={}), by=("nope",)), "nope"),
        (request(1, scope("t"), asked(["x = n"], sum={}), asked(["x = n"], max={})), "x"),
        (request(1, scope("t"), asked(["n"], ema={"window_scale": time("n", nanos=-5)})), "decay_time"),
        (proto.UpdateByRequest(result_id=result(1), operations=[asked(["n"], sum={})]), "which table it is for"),
    ],
)
def test_a_request_that_makes_no_sense_leaves_nothing(client: Computing, operation: Any, text: str) -> None:
    answers, error = client.batch(Operation(update_by=operation))
    assert error is not None and text in str(error.details())
    assert [answer.success for answer in answers] == [False]
