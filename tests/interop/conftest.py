"""The peers. Tests against them have the marker ``interop``, and run in one process, by `make interop`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from barrage_server import Server
from barrage_server.subscription import SubscriptionLimits
from tests.waiting import until

from .deephaven import DeephavenServer
from .javascript import JavaScript, extract_api
from .ports import unused_port
from .python_client import Pydeephaven


@pytest.fixture(scope="session")
def deephaven() -> Iterator[DeephavenServer]:
    """A Deephaven server with anonymous log-in. Tests give their tables names of their own."""
    server = DeephavenServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def python_clients() -> Iterator[Callable[[], Pydeephaven]]:
    """Gives the process of Deephaven's Python clients: a new one when a call has not returned."""
    made: list[Pydeephaven] = []

    def usable() -> Pydeephaven:
        if not made or made[-1].peer.is_stuck:
            made.append(Pydeephaven())
        return made[-1]

    yield usable
    for clients in made:
        clients.close()


@pytest.fixture
def pydeephaven(python_clients: Callable[[], Pydeephaven]) -> Iterator[Pydeephaven]:
    """Deephaven's Python clients. What a test leaves in variables there goes when it ends."""
    clients = python_clients()
    yield clients
    clients.peer.call("forget")


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of ours with an endpoint for Deephaven's clients, without credentials, which tells of changes soon."""
    limits = SubscriptionLimits(default_interval_ms=1)
    with Server(deephaven_port=unused_port(), subscriptions=limits) as server:
        yield server


@pytest.fixture
def client(server: Server, pydeephaven: Pydeephaven) -> Iterator[Pydeephaven]:
    """Deephaven's Python clients with an open ``session``, of which nothing may be left when it is closed."""
    pydeephaven.log_in(server)
    yield pydeephaven
    pydeephaven.execute("session.close()")
    left = server.statistics()
    assert (left.sessions, left.exports, left.uploads, left.downloads) == (0, 0, 0, 0)
    until(lambda: not server.statistics().subscriptions)


@pytest.fixture(scope="session")
def javascript_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaScript]:
    """The process of Deephaven's JavaScript API."""
    api = extract_api(tmp_path_factory.mktemp("api"))
    process = JavaScript(api, tmp_path_factory.mktemp("storage"))
    yield process
    process.close()


@pytest.fixture
def javascript(javascript_process: JavaScript) -> Iterator[JavaScript]:
    """Deephaven's JavaScript API. Whatever goes wrong in it unnoticed fails the test."""
    javascript_process.faults()
    yield javascript_process
    assert javascript_process.faults() == []
