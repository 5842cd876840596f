"""Values that cannot be read: the stream that wanted them ends, and no table, publisher or other stream notices."""

from __future__ import annotations

import pyarrow.flight as fl

from barrage_server.engine import KeyedTable
from barrage_server.server import Server
from tests.engine.test_views import SquareTable
from tests.server.follower import Follower
from tests.waiting import until


def test_a_view_that_fails_ends_one_stream(server: Server, client: fl.FlightClient, quotes: KeyedTable) -> None:
    """Its error says why. Who comes when the values are there again gets all of them."""
    table = SquareTable(server.graph)
    server.add_table("squares", table)
    server.graph.stage(table, 2)
    with Follower(client, "squares") as stopped, Follower(client, "quotes") as going:
        until(lambda: len(stopped.rows) == 2 and len(going.rows) == 2)
        table.away = [3]
        with server.graph.cycle():
            server.graph.stage(table, 4)
            quotes.upsert({"sym": ["C"], "price": [3.0]})
        until(lambda: stopped.ended)
        assert "The rows are away." in str(stopped.error)
        until(lambda: len(going.rows) == 3)
        assert not going.ended
    assert table.failure is None
    table.away = []
    server.graph.stage(table, 5)
    with Follower(client, "squares") as late:
        until(lambda: len(late.rows) == 5)
