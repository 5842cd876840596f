"""Perspective's Python client over a websocket.

Received messages are decoded to Arrow, and not applied.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import perspective
import pyarrow as pa
import tornado.websocket

from benchmarks import data
from benchmarks.loop import Loop
from benchmarks.machine import cpu_seconds

loop = Loop()
_LARGEST: Final = 2 << 30
_PATIENCE_SECONDS: Final = 20.0


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Any]:
    """A client with a connection of its own."""
    socket = await tornado.websocket.websocket_connect(f"ws://127.0.0.1:{port}/websocket", max_message_size=_LARGEST)

    async def send(message: bytes) -> None:
        await socket.write_message(message, binary=True)

    client = perspective.AsyncClient(send)

    async def receive() -> None:
        while True:
            message = await socket.read_message()
            if message is None:
                return
            await client.handle_response(message)

    task = asyncio.get_running_loop().create_task(receive())
    try:
        yield client
    finally:
        socket.close()
        await task


@loop.function
def moves(port: int, table: str, firsts: list[int], width: int, seconds: float) -> list[float]:
    """Read consecutive windows of a view; returns the seconds of each.

    The time is bounded.
    """

    async def run() -> list[float]:
        async with connected(port) as client:
            view = await (await client.open_table(table)).view()
            took: list[float] = []
            end = time.perf_counter() + seconds
            for first in firsts:
                begin = time.perf_counter()
                if begin > end:
                    break
                content = await view.to_arrow(start_row=first, end_row=first + width)
                with pa.ipc.open_stream(io.BytesIO(content)) as reader:
                    rows = reader.read_all().num_rows
                took.append(time.perf_counter() - begin)
                assert rows == width
            return took[len(took) // 10 :]

    return asyncio.run(run())


class Following:
    """Time, rows, oldest and youngest write, and bytes of each received update."""

    def __init__(self) -> None:
        self.updates: list[tuple[float, int, float, float, int]] = []

    def arrived(self, _port: int, delta: bytes) -> None:
        """An update."""
        now = time.time()
        with pa.ipc.open_stream(io.BytesIO(delta)) as reader:
            price = reader.read_all()["price"].to_numpy()
        if len(price):
            self.updates.append((now, len(price), float(price.min()), float(price.max()), len(delta)))


async def _follow(stack: AsyncExitStack, port: int, table: str) -> Following:
    client = await stack.enter_async_context(connected(port))
    view = await (await client.open_table(table)).view()
    following = Following()
    await view.on_update(following.arrived, mode="row")
    stack.push_async_callback(view.delete)
    return following


@loop.function
def ages(port: int, table: str, rows: int) -> list[float]:
    """Follow a table until a number of rows have come.

    Returns the age of each row on arrival, in seconds.
    """

    async def run() -> list[float]:
        async with AsyncExitStack() as stack:
            following = await _follow(stack, port, table)
            end = time.monotonic() + 60
            while sum(update[1] for update in following.updates) < rows and time.monotonic() < end:
                await asyncio.sleep(0.05)
            return [at - oldest for at, _, oldest, _, _ in following.updates]

    return asyncio.run(run())


@loop.function
def steady(port: int, table: str, pid: int, subscribers: int, settle: float, measure: float) -> dict[str, Any]:
    """Follow a table that ticks, with several subscribers.

    Returns the updates that each received during the measurement, and the server's processor time.
    """

    async def run() -> dict[str, Any]:
        async with AsyncExitStack() as stack:
            all_of_them = [await _follow(stack, port, table) for _ in range(subscribers)]
            await asyncio.sleep(settle)
            used, begin = cpu_seconds(pid), time.time()
            await asyncio.sleep(measure)
            used, end = cpu_seconds(pid) - used, time.time()
            updates = [[update for update in each.updates if begin <= update[0] < end] for each in all_of_them]
        return {"begin": begin, "end": end, "cpu": used, "updates": updates}

    # a client that gets more than it can decode never comes to the end of it
    try:
        return asyncio.run(asyncio.wait_for(run(), settle + measure + _PATIENCE_SECONDS))
    except TimeoutError:
        raise TimeoutError(f"{subscribers} clients did not get to the end of what they were sent") from None


if __name__ == "__main__":
    assert data.SCHEMA.names[data.PRICE] == "price"
    loop.run()
