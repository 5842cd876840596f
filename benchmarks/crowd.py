"""Many subscribers in one thread.

They are raw gRPC streams, which receive messages as bytes without decoding them.

A thread for each of a thousand subscribers would cost more than the server does; an event loop costs some 60 µs per
message. It is the same for this project's server and for Deephaven's: both speak the gRPC of Flight.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol

import grpc
import numpy as np

from barrage_server.rowset import RowSet
from barrage_server.wire.raw import encode_flight_data
from barrage_server.wire.requests import SubscriptionOptions, SubscriptionRequest
from benchmarks.steady import Steady, on_time
from benchmarks.systems import System

__all__ = ["Member", "crowd", "watched"]

_METHOD: Final = "/arrow.flight.protocol.FlightService/DoExchange"
_DESCRIPTOR: Final = b"\x08\x02\x12\x04dphn"  # FlightDescriptor: type 2, a command, which is dphn
_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
_JOINED_SECONDS: Final = 40.0


class Member(Protocol):
    """One of a crowd.

    Attributes:
        times: when its messages came, in seconds since 1970.
        nbytes: their bytes.
    """

    times: list[float]
    nbytes: int

    async def follow(self) -> None:
        """Receive until cancelled."""


def crowd(
    system: System,
    name: str,
    viewports: Sequence[tuple[int, int]],
    *,
    interval_ms: int,
    settle: float,
    measure: float,
) -> Steady:
    """Subscribe to viewports, each over a connection of its own, and measure.

    The measurement begins when all have received a message.

    ``rate`` of the result is messages per second and subscriber, and ``nbytes`` is per message.
    """
    requests = [_request(name, viewport, interval_ms, deephaven=system.is_deephaven) for viewport in viewports]
    members = [_Subscriber(system.port, request) for request in requests]
    return asyncio.run(watched(system, members, interval_ms=interval_ms, settle=settle, measure=measure))


async def watched(
    system: System, members: Sequence[Member], *, interval_ms: int, settle: float, measure: float
) -> Steady:
    """What a crowd gets, and what it costs the server."""
    tasks = [asyncio.create_task(member.follow()) for member in members]
    try:
        end = time.monotonic() + _JOINED_SECONDS
        while not all(member.times for member in members) and time.monotonic() < end:
            await asyncio.sleep(0.05)
            for task in tasks:
                if task.done():
                    task.result()  # raises its error
        await asyncio.sleep(settle)
        used, begin = system.cpu_seconds(), time.time()
        await asyncio.sleep(measure)
        used, end = system.cpu_seconds() - used, time.time()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    times = [[at for at in member.times if begin <= at < end] for member in members]
    took, messages = end - begin, sum(len(each) for each in times)
    return Steady(
        rate=messages / len(members) / took,
        cores=used / took,
        worst_age=max(took if not each else float(np.diff(each, prepend=begin).max()) for each in times),
        nbytes=sum(member.nbytes for member in members) / max(1, sum(len(member.times) for member in members)),
        on_time=float(np.mean([on_time(each, begin, end, interval_ms) for each in times])),
    )


class _Subscriber:
    """A subscriber."""

    def __init__(self, port: int, request: bytes) -> None:
        self._address, self._asked = f"127.0.0.1:{port}", request
        self.times: list[float] = []
        self.nbytes = 0

    async def follow(self) -> None:
        """Receive until cancelled."""
        async with grpc.aio.insecure_channel(self._address, options=_OPTIONS) as channel:
            # without serializers: messages are bytes
            call: Any = channel.stream_stream(_METHOD)(metadata=(("authorization", "Anonymous"),))
            await call.write(encode_flight_data(b"", None, None, _DESCRIPTOR))
            await call.write(encode_flight_data(b"", self._asked, None))
            await call.read()  # the schema
            while True:
                message = await call.read()
                if not message:
                    raise ConnectionError("the server has ended a subscription")
                self.times.append(time.time())
                self.nbytes += len(message)


def _request(name: str, viewport: tuple[int, int], interval_ms: int, *, deephaven: bool) -> bytes:
    options = SubscriptionOptions(
        use_deephaven_nulls=deephaven, columns_as_list=True, min_update_interval_ms=interval_ms
    )
    rows = RowSet.from_range(viewport[0], viewport[0] + viewport[1] - 1)
    return SubscriptionRequest(f"s/{name}".encode(), viewport=rows, options=options).encode()
