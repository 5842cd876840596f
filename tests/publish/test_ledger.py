"""The ledger knows, from one number per publisher and table, whether a batch was committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barrage_server.publish import Ledger


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
