"""A crash at any write loses nothing that was promised, and leaves nothing half done."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, KeyedTable, ReplacedTable, RingTable, Table, UpdateGraph
from barrage_server.errors import TableFailedError
from barrage_server.journal.recovery import recover
from barrage_server.publish import Committer, Identity, Ledger, StagingArea, Target
from barrage_server.publish.delta import Part, publish_parts
from barrage_server.publish.notes import BatchCommitted
from barrage_server.server.catalog import Catalog
from barrage_server.server.durability import Durability
from barrage_server.server.durable_tables import is_durable
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
STEPS = 32
POISONED = 0.15

POISON = -1
"""A key that makes the cycle fail in its table, after it has been written there, and each time that it is repeated."""
EPOCHS = {"a": 7, "b": 11}
"""Steps after which another epoch of the publisher takes its name over."""

Entry = tuple[str | None, int, tuple[str | None, ...]]
"""Of a publisher and a table: the epoch, the last batch, and the epochs that are fenced off."""
State = tuple[dict[str, tuple[list[int], list[dict[str, Any]]]], dict[tuple[str, str], Entry]]


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(apply: Callable[[Any, Sequence[Any]], Any]) -> Callable[[Any, Sequence[Any]], Any]:
        def checked(table: Any, operations: Sequence[Any]) -> Any:
            update = apply(table, operations)
            if any(POISON in operation.columns[0].to_pylist() for operation in operations):
                raise ArithmeticError("poison")
            return update

        return checked

    for kind in (AppendTable, RingTable, KeyedTable, ReplacedTable):
        monkeypatch.setattr(kind, "apply_operations", poisoned(kind.apply_operations))


class Site:
    """The tables of a server, without its ports."""

    def __init__(self, root: SimulatedFolder, fsync: Fsync = Fsync.OS) -> None:
        self.graph = UpdateGraph()
        self.ledger = Ledger()
        self.durability = Durability(root, self.graph, fsync)
        self.catalog = Catalog(
            self.graph, exchanged=self.ledger.pass_on, is_durable=is_durable, keeps=self.durability.keeps
        )
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
        entries = {
            (fields["publisher"], table.name): (fields["epoch"], fields["batch"], tuple(fields["earlier"]))
            for table, fields in self.ledger.export()
        }
        return tables, entries

    def commit(
        self,
        publisher: str,
        batch: int,
        parts: dict[str, tuple[PublishMode | None, list[int]]],
        epoch: str | None = None,
    ) -> None:
        """A batch of one publisher for several tables. A new epoch takes the name over."""
        identity = Identity(publisher, epoch)
        self.ledger.admit(identity, list(parts), 0.0, takeover=True)

        def committed(name: str) -> Callable[[Table], BatchCommitted]:
            entry = self.ledger.entry(identity, name, batch, float(batch))
            return lambda table: BatchCommitted(table, lambda: self.ledger.advance(entry, table), entry.to_fields())

        rows = []
        for name, (mode, keys) in parts.items():
            spec = SPECS[name]
            given = pa.record_batch({"key": keys, "text": [f"{batch}-{key}" for key in keys]}, SCHEMA)
            target = Target(name, mode, spec.key or None, spec.kind if mode is None else None, spec.capacity)
            rows.append(Part(target, SCHEMA, [given], committed(name)))
        publish_parts(self.catalog, rows)


def step(site: Site, rng: random.Random, number: int, poison: float = 0.0) -> str:
    """One thing that a publisher may do, and what it was.

    Args:
        site: the tables.
        rng: decides what.
        number: of the step, and of a batch.
        poison: the share of commits whose cycle fails in one table, which is dropped in the next step.

    """
    what = rng.random()
    names = [table.name for table in site.catalog.tables()]
    failed = [table.name for table in site.catalog.tables() if table.failure is not None]
    if failed:
        site.catalog.drop(failed[0])
        return "drop of a failed table"
    if what < 0.08 and names:
        site.catalog.drop(rng.choice(names))
        return "drop"
    if what < 0.16:
        name = rng.choice(list(SPECS))
        if name in names and type(site.catalog.get(name)).__name__ == "ReplacedTable":
            return "nothing"
        return "table" if site.catalog.ensure(name, SCHEMA, SPECS[name])[1] else "nothing"
    if what < 0.24:
        site.durability.save()
        return "checkpoint"
    return commit(site, rng, number, poison)


def commit(site: Site, rng: random.Random, number: int, poison: float) -> str:
    """A commit of one publisher, and what was special about it."""
    parts: dict[str, tuple[PublishMode | None, list[int]]] = {}
    for name in rng.sample(list(SPECS), rng.randint(1, 3)):
        keys = [rng.randrange(40) for _ in range(rng.randrange(12))]
        mode = None
        there = site.catalog.find(name)
        is_whole = type(there).__name__ == "ReplacedTable"
        if name == "keyed" and there is not None:
            mode = rng.choice([None, PublishMode.DELETE, PublishMode.REPLACE, PublishMode.UPSERT])
        elif is_whole or (name == "log" and there is not None and rng.random() < 0.2):
            mode = PublishMode.REPLACE
        parts[name] = (mode, keys)
    publisher = rng.choice(list(EPOCHS))
    epoch = f"epoch {number // EPOCHS[publisher]}"
    if poison and rng.random() < poison:
        parts[rng.choice(list(parts))][1].append(POISON)
        with pytest.raises(TableFailedError):
            site.commit(publisher, number, parts, epoch)
        return "commit that fails in one of several tables" if len(parts) > 1 else "commit that fails"
    exchanges = parts.get("log", (None,))[0] is PublishMode.REPLACE and type(site.catalog.get("log")) is AppendTable
    takes_over = any(of == publisher and entry[0] != epoch for (of, _), entry in site.state[1].items())
    site.commit(publisher, number, parts, epoch)
    return "exchange" if exchanges else "takeover" if takes_over else "commit"


@dataclass
class History:
    """What a seeded publisher does at a site, with what must survive a crash.

    Attributes:
        states: those that the site went through.
        fsync: when its changes reach the disk: with each one, or when the history syncs.
        safe: the last of them that is on disk; -1: the directory may not have been made.
        steps: how often each kind of step came.
    """

    root: SimulatedFolder
    seed: int
    states: list[State] = field(default_factory=list)
    fsync: Fsync = Fsync.OS
    safe: int = -1
    steps: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        rng = random.Random(self.seed)
        site = Site(self.root, self.fsync)
        self.states.append(site.state)
        self.safe = 0
        for number in range(STEPS):
            self.steps[step(site, rng, number, POISONED)] += 1
            self.states.append(site.state)
            if rng.random() < 0.5:
                site.durability.sync()
            elif self.fsync is Fsync.OS:
                continue
            self.safe = len(self.states) - 1


@pytest.mark.parametrize(
    "seed", [*range(FAST), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(FAST, HISTORIES))]
)
def test_a_crash_at_any_write_leaves_a_state_that_was_and_all_that_was_safe(seed: int) -> None:
    history = History(SimulatedFolder(Machine()), seed, fsync=Fsync.ALWAYS if seed % 2 else Fsync.OS)
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


def test_histories_have_steps_of_every_kind() -> None:
    steps: Counter[str] = Counter()
    for seed in range(12):
        history = History(SimulatedFolder(Machine()), seed)
        history.run()
        steps += history.steps
    assert set(steps) == {
        *("nothing", "table", "drop", "drop of a failed table", "checkpoint", "commit", "exchange", "takeover"),
        *("commit that fails", "commit that fails in one of several tables"),
    }


def test_what_fails_at_a_recovery_is_left_out_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its publisher sends it again: if it came back at a later start, its rows would be there twice."""
    root = SimulatedFolder(Machine())
    site = Site(root)
    site.commit("a", 0, {"log": (None, [1]), "keyed": (None, [1])})
    site.durability.sync()
    before, crashes = site.state, list[SimulatedFolder]()

    def crash() -> None:
        """Keep what is there in the middle of an operation, and some of what a crash may leave of it."""
        lefts = [root.after_crash(random.Random(seed), Machine()) for seed in range(500)]
        crashes.extend(sorted(lefts, key=journal_bytes)[-3:])

    def journal_bytes(folder: SimulatedFolder) -> int:
        journal = folder.folder("journal")
        return sum(len(bytes(journal.read(name)).rstrip(b"\0")) for name in journal.names())

    root.machine.watch = crash
    with pytest.raises(TableFailedError):
        site.commit("a", 1, {"log": (None, [2]), "keyed": (PublishMode.UPSERT, [2, POISON]), "ring": (None, [2])})
    site.durability.sync()
    recovered = [Site(left) for left in crashes]
    states = [one.state for one in recovered]
    assert any(one.durability.recovered.left_out for one in recovered)  # the cycle was on disk, and not its void
    assert all(state in (before, site.state) for state in states)
    monkeypatch.undo()  # nothing fails any more
    assert [Site(left).state for left in crashes] == states


def test_an_epoch_that_was_taken_over_has_nothing_after_a_recovery_either() -> None:
    """Also where the table that the new epoch has written to is gone, and with it what tells of the epoch before."""
    root = SimulatedFolder(Machine())
    site = Site(root)
    site.commit("a", 0, {"log": (None, [1]), "keyed": (None, [1])}, "one")
    site.commit("a", 1, {"ring": (None, [1])}, "two")
    site.catalog.drop("ring")
    site.durability.sync()
    assert site.state[1] == {}
    assert Site(root).state == site.state
