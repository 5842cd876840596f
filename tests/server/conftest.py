"""What tests of the server share: the contract tests run against all endpoints, by the same stock Flight client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import KeyedTable
from barrage_server.server import Server

SCHEMA = pa.schema([("sym", pa.string()), ("price", pa.float64())])
FLIGHT, DEEPHAVEN, GRPC = "flight", "deephaven", "grpc"
ENDPOINTS = (FLIGHT, DEEPHAVEN, GRPC)


def endpoints(endpoint: str) -> dict[str, Any]:
    """The arguments of a server that has the endpoint."""
    return {"front": "grpc"} if endpoint == GRPC else {"deephaven_port": 0}


def address(server: Server, endpoint: str) -> str:
    """Where a Flight client finds an endpoint of the server."""
    if endpoint != DEEPHAVEN:
        return server.uri
    assert server.deephaven_uri is not None
    return server.deephaven_uri.replace("dh+plain", "grpc")


@pytest.fixture(params=ENDPOINTS)
def endpoint(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    chosen = endpoints(request.getfixturevalue("endpoint") if "endpoint" in request.fixturenames else DEEPHAVEN)
    with Server(**chosen) as server:
        yield server


@pytest.fixture
def client(server: Server, endpoint: str) -> Iterator[fl.FlightClient]:
    with fl.connect(address(server, endpoint)) as client:
        yield client


@pytest.fixture
def quotes(server: Server) -> KeyedTable:
    table = server.keyed_table("quotes", SCHEMA, key=["sym"])
    table.upsert({"sym": ["A", "B"], "price": [1.0, 2.0]})
    return table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory, which is not there yet."""
    return tmp_path / "data"
