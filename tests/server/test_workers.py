"""Threads for calls: what a call has worked on is let go when it ends, however it ends."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

from barrage_server.server.workers import Workers
from tests.waiting import until


class Held:
    """What a call works on."""


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(1, "test")
    gc.collect()
    gc.disable()
    try:
        yield made
    finally:
        gc.enable()
        made.shutdown()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("is_awaited", [False, True])
def test_what_a_call_has_worked_on_is_let_go(workers: Workers, fails: bool, is_awaited: bool) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def call(held: Held) -> Held:
        begun.set()
        may_end.wait(20)
        if fails:
            raise ValueError("it fails")
        return held

    held = Held()
    kept = weakref.ref(held)
    future = workers.submit(call, held)
    del held
    assert begun.wait(20)
    assert kept() is not None
    if is_awaited:
        may_end.set()
        assert (future.exception(20) is not None) is fails
    del future
    may_end.set()
    until(lambda: kept() is None, 10, "the end of what the call worked on")


def test_work_learns_that_its_caller_was_cancelled(workers: Workers) -> None:
    begun, seen = threading.Event(), threading.Event()

    def work(is_gone: Callable[[], bool]) -> None:
        begun.set()
        until(is_gone)
        seen.set()

    async def main() -> None:
        running = asyncio.ensure_future(workers.run_while_wanted(work))
        assert await asyncio.to_thread(begun.wait, 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert seen.wait(30)
