"""The kinds of clients that come and go: what each does in one session."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as fl
from barrage_proto import deephaven_pb2 as deephaven

import barrage_server as bs
from barrage_server.flight.staging import stage
from barrage_server.wire.commit_messages import StageRequest
from barrage_server.wire.protocol import DROP_ACTION, DropRequest
from tests.fuzz.corpus import DEEPHAVEN, Call
from tests.fuzz.senders import WebSender
from tests.live.process import PATIENCE, ServerProcess
from tests.server.deephaven.raw_session import Kind, Session
from tests.soak.updates import KINDS, SCHEMA

__all__ = ["KINDS_OF_SESSION", "clear"]

grpc: Any = import_module("grpc")  # it has no types

SessionKind = Callable[[ServerProcess, random.Random, str], None]
_LOCAL: Final = [("grpc.use_local_subchannel_pool", 1)]
_MADE: Final = "made_"


def whole_table(server: ServerProcess, chance: random.Random, _name: str) -> None:
    """Follow a table by Flight, read it at once, and have it counted."""
    table = chance.choice(KINDS)
    with bs.connect(server.flight, timeout=PATIENCE) as client, client.subscribe(table, interval_ms=1) as live:
        live.to_arrow()
        client.snapshot(table)
        client.tables()


def viewports(server: ServerProcess, chance: random.Random, _name: str) -> None:
    """Move a viewport."""
    with (
        bs.connect(server.flight, timeout=PATIENCE) as client,
        client.subscribe(chance.choice(("keyed", "ring")), viewport=range(50), interval_ms=1) as live,
    ):
        for _ in range(3):
            first = chance.randrange(4000)
            live.set_viewport(range(first, first + chance.randrange(1, 100)))


def of_deephaven(server: ServerProcess, chance: random.Random, _name: str) -> None:
    """Follow a table by the protocol of Deephaven's clients."""
    address = server.deephaven.replace("grpc://", "dh+plain://")
    with bs.connect(address, timeout=PATIENCE) as client, client.subscribe(chance.choice(KINDS), interval_ms=1) as live:
        live.to_arrow()


def publishing(server: ServerProcess, chance: random.Random, name: str) -> None:
    """Make a table, follow it, write numbered batches, and drop it under the subscriber."""
    rows = pa.table({"id": [1, 2, 3], "price": [1.0, 2.0, 3.0], "text": ["a", "b", name]}, schema=SCHEMA)
    with bs.connect(server.flight, timeout=PATIENCE) as client:
        client.publish(name, rows, key=["id"])
        with client.subscribe(name, interval_ms=1) as live:
            for batch in range(chance.randrange(1, 4)):
                client.publish(name, rows, publisher=name, batch=batch)
            client.delete(name, {"id": [2]})
            live.wait_until(lambda live: live.size == 2, PATIENCE)
            client.drop(name)


def binding(server: ServerProcess, chance: random.Random, name: str) -> None:
    """Make tables of a session, bind one, share one, and leave, or vanish."""
    address = server.addresses[1]
    with grpc.insecure_channel(address, options=_LOCAL) as channel, fl.FlightClient(f"grpc://{address}") as flight:
        session = Session(channel, flight)
        keyed = Kind(in_memory_key_backed=Kind.InMemoryKeyBacked(key_columns=["x"]))
        made = [session.upload(), session.input_table(keyed)]
        session.bind(name, chance.choice(made))
        session.share(name.encode(), chance.choice(made))
        if chance.random() < 0.5:
            session.release(made[0])
        if chance.random() < 0.7:
            session.close()
    with fl.connect(server.flight) as client:
        list(client.do_action((DROP_ACTION, DropRequest(name).to_json())))


def staging(server: ServerProcess, _chance: random.Random, name: str) -> None:
    """Stage rows which nothing commits."""
    rows = pa.record_batch({"id": [1, 2], "price": [1.0, 2.0], "text": ["a", "b"]}, schema=SCHEMA)
    with fl.connect(server.flight) as client:
        stage(client.do_put, StageRequest(f"publisher of {name}", "ring", 0, "attempt"), SCHEMA, [rows], nullcontext)


def of_the_web(server: ServerProcess, _chance: random.Random, _name: str) -> None:
    """A session over a websocket, which is cut."""
    sender = WebSender(server.addresses[2])
    try:
        sender.send(Call(DEEPHAVEN + "SessionService/NewSession", (b"",)))
        sender.send(
            Call(
                DEEPHAVEN + "ConfigService/GetConfigurationConstants",
                (deephaven.ConfigurationConstantsRequest().SerializeToString(),),
                session=True,
            )
        )
    finally:
        sender.close()


def vanishing(server: ServerProcess, chance: random.Random, _name: str) -> None:
    """Connections that say nothing, or half a request, and go."""
    for address in server.addresses:
        host, port = address.rsplit(":", 1)
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            if chance.random() < 0.5:
                connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")


def clear(server: ServerProcess) -> None:
    """Drop the tables that sessions have left."""
    with fl.connect(server.flight) as client:
        for info in client.list_flights():
            name = info.descriptor.path[-1].decode()
            if name.startswith(_MADE):
                list(client.do_action((DROP_ACTION, DropRequest(name).to_json())))


KINDS_OF_SESSION: Final[list[SessionKind]] = [
    whole_table,
    viewports,
    of_deephaven,
    publishing,
    binding,
    staging,
    of_the_web,
    vanishing,
]
