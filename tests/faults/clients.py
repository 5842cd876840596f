"""Clients that misbehave: in this process on a connection of their own, or in a process that can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from barrage_server.server import Server
from barrage_server.wire.metadata import SubscriptionRequest
from tests.server.follower import DPHN, QUICK

BLOBS = pa.schema([("blob", pa.binary())])
SUBSCRIBE_BLOBS = SubscriptionRequest(b"s/blobs", options=QUICK).encode()
MANY_BYTES = [os.urandom(1 << 20)] * 32  # several times what gRPC and TCP buffer


FRONTS: dict[str, dict[str, Any]] = {"flight": {}, "deephaven": {"deephaven_port": 0}, "grpc": {"front": "grpc"}}
"""The arguments of a server whose endpoint a test is about, by the endpoint."""


def where(server: Server) -> str:
    """The endpoint that a test is about: the Deephaven endpoint of a server that has one, else the Flight endpoint."""
    return server.uri if server.deephaven_uri is None else server.deephaven_uri.replace("dh+plain", "grpc")


def connect(server: Server) -> fl.FlightClient:
    """A client with a TCP connection of its own; gRPC would share one among clients of the same address."""
    return fl.connect(where(server), generic_options=[("grpc.use_local_subchannel_pool", 1)])


def stalled(server: Server) -> Any:
    """A client that subscribes and never reads."""
    client = connect(server)
    writer, reader = client.do_exchange(DPHN)
    writer.write_metadata(SUBSCRIBE_BLOBS)
    return client, writer, reader


_PRELUDE = """
import sys, threading
import pyarrow as pa, pyarrow.flight as fl
client = fl.connect(sys.argv[1])
def ready():
    print("ready", flush=True)
    threading.Event().wait(120)
"""

SUBSCRIBE = """
writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(b"dphn"))
writer.write_metadata(bytes.fromhex(sys.argv[2]))
reader.read_chunk()
ready()
"""

SUBSCRIBE_AND_STALL = """
writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(b"dphn"))
writer.write_metadata(bytes.fromhex(sys.argv[2]))
ready()
"""

PUT = """
batch = pa.record_batch({"sym": ["X"], "price": [1.0]})
writer, reader = client.do_put(fl.FlightDescriptor.for_path(sys.argv[2]), batch.schema)
for _ in range(100):
    writer.write_batch(batch)
ready()
"""

STAGE = """
batch = pa.record_batch({"sym": ["X"], "price": [1.0]})
writer, reader = client.do_put(fl.FlightDescriptor.for_command(b"barrage.stage"), batch.schema)
writer.write_metadata(bytes.fromhex(sys.argv[2]))
for _ in range(100):
    writer.write_batch(batch)
ready()
"""

PUBLISH = """
batch = pa.record_batch({"n": [1, 2, 3]})
writer, reader = client.do_put(fl.FlightDescriptor.for_path("feed"), batch.schema)
writer.write_metadata(bytes.fromhex(sys.argv[2]))
writer.write_with_metadata(batch, bytes.fromhex(sys.argv[3]))
writer.write_with_metadata(batch.slice(0, 1), bytes.fromhex(sys.argv[4]))  # half of an update
ready()
"""

GET = """
reader = client.do_get(fl.Ticket(sys.argv[2].encode()))
reader.read_chunk()
ready()
"""


@contextmanager
def process(script: str, server: Server, *arguments: str | bytes) -> Iterator[subprocess.Popen[str]]:
    """A client in a process of its own, which has done its part and waits. It is killed at the end, if not before."""
    texts = [argument if isinstance(argument, str) else argument.hex() for argument in arguments]
    command = [sys.executable, "-c", _PRELUDE + script, where(server), *texts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()
