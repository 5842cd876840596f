"""The ledger knows, from one number per publisher and table, whether a batch was committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barrage_server.publish import Ledger
from barrage_server.wire.protocol import single_write_publisher


def test_nothing_is_committed_at_first() -> None:
    ledger = Ledger()
    assert ledger.last("query", "trades") is None
    assert not ledger.has("query", "trades", 0)


def test_a_batch_counts_as_committed_up_to_the_last_one() -> None:
    ledger = Ledger()
    ledger.advance("query", "trades", 4)
    assert [ledger.has("query", "trades", batch) for batch in (3, 4, 5)] == [True, True, False]


def test_publishers_and_tables_are_apart() -> None:
    ledger = Ledger()
    ledger.advance("query", "trades", 4)
    assert ledger.last("other", "trades") is None
    assert ledger.last("query", "quotes") is None


def test_a_dropped_table_starts_anew() -> None:
    ledger = Ledger()
    ledger.advance("query", "trades", 4)
    ledger.advance("query", "quotes", 7)
    ledger.forget_table("trades")
    assert ledger.entries() == {("query", "quotes"): 7}


def test_those_silent_for_longest_are_forgotten_beyond_the_capacity() -> None:
    ledger = Ledger(capacity=2)
    ledger.advance("a", "t", 1)
    ledger.advance("b", "t", 1)
    ledger.advance("a", "t", 2)
    ledger.advance("c", "t", 1)
    assert set(ledger.entries()) == {("a", "t"), ("c", "t")}


@given(st.lists(st.integers(0, 50)))
def test_it_never_goes_back(batches: list[int]) -> None:
    ledger = Ledger()
    for batch in batches:
        ledger.advance("query", "trades", batch)
    assert ledger.last("query", "trades") == max(batches, default=None)


class Names(dict[str, object]):
    """The tables of a server, by name."""


def test_entries_belong_to_a_table_and_not_to_its_name() -> None:
    """What was committed to a table that is gone says nothing about its successor, in whatever order things happen."""
    ledger, tables = Ledger(), Names()
    ledger.watch(tables.get)
    first, second = object(), object()
    tables["trades"] = first
    ledger.advance("query", "trades", 4, first)
    assert ledger.last("query", "trades") == 4
    del tables["trades"]
    assert (ledger.last("query", "trades"), ledger.entries()) == (None, {})
    ledger.advance("query", "trades", 5, first)
    tables["trades"] = second
    assert not ledger.has("query", "trades", 0)
    ledger.advance("query", "trades", 0, second)
    ledger.advance("query", "trades", 6, first)
    ledger.forget_table("trades", first)
    assert ledger.entries() == {("query", "trades"): 0}
    ledger.forget_table("trades", second)
    assert ledger.last("query", "trades") is None


def test_publishers_of_single_writes_do_not_crowd_out_those_that_come_back() -> None:
    """However many there are; the last of them are remembered, as they may repeat their commit."""
    ledger = Ledger(capacity=2, single_capacity=3)
    ledger.advance("query", "t", 0)
    for number in range(10):
        ledger.advance(single_write_publisher(str(number)), "t", 0)
    assert ledger.has("query", "t", 0)
    assert [ledger.has(single_write_publisher(str(number)), "t", 0) for number in (6, 7, 9)] == [False, True, True]
    ledger.forget_table("t")
    assert ledger.entries() == {}


def test_what_was_committed_passes_on_to_the_table_that_takes_the_place() -> None:
    """For every publisher, at the moment of the exchange, and not once the new table is gone."""
    ledger = Ledger()
    before, after = object(), object()
    tables = {"t": before, "other": object()}
    ledger.watch(tables.get)
    for publisher, table, batch in (("p", "t", 3), ("q", "t", 5), ("p", "other", 7)):
        ledger.advance(publisher, table, batch)
    ledger.pass_on(before, after, lambda: tables.update(t=after))
    assert ledger.entries() == {("p", "t"): 3, ("q", "t"): 5, ("p", "other"): 7}
    tables["t"] = object()
    assert ledger.entries() == {("p", "other"): 7}
