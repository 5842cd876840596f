"""Iterators over updates: each has its own place, threads cannot confuse one, and event loops are not blocked."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import NoReturn, cast

import pytest

import barrage_server as bs
from barrage_server.client.cursor import Cursor
from barrage_server.client.iteration import AsyncUpdates, Updates
from barrage_server.client.positions import Positions
from barrage_server.client.subscription_worker import SubscriptionWorker
from barrage_server.engine import AppendTable

LONG = 20.0


@pytest.fixture
def table(server: bs.Server) -> AppendTable:
    return server.append_table("t", {"n": "int64"})


@pytest.fixture
def live(client: bs.Client, table: AppendTable) -> Iterator[bs.LiveTable]:
    with client.subscribe("t", interval_ms=1) as live:
        yield live


def add(live: bs.LiveTable, table: AppendTable, *numbers: int) -> None:
    """Append rows, and wait until the live table has them."""
    table.append({"n": list(numbers)})
    live.wait_until(lambda view: view.size == table.size, LONG)


def numbers_of(update: bs.Update | None) -> list[int]:
    assert update is not None
    numbers: list[int] = update.added_values()["n"].to_pylist()
    return numbers


def test_iterators_beside_each_other_see_all_updates_each(live: bs.LiveTable, table: AppendTable) -> None:
    first, second = live.updates(LONG), live.updates(LONG)
    add(live, table, 1)
    assert numbers_of(next(first)) == [1]
    add(live, table, 2)
    assert numbers_of(next(first)) == [2]
    assert numbers_of(next(second)) == [1, 2], "one update for all that it has missed"


def test_loops_that_follow_each_other_miss_nothing(live: bs.LiveTable, table: AppendTable) -> None:
    add(live, table, 1)
    for update in live.updates(LONG):
        assert numbers_of(update) == [1]
        break
    add(live, table, 2)
    for update in live.updates():
        assert numbers_of(update) == [2]
        break
    add(live, table, 3)
    assert numbers_of(next(live.updates(LONG))) == [3]
    assert list(live.updates(0)) == []


def test_an_iterator_beside_one_that_runs_begins_with_what_comes_next(live: bs.LiveTable, table: AppendTable) -> None:
    first = live.updates(LONG)
    add(live, table, 1)
    second = live.updates(LONG)
    add(live, table, 2)
    assert numbers_of(next(second)) == [2]
    assert numbers_of(next(first)) == [1, 2]


def test_a_closed_iterator_has_no_more_updates(live: bs.LiveTable, table: AppendTable) -> None:
    updates = live.updates(LONG)
    updates.close()
    add(live, table, 1)
    assert list(updates) == []
    assert numbers_of(next(live.updates(LONG))) == [1]


def test_threads_that_share_an_iterator_get_each_row_once(live: bs.LiveTable, table: AppendTable) -> None:
    updates = live.updates(LONG)
    seen: list[int] = []
    errors: list[BaseException] = []

    def read() -> None:
        try:
            for update in updates:
                seen.extend(numbers_of(update))
        except BaseException as error:  # it is raised below, where it is seen
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(300):
        table.append({"n": [number]})
    live.wait_until(lambda view: view.size == 300, LONG)
    live.close()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    assert not errors
    assert sorted(seen) == list(range(300))


def test_an_iterator_that_is_dropped_frees_its_place(live: bs.LiveTable) -> None:
    def places() -> int:
        gc.collect()
        return sum(type(entry) is Cursor for entry in gc.get_objects())

    held = live.updates()
    before = places()
    dropped = [live.updates() for _ in range(5)]
    assert places() == before + 5
    del dropped
    assert places() <= before + 1, "only the one that the next iterator takes over"
    del held


def run(coroutine: object) -> None:
    """Run a coroutine to its end, in bounded time."""

    async def bounded() -> None:
        await asyncio.wait_for(coroutine, LONG)  # type: ignore[arg-type]

    asyncio.run(bounded())


def test_async_for_sees_every_row_while_the_loop_goes_on(client: bs.Client, table: AppendTable) -> None:
    async def main() -> None:
        turns = 0

        async def tick() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with client.subscribe("t", interval_ms=1) as live:
            ticking = asyncio.create_task(tick())
            seen: list[int] = []

            async def read() -> None:
                async for update in live:
                    seen.extend(numbers_of(update))
                    if len(seen) >= 50:
                        break

            reading = asyncio.create_task(read())
            for number in range(50):
                before = turns
                table.append({"n": [number]})
                while turns == before:
                    await asyncio.sleep(0)
            await reading
            ticking.cancel()
        assert sorted(seen) == list(range(50))
        assert live.state is bs.LiveState.CLOSED

    run(main())


def test_cancelling_ends_at_once_and_leaves_nothing(live: bs.LiveTable, table: AppendTable) -> None:
    """Not even the event loop, which what is to be woken would hold."""
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def main() -> None:
        async def read() -> None:
            async for _ in live:
                pass

        loops.append(weakref.ref(asyncio.get_running_loop()))
        for _ in range(3):
            task = asyncio.create_task(read())
            await asyncio.sleep(0)  # now it waits for an update
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())
    gc.collect()
    assert [loop() for loop in loops] == [None]
    add(live, table, 7)
    assert numbers_of(next(live.updates(LONG))) == [7], "the next iterator takes over"


def test_a_wait_that_was_given_up_can_be_repeated(live: bs.LiveTable, table: AppendTable) -> None:
    async def main() -> None:
        updates = live.__aiter__()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(updates.__anext__(), 0.001)
        table.append({"n": [1]})
        assert numbers_of(await updates.__anext__()) == [1]
        await updates.aclose()
        assert [update async for update in updates] == []

    run(main())


def test_async_for_ends_with_the_live_table(live: bs.LiveTable) -> None:
    async def main() -> None:
        async def read() -> int:
            return len([update async for update in live])

        task = asyncio.create_task(read())
        await asyncio.sleep(0)  # now it waits for an update
        await asyncio.to_thread(live.close)
        assert await task == 0

    run(main())


def test_async_for_raises_what_the_subscription_failed_with(
    server: bs.Server, live: bs.LiveTable, table: AppendTable
) -> None:
    async def main() -> None:
        with pytest.raises(bs.UnknownTableError):
            async for _ in live:
                await asyncio.to_thread(server.drop, "t")

    table.append({"n": [1]})
    run(main())


def test_a_closed_event_loop_stops_no_other() -> None:
    positions, calls = Positions(collects=False), list[str]()
    loop = asyncio.new_event_loop()

    def into_the_loop() -> None:
        calls.append("loop")
        loop.call_soon_threadsafe(print)

    positions.watch(into_the_loop)
    positions.watch(lambda: calls.append("other"))
    loop.close()
    for _ in range(3):
        positions.wake()
    assert calls == ["loop", "other", "other", "other"], "what cannot be woken any more is forgotten"


def test_an_iterator_whose_making_is_interrupted_is_freed_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal may come at any line, also before the iterator has its place."""
    said: list[object] = []

    def interrupt() -> NoReturn:
        raise KeyboardInterrupt

    worker = cast("SubscriptionWorker", SimpleNamespace(positions=SimpleNamespace(begin=interrupt)))
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    for make in (lambda: Updates(worker, None), lambda: AsyncUpdates(worker)):
        with pytest.raises(KeyboardInterrupt):
            make()
    gc.collect()
    assert said == []
