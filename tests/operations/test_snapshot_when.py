"""``snapshot_when``: after any changes of both tables, it has what the base was when the trigger changed last."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, Table, TableUpdate, TableVersion, UpdateGraph
from barrage_server.errors import InvalidRequestError, LimitError, UnknownColumnError
from barrage_server.operations.budget import budget
from barrage_server.operations.snapshot_when import snapshot_when
from tests.operations.oracle import Row, Rows, Watch, cells_of, content, plain_rows
from tests.operations.pairs import FORMS, KINDS

STAMPS = ["number", "text", "items"]
SPECS = [f"t_{name} = {name}" for name in STAMPS]
MODES: list[dict[str, bool]] = [
    {},
    {"initial": True},
    {"incremental": True},
    {"incremental": True, "initial": True},
    {"history": True},
]


def stamps_of(trigger: Table) -> list[Row]:
    """The stamps of each row."""
    return cells_of(plain_rows(trigger.view(STAMPS)))


class Model:
    """What ``snapshot_when`` has to be, computed row by row from the updates of both tables."""

    def __init__(self, base: Table, trigger: Table, modes: dict[str, bool]) -> None:
        self.base, self.trigger, self.modes = base, trigger, modes
        self.taken = False
        self.rows: dict[int, Row] = {}  # of the last snapshot, by row key, with stamps
        self.fresh: set[int] = set(base.version.row_set)  # rows that the next snapshot stamps
        self.kept: dict[int, int] = {}  # row keys of now: those of the last snapshot
        self.appended: Rows = []
        base.add_listener(self.follow)
        if modes.get("history"):
            self.append(stamps_of(trigger))
        elif modes.get("initial"):
            self.take()

    def follow(self, update: TableUpdate, previous: TableVersion, current: TableVersion) -> None:
        """Take note of rows that have come, have been modified, or have moved."""
        places = {key: update.shifted.apply_keys([key]).tolist()[0] for key in previous.row_set - update.removed}
        self.kept = {places[key]: former for key, former in self.kept.items() if key in places}
        self.fresh = {places[key] for key in self.fresh if key in places}
        self.fresh |= set(update.added) | set(update.modified_rows)

    def take(self) -> None:
        stamp = (stamps_of(self.trigger) or [(None,) * len(STAMPS)])[-1]
        rows = {}
        for key, values in content(self.base.version).items():
            is_old = self.modes.get("incremental") and key not in self.fresh
            rows[key] = values + (self.rows[self.kept[key]][-len(STAMPS) :] if is_old else stamp)
        self.rows, self.fresh, self.kept = rows, set(), {key: key for key in rows}

    def append(self, stamps: list[Row]) -> None:
        self.appended += [stamp + row for stamp in stamps for row in cells_of(plain_rows(self.base))]

    def triggered(self, update: TableUpdate) -> None:
        """The trigger has changed."""
        if not self.modes.get("history"):
            self.take()
            return
        places = list(self.trigger.version.row_set)
        every = stamps_of(self.trigger)
        self.append([every[places.index(key)] for key in update.added])

    @property
    def expected(self) -> Rows:
        return self.appended if self.modes.get("history") else list(self.rows.values())


@pytest.mark.parametrize("modes", MODES, ids=str)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=25)
def test_content_and_updates(modes: dict[str, bool], seed: int) -> None:
    """Tables of every kind; in a cycle one or both change."""
    chance = random.Random(seed)
    graph = UpdateGraph()
    sources = [chance.choice(KINDS)(graph) for _ in range(2)]
    for source in sources:
        for _ in range(chance.randrange(3)):
            source.change(chance)
    base = FORMS[chance.choice(list(FORMS))](sources[0].table)
    trigger = FORMS[chance.choice(["as it is", "in order", "some"])](sources[1].table)
    inputs = [Watch(base), Watch(trigger)]
    model = Model(base, trigger, modes)
    made = base.snapshot_when(trigger, SPECS, **modes)
    watch = Watch(made)
    for _ in range(10):
        assert cells_of(plain_rows(made)) == model.expected
        for each in (*inputs, watch):
            each.last = None
        with graph.cycle():
            for source in chance.choice([sources, sources[:1], sources[1:]]):
                source.change(chance)
        for each in (*inputs, watch):
            each.check_problems()
        changed = inputs[1].last
        if changed is not None:
            model.triggered(changed)
        else:
            assert watch.last is None, "only the trigger changes it"
        assert made.failure is None, made.failure
    watch.check_held()


def pair() -> tuple[KeyedTable, AppendTable]:
    graph = UpdateGraph()
    base = KeyedTable(graph, "base", {"key": "string", "v": "int64"}, "key")
    base.upsert({"key": ["a", "b"], "v": [1, 2]})
    trigger = AppendTable(graph, "trigger", {"t": "int64", "n": "string"})
    trigger.append({"t": [1, 2], "n": ["x", "y"]})
    return base, trigger


def test_the_columns_of_the_base_come_first_but_in_a_history() -> None:
    """As Deephaven orders them."""
    base, trigger = pair()
    assert base.snapshot_when(trigger).schema.names == ["key", "v", "t", "n"]
    assert base.snapshot_when(trigger, ["q = t"]).schema.names == ["key", "v", "q"]
    assert base.snapshot_when(trigger, "n", history=True).schema.names == ["n", "key", "v"]
    assert base.snapshot_when(trigger).key_columns == ("key",)


def test_what_deephaven_gives() -> None:
    """The same changes on a server of Deephaven 42.7 have given these rows."""
    base, trigger = pair()
    plain, stamped = base.snapshot_when(trigger, "t"), base.snapshot_when(trigger, "t", True, True)
    history = base.snapshot_when(trigger, "t", history=True)
    base.upsert({"key": ["c"], "v": [3]})
    assert plain.size == 0
    assert plain_rows(stamped) == [("a", 1, 2), ("b", 2, 2)]
    assert plain_rows(history) == [(1, "a", 1), (1, "b", 2), (2, "a", 1), (2, "b", 2)]
    trigger.append({"t": [3, 4], "n": ["z", "w"]})
    assert plain_rows(plain) == [("a", 1, 4), ("b", 2, 4), ("c", 3, 4)]
    assert plain_rows(stamped) == [("a", 1, 2), ("b", 2, 2), ("c", 3, 4)]
    assert [row[:2] for row in plain_rows(history)[4:]] == [(t, key) for t in (3, 4) for key in "abc"]
    base.upsert({"key": ["a"], "v": [9]})
    base.delete({"key": ["b"]})
    trigger.append({"t": [5], "n": ["u"]})
    assert plain_rows(plain) == [("a", 9, 5), ("c", 3, 5)]
    assert plain_rows(stamped) == [("a", 9, 5), ("c", 3, 4)]
    assert plain_rows(history)[10:] == [(5, "a", 9), (5, "c", 3)]


def test_a_trigger_without_rows_has_null_stamps() -> None:
    base, _ = pair()
    empty = KeyedTable(base.graph, "empty", {"t": "int64"}, "t")
    first = base.snapshot_when(empty, initial=True)
    later = base.snapshot_when(empty)
    assert plain_rows(first) == [("a", 1, None), ("b", 2, None)]
    empty.upsert({"t": [7]})
    empty.delete({"t": [7]})
    assert plain_rows(later) == [("a", 1, None), ("b", 2, None)]


def test_a_trigger_that_never_changes_takes_no_further_snapshot() -> None:
    base, trigger = pair()
    still = trigger.snapshot()
    made = [base.snapshot_when(still, "t", **modes) for modes in MODES]
    base.upsert({"key": ["c"], "v": [3]})
    assert [table.is_refreshing for table in made] == [False] * 5
    assert [table.size for table in made] == [0, 2, 0, 2, 4]


def test_each_is_of_its_moment() -> None:
    """Equal calls at two moments have results of their own."""
    base, trigger = pair()
    first = base.snapshot_when(trigger, "t", initial=True)
    base.upsert({"key": ["c"], "v": [3]})
    assert (first.size, base.snapshot_when(trigger, "t", initial=True).size) == (2, 3)


def test_rows_of_a_blink_trigger_are_all_stamped() -> None:
    """Also those that have come and gone while the history begins to follow."""
    base, _ = pair()
    blink = BlinkTable(base.graph, "blink", {"t": "int64"})
    blink.append({"t": [0]})
    with pytest.MonkeyPatch.context() as patch:
        attach = UpdateGraph.attach

        def attach_late(self: UpdateGraph, table: Any) -> None:
            blink.append({"t": [1]})
            blink.append({"t": [2]})
            attach(self, table)

        patch.setattr(UpdateGraph, "attach", attach_late)
        made = base.snapshot_when(blink, history=True)
    blink.append({"t": [3, 4]})
    assert made.to_arrow()["t"].to_pylist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_changes_beside_the_start_are_caught_up_with() -> None:
    base, trigger = pair()
    with pytest.MonkeyPatch.context() as patch:
        attach = UpdateGraph.attach

        def attach_late(self: UpdateGraph, table: Any) -> None:
            base.upsert({"key": ["c", "a"], "v": [3, 5]})
            trigger.append({"t": [3], "n": ["z"]})
            attach(self, table)

        patch.setattr(UpdateGraph, "attach", attach_late)
        made = [base.snapshot_when(trigger, "t", **modes) for modes in MODES]
    assert [table.size for table in made[:4]] == [3] * 4
    assert [row[-1] for row in plain_rows(made[0])] == [3, 3, 3]
    assert plain_rows(made[4])[-1][0] == 3


def test_it_holds_no_values_of_the_base() -> None:
    """But for a history; and what the base overwrites stands in one place for all."""
    graph = UpdateGraph()
    base = KeyedTable(graph, "base", {"k": "int64", "s": "string"}, "k")
    base.upsert({"k": np.arange(20_000), "s": [f"a long text for row {number}" for number in range(20_000)]})
    trigger = AppendTable(graph, "trigger", {"t": "int64"})
    plain, stamped = base.snapshot_when(trigger, initial=True), base.snapshot_when(trigger, incremental=True)
    trigger.append({"t": [1]})
    own = [table.nbytes - base.nbytes - trigger.nbytes for table in (plain, stamped)]
    assert own[0] == 0 and own[1] < 20_000 * 20
    base.upsert({"k": [1], "s": ["other"]})
    assert 0 < plain.nbytes - base.nbytes - trigger.nbytes < 200


def test_the_work_between_two_snapshots_follows_what_changes() -> None:
    """Many small changes between two triggers are merged as they come, and one update has them all."""
    graph = UpdateGraph()
    base = KeyedTable(graph, "base", {"k": "int64", "v": "int64"}, "k")
    base.upsert({"k": np.arange(1_000), "v": np.zeros(1_000, np.int64)})
    trigger = AppendTable(graph, "trigger", {"t": "int64"})
    made = base.snapshot_when(trigger, initial=True)
    watch = Watch(made)
    for number in range(300):
        base.upsert({"k": [number % 7, 1_000 + number], "v": [number, 0]})
    trigger.append({"t": [1]})
    assert len(watch.updates) == 1
    assert (watch.updates[0].added.size, watch.updates[0].modified[1].size) == (300, 7)
    watch.check_held()


def test_many_snapshots_of_a_small_table_and_few_of_a_large_one() -> None:
    graph = UpdateGraph()
    small, large = bs.table({"a": [1, 2, 3]}, graph=graph), bs.empty_table(70_000, graph).update("a = i")
    many, few = (AppendTable(graph, name, {"t": "int64"}) for name in ("many", "few"))
    ours, theirs = small.snapshot_when(many, history=True), large.snapshot_when(few, history=True)
    many.append({"t": range(50_000)})
    few.append({"t": [1, 2]})
    assert ours.to_arrow()["t"].to_pylist() == np.repeat(np.arange(50_000), 3).tolist()
    assert ours.to_arrow()["a"].to_pylist()[:7] == [1, 2, 3, 1, 2, 3, 1]
    assert theirs.to_arrow()["t"].to_pylist() == [1] * 70_000 + [2] * 70_000
    assert theirs.to_arrow()["a"].to_pylist() == [*range(70_000)] * 2


def test_a_history_stays_within_its_budget() -> None:
    graph = UpdateGraph()
    base, trigger = bs.empty_table(50_000, graph).update("a = ii"), AppendTable(graph, "trigger", {"t": "int64"})
    with budget(4 << 20):
        made = snapshot_when([base, trigger], [], history=True)
    trigger.append({"t": [1, 2]})
    assert made.size == 100_000
    trigger.append({"t": range(10)})
    assert isinstance(made.failure, LimitError)
    trigger.append({"t": range(10)})
    with budget(4 << 20), pytest.raises(LimitError, match="MiB is the most"):
        snapshot_when([base, trigger], [], history=True)


WRONG: dict[str, tuple[Callable[[Table, Table], Any], type[Exception], str]] = {
    "history": (lambda base, on: base.snapshot_when(on, history=True, initial=True), InvalidRequestError, "history"),
    "both": (lambda base, on: base.snapshot_when(on, history=True, incremental=True), InvalidRequestError, "history"),
    "column": (lambda base, on: base.snapshot_when(on, "tt"), UnknownColumnError, "'trigger' has no column 'tt'"),
    "name": (lambda base, on: base.snapshot_when(on, "v = t"), InvalidRequestError, "'v' twice"),
    "no list": (lambda base, on: snapshot_when([base, on], ["v = t = n"]), InvalidRequestError, "is written"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_at_once(case: str) -> None:
    make, error, words = WRONG[case]
    base, trigger = pair()
    with pytest.raises(error, match=words):
        make(base, trigger)
    assert len(base.children) == len(trigger.children) == 0
