"""A server and a client of it, on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import barrage_server as bs


@pytest.fixture
def server() -> Iterator[bs.Server]:
    with bs.Server(host="127.0.0.1", port=0) as server:
        yield server


@pytest.fixture
def client(server: bs.Server) -> Iterator[bs.Client]:
    with bs.connect(server.uri, timeout=20) as client:
        yield client
