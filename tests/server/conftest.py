"""What tests of the server share: the contract tests run against both doors, through the same stock Flight client."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import KeyedTable
from barrage_server.server import Server

SCHEMA = pa.schema([("sym", pa.string()), ("price", pa.float64())])
FLIGHT, DEEPHAVEN = "flight", "deephaven"


def address(server: Server, door: str) -> str:
    """Where a Flight client finds a door of the server."""
    if door == FLIGHT:
        return server.uri
    assert server.deephaven_uri is not None
    return server.deephaven_uri.replace("dh+plain", "grpc")


@pytest.fixture(params=[FLIGHT, DEEPHAVEN])
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(deephaven_port=0) as server:
        yield server


@pytest.fixture
def client(server: Server, door: str) -> Iterator[fl.FlightClient]:
    with fl.connect(address(server, door)) as client:
        yield client


@pytest.fixture
def quotes(server: Server) -> KeyedTable:
    table = server.keyed_table("quotes", SCHEMA, key=["sym"])
    table.upsert({"sym": ["A", "B"], "price": [1.0, 2.0]})
    return table
