"""The garbage collector is disabled within a cycle, and enabled again after it."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from itertools import count
from types import FrameType

import pytest

from barrage_server.engine import KeyedTable, Table, UpdateGraph
from barrage_server.engine.collector import without_collection

TABLES = 1000
CYCLES = 12


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    if not was_enabled:
        gc.disable()


def many() -> tuple[KeyedTable, list[Table]]:
    graph = UpdateGraph()
    table = KeyedTable(graph, "t", {"id": "int64", "x": "float64"}, ["id"])
    table.upsert({"id": list(range(10)), "x": [0.0] * 10})
    derived: list[Table] = [table.update(f"y = x * {number}") for number in range(TABLES)]
    for _ in range(3):  # until each has two versions to forget
        table.upsert({"id": [1], "x": [0.5]})
    return table, derived


def test_cycles_of_many_tables_start_few_collections() -> None:
    table, derived = many()
    collections: list[int] = []

    def noted(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            collections.append(info["generation"])

    gc.collect()
    gc.callbacks.append(noted)
    try:
        for value in range(CYCLES):
            table.upsert({"id": [1], "x": [float(value)]})
    finally:
        gc.callbacks.remove(noted)
    assert len(collections) < CYCLES, collections  # one or two: the counts of the collector begin anew after gc.collect
    assert gc.isenabled()
    assert len(derived) == TABLES


def test_a_cycle_leaves_as_many_objects_as_there_were() -> None:
    """Otherwise each 700 more start a collection."""
    table, derived = many()
    gc.disable()
    counts = []
    for value in range(CYCLES):
        table.upsert({"id": [1], "x": [float(value)]})
        counts.append(len(gc.get_objects()))
    assert counts[-1] - counts[0] < TABLES // 2
    assert len(derived) == TABLES


def test_a_collector_that_the_program_has_disabled_stays_disabled() -> None:
    gc.disable()
    assert not without_collection(gc.isenabled)
    assert not gc.isenabled()


def test_it_is_disabled_within_and_enabled_after_an_error() -> None:
    assert not without_collection(gc.isenabled)
    with pytest.raises(ZeroDivisionError):
        without_collection(lambda: 1 / 0)
    assert gc.isenabled()


def test_the_first_of_several_threads_to_return_enables_it() -> None:
    """Concurrent cycles of several graphs would keep it disabled for ever."""
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        inside.set()
        leave.wait(30)

    def begin_another() -> None:
        other.start()
        assert inside.wait(30)

    other = threading.Thread(target=without_collection, args=(stay,))
    without_collection(begin_another)
    assert gc.isenabled()
    leave.set()
    other.join(30)
    assert gc.isenabled()


def test_a_keyboard_interrupt_leaves_it_enabled() -> None:
    """Python may raise it after each call."""
    raised = 0
    for place in count(1):
        places = iter(range(1, place + 1))

        def profile(frame: FrameType, event: str, _argument: object) -> None:
            near = (frame.f_code, frame.f_back and frame.f_back.f_code)
            if event in ("return", "c_return") and without_collection.__code__ in near and next(places, place) == place:  # noqa: B023
                sys.setprofile(None)
                raise KeyboardInterrupt

        sys.setprofile(profile)
        try:
            without_collection(list)
        except KeyboardInterrupt:
            raised += 1
        else:
            break
        finally:
            sys.setprofile(None)
        assert gc.isenabled(), place
    assert raised > 5


def test_it_is_enabled_in_a_process_that_is_forked_within_a_cycle() -> None:
    def fork() -> int:
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert without_collection(fork) == 0
    assert gc.isenabled()
