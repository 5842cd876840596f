"""What is to run on an event loop that ends runs, or is cancelled: no caller waits for ever."""

from __future__ import annotations

import asyncio
import concurrent.futures

import pytest

from barrage_server.server.event_loop import EventLoop


async def _answer() -> int:
    return 42


def test_a_loop_gives_results_until_it_has_ended() -> None:
    loop = EventLoop("test-loop")
    assert loop.call(_answer()).result(10) == 42
    loop.stop()
    loop.stop()
    assert loop.is_stopped
    with pytest.raises(concurrent.futures.CancelledError):
        loop.call(_answer()).result(10)


def test_what_is_not_done_when_the_loop_ends_is_cancelled() -> None:
    loop = EventLoop("test-loop")
    waiting = loop.call(asyncio.Event().wait())
    loop.stop()
    with pytest.raises(concurrent.futures.CancelledError):
        waiting.result(10)
