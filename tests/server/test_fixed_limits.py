"""Limits that no setting changes: where a user reaches one, the error has its class and its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import pyarrow.flight as fl
import pytest

import barrage_server as bs
from barrage_server import agg, updateby
from barrage_server.errors import LimitError
from barrage_server.flight.errors import from_flight
from barrage_server.plan.condition import All, Column, Condition, Contains, IsNull, Not, OneOf
from tests.server.test_actions import act

IS_NULL: Condition = IsNull(Column("x"))


def nested(levels: int) -> Condition:
    tree = IS_NULL
    for _ in range(levels - 1):
        tree = Not(tree)
    return tree


def twice(levels: int) -> Condition:
    """A tree that shares its parts, which has 2 to the power of the levels of them."""
    tree = IS_NULL
    for _ in range(levels):
        tree = All((tree, tree))
    return tree


def negative(levels: int) -> Any:
    return reduce(lambda inner, _: -inner, range(levels), bs.col("x"))


BEYOND: list[tuple[str, Callable[[Any], Any]]] = [
    ("formula_characters", lambda table: table.update("y = x" + " " * 10_000)),
    ("formula_characters", lambda table: table.where("x > 1" + " " * 10_000)),
    ("formula_characters", lambda table: table.where(bs.col("x").is_in(list(range(10_000))))),
    ("formula_parts", lambda table: table.update("y = " + "+".join(["x"] * 501))),
    ("formula_parts", lambda table: table.where("+".join(["x"] * 501) + " > 1")),
    ("formula_parts", lambda table: table.agg_by(agg.formula("y = sum(" + "+".join(["x"] * 501) + ")"))),
    ("formula_depth", lambda table: table.update("y = " + "(" * 64 + "x" + ")" * 64)),
    ("formula_depth", lambda table: table.where("-" * 64 + "x > 1")),
    ("formula_depth", lambda table: table.where("!" * 5_000 + "(x > 1)")),
    ("formula_depth", lambda table: table.where("x > 1 ? true : " * 64 + "false")),
    ("formula_depth", lambda table: table.update("y = " + "abs(" * 64 + "x" + ")" * 64)),
    ("formula_depth", lambda table: table.where(negative(64) > 1)),
    ("operation_results", lambda table: table.update([f"y{number} = x" for number in range(10_001)])),
    ("operation_results", lambda table: table.agg_by([agg.sum_([f"y{number} = x" for number in range(10_001)])])),
    ("operation_results", lambda table: table.update_by(updateby.cum_sum([f"y{n} = x" for n in range(10_001)]))),
    ("condition_depth", lambda table: table.where(nested(65))),
    ("condition_depth", lambda table: table.where(nested(50_000))),
    ("condition_depth", lambda table: table.agg_by(agg.count_where("n", nested(65)))),
    ("condition_parts", lambda table: table.where(All((IS_NULL,) * 1_000))),
    ("condition_parts", lambda table: table.where(twice(60))),
    ("condition_candidates", lambda table: table.where(OneOf(Column("x"), tuple(range(100_001))))),
    ("condition_text_characters", lambda table: table.where(Contains(Column("s"), "a" * 10_001))),
    ("view_depth", lambda table: reduce(lambda one, _: one.update_view("x = x + 1"), range(65), table)),
]
WITHIN: list[Callable[[Any], Any]] = [
    lambda table: table.update("y = x" + " " * (10_000 - len("y = x"))),
    lambda table: table.update("y = " + "+".join(["x"] * 500)),
    lambda table: table.update("y = " + "(" * 63 + "x" + ")" * 63),
    lambda table: table.where(nested(64)),
    lambda table: table.where(All((IS_NULL,) * 999)),
    lambda table: reduce(lambda one, _: one.update_view("x = x + 1"), range(64), table),
]


def rows() -> bs.AppendTable:
    table = bs.AppendTable(bs.UpdateGraph(), "t", {"x": "int64", "s": "string"})
    table.append({"x": [1, 2], "s": ["a", "b"]})
    return table


@pytest.fixture(scope="module")
def client() -> Iterator[bs.Client]:
    with bs.Server() as server, bs.connect(server.uri) as client:
        server.append_table("t", {"x": "int64", "s": "string"}).append({"x": [1, 2], "s": ["a", "b"]})
        yield client


@pytest.mark.parametrize(("name", "call"), BEYOND, ids=[f"{n} {name}" for n, (name, _) in enumerate(BEYOND)])
def test_beyond_a_limit_its_name_is_told(name: str, call: Callable[[Any], Any]) -> None:
    with pytest.raises(LimitError, match=rf"\({name}\)"):
        call(rows())


@pytest.mark.parametrize("call", WITHIN)
def test_what_a_limit_allows_is_computed(call: Callable[[Any], Any]) -> None:
    assert call(rows()).to_arrow().num_rows <= 2


@pytest.mark.parametrize(("name", "call"), BEYOND, ids=[f"{n} {name}" for n, (name, _) in enumerate(BEYOND)])
def test_a_client_is_told_the_same(client: bs.Client, name: str, call: Callable[[Any], Any]) -> None:
    """Before a plan is sent, or by the server. A plan has no more values than a condition may have candidates."""
    of_plans = {"condition_candidates": "plan_values"}
    with pytest.raises(LimitError, match=rf"\({of_plans.get(name, name)}\)"):
        call(client.table("t")).to_arrow()


HEAD = {"verb": "head", "inputs": [{"table": "t"}], "rows": 1}
PLANS = [
    ("plan_operations", json.dumps({"operations": [HEAD] * 1_001})),
    ("plan_inputs", json.dumps({"operations": [{"verb": "merge", "inputs": [{"table": "t"}] * 10_001}]})),
    ("plan_values", json.dumps({"operations": [{"verb": "view", "columns": ["x"] * 100_000}]})),
    ("plan_bytes", json.dumps({"operations": [HEAD]}) + " " * (1 << 20)),
    ("json_depth", '{"operations":' * 50_000),
    (
        "json_depth",
        '{"operations":[{"verb":"where","conditions":[' + '{"kind":"not","condition":' * 200 + "1" + "}" * 200 + "]}]}",
    ),
]


@pytest.mark.parametrize(("name", "plan"), PLANS, ids=[f"{n} {name}" for n, (name, _) in enumerate(PLANS)])
@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
def test_a_plan_beyond_a_limit_is_told_its_name(front: str, name: str, plan: str) -> None:
    with bs.Server(front=front) as server, fl.connect(server.uri) as client:
        server.append_table("t", {"x": "int64"})
        with pytest.raises((fl.FlightError, OSError, ValueError)) as caught:
            act(client, "barrage.operate", plan.encode())
        error = from_flight(caught.value)
        assert isinstance(error, LimitError)
        assert f"({name})" in str(error)
