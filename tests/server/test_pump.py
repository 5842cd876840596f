"""The pump: every task with work is served, by few threads, and no task waits for one that is stuck."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from barrage_server.server.pump import Pump, Slot, Topic
from tests.server.follower import until


class Counting:
    """A task that counts its steps, and can do more."""

    def __init__(self, then: Callable[[Counting], float | None] = lambda _: None) -> None:
        self.steps = 0
        self.inside = 0
        self.overlapped = False
        self._then = then

    def step(self, now: float) -> float | None:
        self.inside += 1
        self.overlapped = self.overlapped or self.inside > 1
        try:
            return self._then(self)
        finally:
            self.inside -= 1
            self.steps += 1


@pytest.fixture
def pump() -> Iterator[Pump]:
    pump = Pump()
    yield pump
    pump.close()
    until(lambda: pump.threads == 0)


def test_a_change_serves_all_tasks_waiting_for_it_and_no_other(pump: Pump) -> None:
    topic, other = Topic(), Topic()
    tasks, strangers = [Counting() for _ in range(100)], [Counting() for _ in range(100)]
    for task in tasks:
        pump.add(task, topic)
    for stranger in strangers:
        pump.add(stranger, other)
    pump.changed(topic)
    until(lambda: all(task.steps == 1 for task in tasks))
    assert not any(stranger.steps for stranger in strangers)


def test_a_change_during_a_step_is_seen_by_another_step(pump: Pump) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def then(task: Counting) -> None:
        if task.steps == 0:
            entered.set()
            go_on.wait(10)

    task, topic = Counting(then), Topic()
    pump.add(task, topic)
    pump.changed(topic)
    assert entered.wait(10)
    pump.changed(topic)
    go_on.set()
    until(lambda: task.steps == 2)
    assert not task.overlapped


def test_a_task_that_waits_for_a_time_is_not_woken_by_changes_before(pump: Pump) -> None:
    task, topic = Counting(lambda task: time.monotonic() + 0.2 if task.steps == 0 else None), Topic()
    slot = pump.add(task, topic)
    began = time.monotonic()
    pump.run(slot)
    for _ in range(100):
        pump.changed(topic)
    until(lambda: task.steps == 2)
    assert time.monotonic() - began >= 0.2
    assert task.steps == 2


def test_a_change_that_comes_while_a_task_rests_is_served_when_it_has_rested(pump: Pump) -> None:
    """One step, however many changes there were: subscribers are not asked before their interval has passed."""
    times: list[float] = []
    slot: Slot

    def then(_: Counting) -> None:
        times.append(time.monotonic())
        slot.rests_until = times[-1] + 0.2

    task, topic = Counting(then), Topic()
    slot = pump.add(task, topic)
    pump.run(slot)
    for _ in range(100):
        pump.changed(topic)
    until(lambda: len(times) == 2)
    assert times[1] - times[0] >= 0.2
    pump.wake(slot)  # a request, which is answered at once
    until(lambda: len(times) == 3)
    assert times[2] - times[1] < 0.2


def test_a_task_that_is_removed_while_it_waits_for_a_time_is_let_go(pump: Pump) -> None:
    task = Counting(lambda _: time.monotonic() + 1000)
    slot = pump.add(task, Topic())
    pump.run(slot)
    held = weakref.ref(task)
    pump.remove(slot)
    del task, slot
    gc.collect()
    assert held() is None


def test_an_earlier_timer_is_served_before_a_later_one(pump: Pump) -> None:
    order: list[str] = []

    def task(name: str, delay: float) -> Counting:
        def then(task: Counting) -> float | None:
            if task.steps:
                order.append(name)
                return None
            return time.monotonic() + delay

        return Counting(then)

    for name, delay in (("late", 0.3), ("early", 0.05)):
        pump.run(pump.add(task(name, delay), Topic()))
    until(lambda: len(order) == 2)
    assert order == ["early", "late"]


def test_a_task_that_wants_to_go_on_at_once_does(pump: Pump) -> None:
    task = Counting(lambda task: 0.0 if task.steps < 50 else None)
    pump.wake(pump.add(task, Topic()))
    until(lambda: task.steps == 51)
    assert not task.overlapped


def test_running_on_the_own_thread_does_not_wait_for_a_thread(pump: Pump) -> None:
    seen: list[int] = []
    task = Counting(lambda _: seen.append(threading.get_ident()))
    pump.run(pump.add(task, Topic()))
    assert seen == [threading.get_ident()]


def test_no_task_waits_for_stuck_tasks(pump: Pump) -> None:
    stuck_count, release = 20, threading.Event()
    entered = threading.Semaphore(0)

    def block(task: Counting) -> None:
        entered.release()
        release.wait(30)

    topic = Topic()
    stuck = [pump.add(Counting(block), topic) for _ in range(stuck_count)]
    pump.changed(topic)
    for _ in range(stuck_count):
        assert entered.acquire(timeout=10)
    task, other = Counting(), Topic()
    pump.add(task, other)
    waits = []
    for round_ in range(20):
        began = time.monotonic()
        pump.changed(other)
        until(lambda: task.steps == round_ + 1)  # noqa: B023
        waits.append(time.monotonic() - began)
    assert max(waits) < 2.0
    release.set()
    for slot in stuck:
        pump.remove(slot)


def test_removing_waits_for_the_step_that_is_under_way_and_none_follows(pump: Pump) -> None:
    entered, release = threading.Event(), threading.Event()

    def block(task: Counting) -> None:
        entered.set()
        release.wait(10)

    task, topic = Counting(block), Topic()
    slot = pump.add(task, topic)
    pump.changed(topic)
    assert entered.wait(10)
    remover = threading.Thread(target=pump.remove, args=(slot,))
    remover.start()
    until(lambda: slot.leaving)
    pump.changed(topic)
    assert remover.is_alive()
    release.set()
    remover.join(10)
    assert not remover.is_alive()
    assert task.steps == 1
    pump.changed(topic)
    pump.wake(slot)
    pump.run(slot)
    assert task.steps == 1


def test_a_task_that_moves_to_another_topic_misses_no_change(pump: Pump) -> None:
    task, first, second = Counting(), Topic(), Topic()
    slot = pump.add(task, first)
    pump.changed(second)
    pump.move(slot, second)
    pump.run(slot)
    until(lambda: task.steps >= 1)
    steps = task.steps
    pump.changed(second)
    until(lambda: task.steps > steps)
    settled = until(lambda: task.inside == 0 and task.steps)
    pump.changed(first)
    pump.run(slot)
    until(lambda: task.steps == settled + 1)


def test_few_threads_serve_many_tasks(pump: Pump) -> None:
    topic, tasks = Topic(), [Counting() for _ in range(1000)]
    for task in tasks:
        pump.add(task, topic)
    for done in range(1, 11):
        pump.changed(topic)
        until(lambda: all(task.steps >= done for task in tasks))  # noqa: B023
    assert pump.threads <= 20  # three, unless the machine is so busy that steps seem to be stuck


def test_marking_a_change_does_not_cost_more_with_more_subscribers(pump: Pump) -> None:
    """Publishing waits for one lock; bringing the subscribers into the queue is the pool's work."""
    crowded, lonely = Topic(), Topic()
    slots = [pump.add(Counting(), crowded) for _ in range(5000)]
    pump.add(Counting(), lonely)

    def lines(topic: Topic) -> int:
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
                pump.changed(topic)
            finally:
                sys.settrace(before)
            fewest = min(fewest, count)
        return fewest

    assert lines(crowded) <= lines(lonely) + 20
    for slot in slots:
        pump.remove(slot)
