"""Calls from other threads run on the loop, in order, with few wake-ups; none is lost, whatever the others do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from barrage_server.log import about, call_facts
from barrage_server.server.event_loop import EventLoop
from barrage_server.server.loop_calls import LoopCalls

THREADS, CALLS = 8, 2_000


class Counted(LoopCalls):
    """Counts the wake-ups of its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(loop)
        self.wakes = 0
        wake = loop.call_soon_threadsafe

        def counted(function: Callable[..., object], *arguments: Any, **keywords: Any) -> asyncio.Handle:
            self.wakes += 1
            return wake(function, *arguments, **keywords)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)


def test_calls_of_many_threads_all_run_and_those_of_each_in_order() -> None:
    loop = EventLoop("test-loop")
    calls = LoopCalls(loop.loop)
    seen: list[tuple[int, int]] = []
    done = threading.Event()

    def note(thread: int, number: int) -> None:
        seen.append((thread, number))
        if len(seen) == THREADS * CALLS:
            done.set()

    def call(thread: int) -> None:
        for number in range(CALLS):
            calls.soon(note, thread, number)

    threads = [threading.Thread(target=call, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    assert done.wait(60)
    for thread in threads:
        thread.join()
    loop.stop()
    for each in range(THREADS):
        assert [number for thread, number in seen if thread == each] == list(range(CALLS))


def test_calls_that_come_while_the_loop_is_busy_wake_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = EventLoop("test-loop")
    calls = Counted(loop.loop, monkeypatch)
    is_busy, may_go_on, done = threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        is_busy.set()
        assert may_go_on.wait(20)

    calls.soon(block)
    assert is_busy.wait(20)
    for _ in range(100):
        calls.soon(lambda: None)
    calls.soon(done.set)
    assert calls.wakes == 1
    may_go_on.set()
    assert done.wait(20)
    loop.stop()


def test_a_call_after_the_loop_was_idle_wakes_it_again() -> None:
    loop = EventLoop("test-loop")
    calls = LoopCalls(loop.loop)
    for _ in range(200):
        done = threading.Event()
        calls.soon(done.set)
        assert done.wait(20)
    loop.stop()


def test_a_call_from_the_loop_itself_wakes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = EventLoop("test-loop")
    calls = Counted(loop.loop, monkeypatch)
    done = threading.Event()
    calls.soon(lambda: calls.soon(lambda: calls.soon(done.set)))
    assert done.wait(20)
    assert calls.wakes == 1
    loop.stop()


def test_a_call_that_fails_keeps_no_other_from_running() -> None:
    loop = EventLoop("test-loop")
    failures: list[object] = []
    loop.loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    calls = LoopCalls(loop.loop)
    done = threading.Event()

    def fail() -> None:
        raise ValueError("no")

    calls.soon(fail)
    calls.soon(done.set)
    assert done.wait(20)
    loop.stop()
    assert [type(failure) for failure in failures] == [ValueError]


def test_each_call_has_the_context_of_its_caller() -> None:
    loop = EventLoop("test-loop")
    calls = LoopCalls(loop.loop)
    is_busy, may_go_on, done = threading.Event(), threading.Event(), threading.Event()
    seen: list[object] = []

    def block() -> None:
        is_busy.set()
        assert may_go_on.wait(20)

    with about({"table": "first"}):
        calls.soon(block)
    assert is_busy.wait(20)
    for name in ("second", "third"):
        with about({"table": name}):
            calls.soon(lambda: seen.append(call_facts().get("table")))
    calls.soon(lambda: seen.append(call_facts().get("table")))
    calls.soon(done.set)
    may_go_on.set()
    assert done.wait(20)
    loop.stop()
    assert seen == ["second", "third", None]


def test_a_loop_that_was_closed_before_it_looked_is_said() -> None:
    loop = EventLoop("test-loop")
    calls = LoopCalls(loop.loop)
    loop.loop.call_soon_threadsafe(loop.loop.stop)  # it closes with the wake-up that comes next
    for _ in range(1_000_000):
        try:
            calls.soon(int)
        except RuntimeError:
            break
    loop.stop()
    with pytest.raises(RuntimeError):
        calls.soon(print)


def test_a_closed_loop_is_said() -> None:
    loop = EventLoop("test-loop")
    calls = LoopCalls(loop.loop)
    loop.stop()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            calls.soon(print)
