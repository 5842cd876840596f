from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import KeyedTable
from barrage_server.server import Limits, Server
from tests.faults.clients import FRONTS, connect

SCHEMA = pa.schema([("sym", pa.string()), ("price", pa.float64())])


@pytest.fixture(params=[*FRONTS])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server, each test once per endpoint."""
    limits = Limits(slow_client_seconds=1.0, idle_upload_seconds=1.0, goodbye_seconds=0.3)
    with Server(limits=limits, **FRONTS[request.param]) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[fl.FlightClient]:
    with connect(server) as client:
        yield client


@pytest.fixture
def quotes(server: Server) -> KeyedTable:
    table = server.keyed_table("quotes", SCHEMA, key=["sym"])
    table.upsert({"sym": ["A", "B"], "price": [1.0, 2.0]})
    return table
