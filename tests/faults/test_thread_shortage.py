"""A process that can start no further thread: what is open works on and closes, and what needs a thread says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, UpdateGraph
from barrage_server.errors import LimitError
from tests.waiting import until

SCHEMA = pa.schema([("n", pa.int64())])


@contextmanager
def no_threads() -> Iterator[None]:
    """As under RLIMIT_NPROC, or when the interpreter is ending."""

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        yield


def test_everything_closes() -> None:
    """A server with all its endpoints, a relay, clients, live tables, publications."""
    before = set(threading.enumerate())
    server = bs.Server(deephaven_port=0, deephaven_web_port=0)
    relay = bs.Server()
    numbers = server.append_table("numbers", SCHEMA)
    numbers.append({"n": [1]})
    relay.follow(f"{server.uri}/numbers")
    assert server.deephaven_uri is not None
    clients = [bs.connect(uri) for uri in (server.uri, relay.uri, server.deephaven_uri)]
    followed = [client.subscribe("numbers") for client in clients]
    publication = clients[0].publish_live("copy", followed[0])
    assert isinstance(publication, bs.Publication)
    with no_threads():
        publication.close()
        followed[0].close()
        for client in clients:
            client.close()
        relay.close()
        server.close()
    assert server.wait(0)
    until(lambda: {thread.name for thread in set(threading.enumerate()) - before if "barrage" in thread.name} == set())


def test_a_server_that_cannot_start_says_so_and_leaves_nothing() -> None:
    with bs.Server() as probe:
        port = probe.port
    with no_threads():
        for _ in range(2):  # the first one has given the port back
            with pytest.raises(LimitError, match="no further thread"):
                bs.Server(port=port)
    bs.Server(port=port).close()


def test_what_needs_a_thread_says_so_and_the_client_goes_on() -> None:
    with bs.Server() as server, bs.connect(server.uri) as client:
        server.append_table("numbers", SCHEMA).append({"n": [1]})
        source = AppendTable(UpdateGraph(), "source", SCHEMA)
        with no_threads():
            for call in (
                lambda: client.subscribe("numbers"),
                lambda: client.snapshot("numbers"),
                lambda: client.publish_live("copy", source),
                lambda: client.append("numbers", {"n": [2]}),
                lambda: server.follow(f"grpc://127.0.0.1:{server.port + 1}/other"),
            ):
                with pytest.raises(LimitError, match="no further thread"):
                    call()
            assert [table.name for table in client.tables()] == ["numbers"]
        assert client.snapshot("numbers").num_rows == 1
        with client.subscribe("numbers") as live:
            assert live.size == 1


def test_subscribers_are_served_again_once_there_are_threads() -> None:
    """The first change after a shortage brings what happened in it, too."""
    with bs.Server() as server, bs.connect(server.uri) as client:
        table = server.append_table("numbers", SCHEMA)
        with client.subscribe("numbers") as live:
            with no_threads():
                for number in range(10):
                    table.append({"n": [number]})
            table.append({"n": [10]})
            until(lambda: live.size == 11)
