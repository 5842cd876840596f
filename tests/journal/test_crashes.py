"""A crash at any write loses nothing that was promised, and leaves nothing half done."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.engine import Table, UpdateGraph
from barrage_server.journal.recovery import recover
from barrage_server.publish import Committer, Identity, Ledger, StagingArea, Target
from barrage_server.publish.delta import Part, publish_parts
from barrage_server.publish.notes import BatchCommitted
from barrage_server.server.catalog import Catalog
from barrage_server.server.durability import Durability, is_durable
from barrage_server.server.fsync import Fsync
from barrage_server.wire.protocol import PublishMode, TableKind
from barrage_server.wire.table_spec import TableSpec
from tests.journal.simulated import Machine, SimulatedFolder

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])
SPECS = {
    "log": TableSpec(TableKind.APPEND),
    "ring": TableSpec(TableKind.RING, capacity=30),
    "keyed": TableSpec(TableKind.KEYED, ("key",)),
    "whole": TableSpec(TableKind.REPLACED),
}
HISTORIES = int(os.environ.get("HISTORIES", "40"))
FAST = 2
STEPS = 25

State = tuple[dict[str, tuple[list[int], list[dict[str, Any]]]], dict[tuple[str, str], int]]


class Site:
    """The tables of a server, without its ports."""

    def __init__(self, root: SimulatedFolder) -> None:
        self.graph = UpdateGraph()
        self.ledger = Ledger()
        self.durability = Durability(root, self.graph, Fsync.OS)
        self.catalog = Catalog(self.graph, exchanged=self.ledger.pass_on, is_durable=is_durable)
        Committer(self.catalog, StagingArea(), self.ledger)
        found = self.durability.recovered
        self.catalog.restore(found.tables.values())
        self.ledger.restore((found.tables[one.table], one.entry) for one in found.ledger.values())
        self.durability.attach(self.ledger.export)

    @property
    def state(self) -> State:
        """Row keys and rows of each table, and the ledger."""
        tables = {
            table.name: (table.version.row_set.keys().tolist(), table.to_arrow().to_pylist())
            for table in self.catalog.tables()
        }
        return tables, self.ledger.entries()

    def commit(self, publisher: str, batch: int, parts: dict[str, tuple[PublishMode | None, list[int]]]) -> None:
        """A batch of one publisher for several tables."""

        def committed(name: str) -> Callable[[Table], BatchCommitted]:
            entry = self.ledger.entry(Identity(publisher), name, batch, 0.0)
            return lambda table: BatchCommitted(table, lambda: self.ledger.advance(entry, table), entry.to_fields())

        rows = []
        for name, (mode, keys) in parts.items():
            spec = SPECS[name]
            given = pa.record_batch({"key": keys, "text": [f"{batch}-{key}" for key in keys]}, SCHEMA)
            target = Target(name, mode, spec.key or None, spec.kind if mode is None else None, spec.capacity)
            rows.append(Part(target, SCHEMA, [given], committed(name)))
        publish_parts(self.catalog, rows)


def step(site: Site, rng: random.Random, number: int) -> None:
    """One thing that a publisher may do."""
    what = rng.random()
    names = [table.name for table in site.catalog.tables()]
    if what < 0.08 and names:
        site.catalog.drop(rng.choice(names))
    elif what < 0.16:
        name = rng.choice(list(SPECS))
        if name not in names or type(site.catalog.get(name)).__name__ != "ReplacedTable":
            site.catalog.ensure(name, SCHEMA, SPECS[name])
    elif what < 0.24:
        site.durability.save()
    else:
        chosen = rng.sample(list(SPECS), rng.randint(1, 3))
        parts: dict[str, tuple[PublishMode | None, list[int]]] = {}
        for name in chosen:
            keys = [rng.randrange(40) for _ in range(rng.randrange(12))]
            mode = None
            there = site.catalog.find(name)
            is_whole = type(there).__name__ == "ReplacedTable"
            if name == "keyed" and there is not None:
                mode = rng.choice([None, PublishMode.DELETE, PublishMode.REPLACE, PublishMode.UPSERT])
            elif is_whole or (name == "log" and there is not None and rng.random() < 0.2):
                mode = PublishMode.REPLACE
            parts[name] = (mode, keys)
        site.commit(rng.choice("ab"), number, parts)


@dataclass
class History:
    """What a seeded publisher does at a site, with what must survive a crash.

    Attributes:
        states: those that the site went through.
        safe: the last of them that is on disk; -1: the directory may not have been made.
    """

    root: SimulatedFolder
    seed: int
    states: list[State] = field(default_factory=list)
    safe: int = -1

    def run(self) -> None:
        rng = random.Random(self.seed)
        site = Site(self.root)
        self.states.append(site.state)
        self.safe = 0
        for number in range(STEPS):
            step(site, rng, number)
            self.states.append(site.state)
            if rng.random() < 0.5:
                site.durability.sync()
                self.safe = len(self.states) - 1


@pytest.mark.parametrize(
    "seed", [*range(FAST), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(FAST, HISTORIES))]
)
def test_a_crash_at_any_write_leaves_a_state_that_was_and_all_that_was_safe(seed: int) -> None:
    history = History(SimulatedFolder(Machine()), seed)
    crashes: list[tuple[SimulatedFolder, int, int]] = []

    def crash() -> None:
        left = history.root.after_crash(random.Random(f"{seed}/{len(crashes)}"), Machine())
        crashes.append((left, history.safe, len(history.states)))

    history.root.machine.watch = crash
    history.run()
    assert len(crashes) > STEPS
    recovered: dict[bytes, State] = {}
    for number, (left, safe, count) in enumerate(crashes):
        digest = left.digest()
        if digest not in recovered:
            recovered[digest] = Site(left).state
        # The step that the crash came into may be there as a whole.
        possible = history.states[max(safe, 0) : count + 1]
        if safe < 0:
            possible = [({}, {}), *possible]
        assert recovered[digest] in possible, (seed, number)


@pytest.mark.parametrize("seed", range(10))
def test_after_a_crash_row_keys_go_on_as_they_would_have(seed: int) -> None:
    """The same steps after a recovery lead to the same row keys as without one."""
    plain, crashed = SimulatedFolder(Machine()), SimulatedFolder(Machine())
    one, other = Site(plain), Site(crashed)
    rng, same = random.Random(seed), random.Random(seed)
    for number in range(STEPS):
        step(one, rng, number)
        if number % 5 == 4:
            other.durability.sync()
            crashed = crashed.after_crash(random.Random(seed), Machine())
            other = Site(crashed)
        step(other, same, number)
        assert one.state == other.state, number


def test_recovering_twice_changes_nothing() -> None:
    root = SimulatedFolder(Machine())
    History(root, 7).run()
    found = Site(root).state
    graph = UpdateGraph()
    assert len(recover(root, Site(root).durability.identity, graph).tables) == len(found[0])
    assert Site(root).state == found
