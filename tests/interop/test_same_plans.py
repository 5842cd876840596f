"""Random plans by Deephaven's Python client, unmodified: the same calls on this server and on a real Deephaven server.

The tables that they begin with change in the same way on both, and after each step results are equal in every cell and
type, but for the last digits of floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.waiting import until

from .changes import LOOKUP, SCHEMA, Stream
from .comparison import differences
from .deephaven import DeephavenServer
from .peers.arrow_text import from_text
from .planned_table import PlannedTable
from .python_client import Pydeephaven
from .random_plans import random_plan

pytestmark = pytest.mark.interop

PLANS: Final = 10  # in one test
STEPS: Final = 4
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
