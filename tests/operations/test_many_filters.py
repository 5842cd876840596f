"""Filters of one table that differ in a constant test changed rows together, and follow as one alone does.

The model compares in plain Python: null is lower than any value, equals null, and NaN is unequal to all.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from barrage_server.engine import KeyedTable, Table, UpdateGraph
from tests.operations.oracle import Watch, cells_of, plain_rows
from tests.properties.sources import SOURCES, Source

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda value, constant: value == constant,
    "!=": lambda value, constant: value != constant,
    "<": lambda value, constant: value is None or value < constant,
    "<=": lambda value, constant: value is None or value <= constant,
    ">": lambda value, constant: value is not None and value > constant,
    ">=": lambda value, constant: value is not None and value >= constant,
}
CONSTANTS: dict[str, list[tuple[str, Any]]] = {
    "key": [(str(number), number) for number in range(-1, 12)],
    "number": [(text, float(text)) for text in ("0.0", "1.5", "-2.25", "1e300", "7.0", "-1e300", "0.5", "2.0", "3.0")],
    "text": [(f"`{text}`", text) for text in ("", "a", "ab", "A", "b", "c", "d", "e", "f")],
}
PLACES = {"key": 0, "number": 1, "text": 2}
KINDS = list(dict.fromkeys(SOURCES))


def drawn(chance: random.Random) -> list[list[tuple[str, str, str, Any]]]:
    """The conditions of some filters: column, operator, and the constant as text and value."""
    filters = []
    for column, constants in CONSTANTS.items():
        for text, value in constants:
            comparison = chance.choice(["==", "!="] if column == "text" else list(COMPARISONS))
            conditions = [(column, comparison, text, value)]
            if chance.random() < 0.3:
                conditions.append(("key", ">", "3", 3))
            filters.append(conditions)
    # of one operator, so many that they are made together
    filters += [[("key", "<=", text, value)] for text, value in CONSTANTS["key"]]
    filters += [[("text", "==", text, value)] for text, value in CONSTANTS["text"]]
    filters += [[("number", "<", text, value)] for text, value in CONSTANTS["number"]]
    return filters


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("seed", range(6))
def test_each_filter_has_its_rows_after_each_cycle(kind: type[Source], seed: int) -> None:
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    source.change(chance)
    waiting, followed = drawn(chance), list[tuple[list[tuple[str, str, str, Any]], Watch]]()
    for number in range(12):
        if number < 3:  # some start later than others
            for conditions in waiting[number::3]:
                formulas = [f"{column} {comparison} {text}" for column, comparison, text, _ in conditions]
                followed.append((conditions, Watch(source.table.where(formulas))))
        source.change(chance)
        rows = plain_rows(source.table)
        for conditions, watch in followed:
            watch.check_problems()
            wanted = [
                row
                for row in rows
                if all(
                    COMPARISONS[comparison](row[PLACES[column]], value) for column, comparison, _, value in conditions
                )
            ]
            assert cells_of(plain_rows(watch.table)) == cells_of(wanted), conditions
    for _, watch in followed:
        watch.check_held()


def keyed(graph: UpdateGraph) -> KeyedTable:
    table = KeyedTable(graph, "t", {"id": "int64", "x": "float64"}, ["id"])
    table.upsert(rows(range(100), [float(number) for number in range(100)]))
    return table


def rows(ids: Any, values: list[float | None]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(list(ids), pa.int64()), pa.array(values, pa.float64())], names=["id", "x"])


def values_of(table: Table) -> list[float | None]:
    return sorted(row[1] for row in plain_rows(table))


def test_nulls_that_come_and_go_are_told_by_the_formulas() -> None:
    source = keyed(UpdateGraph())
    limits = range(0, 100, 5)
    filters = [source.where(f"x < {limit}") for limit in limits]
    others = [float(key) for key in range(100) if key not in (3, 50)]
    source.upsert(rows([3, 50], [None, 1.0]))
    for limit, table in zip(limits, filters, strict=True):  # null is lower than any value
        assert table.version.size == 1 + sum(value < limit for value in [*others, 1.0])
    source.upsert(rows([3], [7.0]))
    for limit, table in zip(limits, filters, strict=True):
        assert values_of(table) == sorted(value for value in [*others, 1.0, 7.0] if value < limit)


def test_a_dropped_filter_leaves_the_others_as_they_are() -> None:
    source = keyed(UpdateGraph())
    filters = [source.where(f"x >= {number}") for number in range(100)]
    source.upsert(rows([1], [99.5]))
    del filters[10:]
    gc.collect()
    source.upsert(rows([2], [5.5]))
    filters += [source.where(f"x >= {number}") for number in (5, 6, 98)]
    source.upsert(rows([3], [98.5]))
    present = [float(key) for key in range(100) if key not in (1, 2, 3)] + [99.5, 5.5, 98.5]
    for number, table in zip([*range(10), 5, 6, 98], filters, strict=True):
        assert values_of(table) == sorted(value for value in present if value >= number)


def test_functions_of_users_are_not_called_for_former_values() -> None:
    source = keyed(UpdateGraph())
    asked: list[float] = []

    def plus_one(values: pa.Array) -> pa.Array:
        asked.extend(values.to_pylist())
        return pc.add(values, 1.0)

    source.graph.functions.register("plus_one", plus_one, returns=pa.float64())
    view = source.update_view("y = plus_one(x)")
    filters = [view.where(f"y > {limit}") for limit in range(20)]
    asked.clear()
    source.upsert(rows([5, 7], [50.0, 0.5]))
    assert sorted(asked) == [0.5, 50.0]
    present = [float(key) for key in range(100) if key not in (5, 7)] + [50.0, 0.5]
    for limit, table in enumerate(filters):
        assert values_of(table) == sorted(value for value in present if value + 1 > limit)
