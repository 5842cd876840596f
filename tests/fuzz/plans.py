"""Plans about a table with the columns ``sym`` and ``price``, as JSON: what the fuzzers of plans begin with."""

from __future__ import annotations

import json
from collections.abc import Iterator

__all__ = ["plans_about"]


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


def _json(*operations: object, **others: object) -> bytes:
    return json.dumps({"operations": operations, **others}).encode()
