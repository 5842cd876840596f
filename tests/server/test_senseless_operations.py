"""Operations of clients that make no sense: each is refused in words, and never by an error from the inside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow.flight as fl
import pytest

from barrage_server.server import Server

T, K = {"table": "t"}, {"table": "keyed"}
WRONG: list[dict[str, Any]] = [
    {"verb": "multi_join", "inputs": [K], "columns": []},
    {"verb": "multi_join", "inputs": [K, K], "columns": [{"on": ["k"]}]},
    {"verb": "multi_join", "inputs": [K], "columns": [{"on": ["k"]}, {"on": ["k"]}]},
    {"verb": "multi_join", "inputs": [K, K], "columns": [{"on": []}, {"on": []}]},
    {"verb": "snapshot_when", "inputs": [T, K], "stamps": ["nope"]},
    {"verb": "snapshot_when", "inputs": [T, K], "stamps": ["a = k", "a = k"]},
    {"verb": "snapshot_when", "inputs": [T, K]},
    {"verb": "snapshot_when", "inputs": [T, K], "stamps": ["a = k"], "history": True, "initial": True},
    {"verb": "blink_to_append_only", "inputs": [T]},
    {"verb": "ring_table", "inputs": [K], "capacity": 5},
    {"verb": "ring_table", "inputs": [T], "capacity": 0},
    {"verb": "downsample", "inputs": [T], "x": "nope", "ys": ["v"]},
    {"verb": "downsample", "inputs": [T], "x": None, "ys": []},
    {"verb": "downsample", "inputs": [T], "x": None, "ys": ["nope"], "pixels": -1},
    {"verb": "range_join", "inputs": [T, K], "on": [], "aggregations": []},
    {"verb": "range_join", "inputs": [T, K], "on": ["x <= x <= x"], "aggregations": []},
    {"verb": "range_join", "inputs": [T, T], "on": ["<- <= <= ->"], "aggregations": [{"function": "group"}]},
    {
        "verb": "range_join",
        "inputs": [T, T],
        "on": ["x < x < x"],
        "aggregations": [{"function": "sum", "columns": ["y = x"]}],
    },
    {"verb": "agg_by", "inputs": [T], "aggregations": []},
    {"verb": "agg_by", "inputs": [T], "aggregations": [{"function": "nope", "columns": ["x"]}]},
    {"verb": "agg_by", "inputs": [T], "aggregations": [{"function": "weighted_avg", "columns": ["x"]}], "by": ["k"]},
    {
        "verb": "agg_by",
        "inputs": [T],
        "aggregations": [{"function": "pct", "columns": ["x"], "share": 1e308}],
        "by": ["k"],
    },
    {"verb": "agg_by", "inputs": [T], "aggregations": [{"function": "sorted_first", "columns": ["x"]}], "by": ["k"]},
    {"verb": "agg_by", "inputs": [T], "aggregations": [{"function": "formula", "columns": ["x"]}], "by": ["k"]},
    {
        "verb": "agg_by",
        "inputs": [T],
        "aggregations": [{"function": "unique", "columns": ["x"], "sentinel": "s"}],
        "by": ["k"],
    },
    {
        "verb": "agg_by",
        "inputs": [T],
        "aggregations": [{"function": "count_where", "columns": ["x"], "filters": []}],
        "by": ["k"],
    },
    {"verb": "agg_by", "inputs": [T], "aggregations": [{"function": "count", "columns": []}], "by": ["k"]},
    {"verb": "agg_all_by", "inputs": [T], "aggregation": {"function": "count"}},
    {"verb": "agg_all_by", "inputs": [T], "aggregation": {"function": "partition"}},
    {"verb": "sort", "inputs": [T], "columns": []},
    {"verb": "view", "inputs": [T], "columns": []},
    {"verb": "select_distinct", "inputs": [T], "columns": ["nope"]},
    {"verb": "natural_join", "inputs": [T, K], "on": []},
    {"verb": "exact_join", "inputs": [T, K], "on": []},
    {"verb": "join", "inputs": [T, K], "reserve_bits": -5},
    {"verb": "join", "inputs": [T, K], "on": ["k"], "reserve_bits": 4611686018427387904},
    {"verb": "aj", "inputs": [T, K], "on": []},
    {"verb": "aj", "inputs": [T, T], "on": ["t > "]},
    {"verb": "raj", "inputs": [T, T], "on": ["k", "t"]},
    {"verb": "head", "inputs": [T], "rows": -1},
    {"verb": "head_by", "inputs": [T], "rows": -1, "by": ["k"]},
    {"verb": "tail_pct", "inputs": [T], "share": 7},
    {"verb": "slice", "inputs": [T], "start": 5, "stop": 1},
    {"verb": "ungroup", "inputs": [T], "columns": ["x"]},
    {"verb": "drop_columns", "inputs": [T], "columns": ["k", "x", "n", "t"]},
    {"verb": "rename_columns", "inputs": [T], "columns": ["x"]},
    {"verb": "rename_columns", "inputs": [T], "columns": ["k = x", "k = n"]},
    {"verb": "merge", "inputs": [T, K]},
    {"verb": "merge", "inputs": [K, K], "order_by": "nope"},
    {"verb": "empty_table", "rows": -1},
    {"verb": "empty_table", "rows": 1152921504606846976},
    {"verb": "time_table", "period": 0},
    {"verb": "time_table", "period": "x"},
    {"verb": "time_table", "period": 1000, "start": 0},
    {"verb": "time_table", "period": "PT1S", "start": -9223372036854775808},
    {"verb": "where_in", "inputs": [T, K], "columns": []},
    {"verb": "where", "inputs": [T], "conditions": [{"kind": "compare", "comparison": "<", "left": 1, "right": 2}]},
    {
        "verb": "where",
        "inputs": [T],
        "conditions": [{"kind": "compare", "comparison": "<", "left": {"kind": "column", "name": "k"}, "right": 2}],
    },
    {"verb": "where", "inputs": [T], "conditions": [{"kind": "matches", "column": {"name": "k"}, "pattern": "("}]},
    {"verb": "where", "inputs": [T], "conditions": [{"kind": "is_nan", "column": {"name": "k"}}]},
    {"verb": "where", "inputs": [T], "conditions": ["\x00"]},
]


@pytest.fixture(scope="module")
def client() -> Iterator[fl.FlightClient]:
    with Server() as server, fl.connect(server.uri) as client:
        table = server.append_table("t", {"k": "string", "x": "float64", "n": "int64", "t": "timestamp[ns]"})
        table.append({"k": ["a", "b", None], "x": [1.0, float("nan"), None], "n": [1, 2, None], "t": [1, 2, 3]})
        server.keyed_table("keyed", {"k": "string", "x": "float64"}, key="k").upsert({"k": ["a"], "x": [1.0]})
        yield client


@pytest.mark.parametrize("operation", WRONG, ids=lambda operation: json.dumps(operation)[:100])
def test_an_operation_that_makes_no_sense_is_refused(client: fl.FlightClient, operation: dict[str, Any]) -> None:
    (result,) = client.do_action(("barrage.operate", json.dumps({"operations": [operation]}).encode()))
    (output,) = json.loads(result.body.to_pybytes())["outputs"]
    assert output["error"] in ("InvalidRequestError", "UnknownColumnError", "LimitError", "UnsupportedOperationError")
    assert output["text"]
