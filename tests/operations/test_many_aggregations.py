"""Aggregations of one table by the same columns share their work on exchanged values, and give what one alone gives."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.engine import KeyedTable, Table, UpdateGraph
from barrage_server.engine.plan import Int64Array
from barrage_server.formula.inputs import SharedValues
from barrage_server.operations.aggregations import agg_by
from barrage_server.operations.exchange import Exchange, ExchangedRows, GroupChanges
from barrage_server.plan import aggregation as agg
from barrage_server.plan.aggregation import Aggregation
from tests.operations.oracle import cells_of

SCHEMA = {"k": "int64", "g": "string", "h": "int32", "v": "float64", "f": "float32", "i": "int64", "u": "uint64"}
KEYS = [[], ["g"], ["h"], ["g", "h"]]
FUNCTIONS: list[Aggregation] = [
    agg.sum_("sum_v = v"),
    agg.sum_("sum_f = f"),
    agg.sum_("sum_i = i"),
    agg.sum_("sum_u = u"),
    agg.abs_sum(["abs_v = v", "abs_i = i", "abs_u = u"]),
    agg.avg(["avg_v = v", "avg_i = i"]),
    agg.weighted_sum("f", "weighted_f = f"),
    agg.weighted_sum("i", "weighted_i = i"),
    agg.count_("rows"),
    agg.max_("max_v = v"),
]
USUAL = [0.125, 0.75, -3.75, 1e16, 2.0**-30, -1e16]
UNUSUAL = [None, math.nan, math.inf, -math.inf, 1e300, -1e300, 0.0, -0.0]


def drawn(chance: random.Random, keys: Sequence[int], *, usual: bool) -> dict[str, list[Any]]:
    """Values of some rows. ``usual``: none of them is null, infinite or NaN."""
    doubles = USUAL if usual or chance.random() < 0.5 else USUAL + UNUSUAL
    integers = [0, -7, 1 << 62, (1 << 63) - 1] + ([] if usual else [None])
    floats = [0.5, -1.25, 3.0e6]
    return {
        "k": list(keys),
        "v": [chance.choice(doubles) for _ in keys],
        "f": [chance.choice(floats) for _ in keys],
        "i": [chance.choice(integers) for _ in keys],
        "u": [chance.choice([0, 5, (1 << 64) - 1]) for _ in keys],
    }


def contents(table: Table, keys: Sequence[str]) -> dict[Any, Any]:
    """Rows by group, whatever their order."""
    rows = table.to_arrow().to_pylist()
    return {tuple(row[name] for name in keys): cells_of([tuple(row.values())]) for row in rows}


def alone(table: KeyedTable, functions: Sequence[Aggregation], keys: Sequence[str]) -> Table:
    """The same aggregation of a table that nothing else is computed from, and that has never changed."""
    fresh = KeyedTable(UpdateGraph(), "fresh", table.schema, ["k"])
    fresh.upsert(table.to_arrow())
    return agg_by([fresh], functions, keys)


@pytest.mark.parametrize("seed", range(8))
def test_each_aggregation_gives_what_it_gives_alone(seed: int) -> None:
    chance = random.Random(seed)
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["k"])
    groups = {key: (chance.choice("abcd"), chance.choice([0, 1, None])) for key in range(40)}

    def write(keys: Sequence[int], *, usual: bool) -> None:
        rows = drawn(chance, keys, usual=usual)
        rows |= {"g": [groups[key][0] for key in keys], "h": [groups[key][1] for key in keys]}
        table.upsert(rows)

    write(range(20), usual=True)
    made: list[tuple[list[Aggregation], list[str], Table]] = []
    for cycle in range(24):
        if cycle % 4 == 0:  # some are made when groups have come and gone, and number them otherwise
            for keys in KEYS:
                functions = chance.sample(FUNCTIONS, 3)
                made.append((functions, keys, agg_by([table], functions, keys)))
        match cycle % 6:
            case 4:
                moved = chance.sample(range(40), 3)
                groups.update((key, (chance.choice("abcdef"), chance.choice([0, 1, 2, None]))) for key in moved)
                write(moved, usual=True)
            case 5:
                table.delete({"k": chance.sample(range(40), 5)})
            case _:
                there = table.to_arrow()["k"].to_pylist()
                write(chance.sample(there, min(len(there), chance.choice([1, 2, 9]))), usual=bool(cycle % 2))
        for functions, keys, result in made:
            assert contents(result, keys) == contents(alone(table, functions, keys), keys), (cycle, functions, keys)


def test_what_changes_in_a_group_is_computed_once_and_ordered_for_each() -> None:
    calls = []

    def compute(
        places: Int64Array, groups: int, old: Sequence[pa.Array], new: Sequence[pa.Array], factor: int
    ) -> GroupChanges:
        calls.append(factor)
        difference = new[0].to_numpy() - old[0].to_numpy()
        return (np.bincount(places, difference, groups) * factor,)

    rows = ExchangedRows(np.array([1, 0, 1]), np.array([3, 8]), None)
    old, new = (
        SharedValues({5: pa.array([1.0, 2.0, 3.0])}.__getitem__),
        SharedValues({5: pa.array([2.0, 4.0, 8.0])}.__getitem__),
    )
    first = Exchange.of(rows, np.array([3, 8]), old, new)
    second = Exchange.of(rows, np.array([70, 6]), old, new)
    assert [each.groups.tolist() for each in (first, second)] == [[3, 8], [6, 70]]
    assert [each.groups[each.places].tolist() for each in (first, second)] == [[8, 3, 8], [6, 70, 6]]
    assert [each.counts.tolist() for each in (first, second)] == [[1, 2], [2, 1]]
    for exchange, wanted in ((first, [2.0, 6.0]), (second, [6.0, 2.0])):
        changes = exchange.changes(compute, (5,), 1)
        assert changes is not None
        assert changes[0].tolist() == wanted
    assert calls == [1]
    first.changes(compute, (5,), 2)
    assert calls == [1, 2]


def test_a_column_is_read_once_for_each_aggregation_and_large_changes_are_not_kept() -> None:
    asked = []

    def read(number: int) -> pa.Array:
        asked.append(number)
        return pa.array([f"{number}" * (1 << 18)] * 2)  # so large that it is not shared

    def compute(places: Int64Array, groups: int, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> GroupChanges:
        assert (len(places), groups, len(old), len(new)) == (2, 2, 1, 1)
        return (np.zeros(1 << 14, np.int64),)

    rows = ExchangedRows(np.array([0, 1]), np.array([0, 1]), None)
    exchange = Exchange.of(rows, np.array([0, 1]), SharedValues(read), SharedValues(read))
    for _ in range(3):
        exchange.columns((4,))
        changes = exchange.changes(compute, (4,))
        assert changes is not None
    assert asked == [4, 4]
    assert not rows.changes


def test_what_is_shared_goes_with_its_version() -> None:
    """It has no values of the version before, which would keep what that one shares, and so on."""
    table = KeyedTable(UpdateGraph(), "t", {"k": "int64", "g": "int64", "v": "float64"}, ["k"])
    table.upsert({"k": [1, 2], "g": [0, 1], "v": [1.0, 2.0]})
    sums = [agg_by([table], [agg.sum_(f"s{number} = v")], ["g"]) for number in range(2)]
    for cycle in range(50):
        table.upsert({"k": [1, 2], "g": [0, 1], "v": [float(cycle), float(-cycle)]})
    gc.collect()
    assert sum(type(each) is ExchangedRows for each in gc.get_objects()) <= 2
    assert sums[0].to_arrow()["s0"].to_pylist() == [49.0, -49.0]
