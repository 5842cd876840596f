"""The dispatcher: every task with work is served, by few threads, and no task waits for one that is stuck."""

from __future__ import annotations

import gc
import math
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from barrage_server.server.dispatcher import ChangeSignal, Dispatcher, ScheduledTask
from tests.waiting import until


class Counting:
    """A task that counts its turns, and can do more."""

    def __init__(self, then: Callable[[Counting], float | None] = lambda _: None) -> None:
        self.turns = 0
        self.inside = 0
        self.overlapped = False
        self._then = then

    def run_turn(self, now: float) -> float | None:
        self.inside += 1
        self.overlapped = self.overlapped or self.inside > 1
        try:
            return self._then(self)
        finally:
            self.inside -= 1
            self.turns += 1


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def running(dispatcher: Dispatcher) -> Iterator[Dispatcher]:
    yield dispatcher
    dispatcher.close()
    until(lambda: dispatcher.threads == 0)


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    yield from running(Dispatcher())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(clock: Clock) -> Iterator[Dispatcher]:
    """A dispatcher by the test's clock. Its threads read it when there is something to do."""
    yield from running(Dispatcher(clock=clock))


def look(dispatcher: Dispatcher) -> None:
    """Have a thread look at the queue and the timers, and serve what is due."""
    task, signal = Counting(), ChangeSignal()
    scheduled = dispatcher.add(task, signal)
    dispatcher.changed(signal)
    until(lambda: task.turns == 1)
    dispatcher.remove(scheduled)


def test_a_change_serves_all_tasks_waiting_for_it_and_no_other(dispatcher: Dispatcher) -> None:
    signal, other = ChangeSignal(), ChangeSignal()
    tasks, strangers = [Counting() for _ in range(100)], [Counting() for _ in range(100)]
    for task in tasks:
        dispatcher.add(task, signal)
    for stranger in strangers:
        dispatcher.add(stranger, other)
    dispatcher.changed(signal)
    until(lambda: all(task.turns == 1 for task in tasks))
    assert not any(stranger.turns for stranger in strangers)


def test_a_change_during_a_step_is_seen_by_another_step(dispatcher: Dispatcher) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def then(task: Counting) -> None:
        if task.turns == 0:
            entered.set()
            go_on.wait(10)

    task, signal = Counting(then), ChangeSignal()
    dispatcher.add(task, signal)
    dispatcher.changed(signal)
    assert entered.wait(10)
    dispatcher.changed(signal)
    go_on.set()
    until(lambda: task.turns == 2)
    assert not task.overlapped


def test_a_task_that_waits_for_a_time_is_not_woken_by_changes_before(timed: Dispatcher, clock: Clock) -> None:
    task, signal = Counting(lambda task: clock.now + 10 if task.turns == 0 else None), ChangeSignal()
    timed.run(timed.add(task, signal))
    for _ in range(100):
        timed.changed(signal)
        clock.now += 0.09
    look(timed)
    assert task.turns == 1
    clock.now += 1
    look(timed)
    until(lambda: task.turns == 2)
    look(timed)
    assert task.turns == 2


def test_a_task_that_waits_to_be_woken_is_served_then_and_at_no_change_before(dispatcher: Dispatcher) -> None:
    task, signal = Counting(lambda task: math.inf if task.turns == 0 else None), ChangeSignal()
    scheduled = dispatcher.add(task, signal)
    dispatcher.run(scheduled)
    for _ in range(10):
        dispatcher.changed(signal)
        look(dispatcher)
    assert task.turns == 1
    dispatcher.wake(scheduled)
    until(lambda: task.turns == 2)
    dispatcher.changed(signal)
    until(lambda: task.turns == 3)


def test_a_wake_up_within_the_turn_that_waits_for_one_is_not_lost(dispatcher: Dispatcher) -> None:
    scheduled: ScheduledTask

    def then(task: Counting) -> float | None:
        if task.turns == 0:
            dispatcher.wake(scheduled)
        return math.inf

    task = Counting(then)
    scheduled = dispatcher.add(task, ChangeSignal())
    dispatcher.run(scheduled)
    until(lambda: task.turns == 2)


def test_a_change_that_comes_while_a_task_rests_is_served_when_it_has_rested(timed: Dispatcher, clock: Clock) -> None:
    """One turn, however many changes there were: subscribers are not asked before their interval has passed."""
    scheduled: ScheduledTask

    def then(_: Counting) -> None:
        scheduled.not_before = clock.now + 10

    task, signal = Counting(then), ChangeSignal()
    scheduled = timed.add(task, signal)
    timed.run(scheduled)
    for _ in range(100):
        timed.changed(signal)
    look(timed)
    assert task.turns == 1
    clock.now += 10
    look(timed)
    until(lambda: task.turns == 2)
    timed.wake(scheduled)  # a request, which is answered at once
    until(lambda: task.turns == 3)


def test_a_change_that_must_wait_is_served_at_the_tick_and_a_later_one_at_once(timed: Dispatcher, clock: Clock) -> None:
    scheduled: ScheduledTask
    had_waited = []

    def then(_: Counting) -> None:
        had_waited.append(scheduled.waited)
        scheduled.waited = False
        scheduled.not_before, scheduled.tick = clock.now + 10, clock.now + 15

    task, signal = Counting(then), ChangeSignal()
    scheduled = timed.add(task, signal)
    timed.run(scheduled)
    clock.now += 9
    timed.changed(signal)
    look(timed)
    clock.now += 5
    look(timed)
    assert task.turns == 1
    clock.now += 1
    look(timed)
    until(lambda: task.turns == 2)
    clock.now += 10
    timed.changed(signal)
    until(lambda: task.turns == 3)
    assert had_waited == [False, True, False]


def test_a_task_that_is_removed_while_it_waits_for_a_time_is_let_go(dispatcher: Dispatcher) -> None:
    task = Counting(lambda _: time.monotonic() + 1000)
    scheduled = dispatcher.add(task, ChangeSignal())
    dispatcher.run(scheduled)
    held = weakref.ref(task)
    dispatcher.remove(scheduled)
    del task, scheduled
    gc.collect()
    assert held() is None


def test_a_thread_that_waits_for_work_holds_no_task(dispatcher: Dispatcher) -> None:
    def served() -> weakref.ref[Counting]:
        task = Counting()
        scheduled = dispatcher.add(task, ChangeSignal())
        dispatcher.wake(scheduled)
        until(lambda: task.turns)
        dispatcher.remove(scheduled)
        return weakref.ref(task)

    held = served()
    until(lambda: gc.collect() >= 0 and held() is None, 3, "the end of the task")  # threads end after 5 s


def test_an_earlier_timer_is_served_before_a_later_one(dispatcher: Dispatcher) -> None:
    order: list[str] = []
    begun = time.monotonic()  # of both, so that a busy machine does not change their order

    def task(name: str, delay: float) -> Counting:
        def then(task: Counting) -> float | None:
            if task.turns:
                order.append(name)
                return None
            return begun + delay

        return Counting(then)

    for name, delay in (("late", 1.0), ("early", 0.05)):
        dispatcher.run(dispatcher.add(task(name, delay), ChangeSignal()))
    until(lambda: len(order) == 2)
    assert order == ["early", "late"]


def test_a_task_that_wants_to_go_on_at_once_does(dispatcher: Dispatcher) -> None:
    task = Counting(lambda task: 0.0 if task.turns < 50 else None)
    dispatcher.wake(dispatcher.add(task, ChangeSignal()))
    until(lambda: task.turns == 51)
    assert not task.overlapped


def test_running_on_the_own_thread_does_not_wait_for_a_thread(dispatcher: Dispatcher) -> None:
    seen: list[int] = []
    task = Counting(lambda _: seen.append(threading.get_ident()))
    dispatcher.run(dispatcher.add(task, ChangeSignal()))
    assert seen == [threading.get_ident()]


def test_no_task_waits_for_stuck_tasks(dispatcher: Dispatcher) -> None:
    stuck_count, release = 20, threading.Event()
    entered = threading.Semaphore(0)

    def block(task: Counting) -> None:
        entered.release()
        release.wait(30)

    signal = ChangeSignal()
    stuck = [dispatcher.add(Counting(block), signal) for _ in range(stuck_count)]
    dispatcher.changed(signal)
    for _ in range(stuck_count):
        assert entered.acquire(timeout=10)
    task, other = Counting(), ChangeSignal()
    dispatcher.add(task, other)
    for round_ in range(20):
        dispatcher.changed(other)
        until(lambda: task.turns == round_ + 1, 10)  # noqa: B023
    release.set()
    for scheduled in stuck:
        dispatcher.remove(scheduled)


def test_short_turns_run_one_by_one(timed: Dispatcher) -> None:
    """By its clock no time passes, so that all turns are short."""
    inside, most = 0, 0

    def count(task: Counting) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        Path(__file__).stat()  # without the interpreter lock, so that another thread could begin a turn
        inside -= 1

    tasks = [Counting(count) for _ in range(200)]
    signal = ChangeSignal()
    for task in tasks:
        timed.add(task, signal)
    timed.changed(signal)
    until(lambda: all(task.turns == 1 for task in tasks))
    assert most == 1


def test_a_turn_that_is_not_short_is_not_waited_for(timed: Dispatcher, clock: Clock) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def take_long(_: Counting) -> None:
        begun.set()
        may_end.wait(10)

    long, other, signal = Counting(take_long), Counting(), ChangeSignal()
    scheduled = timed.add(long, signal)
    timed.wake(scheduled)
    assert begun.wait(10)
    timed.wake(timed.add(other, signal))
    assert other.turns == 0
    clock.now += 0.0025
    until(lambda: other.turns == 1)
    assert long.turns == 0
    may_end.set()
    until(lambda: long.turns == 1)


def test_a_turn_on_a_thread_of_its_own_holds_up_no_other(timed: Dispatcher) -> None:
    other, signal = Counting(), ChangeSignal()
    waiting = timed.add(other, signal)

    def begin_another(_: Counting) -> None:
        timed.wake(waiting)
        until(lambda: other.turns == 1)

    own = Counting(begin_another)
    timed.run(timed.add(own, signal))
    assert (own.turns, other.turns) == (1, 1)


def test_removing_waits_for_the_step_that_is_under_way_and_none_follows(dispatcher: Dispatcher) -> None:
    entered, release = threading.Event(), threading.Event()

    def block(task: Counting) -> None:
        entered.set()
        release.wait(10)

    task, signal = Counting(block), ChangeSignal()
    scheduled = dispatcher.add(task, signal)
    dispatcher.changed(signal)
    assert entered.wait(10)
    remover = threading.Thread(target=dispatcher.remove, args=(scheduled,))
    remover.start()
    until(lambda: scheduled.leaving)
    dispatcher.changed(signal)
    assert remover.is_alive()
    release.set()
    remover.join(10)
    assert not remover.is_alive()
    assert task.turns == 1
    dispatcher.changed(signal)
    dispatcher.wake(scheduled)
    dispatcher.run(scheduled)
    assert task.turns == 1


def test_a_task_that_moves_to_another_signal_misses_no_change(dispatcher: Dispatcher) -> None:
    task, first, second = Counting(), ChangeSignal(), ChangeSignal()
    scheduled = dispatcher.add(task, first)
    dispatcher.changed(second)
    dispatcher.move(scheduled, second)
    dispatcher.run(scheduled)
    until(lambda: task.turns >= 1)
    turns = task.turns
    dispatcher.changed(second)
    until(lambda: task.turns > turns)
    settled = until(lambda: task.inside == 0 and task.turns)
    dispatcher.changed(first)
    dispatcher.run(scheduled)
    until(lambda: task.turns == settled + 1)


def test_few_threads_serve_many_tasks(dispatcher: Dispatcher) -> None:
    signal, tasks = ChangeSignal(), [Counting() for _ in range(1000)]
    for task in tasks:
        dispatcher.add(task, signal)
    for done in range(1, 11):
        dispatcher.changed(signal)
        until(lambda: all(task.turns >= done for task in tasks))  # noqa: B023
    assert dispatcher.threads <= 20  # three, unless the machine is so busy that turns seem to be stuck


def test_a_thread_reads_the_clock_once_from_one_turn_to_the_next(clock: Clock) -> None:
    """And takes the lock once, which it does for the same things."""
    readings = 0

    def counting() -> float:
        nonlocal readings
        readings += 1
        return clock.now

    dispatcher = Dispatcher(clock=counting)
    signal, tasks = ChangeSignal(), [Counting() for _ in range(1000)]
    for task in tasks:
        dispatcher.add(task, signal)
    dispatcher.changed(signal)
    until(lambda: all(task.turns == 1 for task in tasks))
    dispatcher.close()
    until(lambda: dispatcher.threads == 0)
    assert readings <= len(tasks) + 100  # and some by threads that wait


def test_a_turn_that_raises_ends_its_thread_and_no_more(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: raised.append(arguments.exc_type))
    signal, other = ChangeSignal(), ChangeSignal()

    def fail(task: Counting) -> None:
        if task.turns == 0:
            raise ZeroDivisionError

    failing, task = Counting(fail), Counting()
    scheduled = dispatcher.add(failing, signal)
    dispatcher.add(task, other)
    dispatcher.changed(signal)
    until(lambda: raised == [ZeroDivisionError])
    dispatcher.changed(other)
    until(lambda: task.turns == 1)
    dispatcher.changed(signal)
    until(lambda: failing.turns == 2)
    dispatcher.remove(scheduled)


def test_what_is_due_after_a_turn_that_raises_is_served_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barrage_server.server.dispatcher._IDLE_SECONDS", 3600.0)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    readers: set[int] = set()

    def clock() -> float:
        readers.add(threading.get_ident())
        return 1000.0

    dispatcher, signal = Dispatcher(clock=clock), ChangeSignal()

    def fail(task: Counting) -> None:
        if task.turns == 0:
            until(lambda: len(readers) == 3)  # the test's, this one, and one that waits then
            dispatcher.changed(signal)
            raise ZeroDivisionError

    failing = Counting(fail)
    scheduled = dispatcher.add(failing, signal)
    dispatcher.changed(signal)
    until(lambda: failing.turns == 2, timeout=10)
    dispatcher.remove(scheduled)
    dispatcher.close()
    until(lambda: dispatcher.threads == 0)


def test_marking_a_change_does_not_cost_more_with_more_subscribers(dispatcher: Dispatcher) -> None:
    """Publishing waits for one lock; bringing the subscribers into the queue is the pool's work."""
    crowded, lonely = ChangeSignal(), ChangeSignal()
    slots = [dispatcher.add(Counting(), crowded) for _ in range(5000)]
    dispatcher.add(Counting(), lonely)

    def lines(signal: ChangeSignal) -> int:
        """Lines of Python that marking takes on this thread, at the least."""
        fewest = 1 << 30
        for _ in range(50):
            count = 0

            def trace(_frame: FrameType, _event: str, _argument: object) -> Any:
                nonlocal count
                count += 1
                return trace

            before = sys.gettrace()
            sys.settrace(trace)
            try:
                dispatcher.changed(signal)
            finally:
                sys.settrace(before)
            fewest = min(fewest, count)
        return fewest

    assert lines(crowded) <= lines(lonely) + 20
    for scheduled in slots:
        dispatcher.remove(scheduled)
