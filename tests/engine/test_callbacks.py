"""Functions that threads add, remove and call at the same time: none is lost, none stays."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from barrage_server.engine.callbacks import Callbacks

Function = Callable[[], object]


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns at every chance."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_each_addition_is_removed_once() -> None:
    """A function that was added twice is there twice, and each remover takes its own away."""
    called: list[int] = []
    callbacks = Callbacks[Function]()

    def function() -> None:
        called.append(1)

    first, second = callbacks.add(function), callbacks.add(function)
    first()
    first()
    assert list(callbacks) == [function]
    second()
    assert not callbacks
    assert len(callbacks) == 0


def test_what_is_removed_meanwhile_is_still_called() -> None:
    """A round of calls goes over the functions of the moment when it began."""
    callbacks = Callbacks[Function]()
    called: list[str] = []
    removers: list[Callable[[], None]] = []

    def first() -> None:
        called.append("first")
        removers[1]()
        callbacks.add(lambda: called.append("late"))

    removers += [callbacks.add(first), callbacks.add(lambda: called.append("second"))]
    for function in callbacks:
        function()
    assert called == ["first", "second"]


@pytest.mark.usefixtures("hasty_threads")
def test_none_is_lost_while_others_come_and_go() -> None:
    """Two threads add at the same time as one that adds and removes."""
    callbacks = Callbacks[Function]()
    for _ in range(20):
        callbacks.add(lambda: None)
    stop = threading.Event()
    mine: list[Function] = []

    def come_and_go() -> None:
        while not stop.is_set():
            callbacks.add(lambda: None)()

    def add() -> None:
        for _ in range(500):
            function = lambda: None  # noqa: E731 - each must be another one
            mine.append(function)
            callbacks.add(function)

    adding = [threading.Thread(target=add) for _ in range(2)]
    going = threading.Thread(target=come_and_go)
    for thread in (going, *adding):
        thread.start()
    for thread in adding:
        thread.join()
    stop.set()
    going.join()
    assert {id(function) for function in mine} <= {id(function) for function in callbacks}
    assert len(callbacks) == 20 + len(mine)


def test_a_removal_by_the_collector_amid_a_change_is_kept() -> None:
    """The collector runs at any allocation, also on a thread that changes the functions."""
    callbacks = Callbacks[Function]()

    class Freed:
        """Garbage that only the collector finds."""

        def __init__(self) -> None:
            self.itself = self
            self.remove = callbacks.add(lambda: None)

        def __del__(self) -> None:
            self.remove()

    kept: list[Function] = []
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(200):
            Freed()
            function = lambda: None  # noqa: E731 - each must be another one
            kept.append(function)
            callbacks.add(function)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert list(callbacks) == kept
