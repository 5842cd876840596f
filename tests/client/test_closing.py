"""A client may be closed while other threads make calls: these end, and the connection with the last of them."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow.flight as fl
import pytest

import barrage_server as bs
from tests.waiting import until

FLIGHT_CLIENT: Any = fl.FlightClient


class Watch:
    """Holds calls up, and says when a client of Flight is closed: it frees what its calls use then."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.closed = threading.Event(), threading.Event(), threading.Event()

    def flight_client(self, *args: Any, **keywords: Any) -> fl.FlightClient:
        watch = self

        class Watched(FLIGHT_CLIENT):  # type: ignore[misc]  # pyarrow has no types
            def do_action(self, *args: Any) -> Any:
                watch.begun.set()
                assert watch.may_end.wait(20)
                assert not watch.closed.is_set()
                return super().do_action(*args)

            def close(self) -> None:
                watch.closed.set()
                super().close()

        return Watched(*args, **keywords)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(fl, "FlightClient", watch.flight_client)
    return watch


def test_a_call_that_another_thread_makes_ends_as_ever(server: bs.Server, watched: Watch) -> None:
    told: list[float] = []
    watched.may_end.set()
    client = bs.connect(server.uri)
    watched.may_end.clear()
    watched.begun.clear()
    thread = threading.Thread(target=lambda: told.append(client.ping()))
    thread.start()
    assert watched.begun.wait(20)
    client.close()
    assert not watched.closed.is_set()
    with pytest.raises(bs.UnavailableError, match="closed"):
        client.ping()
    watched.may_end.set()
    thread.join(20)
    assert len(told) == 1
    until(watched.closed.is_set, 10, "the end of the connection")


def test_a_connection_without_calls_is_closed_at_once(server: bs.Server, watched: Watch) -> None:
    watched.may_end.set()
    client = bs.connect(server.uri)
    client.ping()
    assert not watched.closed.is_set()
    client.close()
    assert watched.closed.is_set()
