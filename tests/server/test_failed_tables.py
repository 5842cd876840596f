"""A table that fails in a cycle: its subscribers are told, those of other tables notice nothing."""

from __future__ import annotations

import json
import logging
import re
import traceback

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import DerivedTable, KeyedTable
from barrage_server.engine.fixed_column import FixedColumn
from barrage_server.errors import InternalError
from barrage_server.flight.errors import from_flight
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


class TestUsersFunctions:
    """What a function of a user raises is for the log; the client gets an id to look it up by."""

    def test_what_fails_at_the_start_has_an_id_of_the_log(
        self, server: Server, client: fl.FlightClient, quotes: KeyedTable, caplog: pytest.LogCaptureFixture
    ) -> None:
        server.functions.register("boom", _raises, returns=pa.float64())
        with caplog.at_level(logging.ERROR, "barrage_server"), pytest.raises(pa.ArrowException) as caught:
            client.do_get(fl.Ticket(_plan("update", columns=["made = boom(price)"]))).read_all()
        told = from_flight(caught.value)
        assert isinstance(told, InternalError)
        assert "secret" not in str(told)
        (error_id,) = re.findall(r"under the id ([0-9a-f]+)\.", str(told))
        (record,) = [record for record in caplog.records if error_id in record.getMessage()]
        assert record.exc_info is not None
        assert "secret" in "".join(traceback.format_exception(*record.exc_info))

    def test_what_fails_in_a_cycle_has_an_id_too(
        self, server: Server, client: fl.FlightClient, quotes: KeyedTable, caplog: pytest.LogCaptureFixture
    ) -> None:
        server.functions.register("dear", _raises_above_ten, returns=pa.float64())
        server.add_table("made", quotes.update("made = dear(price)"))
        caplog.set_level(logging.INFO, "barrage_server")
        with Follower(client, "made") as stopped:
            until(lambda: stopped.messages)
            quotes.upsert({"sym": ["C"], "price": [11.0]})
            until(lambda: stopped.ended)
        assert "secret" not in str(stopped.error)
        (error_id,) = re.findall(r"under the id ([0-9a-f]+)\.", str(stopped.error))
        (failed,) = [
            record for record in caplog.records if record.exc_info and "table made failed" in record.getMessage()
        ]
        assert error_id in failed.getMessage()
        with Follower(client, "made") as late:
            until(lambda: late.ended)
        assert re.findall(r"under the id ([0-9a-f]+)\.", str(late.error)) == [error_id], "all are told one id"


def _raises(*_: object) -> pa.Array:
    raise ValueError("secret")


def _raises_above_ten(prices: pa.Array) -> pa.Array:
    return _raises() if any(price and price > 10 for price in prices.to_pylist()) else prices


def _plan(verb: str, **fields: object) -> bytes:
    step = {"verb": verb, "inputs": [{"table": "quotes"}], **fields}
    return json.dumps({"operations": [step]}).encode()


def test_a_failed_source_table_is_replaced_by_dropping_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what the error says, and it works."""
    schema = pa.schema([("n", pa.int64())])
    table = server.append_table("t", schema)
    with monkeypatch.context() as patch:
        patch.setattr(FixedColumn, "write", lambda *_: 1 / 0)
        with pytest.raises(InternalError, match="Drop and create it again"):
            table.append({"n": [1]})
    with pytest.raises(InternalError, match="Drop and create it again"):
        server.append_table("t", schema).append({"n": [1]})
    server.drop("t")
    again = server.append_table("t", schema)
    again.append({"n": [1]})
    assert again.size == 1
