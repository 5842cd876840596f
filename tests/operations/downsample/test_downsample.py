"""``downsample``: equal to the model after whatever changes, and to the eye equal to all rows."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import AppendTable, KeyedTable, RingTable, Table, UpdateGraph
from barrage_server.errors import BarrageError, InvalidRequestError, LimitError, UnknownColumnError
from barrage_server.operations.budget import budget
from barrage_server.operations.downsample.build import downsample
from barrage_server.plan.downsample import Downsample
from tests.operations.downsample import model
from tests.operations.oracle import Watch, cells_of, plain_rows

WHOLE = pa.schema([("x", pa.int64()), ("y", pa.float64()), ("z", pa.int32())])
REAL = pa.schema([("x", pa.float64()), ("y", pa.float32()), ("z", pa.int64())])
Row = tuple[Any, ...]


def values(chance: random.Random) -> Row:
    y = chance.choice([None, float("nan"), float("inf"), *(chance.randrange(-50, 50) / 4 for _ in range(9))])
    return y, chance.choice([None, *(chance.randrange(-20, 20) for _ in range(5))])


def to_table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def steps(chance: random.Random, x: float, count: int, schema: pa.Schema) -> list[Row]:
    """Rows behind one at ``x``, close together or far apart, also at one place."""
    rows: list[Row] = []
    widest = chance.choice([0, 1, 3, 50, 10_000, 1 << 40])
    for _ in range(count):
        x += chance.randint(0, widest) if schema is WHOLE else chance.uniform(0, widest)
        rows.append((x, *values(chance)))
    return rows


def spans(chance: random.Random, x: float) -> list[dict[str, Any]]:
    kind = type(x)
    low = kind(x - chance.randint(0, 300))
    return [
        {},
        {"tail_rows": chance.randint(1, 400)},
        {"tail_x": kind(chance.choice([0, 5, 200, 1 << 20]))},
        {"first": low},
        {"last": kind(x + chance.randint(0, 1000))},
        {"first": low, "last": kind(low + chance.choice([0, 7, 1000]))},
    ]


@given(
    seed=st.integers(0, 1 << 32),
    schema=st.sampled_from([WHOLE, REAL]),
    capacity=st.sampled_from([None, 1, 300, 700]),
    pixels=st.sampled_from([1, 3, 40]),
)
@example(seed=1999178, schema=REAL, capacity=1, pixels=1)  # parts that doubles do not number exactly
@settings(deadline=None, max_examples=25)
def test_rows_that_come_in_order(seed: int, schema: pa.Schema, capacity: int | None, pixels: int) -> None:
    """After appends and evictions, every range is that of the model, and the updates say all that changes."""
    chance = random.Random(seed)
    graph = UpdateGraph()
    table = AppendTable(graph, "t", schema) if capacity is None else RingTable(graph, "t", schema, capacity)
    x: float = chance.randrange(-1000, 1 << 50) if schema is WHOLE else chance.uniform(-1000, 1e6)
    rows = steps(chance, x, chance.choice([0, 3, 600]), schema)
    table.append(to_table(rows, schema))
    made = [(table.downsample("x", ["y", "z"], pixels=pixels, **span), span) for span in spans(chance, x)]
    watches = [Watch(one) for one, _ in made]
    for _ in range(6):
        new = steps(chance, rows[-1][0] if rows else x, chance.choice([1, 2, 40, 900]), schema)
        table.append(to_table(new, schema))
        rows = rows + new if capacity is None else (rows + new)[-capacity:]
        for one, span in made:
            expected = model.points(as_stored(rows, schema), pixels=pixels, **span)
            assert cells_of(plain_rows(one)) == cells_of(expected), span
    for watch in watches:
        watch.check_held()


def as_stored(rows: list[Row], schema: pa.Schema) -> list[Row]:
    """Rows as the table has them: numbers of 32 bits are rounded."""
    columns = to_table(rows, schema).columns
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


@given(seed=st.integers(0, 1 << 32), schema=st.sampled_from([WHOLE, REAL]), pixels=st.sampled_from([1, 3, 40]))
@settings(deadline=None, max_examples=25)
def test_rows_that_come_go_and_change(seed: int, schema: pa.Schema, pixels: int) -> None:
    """Of a keyed table; rows without an x are left out, and the others are sorted."""
    chance = random.Random(seed)
    keyed = pa.schema([("key", pa.int64()), *schema])
    table = KeyedTable(UpdateGraph(), "t", keyed, "key")
    x: float = chance.randrange(-100, 1 << 50) if schema is WHOLE else chance.uniform(-1000, 1e6)
    made = [(table.downsample("x", ["y", "z"], pixels=pixels, **span), span) for span in spans(chance, x)]
    watches = [Watch(one) for one, _ in made]
    for _ in range(6):
        places = [row[0] for row in steps(chance, x, chance.choice([1, 5, 200]), schema)]
        chance.shuffle(places)
        keys = chance.sample(range(300), len(places))
        table.upsert(
            to_table(
                [
                    (key, chance.choice([None, at, at, at]), *values(chance))
                    for key, at in zip(keys, places, strict=True)
                ],
                keyed,
            )
        )
        table.delete({"key": chance.sample(range(300), 20)})
        rows = [row[1:] for row in plain_rows(table)]
        for one, span in made:
            tail = rows[-span["tail_rows"] :] if "tail_rows" in span else rows
            there = [row for row in tail if row[0] is not None]
            expected = model.points(there, pixels=pixels, sorts=True, **span)
            assert cells_of(plain_rows(one)) == cells_of(expected), span
    for watch in watches:
        watch.check_held()


@pytest.mark.parametrize("capacity", [None, 500])
def test_the_number_of_the_row(capacity: int | None) -> None:
    """Counted from the first row that there ever was."""
    chance = random.Random(3)
    graph = UpdateGraph()
    table = AppendTable(graph, "t", WHOLE) if capacity is None else RingTable(graph, "t", WHOLE, capacity)
    made, tail = table.downsample(None, "y", pixels=10), table.downsample(None, ["y"], tail_rows=100, pixels=10)
    rows: list[Row] = []
    for count in (1, 300, 1000, 3, 1):
        new = [(0, *values(chance)) for _ in range(count)]
        table.append(to_table(new, WHOLE))
        rows += new
        numbered = [(number, row[1]) for number, row in enumerate(rows)][-(capacity or len(rows)) :]
        assert cells_of(plain_rows(made)) == cells_of(model.points(numbered, pixels=10))
        assert cells_of(plain_rows(tail)) == cells_of(model.points(numbered, pixels=10, tail_rows=100))


@pytest.mark.parametrize("wrong", [5, None])
def test_x_that_falls_or_is_missing_later(wrong: int | None) -> None:
    """From then on rows are sorted."""
    table = AppendTable(UpdateGraph(), "t", WHOLE)
    table.append(to_table([(x, float(x), 0) for x in range(10, 1000)], WHOLE))
    made = table.downsample("x", "y", pixels=20)
    watch = Watch(made)
    table.append(to_table([(wrong, 7.0, 0)], WHOLE))
    table.append(to_table([(2000, 8.0, 0)], WHOLE))
    rows = [row[:2] for row in plain_rows(table) if row[0] is not None]
    assert cells_of(plain_rows(made)) == cells_of(model.points(rows, pixels=20, sorts=True))
    again = table.downsample("x", "y", pixels=20, tail_x=3000)
    assert cells_of(plain_rows(again)) == cells_of(model.points(rows, pixels=20, tail_x=3000, sorts=True))
    watch.check_held()


def test_some_of_the_rows_of_a_table_that_grows() -> None:
    """Row keys have gaps."""
    chance = random.Random(5)
    table = AppendTable(UpdateGraph(), "t", WHOLE)
    made = table.where("z > 0").downsample("x", ["y"], pixels=9)
    rows: list[Row] = []
    for _ in range(5):
        new = steps(chance, rows[-1][0] if rows else 0, 500, WHOLE)
        table.append(to_table(new, WHOLE))
        rows += new
        chosen = [row[:2] for row in rows if row[2] is not None and row[2] > 0]
        assert cells_of(plain_rows(made)) == cells_of(model.points(chosen, pixels=9))


def test_a_million_rows_look_alike() -> None:
    """To a column of pixels: what is painted in a column of one picture is painted there or beside it in the other."""
    generator = np.random.default_rng(11)
    count, pixels = 1_000_000, 500
    x = np.cumsum(generator.integers(0, 50, count))
    y = np.cumsum(generator.normal(size=count))
    y[generator.integers(0, count, 20)] += 500
    gaps = np.zeros(count, np.bool_)
    gaps[300_000:340_000] = True
    table = AppendTable(UpdateGraph(), "t", {"x": "int64", "y": "float64"})
    for start in range(0, count, 100_000):
        some = slice(start, start + 100_000)
        table.append({"x": x[some], "y": pa.array(y[some], mask=gaps[some])})
    for low, high in ((int(x[0]), int(x[-1])), (int(x[290_000]), int(x[350_000])), (int(x[1000]), int(x[1400]))):
        made = table.downsample("x", "y", first=low, last=high, pixels=pixels)
        assert made.size <= 2 * pixels + 4
        margin = 3 * (high - low) // pixels  # a part may reach out of the picture
        inside = slice(*np.searchsorted(x, (low - margin, high + margin)).tolist())
        rows = list(zip(x[inside].tolist(), pa.array(y[inside], mask=gaps[inside]).to_pylist(), strict=True))
        frame = low - margin, high + margin, pixels + 6
        every = model.painted(model.line_of_rows(rows, 1), *frame)
        few = model.painted(model.line_of_points(plain_rows(made), 1), *frame)
        for one, other in ((every, few), (few, every)):
            for column in range(3, pixels + 3):
                painted, beside = one[column], [found for found in other[column - 1 : column + 2] if found is not None]
                if painted is not None:
                    assert min(found[0] for found in beside) <= painted[0] + 1e-9
                    assert max(found[1] for found in beside) >= painted[1] - 1e-9


def test_times_as_texts() -> None:
    """And as datetimes, durations and numbers in the unit of the column."""
    table = AppendTable(UpdateGraph(), "t", {"time": pa.timestamp("ms", "Europe/Berlin"), "day": "date32", "y": "int8"})
    begin = 1_718_445_600_000  # 2024-06-15T10:00:00Z
    table.append({"time": [begin + 60_000 * minute for minute in range(60)], "day": list(range(60)), "y": range(60)})

    def shown(**span: Any) -> list[Any]:
        values: list[Any] = table.downsample("time", "y", **span).to_arrow()["y_last"].to_pylist()
        return values

    assert shown(first="2024-06-15T10:55:00Z") == [54, 55, 56, 57, 58, 59]
    assert shown(first=begin + 55 * 60_000) == shown(first=str(begin + 55 * 60_000)) == [54, 55, 56, 57, 58, 59]
    assert shown(tail_x="PT2M") == shown(tail_x=120_000) == [56, 57, 58, 59]
    assert table.downsample("day", "y", first=58).to_arrow()["y_first"].to_pylist() == [57, 58, 59]


def test_columns_of_every_type_of_number() -> None:
    types = ["int8", "uint8", "uint64", "float16", "float32", "bool", pa.decimal128(9, 2)]
    table = AppendTable(UpdateGraph(), "t", {f"c{number}": kind for number, kind in enumerate(types)})
    table.append(
        {
            f"c{number}": pa.array([1, 0, None], pa.int8()).cast(kind)
            if kind != "float16"
            else pa.array(np.array([1, 0, np.nan], np.float16))
            for number, kind in enumerate(types)
        }
    )
    made = table.downsample(None, [f"c{number}" for number in range(len(types))], pixels=1).to_arrow()
    for number in range(len(types)):
        assert [float(made[f"c{number}_{each}"][0].as_py()) for each in ("least", "greatest")] == [0, 1]
    for number in (1, 2, 3, 6):
        assert table.downsample(f"c{number}", "c0").size >= 1


def test_it_stays_within_its_budget() -> None:
    keyed = KeyedTable(UpdateGraph(), "t", {"x": "int64", "y": "float64"}, "x")
    with budget(1 << 20):
        made = downsample([keyed], Downsample("x", ("y",)))
    keyed.upsert({"x": range(50_000), "y": [0.0] * 50_000})
    assert isinstance(made.failure, LimitError)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x": "text"}, "x must be a column of numbers or times, and 'text' of 't' is of type string"),
        ({"ys": ["text"]}, "ys must be columns of numbers, and 'text' of 't' is of type string"),
        ({"ys": ["nope"]}, "Table 't' has no column 'nope'"),
        ({"x": "nope"}, "Table 't' has no column 'nope'"),
        ({"ys": [f"y{number}" for number in range(9)]}, "ys must have at most 8 columns, not 9"),
        ({"first": "yesterday"}, "first must be a number, as x is one, not 'yesterday'"),
        ({"x": "time", "first": "yesterday"}, "first must be a number or a text such as '2024-06-15T10:00:00Z'"),
        ({"x": "time", "tail_x": "long"}, "tail_x must be a number or a text such as 'PT5M'"),
        ({"first": 3, "last": 2}, "last must not be less than first"),
        ({"tail_x": -1}, "tail_x must not be negative"),
        ({"first": 3, "tail_rows": 2}, "tail_rows must be None with first or last"),
        ({"tail_x": 3, "tail_rows": 2}, "tail_rows must be None with tail_x"),
        ({"pixels": 0}, "pixels must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], text: str) -> None:
    graph = UpdateGraph()
    table = AppendTable(graph, "t", {"x": "int64", "y": "float64", "text": "string", "time": pa.timestamp("ns", "UTC")})
    with pytest.raises((InvalidRequestError, UnknownColumnError)) as caught:
        table.downsample(**{"x": "x", "ys": ["y"], **arguments})
    assert text in str(caught.value)
    assert len(table.children) == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_of_a_hostile_client(seed: int) -> None:
    """Whatever numbers it has: a result or a typed error."""
    chance = random.Random(seed)
    table = bs.table({"x": [-(1 << 63), 0, (1 << 63) - 1], "r": [-1e308, 0.0, 1e308], "y": [1.0, None, 3.0]})
    extreme = [None, 0, -(1 << 63), (1 << 63) - 1, 1e308, -1e308, 5e-324, "9" * 19, "x", "", "PT1S"]
    for _ in range(20):
        plan = Downsample(
            chance.choice(["x", "r", "y", None]),
            ("y",),
            chance.choice(extreme),
            chance.choice(extreme),
            chance.choice([None, None, 0, -1, 1 << 62]),
            chance.choice([None, None, *extreme]),
            chance.choice([-1, 0, 1, 16_384, 1 << 40]),
        )
        try:
            made: Table = table.operate(plan)
        except BarrageError:
            continue
        assert made.size <= 3
        made.to_arrow()
