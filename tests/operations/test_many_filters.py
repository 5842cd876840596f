"""Filters of one table that differ in a constant compare changed rows together, and follow as one alone does.

The model compares in plain Python: null is lower than any value, equals null, and NaN is unequal to all.
"""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from barrage_server.engine import KeyedTable, Table, UpdateGraph
from barrage_server.plan.condition import All, Column, Compare, Comparison, Condition
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
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
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
    # enough constants of one operator to be compared together
    filters += [[("key", "<=", text, value)] for text, value in CONSTANTS["key"]]
    filters += [[("text", "==", text, value)] for text, value in CONSTANTS["text"]]
    filters += [[("number", "<", text, value)] for text, value in CONSTANTS["number"]]
    return filters


def written(chance: random.Random, conditions: list[tuple[str, str, str, Any]]) -> list[str | Condition]:
    """The conditions, each as a formula or as a tree."""
    found: list[str | Condition] = []
    for column, comparison, text, value in conditions:
        forms: list[str | Condition] = [
            f"{column} {comparison} {text}",
            f"{text} {MIRRORED[comparison]} {column}",
            Compare(Comparison(comparison), Column(column), value),
            All((Compare(Comparison(MIRRORED[comparison]), value, Column(column)),)),
        ]
        found.append(chance.choice(forms))
    return found


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
                followed.append((conditions, Watch(source.table.where(written(chance, conditions)))))
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


NUMBERS = [f"x > {number}" for number in range(9)]
TIMES = [f"x > '2024-01-0{day}T00:00:00Z'" for day in range(1, 10)]
DAYS = [f"x <= '2024-01-0{day}'" for day in range(1, 10)]
TEXTS = [f"x == `{text}`" for text in "0123456789"]
NUMBER_TREES = [
    Compare(Comparison.GREATER, Column("x"), number) for number in (*range(9), 2.5, 1 << 70, -1.0, math.nan)
]
TEXT_TREES = [Compare(Comparison.NOT_EQUAL, Column("x"), text) for text in "0123456789"]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
SPANS = [f"x >= 'PT{seconds}S'" for seconds in range(9)]
HOURS = [f"x < '0{hour}:00:00'" for hour in range(9)]
DAY = 86_400


@pytest.mark.parametrize(
    ("data_type", "formulas", "step"),
    [
        *((data_type, NUMBERS, 1) for data_type in INTEGERS if data_type != pa.uint16()),  # which is char in formulas
        *((data_type, NUMBER_TREES[:-1], 1) for data_type in INTEGERS),
        *((data_type, NUMBERS, 1) for data_type in (pa.float16(), pa.float32(), pa.float64())),
        *((data_type, NUMBER_TREES, 1) for data_type in (pa.float16(), pa.float32(), pa.float64())),
        *((data_type, NUMBERS, 1) for data_type in (pa.decimal128(21, 2), pa.decimal256(40, 3))),
        *((pa.timestamp(unit, "UTC"), TIMES, DAY * scale) for unit, scale in (("s", 1), ("ms", 10**3), ("ns", 10**9))),
        (pa.date32(), DAYS, 1),
        (pa.time64("us"), HOURS, 3600 * 10**6),
        (pa.duration("ms"), SPANS, 1000),
        *((data_type, texts, 1) for data_type in (pa.string(), pa.large_string()) for texts in (TEXTS, TEXT_TREES)),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_columns_of_every_type(data_type: pa.DataType, formulas: Sequence[str | Condition], step: int) -> None:
    """A filter of many has the rows of one that is alone, whose table has no others."""
    schema = pa.schema([("id", pa.int64()), ("x", data_type)])
    start = 1_704_067_200 * step // DAY if pa.types.is_timestamp(data_type) else 19_723 * pa.types.is_date(data_type)

    def batch(ids: list[int], numbers: list[int]) -> pa.RecordBatch:
        given = pa.array([start + number * step for number in numbers], pa.int64())
        is_counted = pa.types.is_date32(data_type) or pa.types.is_float16(data_type)
        values = (
            given.cast(pa.int32() if pa.types.is_date32(data_type) else pa.float64()) if is_counted else given
        ).cast(data_type)
        return pa.record_batch([pa.array(ids, pa.int64()), values], schema=schema)

    many = KeyedTable(UpdateGraph(), "t", schema, ["id"])
    alone = [KeyedTable(UpdateGraph(), "t", schema, ["id"]) for _ in formulas]
    for table in (many, *alone):
        table.upsert(batch(list(range(8)), list(range(8))))
    pairs = [(Watch(many.where(formula)), table.where(formula)) for formula, table in zip(formulas, alone, strict=True)]
    for ids, numbers in (([0, 3, 5], [5, 0, 7]), ([3, 7], [6, 1]), ([0, 1, 2], [1, 0, 8])):
        for table in (many, *alone):
            table.upsert(batch(ids, numbers))
        for watch, lone in pairs:
            watch.check_problems()
            assert watch.table.failure is None
            assert cells_of(plain_rows(watch.table)) == cells_of(plain_rows(lone))
