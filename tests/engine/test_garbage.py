"""Within a cycle Python does not search for garbage, and afterwards it does as before."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from barrage_server.engine import KeyedTable, Table, UpdateGraph
from barrage_server.engine.garbage import NO_SEARCH
from tests.waiting import until

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
    with NO_SEARCH:
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_an_error_ends_the_pause() -> None:
    with pytest.raises(ZeroDivisionError), NO_SEARCH:
        raise ZeroDivisionError
    assert gc.isenabled()


def test_the_last_of_several_threads_turns_it_on() -> None:
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with NO_SEARCH:
            inside.set()
            leave.wait(30)

    other = threading.Thread(target=stay)
    with NO_SEARCH:
        other.start()
        assert inside.wait(30)
    assert not gc.isenabled()
    leave.set()
    other.join(30)
    until(gc.isenabled, what="the search for garbage")
