"""Functions along the rows of groups, against loops over lists: content, updates and held versions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import AppendTable, KeyedTable, RingTable, Table, UpdateGraph
from barrage_server.engine.interrupts import interruptible
from barrage_server.errors import InvalidRequestError, LimitError, TableFailedError, UnknownColumnError
from barrage_server.operations.estimate import state_bytes
from barrage_server.operations.update_by.build import update_by
from barrage_server.plan import operation as plan
from barrage_server.plan.update_by import BadDataBehavior, DeltaControl, OperationControl, UpdateByOperation
from tests.operations.oracle import Watch, cell, plain_rows
from tests.operations.update_by.model import results
from tests.properties.sources import SOURCES

KINDS = list(dict.fromkeys(SOURCES))
_KEY, _NUMBER, _TEXT, _FLAG, _ITEMS = range(5)
Op = UpdateByOperation
SEVERAL = OperationControl(on_null=BadDataBehavior.RESET, on_nan=BadDataBehavior.POISON)

# Numbers whose sums and products are the same in any order.
TAMED = "number = number > 1e200 && number < 1e301 ? 4.0 : number"


def rolling(before: int, after: int, time: str | None = None) -> list[Op]:
    window: dict[str, Any] = {"before": before, "after": after, "time_column": time}
    numbers = [
        Op(f"rolling_{name}", ("out = number",), **window) for name in ("sum", "avg", "prod", "std", "min", "max")
    ]
    return [
        *numbers,
        Op("rolling_sum", ("out = key",), **window),
        Op("rolling_min", ("out = text",), **window),
        Op("rolling_max", ("out = key",), **window),
        Op("rolling_count", ("out = text",), **window),
        Op("rolling_group", ("out = text",), **window),
        Op("rolling_wavg", ("out = key",), weight="number", **window),
        Op("rolling_formula", ("out = key",), formula="sum(each)", parameter="each", **window),
        Op("rolling_count_where", ("out",), filters=("key > 4",), **window),
    ]


CUMULATIVE = [
    Op("cum_sum", ("out = number",)),
    Op("cum_sum", ("out = key",)),
    Op("cum_prod", ("out = number",)),
    Op("cum_min", ("out = number",)),
    Op("cum_max", ("out = key",)),
    Op("cum_min", ("out = text",)),
    Op("cum_max", ("out = text",)),
    Op("cum_count_where", ("out",), filters=("key > 4",)),
    Op("forward_fill", ("out = items",)),
    Op("forward_fill", ("out = text",)),
    *(Op("delta", ("out = number",), delta=control) for control in DeltaControl),
    Op("delta", ("out = key",)),
]
MOVING = [
    Op(function, ("out = number",), decay=decay, control=control)
    for function in ("ema", "ems", "emmin", "emmax", "emstd")
    for decay, control in (
        (2.0, OperationControl()),
        (0.5, SEVERAL),
        (3.0, OperationControl(BadDataBehavior.RESET, BadDataBehavior.RESET)),
    )
]
TIMED = [
    Op(function, ("out = number",), decay=3, time_column="time")
    for function in ("ema", "ems", "emmin", "emmax", "emstd")
]
ROWS = [op for window in ((2, 0), (1, 0), (3, 1), (0, 2), (4, -2), (-1, 3), (100, 100)) for op in rolling(*window)]
TIMES = [op for window in ((2, 0), (0, 0), (3, 1), (5, -2), (-1, 4), (50, 50)) for op in rolling(*window, "time")]


def near(found: Any, wanted: Any) -> bool:
    if isinstance(found, float) and isinstance(wanted, float | int):
        if math.isnan(found) or math.isnan(wanted):
            return math.isnan(found) and math.isnan(wanted)
        return math.isclose(found, wanted, rel_tol=1e-7, abs_tol=1e-7)
    return bool(cell(found) == cell(wanted))


def check(made: Table, source: Table, operations: list[Op], by: tuple[int, ...], time: int | None) -> None:
    rows = plain_rows(source)
    names = source.schema.names
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(tuple(cell(row[number]) for number in by), []).append(place)
    found = plain_rows(made)
    assert [tuple(map(cell, row[: len(names)])) for row in found] == [tuple(map(cell, row)) for row in rows]
    for number, operation in enumerate(operations):
        column = names.index(operation.columns[0].partition("=")[2].strip()) if "=" in operation.columns[0] else 0
        for places in groups.values():
            part = [rows[place] for place in places]
            wanted = results(
                operation,
                [row[column] for row in part],
                [0 if time is None else row[time] for row in part],
                [row[_NUMBER] for row in part],
                [row[_KEY] > 4 for row in part],
            )
            given_ = [found[place][len(names) + number] for place in places]
            assert all(map(near, given_, wanted)), (operation, part, given_, wanted)


def named(operations: list[Op]) -> list[Op]:
    """With a name of its own for each result."""
    return [
        Op(
            **{
                **{field: getattr(op, field) for field in op.__dataclass_fields__},
                "columns": (op.columns[0].replace("out", f"out{number}", 1),),
            }
        )
        for number, op in enumerate(operations)
    ]


@pytest.mark.parametrize("by", [(), (_TEXT,), (_FLAG, _TEXT)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=8)
def test_content_and_updates(kind: Any, by: tuple[int, ...], seed: int) -> None:
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    for _ in range(chance.randrange(3)):
        source.change(chance)
    tamed = source.table.update_view([TAMED])
    chosen = named(chance.sample([*CUMULATIVE, *MOVING, *ROWS], 8))
    made = update_by([tamed], chosen, [tamed.schema.names[number] for number in by])
    watch = Watch(made, exact=[*range(5, 5 + len(chosen))])
    for _ in range(10):
        check(made, tamed, chosen, by, None)
        watch.check_problems()
        source.change(chance)
    check(made, tamed, chosen, by, None)
    watch.check_held()


@pytest.mark.parametrize("by", [(), (_TEXT,), (_FLAG, _TEXT)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=8)
def test_windows_in_time(kind: Any, by: tuple[int, ...], seed: int) -> None:
    """The times of rows ascend, as those of a sorted table, whose rows move whenever it changes."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    for _ in range(chance.randrange(3)):
        source.change(chance)
    tamed = source.table.update_view([TAMED, "time = (long)key"]).sort("time")
    chosen = named(chance.sample([*TIMED, *TIMES, *ROWS], 8))
    made = update_by([tamed], chosen, [tamed.schema.names[number] for number in by])
    watch = Watch(made, exact=[*range(6, 6 + len(chosen))])
    for _ in range(10):
        check(made, tamed, chosen, by, 5)
        watch.check_problems()
        source.change(chance)
    check(made, tamed, chosen, by, 5)
    watch.check_held()


def test_results_take_the_place_of_columns_with_their_name() -> None:
    """Each operation reads the columns of the input, also where another one replaces them."""
    table = AppendTable(UpdateGraph(), "t", {"g": "string", "x": "int32", "y": "int64"})
    table.append({"g": ["a", "a"], "x": [1, 2], "y": [5, 6]})
    made = update_by([table], [Op("cum_sum", ("x",)), Op("cum_max", ("top = x", "y = x"))], ["g"])
    assert made.schema == pa.schema([("g", pa.string()), ("x", pa.int64()), ("y", pa.int32()), ("top", pa.int32())])
    assert plain_rows(made) == [("a", 1, 1, 1), ("a", 3, 2, 2)]


def test_without_columns_it_takes_all_that_it_can() -> None:
    table = AppendTable(
        UpdateGraph(), "t", {"g": "string", "x": "int32", "t": pa.timestamp("us"), "l": pa.list_(pa.int8())}
    )
    assert update_by([table], [Op("cum_sum")], ["g"]).schema.types == [pa.string(), pa.int64(), *table.schema.types[2:]]
    assert update_by([table], [Op("cum_min")], ["g"]).schema == table.schema
    with pytest.raises(InvalidRequestError, match="of no column"):
        update_by([table.view(["g", "l"])], [Op("cum_sum")], ["g"])


def test_times_of_any_unit_are_nanoseconds() -> None:
    table = AppendTable(UpdateGraph(), "t", {"t": pa.timestamp("ms", "UTC"), "x": "int64"})
    table.append({"t": [1, 2, 5], "x": [1, 2, 4]})
    window = Op("rolling_sum", ("s = x",), time_column="t", before=1_000_000)
    decay = Op("ems", ("e = x",), time_column="t", decay=1_000_000)
    found = update_by([table], [window, decay]).to_arrow().to_pydict()
    assert found["s"] == [1, 3, 4]
    assert np.allclose(found["e"], [1, 2 + math.exp(-1), 4 + math.exp(-3) * (2 + math.exp(-1))])


@pytest.mark.parametrize(
    "operation",
    [Op("rolling_sum", ("s = x",), time_column="t", before=9), Op("ema", ("s = x",), time_column="t", decay=9)],
    ids=lambda op: op.function,
)
def test_times_that_decrease_are_refused(operation: Op) -> None:
    """At once, or by the table's failure; the times of other groups do not matter."""
    table = AppendTable(UpdateGraph(), "t", {"g": "string", "t": "int64", "x": "int64"})
    table.append({"g": ["a", "b", "a"], "t": [5, 1, 6], "x": [1, 2, 3]})
    with pytest.raises(InvalidRequestError, match=r"must not decrease from row to row\. They do\. Sort"):
        update_by([table], [operation])
    made = update_by([table], [operation], ["g"])
    table.append({"g": ["a"], "t": [5], "x": [1]})
    with pytest.raises(TableFailedError, match=r"must not decrease from row to row\. They do with the key 'a'\. Sort"):
        made.check_usable()


IN_ORDER = [("b", 1, 5, 1.0), ("a", 1, 6, 1.0), ("a", 2, 7, 1.0), ("b", 1, 5, 1.0), ("a", 2, 9, 1.0)]
THROW = OperationControl(on_null=BadDataBehavior.THROW)


@pytest.mark.parametrize("is_keyed", [False, True])
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize(
    ("operation", "row", "told"),
    [
        (Op("rolling_sum", ("s = x",), time_column="t", before=9), ("a", 2, 8, 1.0), "They do"),
        (Op("ems", ("s = x",), time_column="t", decay=9), ("a", 2, 8, 1.0), "They do"),
        (Op("rolling_sum", ("s = x",), time_column="t", before=9), ("a", 2, None, 1.0), "Column 't' has null"),
        (Op("ema", ("s = x",), decay=9, control=THROW), ("a", 2, 10, None), "It has met one"),
    ],
    ids=["window", "moving", "null", "bad"],
)
def test_what_a_row_is_refused_for_names_its_group(
    operation: Op, row: tuple[Any, ...], told: str, is_late: bool, is_keyed: bool
) -> None:
    """By all values of its key; rows without a value are not counted for the place."""
    schema = {"g": "string", "n": "int32", "t": "int64", "x": "float64"}
    columns = {"k": "int64", **schema}
    table: KeyedTable | AppendTable
    table = KeyedTable(UpdateGraph(), "t", columns, "k") if is_keyed else AppendTable(UpdateGraph(), "t", columns)

    def add(rows: Sequence[tuple[Any, ...]], first: int) -> None:
        keys = range(first, first + len(rows))
        values = {"k": list(keys)} | {name: [each[number] for each in rows] for number, name in enumerate(schema)}
        table.upsert(values) if isinstance(table, KeyedTable) else table.append(values)

    add(IN_ORDER, 0)
    text = rf"{told} with the key 'a', 2\."
    if is_late:
        made = update_by([table], [operation], ["g", "n"])
        add([row], len(IN_ORDER))
        with pytest.raises(TableFailedError, match=text):
            made.check_usable()
    else:
        add([row, ("c", 1, 1, 1.0)], len(IN_ORDER))
        with pytest.raises(InvalidRequestError, match=text):
            update_by([table], [operation], ["g", "n"])


def test_rows_that_change_with_later_ones_are_not_promised_to_stay() -> None:
    """Windows that go on behind their row, or have rows of equal times; and rows that others leave in front of."""
    table = AppendTable(UpdateGraph(), "t", {"t": "int64", "x": "int64"})
    settled = [Op("cum_sum", ("s = x",)), Op("rolling_sum", ("s = x",), before=3, after=-1), Op("delta", ("s = x",))]
    moving = [
        Op("rolling_sum", ("s = x",), before=1, after=1),
        Op("rolling_sum", ("s = x",), time_column="t", before=9),
    ]
    assert [update_by([table], [one]).traits.append_only for one in settled] == [True] * 3
    assert [update_by([table], [one]).traits.append_only for one in moving] == [False] * 2
    made = update_by([table], moving[1:])
    highest, total = made.agg_by([bs.agg.max_("s")]), update_by([made], [Op("cum_sum", ("s",))])
    for time, value in ((5, 1), (5, 2), (6, 3)):
        table.append({"t": [time], "x": [value]})
    assert plain_rows(highest) == [(6,)]
    assert [row[-1] for row in plain_rows(total)] == [3, 6, 12]
    ring = RingTable(UpdateGraph(), "r", {"x": "int64"}, 3)
    assert update_by([ring], [Op("cum_sum", ("s = x",))]).traits.ring_capacity is None


def test_extremes_of_types() -> None:
    """Numbers beyond 63 bits, and times as far apart as can be."""
    most = (1 << 64) - 1
    table = AppendTable(UpdateGraph(), "t", {"v": "uint64", "t": "int64"})
    table.append({"v": [1, most, 5, 1 << 63, 0], "t": [-(1 << 63), -5, 0, 1, (1 << 63) - 1]})
    made = update_by(
        [table],
        [
            Op("cum_max", ("a = v",)),
            Op("cum_min", ("b = v",)),
            Op("rolling_max", ("c = v",), before=2),
            Op("rolling_min", ("d = v",), before=2),
            Op("rolling_count", ("e = v",), time_column="t", before=9),
            Op("ems", ("f = t",), time_column="t", decay=1),
        ],
    ).to_arrow()
    assert made["a"].to_pylist() == [1, most, most, most, most]
    assert made["b"].to_pylist() == [1, 1, 1, 1, 0]
    assert made["c"].to_pylist() == [1, most, most, 1 << 63, 1 << 63]
    assert made["d"].to_pylist() == [1, 1, 5, 5, 0]
    assert made["e"].to_pylist() == [1, 1, 2, 3, 1]


def test_instants_beyond_nanoseconds_are_null() -> None:
    table = AppendTable(UpdateGraph(), "t", {"t": pa.timestamp("s"), "x": "int64"})
    table.append({"t": pa.array([1, 253_402_300_799], pa.timestamp("s")), "x": [1, 2]})
    moving = update_by([table], [Op("ems", ("s = x",), time_column="t", decay=1)])
    assert moving.to_arrow()["s"].to_pylist() == [1, 1]
    with pytest.raises(InvalidRequestError, match="'t' has null"):
        update_by([table], [Op("rolling_sum", ("s = x",), time_column="t", before=1)])


@pytest.mark.parametrize(
    "operation",
    [
        Op("forward_fill", ("o = s",)),
        Op("cum_max", ("o = s",)),
        Op("rolling_max", ("o = s",), before=1_000_000),
        Op("rolling_group", ("o = s",), before=1_000_000),
        Op("rolling_formula", ("o = s",), before=1_000_000, formula="len(e)", parameter="e"),
    ],
    ids=lambda op: op.function,
)
def test_a_long_text_is_not_copied_to_every_row(operation: Op) -> None:
    """Its copies are counted before they are made."""
    table = bs.table(pa.table({"s": ["z" * 200_000] + [None] * 5_000}))
    with pytest.raises(LimitError, match="MiB"):
        update_by([table], [operation])


def test_operations_are_counted_before_they_are_computed() -> None:
    """The state of each of them, about; and between two of them the work may be broken off."""
    table = bs.table({"x": np.arange(1_000)})
    many = plan.UpdateBy(tuple(Op("cum_sum", (f"x{number} = x",)) for number in range(1_000)))
    assert state_bytes(many, [table]) > 9 * 1_000 * 1_000
    with pytest.raises(LimitError, match="at most 10,000 results"):
        update_by([table], [Op("cum_sum", tuple(f"x{number} = x" for number in range(10_001)))])
    asked = []
    with interruptible(lambda: asked.append(True)):
        update_by([table], many.operations)
    assert len(asked) >= 1_000


def test_null_times() -> None:
    """A moving function leaves the row out; windows need the time of each row."""
    table = AppendTable(UpdateGraph(), "t", {"t": "int64", "x": "int64"})
    table.append({"t": [1, None, 2], "x": [1, 2, 3]})
    moving = update_by([table], [Op("ems", ("s = x",), time_column="t", decay=1)])
    assert np.allclose(moving.to_arrow()["s"].to_pylist(), [1, 1, 3 + math.exp(-1)])
    with pytest.raises(InvalidRequestError, match="'t' has null"):
        update_by([table], [Op("rolling_sum", ("s = x",), time_column="t", before=1)])


def test_a_moving_function_that_is_to_fail_at_null_does() -> None:
    table = AppendTable(UpdateGraph(), "t", {"x": "float64"})
    made = update_by([table], [Op("ema", ("x",), decay=1, control=OperationControl(on_null=BadDataBehavior.THROW))])
    table.append({"x": [1.0, float("nan")]})
    made.check_usable()
    table.append({"x": [None]})
    with pytest.raises(TableFailedError, match="null or NaN"):
        made.check_usable()


def test_a_cycle_costs_the_rows_that_depend_on_what_has_changed() -> None:
    table = KeyedTable(UpdateGraph(), "t", {"k": "int64", "g": "int64", "v": "int64"}, "k")
    keys = np.arange(1_000)
    table.upsert({"k": keys, "g": keys % 10, "v": keys})
    made = update_by([table], [Op("cum_sum", ("s = v",)), Op("rolling_sum", ("r = v",), before=3)], ["g"])
    watch = Watch(made)
    table.upsert({"k": [503], "g": [3], "v": [-1]})
    assert [rows.size for rows in watch.updates[-1].modified] == [0, 0, 1, 50, 3]
    table.delete({"k": [503]})
    assert [rows.size for rows in watch.updates[-1].modified] == [0, 0, 0, 49, 2]
    table.upsert({"k": [2_000], "g": [3], "v": [7]})
    assert (watch.updates[-1].added.size, watch.updates[-1].modified_rows.size) == (1, 0)
    watch.check_held()


def test_groups_that_have_gone_are_forgotten() -> None:
    table = KeyedTable(UpdateGraph(), "t", {"k": "int64", "g": "string"}, "k")
    made = update_by([table], [Op("cum_sum", ("s = k",))], ["g"])
    sizes = []
    for batch in range(12):
        keys = np.arange(batch * 20_000, (batch + 1) * 20_000)
        table.upsert({"k": keys, "g": [f"g{key:07}" for key in keys]})
        table.delete({"k": np.arange((batch + 1) * 20_000 - 3)})
        sizes.append(made.nbytes - table.nbytes)
        assert [row[-1] for row in plain_rows(made)] == [*keys[-3:]]
    assert max(sizes[6:]) < 1.2 * max(sizes[:6])


def test_many_rows() -> None:
    """More than are computed at a time, in groups of very different sizes."""
    chance = np.random.default_rng(5)
    groups = np.minimum(chance.exponential(20, 300_000).astype(np.int64), 200)
    values = chance.integers(0, 100, len(groups)).astype(np.float64)
    table = AppendTable(UpdateGraph(), "t", {"g": "int64", "x": "float64"})
    table.append({"g": groups, "x": values})
    made = update_by(
        [table],
        [Op("cum_sum", ("s = x",)), Op("rolling_max", ("m = x",), before=50), Op("ema", ("e = x",), decay=9)],
        ["g"],
    )
    found = made.to_arrow()
    for group in (0, 3, 40, 130):
        mask = groups == group
        part = found.filter(pa.array(mask))
        mine = values[mask]
        assert part["s"].to_pylist() == np.cumsum(mine).tolist()
        assert part["m"].to_pylist() == [mine[max(0, place - 49) : place + 1].max() for place in range(len(mine))]
        state, ratio = mine[0], math.exp(-1 / 9)
        for value in mine[1:]:
            state = ratio * state + (1 - ratio) * value
        assert math.isclose(part["e"][-1].as_py(), state, rel_tol=1e-9)


WRONG: dict[str, tuple[Callable[[Table], Table], type[Exception], str]] = {
    "none": (lambda table: update_by([table], []), InvalidRequestError, "at least one operation"),
    "function": (
        lambda table: update_by([table], [Op("cumsum", ("x",))]),
        InvalidRequestError,
        "Did you mean 'cum_sum'",
    ),
    "column": (
        lambda table: update_by([table], [Op("cum_sum", ("pric",))]),
        UnknownColumnError,
        "Did you mean 'price'",
    ),
    "by": (
        lambda table: update_by([table], [Op("cum_sum", ("price",))], ["sim"]),
        UnknownColumnError,
        "Did you mean 'sym'",
    ),
    "type": (
        lambda table: update_by([table], [Op("cum_sum", ("sym",))]),
        InvalidRequestError,
        "cum_sum cannot take column 'sym'",
    ),
    "twice": (
        lambda table: update_by([table], [Op("cum_sum", ("a=price", "a=price"))]),
        InvalidRequestError,
        "'a' twice",
    ),
    "window": (
        lambda table: update_by([table], [Op("rolling_sum", ("price",), before=1, after=-2)]),
        InvalidRequestError,
        "before it begins",
    ),
    "huge": (
        lambda table: update_by([table], [Op("rolling_sum", ("price",), before=1 << 70)]),
        InvalidRequestError,
        "64-bit",
    ),
    "decay": (lambda table: update_by([table], [Op("ema", ("price",), decay=0)]), InvalidRequestError, "above 0"),
    "no decay": (lambda table: update_by([table], [Op("ema", ("price",))]), InvalidRequestError, "above 0"),
    "time": (
        lambda table: update_by([table], [Op("ema", ("price",), decay=1, time_column="sym")]),
        InvalidRequestError,
        "column of instants",
    ),
    "weight": (
        lambda table: update_by([table], [Op("rolling_wavg", ("price",), before=1, weight="sym")]),
        InvalidRequestError,
        "cannot weigh by column 'sym'",
    ),
    "no weight": (
        lambda table: update_by([table], [Op("rolling_wavg", ("price",), before=1)]),
        InvalidRequestError,
        "wcol",
    ),
    "filters": (
        lambda table: update_by([table], [Op("cum_count_where", ("n",))]),
        InvalidRequestError,
        "needs filters",
    ),
    "formula": (
        lambda table: update_by([table], [Op("rolling_formula", before=1, formula="x = ii + sum(price)")]),
        InvalidRequestError,
        "positions",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_computed_is_refused_at_once(case: str) -> None:
    make, error, words = WRONG[case]
    table = AppendTable(UpdateGraph(), "t", {"sym": "string", "price": "float64"})
    with pytest.raises(error, match=words):
        make(table)
    assert len(table.children) == 0
