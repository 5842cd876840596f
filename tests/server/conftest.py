"""What tests of the server share: the contract tests run against all doors, through the same stock Flight client."""

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
DOORS = (FLIGHT, DEEPHAVEN, GRPC)


def doors(door: str) -> dict[str, Any]:
    """The arguments of a server that has the door."""
    return {"front": "grpc"} if door == GRPC else {"deephaven_port": 0}


def address(server: Server, door: str) -> str:
    """Where a Flight client finds a door of the server."""
    if door != DEEPHAVEN:
        return server.uri
    assert server.deephaven_uri is not None
    return server.deephaven_uri.replace("dh+plain", "grpc")


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    chosen = doors(request.getfixturevalue("door") if "door" in request.fixturenames else DEEPHAVEN)
    with Server(**chosen) as server:
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory, which is not there yet."""
    return tmp_path / "data"
