"""Random plans by our client: the same ones on a server of ours and on a real Deephaven server, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.client.remote_table import RemoteTable
from tests.waiting import until

from .changes import LOOKUP, SCHEMA, Stream
from .comparison import differences
from .deephaven import DeephavenServer
from .our_queries import planned
from .planned_table import PlannedTable
from .random_plans import random_plan

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PLANS: Final = 10  # in one test
STEPS: Final = 4
NAMES: Final = ("grown", "keyed", "lookup")
WINDOW: Final = range(2, 9)


class Both:
    """A client of each server, and the tables that plans begin with, which change in the same way on both."""

    def __init__(self, server: bs.Server, deephaven: DeephavenServer) -> None:
        self.deephaven = deephaven
        self.clients = (bs.connect(server.uri), bs.connect(deephaven.uri))
        self._rows = SCHEMA.empty_table()
        ours = self.clients[0]
        ours.create_table("grown", SCHEMA)
        ours.create_table("keyed", SCHEMA, key="id")
        ours.create_table("lookup", LOOKUP, key="sym")
        deephaven.upload("schema", SCHEMA.empty_table())
        deephaven.upload("lookup_schema", LOOKUP.empty_table())
        deephaven.execute(
            "from deephaven import input_table\n"
            "grown = input_table(init_table=schema)\n"
            "keyed = input_table(init_table=schema, key_cols=['id'])\n"
            "lookup = input_table(init_table=lookup_schema, key_cols=['sym'])\n"
        )
        self.sources = [{name: client.table(name) for name in NAMES} for client in self.clients]

    def give(self, name: str, table: pa.Table) -> None:
        """The next rows."""
        assert name == "data"
        self._rows = table
        self.deephaven.upload("data", table)

    def execute(self, code: str) -> None:
        """``add(number)`` or ``delete(number)``."""
        call, _, number = code.rstrip(")").partition("(")
        name = NAMES[int(number)]
        ours = self.clients[0]
        change = {"add": ours.append if name == "grown" else ours.upsert, "delete": ours.delete}[call]
        change(name, self._rows)
        self.deephaven.execute(f"{name}.{call}(data)")

    def close(self) -> None:
        """End both clients."""
        for client in self.clients:
            client.close()


@pytest.fixture
def both(deephaven: DeephavenServer) -> Iterator[Both]:
    with bs.Server() as server:
        both = Both(server, deephaven)
        yield both
        both.close()


@dataclass
class Results:
    """The results of one plan on both servers; some are read, some are followed, some are followed in part."""

    plan: PlannedTable
    tables: list[RemoteTable]
    lives: list[bs.LiveTable]
    part: bool

    @classmethod
    def of(cls, both: Both, plan: PlannedTable, way: int) -> Results:
        """The results of a plan."""
        tables = [planned(plan.text, sources) for sources in both.sources]
        for table in tables:
            assert table.schema.names  # it is computed now
        part = way == 2 and plan.ordered
        viewport: Any = WINDOW if part else None
        lives = [table.subscribe(viewport=viewport, interval_ms=1) for table in tables] if way else []
        return cls(plan, tables, lives, part)

    def different(self) -> list[object]:
        """What differs now."""
        ours, theirs = [table.to_arrow() for table in self.tables]
        found = differences(ours, theirs, ordered=self.plan.ordered)[:10]
        for live in self.lives:
            wanted = ours.slice(WINDOW.start, len(WINDOW)) if self.part else ours
            found += differences(live.to_arrow(), wanted, ordered=self.plan.ordered)[:10]
        return found


def check_same(results: list[Results], moment: str) -> None:
    """Results are equal, or are so soon: tables of input tell of a change before it is seen in others."""
    wrong: list[tuple[Results, list[object]]] = [(one, []) for one in results]

    def equal() -> bool:
        nonlocal wrong
        wrong = [(one, found) for one, _ in wrong if (found := one.different())]
        return not wrong

    try:
        until(equal, timeout=10)
    except AssertionError:
        texts = [f"{one.plan.text}\n  {found}" for one, found in wrong]
        pytest.fail(f"{moment}:\n" + "\n".join(texts), pytrace=False)


@pytest.mark.parametrize("seed", range(20))
def test_random_plans_have_the_same_results_on_both_servers(both: Both, seed: int) -> None:
    stream = Stream(both, seed)
    stream.begin()
    results = [Results.of(both, random_plan(PLANS * seed + number), number % 3) for number in range(PLANS)]
    check_same(results, "at the start")
    for step in range(STEPS):
        stream.step()
        check_same(results, f"after step {step}")
