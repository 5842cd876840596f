"""Every operation, alone and in chains, on every kind of source: its content after each cycle, and its updates."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import Table, UpdateGraph
from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.update import added_since
from barrage_server.plan.operation import Operation
from tests.operations.every import columns_and_rows, groups, joins, moving
from tests.operations.every.links import Link, Sides, Stage, stages_of
from tests.operations.every.names import every_name, noted_names
from tests.operations.every.sources import (
    EVERY_SOURCE,
    BlinkSource,
    BlinkTimeSource,
    LookupSource,
    TimeSource,
    prepared,
)
from tests.operations.oracle import Row, Watch, content, read
from tests.properties.sources import KeyedSource, Source

LINKS: Final[dict[str, Link]] = {**columns_and_rows.LINKS, **joins.LINKS, **groups.LINKS, **moving.LINKS}
CYCLES: Final = 6
Choice = Callable[[random.Random, Watch], Link | None]


def check(kind: type[Source], seed: int, choices: list[Choice], *, beside: bool = True) -> None:
    """Make operations one after the other at different times, and check all of them after each of some cycles.

    Args:
        kind: of the source of the first one.
        seed: of all that is drawn.
        choices: choose an operation for a parent; None ends the chain.
        beside: whether cycles may pass beside the start of a table.

    """
    chance = random.Random(seed)
    graph = prepared(UpdateGraph())
    source, others = kind(graph), [chance.choice(EVERY_SOURCE)(graph), KeyedSource(graph), LookupSource(graph)]
    every = [source, *others]
    for one in every:
        for _ in range(chance.randrange(3)):
            one.change(chance)
    top, sides = Watch(source.table), [Watch(one.table) for one in others]
    stages: list[Stage] = []
    wanted = list(choices)

    def change() -> None:
        watches = [top, *sides, *(stage.watch for stage in stages)]
        for watch in watches:
            watch.last = None
        with graph.cycle():
            for one in chance.sample(every, chance.randint(1, len(every))):
                one.change(chance)
        for stage in stages:
            stage.follow()

    for _ in range(CYCLES + len(choices)):
        if wanted:
            parent = stages[-1].watch if stages else top
            link = wanted.pop(0)(chance, parent)
            if link is None:
                wanted = []
            else:
                with pytest.MonkeyPatch.context() as patch:
                    if beside and link.model is None and chance.random() < 0.3:
                        start_late(patch, change, passing=not link.accumulates)
                    stages += stages_of(link, parent, sides)
                wanted = [] if link.ends else wanted
        for stage in stages:
            stage.check()
        change()
        for stage in stages:
            stage.check()
    for watch in (top, *sides, *(stage.watch for stage in stages)):
        watch.check_held()


def start_late(patch: pytest.MonkeyPatch, change: Callable[[], None], *, passing: bool) -> None:
    """Have cycles pass beside the start of the next table, which it catches up with as one.

    Without ``passing``, of the next one whose rows stay: one that accumulates counts the rows from its own start.
    """
    attach = UpdateGraph.attach
    left = 2

    def attach_late(self: UpdateGraph, table: Any) -> None:
        nonlocal left
        while left and (passing or not table.traits.is_blink):
            left -= 1
            with pytest.MonkeyPatch.context() as within:  # a cycle may attach tables of its own
                within.setattr(UpdateGraph, "attach", attach)
                change()
        attach(self, table)

    patch.setattr(UpdateGraph, "attach", attach_late)


def chosen(link: Link) -> Choice:
    return lambda chance, parent: link if link.suits(parent.table) else None


def any_link(most_growing: list[int]) -> Choice:
    """Any operation that is defined for the parent; those that grow as often as there is a number for them."""

    def choose(chance: random.Random, parent: Watch) -> Link | None:
        suitable = [link for link in LINKS.values() if link.suits(parent.table) and (most_growing[0] or not link.grows)]
        link = chance.choice(suitable)
        most_growing[0] -= link.grows
        return link

    return choose


def make_each() -> None:
    """Make the result of each operation once."""
    for link in LINKS.values():
        graph = prepared(UpdateGraph())
        sources = [kind(graph) for kind in (KeyedSource, BlinkSource, KeyedSource, KeyedSource, LookupSource)]
        parents, sides = [source.table for source in sources[:2]], Sides(*(source.table for source in sources[2:]))
        link.make(next(table for table in parents if link.suits(table)), sides)


def test_every_operation_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new method, aggregation or function fails here until it has a computation in plain Python beside it."""
    found = noted_names(monkeypatch)
    make_each()
    assert every_name() - found == set()


def test_no_operation_has_tables_that_count_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that an operation makes and keeps beside its result are parts of it, whose storage and time it has."""
    attach, operate = UpdateGraph.attach, Table.operate
    attached: list[ref[DerivedTable]] = []
    with_parts = set[str]()

    def noted_attach(self: UpdateGraph, table: DerivedTable) -> None:
        attached.append(ref(table))
        attach(self, table)

    def noted_operate(self: Table, operation: Operation, *others: Table) -> Table:
        begin = len(attached)
        made = operate(self, operation, *others)
        parts = {entry() for entry in attached[begin:]} - {made, None}
        del attached[begin:]
        included = set(made.included) if isinstance(made, DerivedTable) else set[Table]()
        assert parts <= included, operation
        if parts:
            with_parts.add(operation.verb)
        return made

    monkeypatch.setattr(UpdateGraph, "attach", noted_attach)
    monkeypatch.setattr(Table, "operate", noted_operate)
    make_each()
    assert with_parts >= {"full_outer_join", "merge"}


def test_every_operation_is_described() -> None:
    """``docs/queries.md`` names all of them."""
    text = (Path(bs.__file__).parents[1] / "docs" / "queries.md").read_text()
    text = re.sub(r"```.*?```|``.*?``", "", text, flags=re.DOTALL)
    described = {name for code in re.findall(r"`([^`]*)`", text) for name in re.findall(r"\w+", code)}
    names = {name.partition(".")[2] or name for name in every_name()} | {"empty_table", "time_table"}
    names.remove("merge_constituents")  # what ``merge`` of transformed constituents is within
    suffixes = re.compile("_(tick|time)$")
    assert {name for name in names if not {name, f"{name}_", suffixes.sub("", name)} & described} == set()


@pytest.mark.parametrize("kind", [BlinkSource, TimeSource, BlinkTimeSource, LookupSource])
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=10)
def test_sources_are_what_they_are_taken_for(kind: type[Source], seed: int) -> None:
    chance = random.Random(seed)
    source = kind(prepared(UpdateGraph()))
    watch = Watch(source.table)
    for _ in range(8):
        source.check()
        source.change(chance)
    source.check()
    watch.check_held()


@pytest.mark.parametrize("name", LINKS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=4)
def test_content_and_updates(name: str, seed: int) -> None:
    kinds = [kind for kind in EVERY_SOURCE if name != "blink_to_append_only" or "Blink" in kind.__name__]
    check(random.Random(seed).choice(kinds), seed, [chosen(LINKS[name])])


def test_rows_of_what_blinks_stay_readable() -> None:
    """Subscribers that look less often than a table blinks get every row as it was, of results as of their sources."""
    chance = random.Random(5)
    graph = prepared(UpdateGraph())
    source, others = BlinkSource(graph), [KeyedSource(graph), KeyedSource(graph), LookupSource(graph)]
    sides = Sides(*(one.table for one in others))
    every = {name: link.make(source.table, sides) for name, link in LINKS.items() if link.suits(source.table)}
    blink = {name: table for name, table in every.items() if table.traits.is_blink}
    assert {"where", "update", "tail", "natural_join", "cumulative", "rolling by ticks"} <= blink.keys()
    before = {name: table.version for name, table in blink.items()}
    shown: dict[str, dict[int, Row]] = {name: {} for name in blink}
    for _ in range(12):
        source.change(chance)
        for name, table in blink.items():
            shown[name] |= content(table.version)
    for name, table in blink.items():
        after = table.version
        rows = added_since(before[name].node, after.node) & after.readable
        assert (name, read(after, rows)) == (name, shown[name])
        assert rows.size > after.size, name


@pytest.mark.parametrize("kind", EVERY_SOURCE)
@given(seed=st.integers(0, 1 << 32), length=st.integers(2, 6))
@settings(deadline=None, max_examples=12)
def test_chains_of_any_operations(kind: type[Source], seed: int, length: int) -> None:
    growing = [2]
    check(kind, seed, [any_link(growing)] * length)
