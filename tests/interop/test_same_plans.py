"""Random plans by Deephaven's Python client, unmodified: the same calls on this server and on a real Deephaven server.

The tables that they begin with change in the same way on both, and after each step results are equal in every cell and
type, but for the last digits of floating-point numbers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pytest

from tests.waiting import until

from .comparison import differences
from .deephaven import DeephavenServer
from .peers.arrow_text import from_text
from .planned_table import PlannedTable
from .python_client import Pydeephaven
from .random_plans import random_plan

pytestmark = pytest.mark.interop

PLANS: Final = 10  # in one test
STEPS: Final = 4
SECOND: Final = 1_000_000_000
START: Final = 1_718_461_472 * SECOND  # 2024-06-15T14:24:32Z
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("sym", pa.string()),
        ("level", pa.int32()),
        ("at", pa.timestamp("ns", "UTC")),
        ("moment", pa.timestamp("ns", "UTC")),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("whole", pa.int32()),
        ("large", pa.int64()),
        ("single", pa.float32()),
        ("price", pa.float64()),
        ("wild", pa.float64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
    ]
)
LOOKUP: Final = pa.schema(
    [("sym", pa.string()), ("rank", pa.int32()), ("rate", pa.float64()), ("since", pa.timestamp("ns", "UTC"))]
)

PEER: Final = """
import base64
from pydeephaven import NaturalJoinType, SortDirection, agg, filters, updateby as ub
from tests.interop.peers.arrow_text import to_text

sessions = (session, other)
sources = [
    [
        one.input_table(schema=schema.schema),
        one.input_table(schema=schema.schema, key_cols=["id"]),
        one.input_table(schema=lookup_schema.schema, key_cols=["sym"]),
    ]
    for one in sessions
]

def add(number):
    for tables, one in zip(sources, sessions):
        tables[number].add(one.import_table(data))

def delete(number):
    for tables, one in zip(sources, sessions):
        tables[number].delete(one.import_table(data))

def tried(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error} {error.__cause__}"

def made(text):
    names = "session, grown, keyed, lookup"
    plan = eval(f"lambda {names}: {text}")
    return [tried(plan, one, *tables) for tables, one in zip(sources, sessions)]

def content(table):
    return table if isinstance(table, str) else tried(lambda: "=" + to_text(table.to_arrow()))

def contents(numbers):
    pairs = [results[number] for number in numbers]
    return pa.table({"ours": [content(one) for one, _ in pairs], "theirs": [content(one) for _, one in pairs]})
"""


def row_of(chance: random.Random, number: int) -> dict[str, Any]:
    """A random row: every fifth cell is null, ``wild`` has NaN and infinities."""
    cells: dict[str, Any] = {
        "level": chance.randint(0, 3),
        "moment": START + chance.randint(-60, 60) * SECOND,
        "tiny": chance.randint(-60, 60),
        "small": chance.randint(-1000, 1000),
        "whole": chance.randint(-100_000, 100_000),
        "large": chance.randint(-(10**12), 10**12),
        "single": chance.randint(-200, 200) / 4,
        "price": chance.randint(-200, 200) / 4,
        "wild": chance.choice([1.5, -2.0, 3.0, 0.0, 7.0, 11.0, math.nan, math.inf, -math.inf]),
        "text": chance.choice(["", "a", "b", "Z", "A", "ä"]),
        "flag": chance.choice([True, False]),
    }
    cells = {name: None if chance.random() < 0.2 else cell for name, cell in cells.items()}
    return {"id": number, "sym": chance.choice(["A", "B", "C", None]), "at": START + number // 3 * SECOND, **cells}


def lookup_of(chance: random.Random, sym: str | None) -> dict[str, Any]:
    """A random row of the keyed table with few rows."""
    cells = {
        "rank": chance.randint(0, 3),
        "rate": chance.randint(-20, 20) / 4,
        "since": START + chance.randint(-5, 60) * SECOND,
    }
    return {"sym": sym, **{name: None if chance.random() < 0.2 else cell for name, cell in cells.items()}}


class Stream:
    """What changes in the tables that plans begin with, in both servers."""

    def __init__(self, both: Pydeephaven, seed: int) -> None:
        self.both = both
        self.chance = random.Random(seed)
        self.next_id = 0
        self.alive: list[int] = []  # in the keyed table; a row that is made anew has its old place in Deephaven's
        self.syms: list[str | None] = ["A", "B", None, "b"]
        self.spare = ["C", "D", "Z", "a", ""]

    def _send(self, call: str, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
        if rows:
            self.both.give("data", pa.Table.from_pylist(rows, schema=schema))
            self.both.execute(call)

    def begin(self) -> None:
        """The first rows."""
        self.change(15)
        self._send("add(2)", [lookup_of(self.chance, sym) for sym in self.syms], LOOKUP)

    def change(self, count: int = 8) -> None:
        """Rows are added to all tables, and changed and removed in the keyed ones."""
        chance = self.chance
        numbers = range(self.next_id, self.next_id + count)
        self.next_id += count
        self._send("add(0)", [row_of(chance, number) for number in numbers], SCHEMA)
        changed = chance.sample(self.alive, min(len(self.alive), 4))
        self.alive += numbers
        self._send("add(1)", [row_of(chance, number) for number in [*changed, *numbers]], SCHEMA)

    def step(self) -> None:
        """One step: some cycles of each table."""
        self.change()
        gone = self.chance.sample(self.alive, 4)
        self.alive = [number for number in self.alive if number not in gone]
        self._send("delete(1)", [{"id": number} for number in gone], pa.schema([SCHEMA.field("id")]))
        changed = [self.chance.choice(self.syms), self.spare.pop()]
        self.syms.append(changed[1])
        self._send("add(2)", [lookup_of(self.chance, sym) for sym in changed], LOOKUP)
        left = self.syms.pop(self.chance.randrange(len(self.syms)))
        self._send("delete(2)", [{"sym": left}], pa.schema([LOOKUP.field("sym")]))


@pytest.fixture
def both(client: Pydeephaven, deephaven: DeephavenServer) -> Iterator[Pydeephaven]:
    """A client with a session on this server, and ``other`` on a Deephaven server; both with tables to plan on."""
    client.execute(f"other = Session('127.0.0.1', {deephaven.port})")
    client.give("schema", SCHEMA.empty_table())
    client.give("lookup_schema", LOOKUP.empty_table())
    client.execute(PEER)
    yield client
    client.execute("other.close()")


def different(both: Pydeephaven, plans: list[PlannedTable], numbers: list[int]) -> dict[int, object]:
    """What differs in the results of the plans of these numbers."""
    found: dict[int, object] = {}
    contents = both.fetch(f"contents({numbers})", 120).to_pylist()
    for number, content in zip(numbers, contents, strict=True):
        ours, theirs = content["ours"], content["theirs"]
        if ours[:1] == theirs[:1] == "=":
            wrong: object = differences(from_text(ours[1:]), from_text(theirs[1:]), ordered=plans[number].ordered)[:10]
        else:
            wrong = {name: text for name, text in content.items() if not text.startswith("=")}
        if wrong:
            found[number] = wrong
    return found


def check_same(both: Pydeephaven, plans: list[PlannedTable], moment: str) -> None:
    """Results are equal, or are so soon: Deephaven's tables of input tell of a change before it is seen in others."""
    wrong: dict[int, object] = dict.fromkeys(range(len(plans)))

    def equal() -> bool:
        nonlocal wrong
        wrong = different(both, plans, list(wrong))
        return not wrong

    try:
        until(equal, timeout=10)
    except AssertionError:
        texts = [f"{plans[number].text}\n  {what}" for number, what in wrong.items()]
        pytest.fail(f"{moment}:\n" + "\n".join(texts), pytrace=False)


@pytest.mark.parametrize("seed", range(20))
def test_random_plans_have_deephavens_results(both: Pydeephaven, seed: int) -> None:
    plans = [random_plan(PLANS * seed + number) for number in range(PLANS)]
    stream = Stream(both, seed)
    stream.begin()
    both.execute(f"results = [made(text) for text in {[plan.text for plan in plans]!r}]", 120)
    check_same(both, plans, "at the start")
    for step in range(STEPS):
        stream.step()
        check_same(both, plans, f"after step {step}")
