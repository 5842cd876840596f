"""Within a cycle Python does not search for garbage, and afterwards it does as before."""

from __future__ import annotations

import _thread
import gc
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, KeyedTable, Table, UpdateGraph
from barrage_server.engine.garbage import without_search

TABLES = 1000
CYCLES = 12


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.enable()
    yield
    if not was_on:
        gc.disable()


def many() -> tuple[KeyedTable, list[Table]]:
    graph = UpdateGraph()
    table = KeyedTable(graph, "t", {"id": "int64", "x": "float64"}, ["id"])
    table.upsert({"id": list(range(10)), "x": [0.0] * 10})
    derived: list[Table] = [table.update(f"y = x * {number}") for number in range(TABLES)]
    for _ in range(3):  # until each has two versions to forget
        table.upsert({"id": [1], "x": [0.5]})
    return table, derived


def test_cycles_of_many_tables_hardly_search() -> None:
    table, derived = many()
    searches: list[int] = []

    def noted(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            searches.append(info["generation"])

    gc.collect()
    gc.callbacks.append(noted)
    try:
        for value in range(CYCLES):
            table.upsert({"id": [1], "x": [float(value)]})
    finally:
        gc.callbacks.remove(noted)
    assert len(searches) < CYCLES, searches  # once or twice: after a search the counts begin anew
    assert gc.isenabled()
    assert len(derived) == TABLES


def test_a_cycle_leaves_as_many_objects_as_there_were() -> None:
    """Otherwise there is a search for each 700 more, and each time it finds nothing."""
    table, derived = many()
    gc.disable()
    counts = []
    for value in range(CYCLES):
        table.upsert({"id": [1], "x": [float(value)]})
        counts.append(len(gc.get_objects()))
    assert counts[-1] - counts[0] < TABLES // 2
    assert len(derived) == TABLES


def test_a_program_that_searches_by_itself_is_left_alone() -> None:
    gc.disable()
    assert not without_search(gc.isenabled)
    assert not gc.isenabled()


def test_the_search_is_off_within_and_on_after_an_error() -> None:
    assert not without_search(gc.isenabled)
    with pytest.raises(ZeroDivisionError):
        without_search(lambda: 1 / 0)
    assert gc.isenabled()


def test_it_is_on_once_the_first_of_several_threads_ends() -> None:
    """Else it might never be on where graphs have cycles all the time."""
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        inside.set()
        leave.wait(30)

    def begin_another() -> None:
        other.start()
        assert inside.wait(30)

    other = threading.Thread(target=without_search, args=(stay,))
    without_search(begin_another)
    assert gc.isenabled()
    leave.set()
    other.join(30)
    assert gc.isenabled()


def test_interrupts_of_the_program_leave_it_on() -> None:
    """Wherever they come: within a cycle, or where it begins or ends."""
    table = AppendTable(UpdateGraph(), "t", {"x": "int64"})
    done = threading.Event()

    def write() -> None:
        without_search(bool)
        table.append({"x": [1]})

    def handler(_signal: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code is not write.__code__:
            frame = frame.f_back
        if frame is not None:  # elsewhere it would end the tests
            raise KeyboardInterrupt

    def interrupt() -> None:
        while not done.wait(0.0005):
            _thread.interrupt_main()

    other = threading.Thread(target=interrupt)
    former = signal.signal(signal.SIGINT, handler)
    interrupts = 0
    try:
        other.start()
        while interrupts < 200:
            try:
                write()
            except KeyboardInterrupt:
                interrupts += 1
            except bs.BarrageError:  # the table has failed: a cycle was interrupted in its middle
                table = AppendTable(table.graph, "t", {"x": "int64"})
            assert gc.isenabled(), interrupts
    finally:
        done.set()
        other.join(30)
        signal.signal(signal.SIGINT, former)
    assert not other.is_alive()


def test_a_child_of_a_process_within_a_cycle_searches() -> None:
    def fork() -> int:
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert without_search(fork) == 0
    assert gc.isenabled()
