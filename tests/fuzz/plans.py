"""Plans as JSON, about tables with the columns ``sym`` and ``price``, or more: the fuzzers of plans begin with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["plans_about", "plans_of_two"]


def plans_about(name: str) -> Iterator[bytes]:
    """Valid plans with operations, conditions and aggregations of several kinds."""
    table = {"table": name}
    price = {"kind": "column", "name": "price"}
    dear = {"kind": "compare", "comparison": ">", "left": price, "right": 1.5}
    one_of = {"kind": "one_of", "target": {"kind": "column", "name": "sym"}, "candidates": ["A", "B"], "inverted": True}
    conditions = [
        ["price > 1 && sym in `A`, `B`"],
        [{"kind": "any_of", "conditions": [dear, {"kind": "not", "condition": one_of}]}, "!isNull(sym)"],
        [{"kind": "matches", "column": {"name": "sym"}, "pattern": "A.*"}, {"kind": "search", "text": "B"}],
    ]
    for entry in conditions:
        yield _json({"verb": "where", "inputs": [table], "conditions": entry})
    total, number = {"function": "sum", "columns": ["total = price"]}, {"function": "count", "columns": ["n"]}
    yield _json(
        {"verb": "update", "inputs": [table], "columns": ["x = price * 2", "s = sym + `!`"]},
        {"verb": "agg_by", "inputs": [0], "aggregations": [total, number], "by": ["sym"]},
        {"verb": "natural_join", "inputs": [0, 1], "on": ["sym"], "joins": ["total"]},
        {"verb": "sort", "inputs": [2], "columns": [{"name": "price", "descending": True}]},
        {"verb": "head_pct", "inputs": [3], "share": 0.5},
        outputs=[1, 4],
    )
    moving = {"function": "ema", "columns": ["e = price"], "decay": 2.5, "control": {"on_nan": "reset"}}
    window = {"function": "rolling_sum", "columns": ["w = price"], "before": 3, "after": -1}
    counted = {"function": "cum_count_where", "columns": ["n"], "filters": ["price > 1"]}
    formula = {"function": "rolling_formula", "formula": "f = max(price)", "before": 2, "after": 2}
    yield _json({"verb": "update_by", "inputs": [table], "operations": [moving, counted], "by": ["sym"]})
    yield _json({"verb": "update_by", "inputs": [table], "operations": [window, formula]})
    yield _json({"verb": "merge", "inputs": [table, table, {"ticket": "s/" + name}], "order_by": "price"})
    yield _json({"verb": "slice", "inputs": [table], "start": -3, "stop": 0})
    yield _json({"verb": "empty_table", "rows": 10}, {"verb": "view", "inputs": [0], "columns": ["x = ii * 2"]})


def plans_of_two(first: str, second: str) -> Iterator[bytes]:
    """Valid plans with the other verbs, about two tables that have the columns of ``tests.fuzz.computing``."""
    left, right = {"table": first}, {"table": second}
    few = {"verb": "view", "inputs": [right], "columns": ["sym", "other = price", "later = at", "n = tiny"]}
    for verb, fields in _JOINS.items():
        yield _json(few, {"verb": verb, "inputs": [left, 0], **fields})
    last = {"verb": "tail_by", "inputs": [right], "rows": 1, "by": ["sym"]}
    yield _json(last, {"verb": "exact_join", "inputs": [0, 0], "on": ["sym"], "joins": ["other = price"]})
    keys = [{"on": ["sym"], "joins": ["a = price"]}, {"on": ["sym"], "joins": ["b = size"]}]
    yield _json(last, {"verb": "multi_join", "inputs": [0, 0], "columns": keys})
    stamps = {"verb": "view", "inputs": [right], "columns": ["taken = at"]}
    for how in ({"initial": True}, {"incremental": True}, {"history": True}):
        yield _json(stamps, {"verb": "snapshot_when", "inputs": [left, 0], "stamps": ["taken"], **how})
    for verb, more in _ALONE.items():
        yield _json({"verb": verb, "inputs": [left], **more})
    yield _json({"verb": "ring_table", "inputs": [right], "capacity": 5})
    yield _json({"verb": "time_table", "period": "PT1S"})
    grouped = {"verb": "agg_by", "inputs": [left], "by": ["sym"]}
    lists = {"function": "group", "columns": ["price", "size"]}
    yield _json({**grouped, "aggregations": [lists]}, {"verb": "ungroup", "inputs": [0], "columns": ["price", "size"]})
    for function in _AGGREGATIONS:
        yield _json({**grouped, "aggregations": [function]})
    yield _json({"verb": "agg_all_by", "inputs": [left], "aggregation": {"function": "last"}, "by": ["flag"]})
    for function in _MOVING:
        timed = {"verb": "where", "inputs": [left], "conditions": ["!isNull(at)"]}
        ordered = {"verb": "sort", "inputs": [0], "columns": [{"name": "at"}]}
        yield _json(timed, ordered, {"verb": "update_by", "inputs": [1], "operations": [function], "by": ["sym"]})


_JOINS: dict[str, dict[str, Any]] = {
    "join": {"on": ["sym"], "joins": ["other"]},
    "left_outer_join": {"on": ["sym"], "joins": ["other"]},
    "full_outer_join": {"on": ["sym"], "joins": ["other"]},
    "natural_join": {"on": ["sym"], "joins": ["other"], "match": "last_match"},
    "aj": {"on": ["sym", "at >= later"], "joins": ["other"]},
    "raj": {"on": ["sym", "at <= later"], "joins": ["other"]},
    "range_join": {
        "on": ["sym", "tiny <= n <= tiny"],
        "aggregations": [{"function": "group", "columns": ["other"]}],
    },
    "where_in": {"columns": ["sym"]},
    "where_not_in": {"columns": ["sym", "price = other"]},
}
_ALONE: dict[str, dict[str, Any]] = {
    "downsample": {"x": "at", "ys": ["price", "size"], "pixels": 10},
    "drop_columns": {"columns": ["flag"]},
    "flatten": {},
    "head": {"rows": 3},
    "head_by": {"rows": 1, "by": ["sym"]},
    "lazy_update": {"columns": ["x = size % 5"]},
    "meta_table": {},
    "rename_columns": {"columns": ["x = size"]},
    "reverse": {},
    "select": {"columns": ["sym", "x = price + count"]},
    "select_distinct": {"columns": ["sym", "flag"]},
    "snapshot": {},
    "tail": {"rows": 3},
    "tail_pct": {"share": 0.3},
    "update_view": {"columns": ["x = sym + count"]},
}
_AGGREGATIONS: list[dict[str, Any]] = [
    {"function": "avg", "columns": ["price"]},
    {"function": "std", "columns": ["price"]},
    {"function": "min", "columns": ["at", "amount"]},
    {"function": "max", "columns": ["letter"]},
    {"function": "median", "columns": ["count"]},
    {"function": "pct", "columns": ["price"], "share": 0.3},
    {"function": "weighted_avg", "columns": ["price"], "weight": "size"},
    {"function": "sorted_first", "columns": ["price"], "order_by": ["at"]},
    {"function": "count_distinct", "columns": ["flag"]},
    {"function": "distinct", "columns": ["texts = sym"]},
    {"function": "unique", "columns": ["tiny"]},
    {"function": "count_where", "columns": ["n"], "filters": ["price > 1"]},
    {"function": "formula", "formula": "f = sum(price) / len(price)"},
]
_MOVING: list[dict[str, Any]] = [
    {"function": "ema", "columns": ["e = price"], "time_column": "at", "decay": 1_000_000_000},
    {"function": "cum_max", "columns": ["count"]},
    {"function": "forward_fill", "columns": ["amount"]},
    {"function": "delta", "columns": ["size"]},
    {"function": "rolling_avg", "columns": ["price"], "time_column": "at", "before": 60_000_000_000},
    {"function": "rolling_group", "columns": ["sym"], "before": 3},
    {"function": "rolling_wavg", "columns": ["price"], "weight": "count", "before": 3},
]


def _json(*operations: object, **others: object) -> bytes:
    return json.dumps({"operations": operations, **others}).encode()
