"""The table that the server computes in the demo follows both flights and airports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.demo.destinations import serve_destinations
from barrage_server.demo.flights import COLUMNS

AIRPORTS = pa.table({"faa": ["ATL", "LGA", "MIA"], "name": ["Atlanta", "La Guardia", "Miami"]})


@pytest.fixture
def server() -> Iterator[bs.Server]:
    with bs.Server(port=0) as made:
        serve_destinations(made, AIRPORTS)
        yield made


def fly(server: bs.Server, *flights: tuple[str, int | None]) -> None:
    """Append flights: destination, and minutes late on arrival."""
    rows = [{"dest": dest, "arr_delay": delay} for dest, delay in flights]
    table = server.table("flights")
    assert isinstance(table, bs.AppendTable)
    table.append(pa.Table.from_pylist(rows, COLUMNS))


def shown(server: bs.Server) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in server.table("destinations").to_arrow().to_pylist()]


def test_the_latest_come_first_and_ties_by_code(server: bs.Server) -> None:
    fly(server, ("ATL", 10), ("MIA", 30), ("ATL", 11), ("ATL", None))
    expected = [("MIA", "Miami", 1, 30.0, 30, 30), ("ATL", "Atlanta", 3, 10.5, 11, 21)]
    assert shown(server) == expected
    fly(server, ("SJU", 30))
    assert shown(server) == [expected[0], ("SJU", None, 1, 30.0, 30, 30), expected[1]]
    fly(server, ("ATL", 399), ("MIA", -60))
    assert [row[:4] for row in shown(server)] == [
        ("ATL", "Atlanta", 4, 140.0),
        ("SJU", None, 1, 30.0),
        ("MIA", "Miami", 2, -15.0),
    ]


def test_cancelled_flights_alone_have_no_mean_and_come_last(server: bs.Server) -> None:
    fly(server, ("LGA", None), ("ATL", -5))
    assert shown(server) == [("ATL", "Atlanta", 1, -5.0, -5, -5), ("LGA", "La Guardia", 1, None, None, None)]


def test_a_name_that_changes_is_one_cell_that_does(server: bs.Server) -> None:
    fly(server, ("ATL", 10), ("MIA", 30))
    with bs.connect(server.uri) as client:
        client.upsert("airports", {"faa": ["ATL"], "name": ["Hartsfield"]})
    assert shown(server) == [("MIA", "Miami", 1, 30.0, 30, 30), ("ATL", "Hartsfield", 1, 10.0, 10, 10)]


def test_a_client_cannot_write_to_it(server: bs.Server) -> None:
    fly(server, ("ATL", 10))
    with bs.connect(server.uri) as client, pytest.raises(bs.BarrageError):
        client.append("destinations", client.snapshot("destinations"))
    assert len(shown(server)) == 1
