"""Commits, drops and exchanges that share a cycle are after a start what they were before it, in every order."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import permutations

import pytest

from barrage_server.engine import UpdateGraph
from barrage_server.errors import BarrageError
from barrage_server.wire.protocol import PublishMode
from tests.journal.simulated import Machine, SimulatedFolder
from tests.journal.test_crashes import POISON, SCHEMA, SPECS, Site
from tests.journal.test_crashes import poison as poison
from tests.waiting import until

Action = Callable[[], object]


def _wait_in(graph: UpdateGraph, count: int) -> bool:
    return graph.waiting == count


def together(site: Site, *actions: Action) -> None:
    """Let each action run the next cycle with the others, in their order. Each needs one cycle."""

    def act(action: Action) -> None:
        with suppress(BarrageError):
            action()

    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    step = site.graph.step
    with site.graph.between_cycles():
        for number, thread in enumerate(threads, start=1):
            thread.start()
            until(partial(_wait_in, site.graph, number))
    for thread in threads:
        thread.join(30)
    assert site.graph.step <= step + 1


def site_with_tables(root: SimulatedFolder) -> Site:
    site = Site(root)
    for name in ("log", "keyed"):
        site.catalog.ensure(name, SCHEMA, SPECS[name])
    site.commit("a", 0, {"log": (None, [1]), "keyed": (None, [1])})
    return site


def check(site: Site, root: SimulatedFolder) -> Site:
    """The site after a start, which is the same as before it."""
    site.durability.close()
    after = Site(root)
    assert after.state == site.state
    return after


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("change", ["drop", "exchange"])
def test_commits_beside_the_end_of_their_table(change: str, order: tuple[int, ...]) -> None:
    root = SimulatedFolder(Machine())
    site = site_with_tables(root)
    ends: dict[str, Action] = {
        "drop": partial(site.catalog.drop, "log"),
        "exchange": partial(site.commit, "b", 5, {"log": (PublishMode.REPLACE, [9])}),
    }
    actions: list[Action] = [
        partial(site.commit, "a", 1, {"log": (None, [2]), "keyed": (None, [2])}),
        partial(site.commit, "c", 1, {"log": (None, [3])}),
        ends[change],
    ]
    together(site, *(actions[number] for number in order))
    tables, entries = site.state
    assert ("log" in tables) is (change == "exchange")
    assert ("c", "log") in entries or change == "drop" or order.index(2) < order.index(1)
    after = check(site, root)
    with suppress(BarrageError):  # it takes a replacement only
        after.commit("d", 1, {"log": (None, [4])})  # a table of the name is made where it is gone
    check(after, root)


def test_a_new_epoch_ends_the_one_before_even_if_its_table_is_dropped_in_the_same_cycle() -> None:
    root = SimulatedFolder(Machine())
    site = site_with_tables(root)
    together(
        site,
        partial(site.commit, "a", 0, {"log": (None, [2])}, "later"),
        partial(site.catalog.drop, "log"),
    )
    assert site.state[1] == {}
    check(site, root)


def test_an_exchange_behind_a_drop_makes_a_table_without_commits() -> None:
    root = SimulatedFolder(Machine())
    site = site_with_tables(root)
    together(
        site,
        partial(site.commit, "c", 1, {"log": (None, [3])}),
        partial(site.catalog.drop, "log"),
        partial(site.commit, "b", 5, {"log": (PublishMode.REPLACE, [9])}),
    )
    assert [key for key in site.state[1] if key[1] == "log"] == [("b", "log")]
    check(site, root)


def test_rows_of_a_table_stay_if_its_exchange_fails_in_the_same_cycle() -> None:
    root = SimulatedFolder(Machine())
    site = site_with_tables(root)
    together(
        site,
        partial(site.commit, "c", 1, {"log": (None, [3])}),
        partial(site.commit, "b", 5, {"log": (PublishMode.REPLACE, [9, POISON])}),
    )
    tables, entries = site.state
    assert [row["key"] for row in tables["log"][1]] == [1, 3]
    assert set(entries) == {("a", "log"), ("a", "keyed"), ("c", "log")}
    check(site, root)


@pytest.mark.parametrize("seed", range(20))
def test_anything_in_one_cycle(seed: int) -> None:
    rng, root = random.Random(seed), SimulatedFolder(Machine())
    site = Site(root)
    for number in range(1, 8):
        for name in ("log", "keyed", "ring"):  # a table of a name is made by one action at a time
            site.catalog.ensure(name, SCHEMA, SPECS[name]) if site.catalog.find(name) is None else None
        actions: list[Action] = []
        for place in range(rng.randint(2, 4)):
            name, what = rng.choice(["log", "keyed", "ring"]), rng.random()
            if what < 0.3:
                actions.append(partial(site.catalog.drop, name))
                continue
            keys = [rng.randrange(9), *([POISON] if rng.random() < 0.1 else [])]
            is_replaced = type(site.catalog.get(name)).__name__ == "ReplacedTable"
            names = {name: (PublishMode.REPLACE if is_replaced else None, keys)}
            if not is_replaced:
                names.setdefault("keyed", (None, keys))
            epoch = f"epoch {number // 3}"
            actions.append(partial(site.commit, f"publisher {place}", number, names, epoch))
        if type(site.catalog.get("log")).__name__ == "AppendTable":
            exchange = partial(site.commit, "x", number, {"log": (PublishMode.REPLACE, [rng.randrange(9)])})
            actions.insert(rng.randint(0, len(actions)), exchange)
        together(site, *actions)
        for table in site.catalog.tables():
            if table.failure is not None:
                site.catalog.drop(table.name)
        site = check(site, root)
