"""``update_by`` by Deephaven's Python client, unmodified: the same calls on this server and on a real Deephaven server.

Results are equal in every cell and type, but for the last digits of floating-point numbers. What Deephaven's own server
cannot do is left out: see ``docs/deephaven.md``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pytest

from tests.waiting import until

from .comparison import differences
from .deephaven import DeephavenServer
from .peer import PeerError
from .python_client import Pydeephaven

pytestmark = pytest.mark.interop

SECOND: Final = 1_000_000_000
START: Final = 1_718_446_272 * SECOND
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("sym", pa.string()),
        ("at", pa.timestamp("ns", "UTC")),
        ("late", pa.timestamp("ns", "UTC")),
        ("each", pa.timestamp("ns", "UTC")),
        ("moment", pa.timestamp("ns", "UTC")),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("whole", pa.int32()),
        ("large", pa.int64()),
        ("single", pa.float32()),
        ("price", pa.float64()),
        ("wild", pa.float64()),
        ("odd", pa.float64()),
        ("sign", pa.int32()),
        ("factor", pa.float64()),
        ("weight", pa.float64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
    ]
)
NUMBERS: Final = ["tiny", "small", "whole", "large", "single", "price"]
FLOATS: Final = ["single", "price", "wild"]


def row_of(chance: random.Random, number: int) -> dict[str, Any]:
    """A random row: every fifth cell is null, ``wild`` has NaN and infinities, instants do not descend.

    Those of ``late`` differ: of rows at one instant Deephaven's leaves out floating-point numbers. Numbers are
    multiples of a quarter, whose sums have no rounding errors, and products stay far from overflow.
    """
    quarters = chance.randint(-200, 200)
    cells: dict[str, Any] = {
        "tiny": chance.randint(-60, 60),
        "small": chance.randint(-1000, 1000),
        "whole": chance.randint(-100_000, 100_000),
        "large": chance.randint(-(10**12), 10**12),
        "single": quarters / 4,
        "price": chance.randint(-200, 200) / 4,
        "wild": chance.choice([1.5, -2.0, 3.0, 0.25, 7.0, 11.0, math.nan, math.inf, -math.inf]),
        "odd": chance.choice([1.5, -2.0, 3.0, 0.25, math.nan]),
        "sign": chance.choice([-3, -1, 1, 1, 3]),
        "factor": chance.choice([-1.0, 0.5, 2.0, 1.5, 1.0]),
        "weight": chance.choice([0.5, 1.0, 2.0, 3.0]),
        "text": chance.choice(["", "a", "b", "Z", "ä"]),
        "flag": chance.choice([True, False]),
        "late": START + number * SECOND,
        "moment": START + chance.randint(-(10**15), 10**15),
    }
    cells = {name: None if chance.random() < 0.2 else cell for name, cell in cells.items()}
    at, each = START + number // 3 * SECOND, START + number * SECOND
    return {"id": number, "sym": chance.choice(["A", "B", "C", None]), "at": at, "each": each, **cells}


def rows(seed: int, numbers: range) -> pa.Table:
    chance = random.Random(seed)
    return pa.Table.from_pylist([row_of(chance, number) for number in numbers], schema=SCHEMA)


def pairs(prefix: str, columns: list[str]) -> str:
    return repr([f"{prefix}_{column} = {column}" for column in columns])


def moving(name: str) -> Iterator[str]:
    """The calls of a function whose weights decay."""
    wild = "odd" if name == "emstd" else "wild"  # Deephaven's goes on from infinities as if there had been none
    yield f"ub.{name}_tick(2.5, {pairs(name, [*NUMBERS, wild])})"
    yield f"ub.{name}_time('at', 'PT00:00:03', {pairs(name + '_at', ['tiny', 'whole', 'large'])})"
    yield f"ub.{name}_time('late', 2_000_000_000, {pairs(name + '_late', ['whole', 'price', wild])})"
    for null, nan in (
        ("RESET", "SKIP"),
        ("SKIP", "RESET"),
        ("SKIP", "POISON"),
        ("RESET", "POISON"),
        ("RESET", "RESET"),
    ):
        control = f"OperationControl(BadDataBehavior.{null}, BadDataBehavior.{nan})"
        yield f"ub.{name}_tick(4, {pairs(f'{name}_{null}_{nan}', ['price', wild])}, {control})"
        if nan == "POISON":
            continue  # Deephaven's cannot go on from rows without a value or an instant: it sees instants that descend
        yield f"ub.{name}_time('late', 'PT2s', {pairs(f'{name}_time_{null}_{nan}', ['price', wild])}, {control})"


TICKS: Final = [(1, 0), (4, 0), (3, -1), (0, 2), (-1, 3), (3, 2), (1000, 1000)]
TIMES: Final = [("'PT2s'", "0"), ("0", "0"), ("'PT3s'", "'-PT1s'"), ("'-PT1s'", "'PT00:00:02'"), ("10**9", "10**9")]
ROLLED: Final[dict[str, list[str]]] = {
    "sum": [*NUMBERS, "wild", "flag"],
    "avg": [*NUMBERS, "wild", "flag"],
    "min": [*NUMBERS, "text", "moment"],
    "max": [*NUMBERS, "text", "moment"],
    "prod": ["sign", "factor", "wild"],
    "count": [*NUMBERS, "wild", "text", "flag"],
    "std": [*NUMBERS, "wild"],
}


def rolling(name: str) -> Iterator[str]:
    """The calls of a plain function of windows, with every window."""
    columns = ROLLED[name]
    for number, (back, on) in enumerate(TICKS):
        yield f"ub.rolling_{name}_tick({pairs(f'r{name}{number}', columns)}, {back}, {on})"
    for column in ("at", "each"):
        for number, (before, after) in enumerate(TIMES):
            yield f"ub.rolling_{name}_time('{column}', {pairs(f'{column}{name}{number}', columns)}, {before}, {after})"


def windows(tick: str, time: str, columns: tuple[str, ...] = ("at", "each")) -> Iterator[str]:
    """Calls with every window; ``#`` in them is a number, for names."""
    for number, (back, on) in enumerate(TICKS):
        yield tick.replace("#", str(number)) + f", {back}, {on})"
    for column in columns:
        for number, (before, after) in enumerate(TIMES):
            yield time.replace("#", f"{number}{column}").replace("AT", repr(column)) + f", {before}, {after})"


OPERATIONS: Final[dict[str, list[str]]] = {
    "cum_sum": [f"ub.cum_sum({pairs('sum', [*NUMBERS, 'wild', 'flag'])})"],
    "cum_prod": ["ub.cum_prod(['p1 = sign', 'p2 = factor', 'p3 = wild'])"],
    "cum_min": [f"ub.cum_min({pairs('min', [*NUMBERS, 'wild', 'text', 'moment'])})"],
    "cum_max": [f"ub.cum_max({pairs('max', [*NUMBERS, 'wild', 'text', 'moment'])})"],
    "cum_count_where": [
        "ub.cum_count_where('c1', 'price > 1')",
        "ub.cum_count_where('c2', ['!isNull(text)', 'whole < 0 || price > 2'])",
    ],
    "forward_fill": [f"ub.forward_fill({pairs('fill', [*NUMBERS, 'wild', 'text', 'flag', 'moment'])})"],
    "delta": [
        f"ub.delta({pairs(control, [*NUMBERS, 'wild', 'moment'])}, ub.DeltaControl.{control})"
        for control in ("NULL_DOMINATES", "VALUE_DOMINATES", "ZERO_DOMINATES")
    ],
    **{name: list(moving(name)) for name in ("ema", "ems", "emmin", "emmax", "emstd")},
    **{f"rolling_{name}": list(rolling(name)) for name in ROLLED},
    "rolling_group": list(
        windows(
            "ub.rolling_group_tick(['g# = whole', 't# = text', 'f# = price']",
            "ub.rolling_group_time(AT, ['g# = whole', 't# = text', 'f# = price']",
        )
    ),
    "rolling_wavg": list(
        windows(
            "ub.rolling_wavg_tick('weight', ['w# = whole', 'f# = price', 'i# = wild']",
            "ub.rolling_wavg_time(AT, 'weight', ['w# = whole', 'f# = price', 'i# = wild']",
        )
    ),
    "rolling_formula": list(
        windows(
            "ub.rolling_formula_tick('sum(each) * 2 + count(each)', 'each', ['w# = whole', 'f# = price']",
            "ub.rolling_formula_time(AT, 'max(each) - min(each)', 'each', ['w# = whole', 'f# = price']",
        )
    ),
    "rolling_count_where": list(
        windows(
            "ub.rolling_count_where_tick('n#', ['price > 1', '!isNull(text)']",
            "ub.rolling_count_where_time(AT, 'n#', 'price > 1'",
        )
    ),
}


def calls_of(function: str, by: list[str]) -> str:
    """The calls of ``update_by`` with all operations of a function: two, as Deephaven's fails at two kinds of time."""
    late = [one for one in OPERATIONS[function] if "_time('late'" in one or "_time('each'" in one]
    other = [one for one in OPERATIONS[function] if one not in late]
    return ".".join(f"update_by([{', '.join(listed)}], by={by!r})" for listed in (other, late) if listed)


@pytest.fixture
def both(client: Pydeephaven, deephaven: DeephavenServer) -> Iterator[Pydeephaven]:
    """A client with a session on this server, and ``other`` on a Deephaven server."""
    client.execute(f"other = Session('127.0.0.1', {deephaven.port})")
    client.execute(
        "from pydeephaven import updateby as ub; from pydeephaven.updateby import BadDataBehavior, OperationControl"
    )
    yield client
    client.execute("other.close()")


def different(both: Pydeephaven) -> list[object]:
    """What is not equal in ``ours`` and ``theirs`` there: columns, types, the number of rows, or cells."""
    return differences(both.fetch("ours.to_arrow()", 120), both.fetch("theirs.to_arrow()", 120))


def check_same(both: Pydeephaven) -> None:
    """They are equal, or are so soon: Deephaven's tables of input tell of a change before it is seen in others."""
    with suppress(AssertionError):
        until(lambda: not different(both), timeout=10)
    assert different(both) == []


@pytest.mark.parametrize("by", [[], ["sym"]], ids=["all", "by"])
@pytest.mark.parametrize("function", OPERATIONS)
def test_a_function_of_a_static_table_is_deephavens(both: Pydeephaven, function: str, by: list[str]) -> None:
    both.give("data", rows(len(function), range(120)))
    calls = calls_of(function, by)
    both.execute(f"ours = session.import_table(data).{calls}; theirs = other.import_table(data).{calls}", 120)
    assert different(both) == []


@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.parametrize("function", OPERATIONS)
def test_a_function_of_a_ticking_table_is_deephavens(both: Pydeephaven, function: str, kind: str) -> None:
    """After rows are added, and in keyed tables changed and removed in between."""
    chance = random.Random(len(function))
    both.give("schema", SCHEMA.empty_table())
    keys = ["id"] if kind == "keyed" else None
    calls = calls_of(function, ["sym"])
    both.execute(f"tables = [one.input_table(schema=schema.schema, key_cols={keys}) for one in (session, other)]")
    both.execute(f"ours, theirs = [table.{calls} for table in tables]", 120)
    add = "[table.add(one.import_table(data)) for table, one in zip(tables, (session, other))]"
    alive: list[int] = []  # a row that is made anew has its old place in Deephaven's tables
    for step in range(5):
        added = range(20 * step, 20 * step + 20)
        both.give("data", rows(step, added))
        both.execute(add)
        alive += added
        if kind == "keyed":
            changed = chance.sample(alive, 5)
            cells = [row_of(chance, number) for number in changed]
            both.give("data", pa.Table.from_pylist(cells, schema=SCHEMA))
            both.execute(add)
        check_same(both)
        if kind == "keyed":
            gone = chance.sample(alive, 4)
            alive = [number for number in alive if number not in gone]
            both.give("data", pa.table({"id": pa.array(gone, pa.int64())}))
            both.execute(add.replace("add", "delete"))
            check_same(both)


@pytest.mark.parametrize(
    "call",
    [
        "update_by([])",
        "update_by([ub.cum_sum(['nope'])])",
        "update_by([ub.cum_sum(['x = text'])])",
        "update_by([ub.ema_tick(2, ['x = flag'])])",
        "update_by([ub.cum_sum(['x = whole'])], by=['nope'])",
        "update_by([ub.cum_sum(['x = whole']), ub.cum_max(['x = whole'])])",
        "update_by([ub.ema_time('whole', 'PT1s', ['x = price'])])",
        "update_by([ub.ema_time('nope', 'PT1s', ['x = price'])])",
        "update_by([ub.ema_time('at', '1s', ['x = price'])])",
        "update_by([ub.rolling_sum_tick(['x = price'], -3, 1)])",
        "update_by([ub.rolling_sum_tick(['x = price'], 2**31)])",
        "update_by([ub.rolling_sum_time('at', ['x = price'], 'PT1s', '-PT2s')])",
        "update_by([ub.rolling_wavg_tick('text', ['x = price'], 3)])",
        "update_by([ub.rolling_formula_tick('sum(nope)', 'each', ['x = price'], 3)])",
        "update_by([ub.cum_count_where('x', 'nope > 1')])",
        "update_by([ub.ema_tick(2, ['x = price'], OperationControl(BadDataBehavior.THROW))])",
        "update_by([ub.ema_tick(2, ['x = wild'], OperationControl(on_nan=BadDataBehavior.THROW))])",
        "sort_descending('at').update_by([ub.ema_time('at', 'PT1s', ['x = price'])])",
        "sort_descending('at').update_by([ub.rolling_sum_time('at', ['x = price'], 'PT1s')])",
    ],
)
def test_what_deephaven_refuses_is_refused(both: Pydeephaven, call: str) -> None:
    both.give("data", rows(1, range(60)))
    for session in ("session", "other"):
        with pytest.raises(PeerError) as caught:
            both.execute(f"session_table = {session}.import_table(data).{call}")
        assert caught.value.kind == "DHError"
