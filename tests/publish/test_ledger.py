"""The ledger knows, from one number per publisher, epoch and table, whether a batch was committed."""

from __future__ import annotations

import json
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine import Table, UpdateGraph
from barrage_server.errors import FencedError, LimitError
from barrage_server.publish import Identity, Ledger, LedgerEntry
from barrage_server.server.catalog import Catalog
from barrage_server.wire.commit_messages import is_single_write, single_write_publisher
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.table_spec import TableSpec

DAY = 86_400.0


SCHEMA = pa.schema([("v", pa.int64())])


def entry(
    publisher: str, table: str, batch: int, when: float = 0.0, *, epoch: str | None = None, principal: str = ""
) -> LedgerEntry:
    return LedgerEntry(publisher, epoch, table, batch, when, principal)


def single_write(number: int) -> str:
    return single_write_publisher(UUID(int=number))


def test_nothing_is_committed_at_first() -> None:
    assert Ledger().last("query", "trades") is None


def test_a_batch_counts_as_committed_up_to_the_last_one() -> None:
    ledger = Ledger()
    ledger.advance(entry("query", "trades", 4))
    assert ledger.last("query", "trades") == 4


def test_publishers_and_tables_are_apart() -> None:
    ledger = Ledger()
    ledger.advance(entry("query", "trades", 4))
    assert ledger.last("other", "trades") is None
    assert ledger.last("query", "quotes") is None


def test_a_dropped_table_starts_anew() -> None:
    ledger = Ledger()
    ledger.advance(entry("query", "trades", 4))
    ledger.advance(entry("query", "quotes", 7))
    ledger.forget_table("trades")
    assert ledger.entries() == {("query", "quotes"): 7}


@given(st.lists(st.integers(0, 50)))
def test_it_never_goes_back(batches: list[int]) -> None:
    ledger = Ledger()
    for batch in batches:
        ledger.advance(entry("query", "trades", batch))
    assert ledger.last("query", "trades") == max(batches, default=None)


class Names(dict[str, object]):
    """The tables of a server, by name."""


def test_entries_belong_to_a_table_and_not_to_its_name() -> None:
    """What was committed to a table that is gone says nothing about its successor, in whatever order things happen."""
    ledger, tables = Ledger(), Names()
    ledger.watch(tables.get)
    first, second = object(), object()
    tables["trades"] = first
    ledger.advance(entry("query", "trades", 4), first)
    assert ledger.last("query", "trades") == 4
    del tables["trades"]
    assert (ledger.last("query", "trades"), ledger.entries()) == (None, {})
    ledger.advance(entry("query", "trades", 5), first)
    tables["trades"] = second
    assert ledger.last("query", "trades") is None
    ledger.advance(entry("query", "trades", 0), second)
    ledger.advance(entry("query", "trades", 6), first)
    ledger.forget_table("trades", first)
    assert ledger.entries() == {("query", "trades"): 0}
    ledger.forget_table("trades", second)
    assert ledger.last("query", "trades") is None


def test_what_was_committed_passes_on_to_the_table_that_takes_the_place() -> None:
    """For every publisher, at the moment of the exchange, and not once the new table is gone."""
    ledger = Ledger()
    before, after = object(), object()
    tables = {"t": before, "other": object()}
    ledger.watch(tables.get)
    for publisher, table, batch in (("p", "t", 3), ("q", "t", 5), ("p", "other", 7)):
        ledger.advance(entry(publisher, table, batch))
    ledger.pass_on(before, after, lambda: tables.update(t=after))
    assert ledger.entries() == {("p", "t"): 3, ("q", "t"): 5, ("p", "other"): 7}
    tables["t"] = object()
    assert ledger.entries() == {("p", "other"): 7}


# Epochs and users.


def test_another_epoch_of_a_used_name_is_refused_unless_it_takes_the_name_over() -> None:
    ledger = Ledger()
    ledger.advance(entry("p", "t", 4, epoch="a"))
    first, second = Identity("p", "a"), Identity("p", "b")
    ledger.check(first)
    with pytest.raises(FencedError, match=r"'p' has epoch 'a' at present, and this is epoch 'b'.*takeover=True"):
        ledger.check(second)
    with pytest.raises(FencedError, match="no epoch"):
        ledger.check(Identity("p"))
    ledger.check(second, takeover=True)
    assert (ledger.last_of(first, "t"), ledger.last_of(second, "t")) == (4, None)


def test_an_epoch_is_fenced_off_for_all_its_tables_once_another_has_committed() -> None:
    ledger = Ledger()
    for table in ("t", "u"):
        ledger.advance(entry("p", table, 4, epoch="a"))
    ledger.advance(ledger.entry(Identity("p", "b"), "t", 0, 0.0))
    assert ledger.is_earlier("p", "a")
    assert ledger.entries() == {("p", "t"): 0}
    for takeover in (False, True):
        with pytest.raises(FencedError, match=r"taken over by epoch 'b'; epoch 'a' came before it"):
            ledger.check(Identity("p", "a"), takeover=takeover)
    ledger.check(Identity("p", "b"))


def test_a_name_belongs_to_the_user_that_committed_under_it_first_until_it_is_forgotten() -> None:
    ledger = Ledger()
    ledger.advance(entry("p", "t", 4, principal="ann"))
    for takeover in (False, True):
        with pytest.raises(FencedError, match="belongs to another user"):
            ledger.check(Identity("p", principal="bob"), takeover=takeover)
    with pytest.raises(FencedError) as told:
        ledger.check_owner("p", "bob")
    assert "ann" not in str(told.value)
    ledger.check(Identity("p", principal="ann"))
    ledger.forget_table("t")
    ledger.check(Identity("p", principal="bob"))


def test_a_name_that_was_used_without_users_belongs_to_the_first_user() -> None:
    """A server that was open to all asks for credentials from now on: its publishers continue."""
    ledger = Ledger()
    ledger.advance(entry("p", "t", 4))
    ledger.check(Identity("p", principal="ann"))
    ledger.advance(entry("p", "t", 5, principal="ann"))
    for other in ("bob", ""):
        with pytest.raises(FencedError, match="belongs to another user"):
            ledger.check(Identity("p", principal=other))
    ledger.check(Identity("p", principal="ann"))


# What is forgotten, and what is not.


def admit(ledger: Ledger, publisher: str, now: float, table: str = "t") -> None:
    ledger.admit(Identity(publisher), [table], now)
    ledger.advance(entry(publisher, table, 0, now))


def test_publishers_are_forgotten_by_age_and_not_by_number() -> None:
    ledger = Ledger(seconds=30 * DAY, capacity=3)
    for number, publisher in enumerate("abc"):
        admit(ledger, publisher, number * DAY)
    with pytest.raises(LimitError, match=r"remembers the batches of 3 publishers and tables"):
        admit(ledger, "d", 3 * DAY)
    admit(ledger, "a", 3 * DAY)  # one that is known goes on
    assert [ledger.last(publisher, "t") for publisher in "abcd"] == [0, 0, 0, None]
    ledger.expire(31 * DAY)
    assert [ledger.last(publisher, "t") for publisher in "abc"] == [0, None, 0]
    admit(ledger, "d", 31 * DAY)
    ledger.expire(100 * DAY)
    assert ledger.entries() == {}


@pytest.mark.parametrize(
    "name", ["write-orders", "write-", f"write-{UUID(int=1)}x", f"write-{UUID(int=1)}-x", f"Write-{UUID(int=1)}"]
)
def test_a_name_that_a_user_chooses_is_not_that_of_a_single_write(name: str) -> None:
    ledger = Ledger()
    admit(ledger, name, 0)
    ledger.expire(2 * DAY)
    assert ledger.last(name, "t") == 0


def test_names_of_single_writes_are_known_as_such() -> None:
    identity = UUID(int=1 << 100)
    names = single_write_publisher(identity), single_write_publisher(identity, 12), f"write-client-{identity}-3"
    assert all(is_single_write(name) for name in names)


def test_single_writes_take_no_room_from_streams_and_are_forgotten_after_an_hour() -> None:
    ledger = Ledger(capacity=2, single_capacity=1000)
    admit(ledger, "query", 0)
    for number in range(1000):
        admit(ledger, single_write(number), number / 1000)
    admit(ledger, "other", 1)
    ledger.expire(3600.5)
    assert len(ledger.entries()) == 2 + 499
    ledger.expire(2 * DAY)
    assert set(ledger.entries()) == {("query", "t"), ("other", "t")}


def test_a_single_write_that_may_still_repeat_its_commit_is_never_evicted() -> None:
    ledger = Ledger(single_capacity=2)
    first, second, third = map(single_write, range(3))
    admit(ledger, first, 0)
    admit(ledger, second, 600)
    with pytest.raises(LimitError):
        admit(ledger, third, 899)
    assert ledger.last(first, "t") == 0
    admit(ledger, third, 900)
    assert [ledger.last(name, "t") for name in (first, second, third)] == [None, 0, 0]


def test_a_commit_at_a_clock_that_is_set_back_keeps_no_others() -> None:
    ledger = Ledger(capacity=2, single_capacity=2)
    for names, seconds in (("a", "b", "c"), 30 * DAY), (tuple(map(single_write, range(3))), 3600):
        first, second, third = names
        admit(ledger, first, 3650 * DAY)
        admit(ledger, second, 0)
        with pytest.raises(LimitError):
            admit(ledger, third, 1)
        assert ledger.last(first, "t") == 0  # it may still be repeated
        admit(ledger, third, seconds + 1)
        assert [ledger.last(name, "t") for name in names] == [None, None, 0]


def test_all_commits_at_a_clock_that_is_set_back_are_forgotten_in_time() -> None:
    ledger = Ledger()
    names = [f"publisher {number}" for number in range(5)]
    for number, name in enumerate(names):
        admit(ledger, name, (3650 + number) * DAY)
    ledger.expire(0)
    ledger.expire(29 * DAY)
    assert [ledger.last(name, "t") for name in names] == [0] * 5
    ledger.expire(31 * DAY)
    assert [ledger.last(name, "t") for name in names] == [None] * 5


def test_the_earlier_epochs_of_a_publisher_are_bounded_and_go_with_it() -> None:
    ledger = Ledger()
    for number in range(150):
        identity = Identity("p", str(number))
        ledger.admit(identity, ["t"], 0.0, takeover=True)
        ledger.advance(ledger.entry(identity, "t", 0, 0.0))
    earlier = [number for number in range(150) if ledger.is_earlier("p", str(number))]
    assert earlier == list(range(49, 149))
    ledger.forget_table("t")
    assert not ledger.is_earlier("p", "100")
    ledger.admit(Identity("p", "100"), ["t"], 0.0)


# The simplest model: a list of all commits.

COMMIT = st.tuples(st.sampled_from("pq"), st.sampled_from("ab"), st.sampled_from(["t", "u"]), st.integers(0, 3))
DROP = st.sampled_from(["t", "u"])
SPEC = TableSpec(TableKind.APPEND)


@given(st.lists(st.one_of(COMMIT, DROP), max_size=40), st.booleans(), st.randoms(use_true_random=False))
def test_a_ledger_says_what_a_list_of_all_commits_says(
    steps: list[tuple[str, str, str, int] | str], restarts: bool, random: Random
) -> None:
    """Also one that was restored after every step, in whatever order, with entries that are out of date."""
    catalog = Catalog(UpdateGraph())
    written: list[tuple[Table, dict[str, Any]]] = []
    ledger = Ledger()
    ledger.watch(catalog.find)
    present: dict[str, str] = {}
    fenced: set[tuple[str, str]] = set()
    commits: dict[tuple[str, str], int] = {}
    for when, step in enumerate(steps):
        for name in "tu":
            catalog.ensure(name, SCHEMA, SPEC)
        if isinstance(step, str):
            dropped = catalog.get(step)
            catalog.drop(step)
            ledger.forget_table(step, dropped)
            written = [(table, fields) for table, fields in written if table is not dropped]
            commits = {key: batch for key, batch in commits.items() if key[1] != step}
        else:
            publisher, epoch, table, batch = step
            identity = Identity(publisher, epoch)
            if (publisher, epoch) in fenced:
                with pytest.raises(FencedError):
                    ledger.admit(identity, [table], when, takeover=True)
                continue
            ledger.admit(identity, [table], when, takeover=True)
            if present.get(publisher, epoch) != epoch:
                fenced.add((publisher, present[publisher]))
                commits = {key: number for key, number in commits.items() if key[0] != publisher}
            present[publisher] = epoch
            commits[publisher, table] = max(batch, commits.get((publisher, table), 0))
            made = ledger.entry(identity, table, batch, when)
            ledger.advance(made)
            written.append((catalog.get(table), made.to_fields()))
        for publisher in list(present):
            if not any(key[0] == publisher for key in commits):  # a name without a table is free
                del present[publisher]
                fenced = {key for key in fenced if key[0] != publisher}
                written = [(at, fields) for at, fields in written if fields["publisher"] != publisher]
        if restarts:
            entries = json.loads(json.dumps([[at.name, fields] for at, fields in written]))
            random.shuffle(entries)
            ledger = Ledger()
            ledger.watch(catalog.find)
            ledger.restore((catalog.get(name), fields) for name, fields in entries)
        assert ledger.entries() == commits
        exported = ledger.export()
        again = Ledger()
        again.watch(catalog.find)
        again.restore(exported)
        assert again.export() == exported
        for publisher, epoch in fenced:
            assert again.is_earlier(publisher, epoch)


def test_what_was_exported_keeps_its_user_and_its_age() -> None:
    catalog = Catalog(UpdateGraph())
    table, _ = catalog.ensure("t", SCHEMA, SPEC)
    ledger, later = Ledger(), Ledger()
    for each in (ledger, later):
        each.watch(catalog.find)
    ledger.advance(entry("p", "t", 5, 1.0, epoch="b", principal="ann"))
    later.restore(ledger.export())
    assert later.export() == [
        (
            table,
            {
                "publisher": "p",
                "epoch": "b",
                "batch": 5,
                "when": 1.0,
                "principal": "ann",
                "earlier": [],
                "released": False,
            },
        )
    ]
    with pytest.raises(FencedError, match="another user"):
        later.check(Identity("p", "b", "bob"))
    later.expire(31 * DAY)
    assert later.export() == []


def test_one_user_does_not_fill_the_ledger_for_all() -> None:
    """Its own entries make room for its own; those of others stay, and a server without users has no such bound."""
    ledger = Ledger(seconds=10 * DAY, capacity=10, single_capacity=10, per_principal=2)

    def commit(publisher: str, principal: str, now: float) -> None:
        ledger.admit(Identity(publisher, None, principal), ["t"], now)
        ledger.advance(entry(publisher, "t", 0, now, principal=principal))

    commit("a", "one", 0.0)
    commit("b", "one", 0.0)
    commit("b", "one", 1.0)
    for publisher in ("c", "d"):
        with pytest.raises(LimitError, match=r"of one caller \(ledger_per_caller\), and forgets one \d.* days? after"):
            commit(publisher, "one", DAY)
    commit("c", "two", DAY)
    for publisher in ("e", "f", "g"):
        commit(publisher, "", DAY)
    with pytest.raises(LimitError, match="of one caller"):
        ledger.admit(Identity("h", None, "two"), ["t", "u"], DAY)
    for number in range(2):
        commit(single_write(number), "one", DAY + number)
    with pytest.raises(LimitError, match="of one caller"):
        commit(single_write(3), "one", DAY + 2)
    commit(single_write(4), "one", DAY + 2000)
    ledger.forget_table("t")
    commit("x", "one", DAY)
    commit("y", "one", DAY)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(30 * DAY, "30 days"), (DAY, "1 day"), (36 * 3600.0, "1.5 days"), (3600.0, "1 hour"), (90.0, "1.5 minutes")],
)
def test_the_error_of_a_full_ledger_tells_when_there_is_room(seconds: float, told: str) -> None:
    ledger = Ledger(seconds=seconds, capacity=1)
    ledger.admit(Identity("a", None, ""), ["t"], 0.0)
    ledger.advance(entry("a", "t", 0, 0.0))
    with pytest.raises(LimitError, match=rf"\(ledger_entries\), and forgets one {told} after its last commit\."):
        ledger.admit(Identity("b", None, ""), ["t"], 1.0)
