"""Plans as JSON: what is written is read again, and whatever else arrives is refused with its place."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.fixed_limits import PLAN_BYTES, PLAN_INPUTS, PLAN_OPERATIONS, PLAN_VALUES
from barrage_server.plan import updateby
from barrage_server.plan.aggregation import Aggregation
from barrage_server.plan.condition import Column, Compare, Comparison, Not
from barrage_server.plan.json_form import (
    plan_from_json,
    plan_to_json,
    verbs,
)
from barrage_server.plan.operation import AggregateBy, EmptyTable, Head, Merge, Operation, Tail, UpdateBy, Where
from barrage_server.plan.plan import NamedTable, Plan, Result, Step, TicketTable
from barrage_server.plan.update_by import BadDataBehavior, OperationControl
from barrage_server.typed_json import KIND, fields_of
from tests.plan.plans import plans

TRADES = {"table": "trades"}
HEAD = {"verb": "head", "inputs": [TRADES], "rows": 3}


def where(*conditions: object) -> dict[str, object]:
    return {"verb": "where", "inputs": [TRADES], "conditions": list(conditions)}


def moved(**fields: object) -> dict[str, object]:
    return {"verb": "update_by", "inputs": [TRADES], "operations": [fields]}


def plan_of(*operations: object, **others: object) -> bytes:
    return json.dumps({"operations": list(operations), **others}).encode()


@settings(max_examples=100)  # a plan is drawn in a tenth of a second
@given(plans())
def test_what_is_written_is_read(plan: Plan) -> None:
    found = plan_from_json(plan_to_json(plan))
    assert repr(found) == repr(plan)  # the text tells 1, 1.0 and True apart


def test_the_form_is_the_documented_one() -> None:
    large = Not(Compare(Comparison.LESS, Column("price"), 100.0, ignores_case=True))
    plan = Plan(
        (
            Step(Where(("size > 0", large)), (NamedTable("trades"),)),
            Step(AggregateBy((Aggregation("sum", ("volume = size",)),), ("sym",)), (Result(0),)),
            Step(Merge(), (Result(1), TicketTable("r/abc"))),
        ),
        (1, 2),
    )
    assert json.loads(plan_to_json(plan)) == {
        "operations": [
            {
                "verb": "where",
                "inputs": [{"table": "trades"}],
                "conditions": [
                    "size > 0",
                    {
                        "kind": "not",
                        "condition": {
                            "kind": "compare",
                            "comparison": "<",
                            "left": {"kind": "column", "name": "price"},
                            "right": 100.0,
                            "ignores_case": True,
                        },
                    },
                ],
            },
            {
                "verb": "agg_by",
                "inputs": [0],
                "aggregations": [{"function": "sum", "columns": ["volume = size"]}],
                "by": ["sym"],
            },
            {"verb": "merge", "inputs": [1, {"ticket": "r/abc"}]},
        ],
        "outputs": [1, 2],
    }


def test_the_form_of_an_update_by_is_the_documented_one() -> None:
    reset = OperationControl(on_null=BadDataBehavior.RESET)
    operations = updateby.ema_time("t", "PT1S", "a", reset), updateby.rolling_sum_tick(["s = a"], 3)
    plan = Plan((Step(UpdateBy(operations, ("k",)), (NamedTable("trades"),)),), (0,))
    assert json.loads(plan_to_json(plan))["operations"] == [
        {
            "verb": "update_by",
            "inputs": [{"table": "trades"}],
            "operations": [
                {
                    "function": "ema",
                    "columns": ["a"],
                    "time_column": "t",
                    "decay": 1_000_000_000,
                    "control": {"on_null": "reset"},
                },
                {"function": "rolling_sum", "columns": ["s = a"], "before": 3},
            ],
            "by": ["k"],
        }
    ]
    assert plan_from_json(plan_to_json(plan)) == plan


def test_without_outputs_the_last_operation_is_asked_for() -> None:
    plan = plan_from_json(plan_of(HEAD, {"verb": "tail", "inputs": [0], "rows": 1}))
    assert plan == Plan((Step(Head(3), (NamedTable("trades"),)), Step(Tail(1), (Result(0),))), (1,))


def test_a_number_may_be_written_as_an_integer() -> None:
    plan = plan_from_json(plan_of({"verb": "head_pct", "inputs": [TRADES], "share": 1}))
    assert repr(plan.steps[0].operation) == "HeadShare(share=1.0)"


@pytest.mark.parametrize("kind", verbs().values(), ids=verbs())
def test_every_operation_has_a_form(kind: type[Operation]) -> None:
    """No field has a type without a form, or the name of what every operation has."""
    assert not {"verb", "inputs", KIND} & set(fields_of(kind))


WRONG: list[tuple[bytes, str]] = [
    (b"", "The plan is not JSON: Expecting value at character 0."),
    (b"\xff", "The plan is not UTF-8 text: byte 0 is wrong."),
    (b'{"operations": [', "The plan is not JSON"),
    (b"[]", "A plan is a JSON object with 'operations', not []."),
    (b"{}", "operations must be a list with at least one operation, not None."),
    (b'{"operations": []}', "operations must be a list with at least one operation, not []."),
    (b'{"operations": {}}', "operations must be a list"),
    (b'{"operations": [], "operations": []}', "a field twice: it has 'operations'."),
    (plan_of(HEAD, output=[0]), "The plan has an unknown field 'output'."),
    (plan_of(5), "operations[0] must be an object with 'verb', not 5."),
    (plan_of({}), "operations[0].verb is missing."),
    (plan_of({**HEAD, "verb": "heads"}), "operations[0].verb is 'heads'. Did you mean 'head'?"),
    (plan_of({**HEAD, "verb": ["head"]}), "operations[0].verb is ['head']."),
    (plan_of({**HEAD, "row": 3}), "operations[0] has an unknown field 'row'. Did you mean 'rows'?"),
    (plan_of({"verb": "head", "inputs": [TRADES]}), "operations[0].rows is missing; it must be a 64-bit integer."),
    (plan_of({**HEAD, "rows": "3"}), "operations[0].rows must be a 64-bit integer, not '3'."),
    (plan_of({**HEAD, "rows": 3.0}), "operations[0].rows must be a 64-bit integer, not 3.0."),
    (plan_of({**HEAD, "rows": True}), "operations[0].rows must be a 64-bit integer, not True."),
    (plan_of({**HEAD, "rows": None}), "operations[0].rows must be a 64-bit integer, not None."),
    (plan_of({**HEAD, "rows": 1 << 63}), "operations[0].rows must be a 64-bit integer, not 9223372036854775808."),
    (plan_of(HEAD).replace(b"3}", b"1" * 5000 + b"}"), "a number of 5000 digits"),
    (plan_of({"verb": "head_pct", "inputs": [TRADES], "share": math.nan}), "the number NaN, which is not JSON"),
    (plan_of({"verb": "head_pct", "inputs": [TRADES], "share": -math.inf}), "the number -Infinity"),
    (plan_of({"verb": "head_pct", "inputs": [TRADES], "share": 7}).replace(b"7", b"1e999"), "must be a finite number"),
    (plan_of({"verb": "view", "inputs": [TRADES], "columns": ["a", 1]}), "operations[0].columns[1] must be a string"),
    (plan_of({"verb": "view", "inputs": [TRADES], "columns": "a"}), "operations[0].columns must be a list, not 'a'."),
    (plan_of({"verb": "view", "inputs": [TRADES], "columns": ["\ud800"]}), "operations[0].columns[0] has half of a"),
    (plan_of(where({})), "operations[0].conditions[0].kind is missing; it must be one of 'compare'"),
    (plan_of(where({"kind": "is_nul"})), "operations[0].conditions[0].kind is 'is_nul'; it must be one of"),
    (plan_of(where({"kind": {}})), "operations[0].conditions[0].kind is {}"),
    (plan_of(where(5)), "operations[0].conditions[0] must be a string or an object with 'kind', not 5."),
    (
        plan_of(where({"kind": "is_null", "column": {"name": "a", "kind": "instant"}})),
        "operations[0].conditions[0].column.kind is 'instant'; it must be one of 'column'.",
    ),
    (
        plan_of(where({"kind": "compare", "comparison": "~", "left": 1, "right": 2})),
        "operations[0].conditions[0].comparison must be one of '<', '<='",
    ),
    (plan_of(moved()), "operations[0].operations[0].function is missing; it must be a string."),
    (plan_of(moved(function="ema", decay="2")), "operations[0].operations[0].decay must be a finite number or null"),
    (plan_of(moved(function="ema", before=1.5)), "operations[0].operations[0].before must be a 64-bit integer, not"),
    (
        plan_of(moved(function="ema", control={"on_null": "stop"})),
        "operations[0].operations[0].control.on_null must be one of 'skip', 'reset', 'poison', 'throw', not 'stop'.",
    ),
    (plan_of(moved(function="ema", control=3)), "operations[0].operations[0].control must be an object, not 3."),
    (plan_of({**HEAD, "inputs": 0}), "operations[0].inputs must be a list, not 0."),
    (plan_of({**HEAD, "inputs": []}), "operations[0].inputs has 0 tables, and head takes 1."),
    (plan_of({**HEAD, "inputs": [TRADES, TRADES]}), "operations[0].inputs has 2 tables, and head takes 1."),
    (plan_of({"verb": "merge", "inputs": []}), "operations[0].inputs has 0 tables, and merge takes at least 1."),
    (plan_of({"verb": "empty_table", "inputs": [TRADES], "rows": 1}), "and empty_table takes 0."),
    (plan_of({**HEAD, "inputs": ["trades"]}), "operations[0].inputs[0] must be the index of an operation"),
    (plan_of({**HEAD, "inputs": [{"table": ""}]}), "operations[0].inputs[0] must be the index of an operation"),
    (plan_of({**HEAD, "inputs": [{"table": "a", "ticket": "b"}]}), "operations[0].inputs[0] must be"),
    (plan_of({**HEAD, "inputs": [False]}), "operations[0].inputs[0] must be the index of an operation"),
    (plan_of({**HEAD, "inputs": [0]}), "operations[0].inputs[0] is 0: it must be the index of an operation before"),
    (plan_of({**HEAD, "inputs": [1]}, {**HEAD, "inputs": [0]}), "operations[0].inputs[0] is 1: it must be"),
    (plan_of(HEAD, {**HEAD, "inputs": [-1]}), "operations[1].inputs[0] is -1: it must be the index of an operation"),
    (plan_of(HEAD, outputs=[1]), "outputs must be indices of the 1 operations, counted from 0, not 1."),
    (plan_of(HEAD, outputs=[-1]), "counted from 0, not -1."),
    (plan_of(HEAD, outputs=[0, 0]), "outputs must not name an operation twice."),
    (plan_of(HEAD, outputs=[]), "outputs must name at least one operation."),
    (plan_of(HEAD, outputs=0), "outputs must be a list of indices of operations, not 0."),
    (plan_of(HEAD, outputs=[True]), "outputs must be a list of indices of operations"),
]


@pytest.mark.parametrize(("data", "text"), WRONG, ids=[text[:60] for _, text in WRONG])
def test_what_is_wrong_is_refused_with_its_place(data: bytes, text: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        plan_from_json(data)
    assert text in str(raised.value)


DEEP = 100_000
LARGE: list[tuple[bytes, str]] = [
    (b" " * (PLAN_BYTES.most + 1), "plan_bytes"),
    (plan_of(*[HEAD] * (PLAN_OPERATIONS.most + 1)), "plan_operations"),
    (plan_of({"verb": "merge", "inputs": [TRADES] * (PLAN_INPUTS.most + 1)}), "plan_inputs"),
    (plan_of({"verb": "view", "inputs": [TRADES], "columns": ["a"] * PLAN_VALUES.most}), "plan_values"),
    (b"[" * DEEP, "json_depth"),
    (b'{"operations":' * 50_000, r"nested too deep: 160 levels .* \(json_depth\)"),
]


@pytest.mark.parametrize(("data", "text"), LARGE, ids=[text for _, text in LARGE])
def test_what_is_too_large_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(LimitError, match=text):
        plan_from_json(data)


def test_conditions_nested_too_deep_are_refused() -> None:
    condition: dict[str, object] = {"kind": "is_null", "column": {"name": "a"}}
    for _ in range(200):
        condition = {"kind": "not", "condition": condition}
    with pytest.raises(LimitError, match=r"operations\[0\] is nested too deep.*\(json_depth\)"):
        plan_from_json(plan_of(where(condition)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(list(verbs())),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["kind", "verb", "inputs", "columns", "rows", "table", "name"]), inner)
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=3), JSON)
def test_any_json_is_read_or_refused(operations: list[Any], outputs: Any) -> None:
    for document in ({"operations": operations}, {"operations": operations, "outputs": outputs}, outputs):
        try:
            plan_from_json(json.dumps(document).encode())
        except (InvalidRequestError, LimitError) as error:
            assert str(error)


@given(plans(), st.data())
def test_a_plan_with_other_values_is_read_or_refused(plan: Plan, data: st.DataObject) -> None:
    """One value anywhere in the plan is replaced."""
    document = json.loads(plan_to_json(plan))
    places = list(places_of(document))
    holder, name = data.draw(st.sampled_from(places))
    holder[name] = data.draw(JSON)
    try:
        found = plan_from_json(json.dumps(document).encode())
    except (InvalidRequestError, LimitError) as error:
        assert str(error)
    else:
        assert repr(plan_from_json(plan_to_json(found))) == repr(found)


@given(plans(), st.data())
def test_damaged_text_is_read_or_refused(plan: Plan, data: st.DataObject) -> None:
    text = bytearray(plan_to_json(plan))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(text)))
    for damaged in (bytes(text), bytes(text[:cut])):
        try:
            plan_from_json(damaged)
        except (InvalidRequestError, LimitError) as error:
            assert str(error)


def places_of(value: Any) -> Any:
    """Every place of a JSON value, as its holder and its key there."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from places_of(inner)


UNWRITABLE: list[tuple[Operation, str]] = [
    (Head("3"), "operations[0].rows must be a 64-bit integer, not '3'."),  # type: ignore[arg-type]
    (Where((Compare(Comparison.LESS, Column("a"), math.nan),)), "operations[0].conditions[0].right must be"),
    (Where((object(),)), "operations[0].conditions[0] must be a string or an object with 'kind', not <object"),  # type: ignore[arg-type]
    (Where(["a"]), "operations[0].conditions must be a list, not ['a']."),  # type: ignore[arg-type]
    (Where(("\ud800",)), "operations[0].conditions[0] has half of a pair of surrogates"),
]


@pytest.mark.parametrize(("operation", "text"), UNWRITABLE, ids=[text[:50] for _, text in UNWRITABLE])
def test_what_has_no_form_is_not_written(operation: Operation, text: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        plan_to_json(Plan((Step(operation, (NamedTable("t"),)),), (0,)))
    assert text in str(raised.value)


def test_a_plan_too_large_is_not_written() -> None:
    with pytest.raises(LimitError, match="plan_operations"):
        plan_to_json(Plan((Step(EmptyTable(1)),) * (PLAN_OPERATIONS.most + 1), (0,)))
    with pytest.raises(LimitError, match="plan_bytes"):
        plan_to_json(Plan((Step(Where(("a" * PLAN_BYTES.most,)), (NamedTable("t"),)),), (0,)))


def test_the_tables_of_a_plan_are_named_once() -> None:
    plan = plan_from_json(plan_of({"verb": "merge", "inputs": [TRADES, {"table": "a"}, TRADES, {"ticket": "b"}]}))
    assert plan.tables == ("trades", "a")
