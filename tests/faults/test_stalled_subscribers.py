"""What subscribers that take nothing cost a server that is a process of its own: bytes, and no times."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl
import pytest

import barrage_server as bs
from barrage_server.wire.requests import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.tickets import scope_ticket
from tests.live.process import Figures
from tests.waiting import until

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.slow]

STALLED = 20
MOST_BYTES = 5 << 20
ROWS = 20_000
CAPACITY = 100_000
PUTS = 60


@pytest.fixture
def serve() -> Iterator[tuple[int, str]]:
    """A process of ``barrage-server serve``, and its URI."""
    command = [sys.executable, "-m", "barrage_server.cli", "serve", "--port", "0", "--allow-anonymous"]
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.kill()


def batches() -> Iterator[pa.Table]:
    random = np.random.default_rng(4)
    words = pa.array([f"word {number}" for number in range(1000)])
    for first in count(0, ROWS):
        yield pa.table(
            {
                "id": pa.array(np.arange(first, first + ROWS)),
                "price": pa.array(random.random(ROWS)),
                "size": pa.array(random.integers(0, 1000, ROWS, dtype=np.int32)),
                "text": words.take(pa.array(random.integers(0, 1000, ROWS))),
            }
        )


def stalled(uri: str, held: ExitStack) -> None:
    """A subscription to the whole table whose messages are not read."""
    client = held.enter_context(fl.FlightClient(uri, generic_options=[("grpc.use_local_subchannel_pool", 1)]))
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(b"dphn"))
    held.callback(lambda: (reader.cancel(), writer))  # the writer would end the stream, and wait, when it is freed
    options = SubscriptionOptions(columns_as_list=True, min_update_interval_ms=20)
    writer.write_metadata(SubscriptionRequest(scope_ticket("t"), options=options).encode())


def wait_until_sent(client: bs.Client, messages: int, subscribers: int) -> None:
    """Wait until ``subscribers`` subscriptions were each sent at least ``messages`` messages."""
    until(lambda: sum(one["messages"] >= messages for one in client.statistics()["subscriptions"]) >= subscribers)


def test_a_stalled_subscriber_of_a_ring_costs_a_server_five_mebibytes_at_most(
    serve: tuple[int, str],
) -> None:
    pid, uri = serve
    made = batches()
    with bs.connect(uri) as client, ExitStack() as held:
        client.publish("t", next(made), capacity=CAPACITY)
        with client.subscribe("t", interval_ms=20) as live:
            for _ in range(PUTS):
                client.append("t", next(made))
            live.wait_until(lambda live: live.size == CAPACITY, 60)
        before = Figures.of(pid).memory
        for number in range(1, STALLED + 1):
            # each has the snapshot and the rows of one put when it stalls, however slow the machine is
            stalled(uri, held)
            wait_until_sent(client, 1, number)
            client.append("t", next(made))
            wait_until_sent(client, 2, number)
        for _ in range(PUTS):
            client.append("t", next(made))
        each = (Figures.of(pid).memory - before) / STALLED
        print(f"{each / 2**20:.2f} MiB each")
        assert each <= MOST_BYTES
