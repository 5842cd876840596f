"""After a start a server remembers the publishers that it remembered before, whatever it had forgotten by age."""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine import UpdateGraph
from barrage_server.errors import BarrageError, FencedError
from barrage_server.journal.content import with_repeated, without_repeated
from barrage_server.publish import Committer, Identity, Ledger, StagingArea
from barrage_server.server.catalog import Catalog
from barrage_server.server.durability import Durability
from barrage_server.server.durable_tables import is_durable
from barrage_server.server.fsync import Fsync
from barrage_server.wire.commit_messages import CommitPart, CommitRequest
from barrage_server.wire.protocol import PublishMode
from tests.journal.simulated import Machine, SimulatedFolder

SCHEMA = pa.schema([("key", pa.int64())])
SECONDS = 100.0
"""The age from which a commit is forgotten."""
HISTORIES = int(os.environ.get("HISTORIES", "40"))
FAST = 8
STEPS = 60
SEEDS = [*range(FAST), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(FAST, HISTORIES))]

EPOCHS = (None, "None", "a", "b")
USERS = ("ann", "bob")

Holder = tuple[str, str | None, tuple[str | None, ...]]
"""The user, the epoch and the refused epochs of a publisher's name."""
Memory = dict[tuple[str, str], tuple[Holder, int]]
"""Of a publisher and a table: the holder of the publisher's name, and the last batch."""


class Site:
    """The tables and the ledger of a server, without its ports."""

    def __init__(self, root: SimulatedFolder, now: float) -> None:
        self.graph = UpdateGraph()
        self.ledger = Ledger(SECONDS)
        self.durability = Durability(root, self.graph, Fsync.OS)
        self.catalog = Catalog(
            self.graph,
            lambda table: self.ledger.forget_table(table.name, table),
            self.ledger.pass_on,
            is_durable=is_durable,
            keeps=self.durability.keeps,
        )
        self._committer = Committer(self.catalog, StagingArea(), self.ledger)
        found = self.durability.recovered
        self.catalog.restore(found.tables.values())
        self.ledger.restore((found.tables[one.table], one.entry) for one in found.ledger.values())
        self.ledger.expire(now)
        self.durability.attach(self.ledger.export)

    def commit(
        self,
        identity: Identity,
        tables: dict[str, PublishMode],
        batch: int,
        now: float,
        *,
        takeover: bool = False,
        allow_gap: bool = True,
    ) -> bool:
        """Commit an empty batch; returns whether it is no repetition."""
        parts = tuple(CommitPart(name, mode, (), schema=SCHEMA) for name, mode in tables.items())
        request = CommitRequest(
            publisher=identity.publisher,
            epoch=identity.epoch,
            batch=batch,
            tables=parts,
            takeover=takeover,
            allow_gap=allow_gap,
        )
        return self._committer.commit(request, identity.principal, now).committed

    def memory(self, since: float = float("-inf")) -> Memory:
        """The entries of the ledger of commits later than ``since``."""
        return {
            (publisher := fields["publisher"], table.name): (self.holder(publisher, fields["epoch"]), fields["batch"])
            for table, fields in self.ledger.export()
            if fields["when"] > since
        }

    def holder(self, publisher: str, epoch: str | None) -> Holder:
        """The holder of a publisher's name, whose present epoch is ``epoch``, from what the ledger answers."""
        users = []
        for user in USERS:
            with suppress(FencedError):
                self.ledger.check_owner(publisher, user)
                users.append(user)
        refused = tuple(epoch for epoch in EPOCHS if self.ledger.is_earlier(publisher, epoch))
        return users[0] if len(users) == 1 else "", epoch, refused


@dataclass
class History:
    """A seeded history of publishers that are forgotten by age, take names over, and share names with other users.

    Attributes:
        goes_back: whether the clock is set back at times.
        steps: how often each kind of step came.
        trace: the steps, for the text of a failure.
    """

    seed: int
    goes_back: bool = False
    steps: Counter[str] = field(default_factory=Counter)
    trace: list[object] = field(default_factory=list)
    released: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Take the steps; a start after some of them remembers what was remembered."""
        rng, root, self.now = random.Random(self.seed), SimulatedFolder(Machine()), 1e6
        self.users: dict[str, str] = {}
        site = Site(root, self.now)
        for _ in range(STEPS):
            self.now += rng.random()
            what = rng.random()
            if what < 0.1:
                site = self.restart(site, root)
            elif what < 0.15:
                site.durability.save()
                self.note("checkpoint")
            else:
                self.step(site, rng, what)
        self.restart(site, root)

    def step(self, site: Site, rng: random.Random, what: float) -> None:
        names = sorted(site.catalog.names())
        if what < 0.25:
            self.now += 60
            self.note("jump")
        elif what < 0.3 and self.goes_back:
            self.now -= rng.choice([1, 30, 90])
            self.note("back")
        elif what < 0.33:
            for name in site.ledger.release(rng.choice("pq").__eq__):
                self.released.add(name)
                self.note("release", name)
        elif what < 0.38 and names:
            site.catalog.drop(name := rng.choice(names))
            self.note("drop", name)
        else:
            self.commit(site, rng)

    def commit(self, site: Site, rng: random.Random) -> None:
        identity = Identity(rng.choice("pq"), rng.choice(EPOCHS), rng.choice(["", *USERS, "bob"]))
        mode = PublishMode.REPLACE if rng.random() < 0.15 else PublishMode.APPEND
        tables = dict.fromkeys(rng.sample("tuv", rng.randint(1, 2)), mode)
        last = site.ledger.last(identity.publisher, next(iter(tables)))
        following = 0 if last is None else last + 1
        batch = rng.choice([0, following, following, 2])
        takeover, allow_gap = rng.random() < 0.3, rng.random() < 0.5
        try:
            is_new = site.commit(identity, tables, batch, self.now, takeover=takeover, allow_gap=allow_gap)
        except BarrageError as error:
            self.note("refusal", identity, tables, batch, type(error).__name__)
            return
        self.note("commit" if is_new else "repetition", identity, tables, batch)
        before = self.users.get(identity.publisher, identity.principal)
        if is_new and before not in ("", identity.principal):
            self.note("another user has the name")
        if is_new:
            self.users[identity.publisher] = identity.principal
            if identity.principal:
                self.released.discard(identity.publisher)

    def restart(self, site: Site, root: SimulatedFolder) -> Site:
        """The site after a start; it remembers what ``site`` did."""
        site.ledger.expire(self.now)
        site.durability.close()
        after = Site(root, self.now)
        after.ledger.release(self.released.__contains__)  # it is in the server's settings
        self.note("start")
        if not self.goes_back:
            assert after.memory() == site.memory(), self
            return after
        # The journal does not say what was forgotten at a clock that was set back later: that is remembered again,
        # unless another holder has got the name. Commits behind one of a later clock are forgotten in time.
        wanted, found = site.memory(self.now - SECONDS), after.memory()
        assert wanted.items() <= found.items(), self
        holders = {publisher: holder for (publisher, _), (holder, _) in wanted.items()}
        assert all(holders.get(publisher, holder) == holder for (publisher, _), (holder, _) in found.items()), self
        return after

    def note(self, kind: str, *facts: object) -> None:
        self.steps[kind] += 1
        self.trace.append((kind, *facts, round(self.now - 1e6)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_start_remembers_the_publishers_that_were_remembered(seed: int) -> None:
    History(seed).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_start_forgets_no_publisher_where_the_clock_was_set_back(seed: int) -> None:
    History(seed, goes_back=True).run()


def test_histories_have_steps_of_every_kind() -> None:
    steps: Counter[str] = Counter()
    for seed in range(12):
        history = History(seed, goes_back=True)
        history.run()
        steps += history.steps
    assert set(steps) == {
        *("start", "checkpoint", "jump", "back", "drop", "commit", "refusal", "repetition", "release"),
        "another user has the name",
    }


def restarted(site: Site, root: SimulatedFolder, now: float) -> Site:
    site.durability.close()
    return Site(root, now)


def appended(*tables: str) -> dict[str, PublishMode]:
    return dict.fromkeys(tables, PublishMode.APPEND)


@pytest.mark.parametrize("saves", [False, True])
def test_the_name_of_a_forgotten_publisher_stays_with_the_user_who_has_taken_it(saves: bool) -> None:
    root = SimulatedFolder(Machine())
    site = Site(root, 0.0)
    site.commit(Identity("feed", "e", "ann"), appended("t"), 0, 1.0)
    if saves:
        site.durability.save()
    bob = Identity("feed", "e", "bob")
    site.commit(bob, appended("u"), 0, 150.0)
    site.commit(bob, appended("u"), 1, 151.0)
    after = restarted(site, root, 152.0)
    assert after.memory() == site.memory() == {("feed", "u"): (("bob", "e", ()), 1)}
    with pytest.raises(FencedError, match="another user"):
        after.commit(Identity("feed", "e", "ann"), appended("t"), 1, 152.0)
    assert after.commit(bob, appended("u"), 2, 152.0)
    site = restarted(after, root, 20.0)  # the clock is set back: ann's commit is not that old now
    assert site.memory() == {("feed", "u"): (("bob", "e", ()), 2)}


def test_epochs_that_were_forgotten_are_not_refused_again() -> None:
    root = SimulatedFolder(Machine())
    site = Site(root, 0.0)
    site.commit(Identity("feed"), appended("t"), 0, 1.0)
    site.commit(Identity("feed", "a"), appended("t"), 0, 2.0, takeover=True)
    site.commit(Identity("feed", "a"), appended("u"), 0, 150.0)
    after = restarted(site, root, 20.0)
    assert after.memory() == site.memory() == {("feed", "u"): (("", "a", ()), 0)}
    assert after.commit(Identity("feed"), appended("t"), 0, 21.0, takeover=True)


FIELDS = st.fixed_dictionaries(
    {
        "publisher": st.sampled_from("pq"),
        "epoch": st.sampled_from(EPOCHS),
        "batch": st.integers(0, 2),
        "earlier": st.lists(st.sampled_from(EPOCHS), max_size=2),
        "released": st.booleans(),
    }
)


@given(st.lists(FIELDS, max_size=8))
def test_entries_are_read_as_they_were(entries: list[dict[str, Any]]) -> None:
    assert list(with_repeated(without_repeated(entries))) == entries


def test_names_of_a_commit_over_many_tables_are_written_once() -> None:
    """The name and a hundred epochs before it, of 1,000 bytes each: a hundred kilobytes that each entry has."""
    root = SimulatedFolder(Machine())
    site = Site(root, 0.0)
    tables = appended(*map(str, range(50)))
    identities = [Identity("p" * 1_000, f"{number:04}" + "e" * 996) for number in range(101)]
    for identity in identities:
        site.commit(identity, appended("0"), 0, 1.0, takeover=True)
    site.commit(identities[-1], tables, 1, 2.0)
    before = journal_bytes(root)
    site.commit(identities[-1], tables, 2, 2.0)
    assert journal_bytes(root) - before < 150_000
    site.durability.save()
    assert len(root.folder("state").folder(max(root.folder("state").names())).read("manifest.json")) < 250_000
    after = restarted(site, root, 3.0)
    assert after.memory() == site.memory()
    assert len(after.memory()) == 50
    with pytest.raises(FencedError, match="came before it"):
        after.commit(identities[0], tables, 3, 3.0, takeover=True)


def journal_bytes(root: SimulatedFolder) -> int:
    journal = root.folder("journal")
    return sum(len(journal.read(name)) for name in journal.names())


def test_no_epoch_is_not_the_epoch_none() -> None:
    root = SimulatedFolder(Machine())
    site = Site(root, 0.0)
    site.commit(Identity("p"), appended("u"), 0, 1.0)
    site.commit(Identity("p", "None"), appended("v"), 0, 2.0, takeover=True)
    site.catalog.drop("v")  # the name is free
    assert site.memory() == {}
    after = restarted(site, root, 3.0)
    assert after.memory() == {}
    assert after.commit(Identity("p"), appended("u"), 0, 3.0)


@pytest.mark.parametrize("saves", [False, True])
def test_a_name_of_no_user_stays_with_the_first_user(saves: bool) -> None:
    """Also if the table that this user has written is gone; a server without users had made the other commit."""
    root = SimulatedFolder(Machine())
    site = Site(root, 0.0)
    site.commit(Identity("p"), appended("t"), 0, 1.0)
    site.commit(Identity("p", None, "ann"), appended("u"), 0, 2.0)
    site.catalog.drop("u")
    if saves:
        site.durability.save()
    after = restarted(site, root, 3.0)
    assert after.memory() == site.memory() == {("p", "t"): (("ann", None, ()), 0)}
    with pytest.raises(FencedError, match="another user"):
        after.commit(Identity("p", None, "bob"), appended("t"), 1, 3.0)


def test_a_commit_to_several_tables_has_one_holder_whatever_is_forgotten_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the entry of one table would remove that of another one at the next start."""
    root = SimulatedFolder(Machine())
    site = Site(root, 0.0)
    site.commit(Identity("p", "a"), appended("t"), 0, 1.0)
    site.commit(Identity("p", "b"), appended("t"), 0, 2.0, takeover=True)
    entry = site.ledger.entry

    def forgetful(*given: Any) -> object:
        try:
            return entry(*given)
        finally:
            site.ledger.expire(500.0)

    monkeypatch.setattr(site.ledger, "entry", forgetful)
    with suppress(BarrageError):
        site.commit(Identity("p", "b"), appended("u", "v"), 0, 3.0)
    assert set(site.memory()) == {("p", "u"), ("p", "v")}
    assert restarted(site, root, 4.0).memory() == {
        **site.memory(),
        ("p", "t"): (("", "b", ("a",)), 0),  # forgotten at a clock that was set back
    }
