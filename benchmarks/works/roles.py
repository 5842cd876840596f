"""The cost of roles per call, call by call in turns.

A server with roles runs beside one without, both with a token.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final

import pyarrow.flight as flight

from benchmarks import data, systems
from benchmarks.bench import Bench
from benchmarks.exchange import connect
from benchmarks.names import OURS, ROLES

WORK: Final = "a call, by whether there are roles"
RATIO: Final = "of the time without roles"
_TOKEN: Final = "a token of the benchmark"
_OPTIONS: Final = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {_TOKEN}".encode())])
_ROWS: Final = 100
_TABLES: Final = 50
_ROLES: Final = {
    "desk": {"tables": ["t*"], "rights": ["list", "read", "publish"]},
    **{f"team{number}": {"tables": [f"t{number}_*"], "rights": ["list", "read"]} for number in range(10)},
}
Call = Callable[[flight.FlightClient], object]


def run(bench: Bench) -> None:
    """The caller has all roles; the table is one of fifty."""
    with (
        systems.ours(token=_TOKEN) as plain,
        systems.ours(token=_TOKEN, roles=_ROLES, default_roles=list(_ROLES)) as ruled,
        connect(plain.port) as one,
        connect(ruled.port) as other,
    ):
        for system in (plain, ruled):
            for number in range(_TABLES):
                system.make(f"t{number}", "append", _ROWS)
        for what, call in _CALLS.items():
            bench.step(what)
            seconds: tuple[list[float], list[float]] = ([], [])
            for turn in range(bench.sizes.moves):
                # who begins takes turns, too: the second call finds the caches and the clock as the first left them
                for place in (0, 1) if turn % 2 else (1, 0):
                    client = (one, other)[place]
                    begin = time.perf_counter()
                    call(client)
                    seconds[place].append(time.perf_counter() - begin)
            bench.timed(WORK, what, OURS, seconds[0])
            bench.timed(WORK, what, ROLES, seconds[1])
            ratio = statistics.median(seconds[1]) / statistics.median(seconds[0])
            bench.add(WORK, f"{what}, {RATIO}", OURS, [ratio], "times")


def _info(client: flight.FlightClient) -> object:
    return client.get_flight_info(flight.FlightDescriptor.for_path("t7"), _OPTIONS)


def _get(client: flight.FlightClient) -> object:
    return client.do_get(flight.Ticket(b"s/t7"), _OPTIONS).read_all()


def _put(client: flight.FlightClient) -> object:
    writer, answers = client.do_put(flight.FlightDescriptor.for_path("t0"), data.SCHEMA, _OPTIONS)
    with writer:
        writer.write_batch(_BATCH)
        writer.done_writing()
        return answers.read()


_BATCH: Final = data.batch(0, _ROWS)
_CALLS: Final[dict[str, Call]] = {"GetFlightInfo": _info, "DoGet of 100 rows": _get, "DoPut of 100 rows": _put}
