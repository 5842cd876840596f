"""Within a cycle Python does not search for garbage, and afterwards it does as before."""

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


def test_an_interrupt_of_the_program_leaves_it_on() -> None:
    """Wherever Python may raise it: behind each call that is made."""
    raised = 0
    for place in count(1):
        places = iter(range(1, place + 1))

        def profile(frame: FrameType, event: str, _argument: object) -> None:
            near = (frame.f_code, frame.f_back and frame.f_back.f_code)
            if event in ("return", "c_return") and without_search.__code__ in near and next(places, place) == place:  # noqa: B023
                sys.setprofile(None)
                raise KeyboardInterrupt

        sys.setprofile(profile)
        try:
            without_search(list)
        except KeyboardInterrupt:
            raised += 1
        else:
            break
        finally:
            sys.setprofile(None)
        assert gc.isenabled(), place
    assert raised > 5


def test_a_child_of_a_process_within_a_cycle_searches() -> None:
    def fork() -> int:
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert without_search(fork) == 0
    assert gc.isenabled()
