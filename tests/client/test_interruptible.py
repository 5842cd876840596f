"""Long calls can be interrupted at once, and have a limit without progress."""

from __future__ import annotations

import threading

import pytest

from barrage_server.client.interruptible import Progress, run_interruptible
from barrage_server.errors import DeadlineError, UnavailableError
from tests.waiting import until


def test_the_result_comes_back() -> None:
    assert run_interruptible(lambda progress: 7, timeout=5, what="adding") == 7


def test_an_error_is_raised_where_it_is_waited_for() -> None:
    def call(progress: Progress) -> None:
        raise UnavailableError("gone")

    with pytest.raises(UnavailableError, match="gone"):
        run_interruptible(call, timeout=5, what="calling")


def test_standing_still_ends_it_and_cancels() -> None:
    cancelled = threading.Event()

    def call(progress: Progress) -> None:
        progress.cancel_with(cancelled.set)
        cancelled.wait(30)

    with pytest.raises(DeadlineError, match="snapshot of 't': nothing came"):
        run_interruptible(call, timeout=0.05, what="snapshot of 't'")
    assert cancelled.wait(5)


def test_progress_counts_the_deadline_anew() -> None:
    now, looks, waiter = 0.0, 0, threading.get_ident()

    def clock() -> float:
        nonlocal looks
        looks += threading.get_ident() == waiter
        return now

    def call(progress: Progress) -> str:
        nonlocal now
        for _ in range(6):
            now += 0.015
            progress.advance()
            seen = looks
            until(lambda: looks > seen + 1)  # noqa: B023  # the waiting thread has compared the times
        return "done"

    assert run_interruptible(call, timeout=0.02, what="reading", clock=clock) == "done"


def test_a_cancel_that_comes_late_is_called_at_once() -> None:
    cancelled = threading.Event()
    progress = Progress()
    progress.give_up()
    progress.cancel_with(cancelled.set)
    assert cancelled.is_set()
    with pytest.raises(UnavailableError):
        progress.check()
