"""The effect of callers without credentials on a client with credentials.

The front is the one that bounds such callers.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.exchange import connect
from benchmarks.machine import MIB
from benchmarks.names import OURS
from benchmarks.process import Process

WORK: Final = "a client beside callers without credentials, front grpc"
_TOKEN: Final = "a token of the benchmark"
_OPTIONS: Final = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {_TOKEN}".encode())])


def run(bench: Bench) -> None:
    """Reads of 100 rows, one after the other, in turns alone and beside them."""
    alone, beside, ratios = list[float](), list[float](), list[float]()
    refused, memory = list[float](), list[float]()
    with systems.ours(front="grpc", token=_TOKEN) as system, Process("benchmarks.clients.stranger") as stranger:
        system.make("t", "append", 100)
        with connect(system.port) as client:
            _reads(client, bench.sizes.settle)
            for _ in range(bench.sizes.repeats):
                bench.step("alone")
                alone.append(_reads(client, bench.sizes.measure)[0])
                before = system.resident_bytes()
                bench.step("beside them")
                stranger.call("gather", port=system.port)
                with stranger.meanwhile("attack", port=system.port, seconds=bench.sizes.measure) as made:
                    late, share = _reads(client, bench.sizes.measure)
                    beside.append(late)
                    refused.append(share)
                    memory.append(max(0.0, system.resident_bytes() - before) / MIB)
                stranger.call("leave")
                assert made["value"]
                ratios.append(beside[-1] / alone[-1])
    bench.add(WORK, "p99, alone", OURS, alone, "ms")
    bench.add(WORK, "p99, beside them", OURS, beside, "ms")
    bench.add(WORK, "p99", OURS, ratios, "times that without them")
    bench.add(WORK, "calls refused beside them", OURS, refused, "%")
    bench.add(WORK, "memory", OURS, memory, "MiB")


def _reads(client: flight.FlightClient, seconds: float) -> tuple[float, float]:
    """The 99th percentile of a read's time, in ms, and the percentage refused.

    gRPC refuses some calls of any client while too many wait for the server.
    """
    took = list[float]()
    refused = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not took:
        begin = time.perf_counter()
        try:
            client.do_get(flight.Ticket(b"s/t"), _OPTIONS).read_all()
        except (flight.FlightError, pa.ArrowException):
            refused += 1
        else:
            took.append(time.perf_counter() - begin)
    return float(np.percentile(took, 99)) * 1000, 100.0 * refused / (refused + len(took))
