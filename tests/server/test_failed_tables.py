"""A table that fails in a cycle: its subscribers are told, those of other tables notice nothing."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import AppendTable, DerivedTable, KeyedTable
from barrage_server.errors import InternalError
from barrage_server.server import Server
from tests.engine.operators import OneRow, attached, count
from tests.server.follower import Follower
from tests.waiting import until


def test_subscribers_of_a_failed_table_are_told_and_others_go_on(
    server: Server, client: fl.FlightClient, quotes: KeyedTable
) -> None:
    """Those that come later are told as well; what went wrong inside is for the log only."""
    events = server.blink_table("events", pa.schema([("n", pa.int64())]))
    faulty = attached(DerivedTable([quotes], "made as", OneRow(count, good_runs=0)))
    server.add_table("faulty", faulty)
    with Follower(client, "faulty") as stopped, Follower(client, "quotes") as going:
        until(lambda: stopped.messages and going.messages)
        quotes.upsert({"sym": ["C"], "price": [3.0]})
        until(lambda: stopped.ended)
        until(lambda: len(going.rows) == 3)
        assert not going.ended
    with Follower(client, "faulty") as late:
        until(lambda: late.ended)
    for told in (stopped, late):
        assert "'faulty' does not change any more" in str(told.error)
        assert "secret" not in str(told.error)
    events.append({"n": [1]})
    assert events.size == 1


def test_a_failed_source_table_is_replaced_by_dropping_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what the error says, and it works."""
    schema = pa.schema([("n", pa.int64())])
    table = server.append_table("t", schema)
    with monkeypatch.context() as patch:
        patch.setattr(AppendTable, "_write", lambda *_: 1 / 0)
        with pytest.raises(InternalError, match="Drop and create it again"):
            table.append({"n": [1]})
    with pytest.raises(InternalError, match="Drop and create it again"):
        server.append_table("t", schema).append({"n": [1]})
    server.drop("t")
    again = server.append_table("t", schema)
    again.append({"n": [1]})
    assert again.size == 1
