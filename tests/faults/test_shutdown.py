"""The end of the server, whatever clients are doing then."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pyarrow.flight as fl
import pytest

from barrage_server.engine import AppendTable
from barrage_server.server import Server
from tests.faults import clients
from tests.faults.clients import BLOBS, MANY_BYTES, SUBSCRIBE_BLOBS, stalled
from tests.faults.conftest import SCHEMA
from tests.server.follower import DPHN
from tests.waiting import until


def _stalled(server: Server, held: ExitStack) -> None:
    keep = stalled(server)
    held.callback(lambda: keep)
    table = server.table("blobs")
    assert isinstance(table, AppendTable)
    table.append({"blob": MANY_BYTES})
    until(lambda: any(gauges.writing_seconds > 0 for gauges in server.statistics().subscriptions))


def _half_closed(server: Server, held: ExitStack) -> None:
    keep = stalled(server)
    held.callback(lambda: keep)
    keep[1].done_writing()
    keep[2].read_chunk()


def _deaf(server: Server, held: ExitStack) -> None:
    """Reads, and does not know what it means that its stream ends."""
    keep = stalled(server)
    held.callback(lambda: keep)
    keep[2].read_chunk()


def _cancelled(server: Server, held: ExitStack) -> None:
    keep = stalled(server)
    held.callback(lambda: keep)
    keep[2].read_chunk()
    keep[2].cancel()


def _silent(server: Server, held: ExitStack) -> None:
    """Opens a stream and never says what it wants."""
    client = clients.connect(server)
    keep = client, *client.do_exchange(DPHN)
    held.callback(lambda: keep)


def _putting(server: Server, held: ExitStack) -> None:
    client = clients.connect(server)
    keep = client, *client.do_put(fl.FlightDescriptor.for_path("mine"), SCHEMA)
    held.callback(lambda: keep)
    until(lambda: server.statistics().uploads == 1)


def _getting(server: Server, held: ExitStack) -> None:
    table = server.table("blobs")
    assert isinstance(table, AppendTable)
    table.append({"blob": MANY_BYTES * 2})
    client = clients.connect(server)
    keep = client, client.do_get(fl.Ticket(b"s/blobs"))
    held.callback(lambda: keep)
    until(lambda: server.statistics().downloads == 1)


def _killed(server: Server, held: ExitStack) -> None:
    child: AbstractContextManager[Any] = clients.process(clients.SUBSCRIBE, server, SUBSCRIBE_BLOBS)
    held.enter_context(child).kill()


def _idle(server: Server, held: ExitStack) -> None:
    client = clients.connect(server)
    assert len(list(client.list_flights())) == 1
    held.callback(lambda: client)


MISBEHAVIOUR: list[Callable[[Server, ExitStack], None]] = [
    _stalled,
    _half_closed,
    _deaf,
    _cancelled,
    _silent,
    _putting,
    _getting,
    _killed,
    _idle,
]


@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
@pytest.mark.parametrize("misbehave", [*MISBEHAVIOUR, None], ids=lambda entry: getattr(entry, "__name__", "all"))
def test_the_server_closes_in_bounded_time_whatever_clients_do(
    misbehave: Callable[[Server, ExitStack], None] | None, front: str
) -> None:
    with ExitStack() as held:
        server = Server(front=front)
        server.append_table("blobs", BLOBS)
        for action in MISBEHAVIOUR if misbehave is None else [misbehave]:
            action(server, held)
        began = time.monotonic()
        server.close()
        assert time.monotonic() - began < 5.0
        assert server.statistics().subscriptions == ()
