"""A relay, and upstream servers that can be stopped and started again at the same address."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

import barrage_server as bs


class Upstream:
    """A server that restarts: its tables are gone then, its address stays."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._server: bs.Server | None = None

    @property
    def uri(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    @property
    def server(self) -> bs.Server:
        assert self._server is not None
        return self._server

    def start(self) -> bs.Server:
        assert self._server is None
        self._server = bs.Server(port=self.port)
        return self._server

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """Runs at first."""
    upstream = Upstream()
    upstream.start()
    yield upstream
    upstream.stop()


@pytest.fixture
def relay() -> Iterator[bs.Server]:
    with bs.Server() as relay:
        yield relay
