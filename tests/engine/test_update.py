"""The update model: coalescing two updates equals applying them one after the other."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine.update import (
    FoldedHistories,
    TableUpdate,
    UpdateNode,
    added_since,
    coalesce,
    coalesce_nodes,
    fold_nodes,
)
from barrage_server.rowset import RowSet, RowSetShiftData

COLUMNS = 2


@dataclass
class Model:
    """Rows with identities: key -> row number, and a revision per row and column."""

    rows: dict[int, int] = field(default_factory=dict)
    revisions: dict[tuple[int, int], int] = field(default_factory=dict)
    born: int = 0

    def copy(self) -> Model:
        return Model(dict(self.rows), dict(self.revisions), self.born)

    def apply(self, update: TableUpdate) -> None:
        kept = {key: row for key, row in self.rows.items() if key not in update.removed}
        moved: dict[int, int] = {}
        for key, row in kept.items():
            for first, last, delta in update.shifted:
                if first <= key <= last:
                    moved[key + delta] = row
                    break
            else:
                moved[key] = row
        assert len(moved) == len(kept)
        assert [moved[key] for key in sorted(moved)] == [kept[key] for key in sorted(kept)], "shifts keep the order"
        for key in update.added.keys().tolist():
            assert key not in moved
            moved[key] = self.born
            self.born += 1
        self.rows = moved
        for column, rows in enumerate(update.modified):
            for key in rows.keys().tolist():
                place = (moved[key], column)
                self.revisions[place] = self.revisions.get(place, 0) + 1


@st.composite
def updates(draw: st.DrawFn, before: RowSet) -> TableUpdate:
    """A legal update of a table with the row set ``before``."""
    old = before.keys().tolist()
    removed = draw(st.sets(st.sampled_from(old))) if old else set()
    stay = [key for key in old if key not in removed]
    keys = st.integers(0, max(40, len(stay) + 5))  # enough for all of them
    places = sorted(draw(st.sets(keys, min_size=len(stay), max_size=len(stay))))
    after = places if draw(st.booleans()) else stay
    shifted = (
        RowSetShiftData.between(RowSet.from_keys(stay), RowSet.from_keys(after)) if stay else RowSetShiftData.empty()
    )
    added = draw(st.sets(st.integers(0, 45))) - set(after)
    modified = tuple(
        RowSet.from_keys(sorted(draw(st.sets(st.sampled_from(after))) if after else set())) for _ in range(COLUMNS)
    )
    return TableUpdate(RowSet.from_keys(sorted(added)), RowSet.from_keys(sorted(removed)), shifted, modified)


@given(st.data())
def test_coalescing_equals_applying_in_turn(data: st.DataObject) -> None:
    """Removed, shifted, added and modified rows of the one update name exactly the rows that the sequence touched."""
    before = RowSet.from_keys(sorted(data.draw(st.sets(st.integers(0, 40), max_size=15))))
    model = Model()
    model.apply(TableUpdate.of_added(before, COLUMNS))
    start = model.copy()
    node = first = UpdateNode(0, before, TableUpdate.of_added(before, COLUMNS))
    for step in range(1, data.draw(st.integers(1, 4)) + 1):
        update = data.draw(updates(node.row_set))
        node.next = UpdateNode(step, update.apply_to(node.row_set), update)
        node = node.next
        model.apply(update)
        assert node.row_set.keys().tolist() == sorted(model.rows)
        total = coalesce_nodes(first, node)
        check(start, model, before, total)
    check(start, model, before, coalesce_nodes(fold_nodes(first, node), node))


@given(st.data())
def test_coalescing_over_what_later_readers_have_coalesced_equals_applying_in_turn(data: st.DataObject) -> None:
    """Whichever readers, at nodes on the way, have coalesced up to whichever node before."""
    before = RowSet.from_keys(sorted(data.draw(st.sets(st.integers(0, 40), max_size=15))))
    model = Model()
    model.apply(TableUpdate.of_added(before, COLUMNS))
    start = model.copy()
    nodes = [UpdateNode(0, before, TableUpdate.of_added(before, COLUMNS))]
    for step in range(1, data.draw(st.integers(2, 14)) + 1):
        update = data.draw(updates(nodes[-1].row_set))
        nodes[-1].next = UpdateNode(step, update.apply_to(nodes[-1].row_set), update)
        nodes.append(nodes[-1].next)
        model.apply(update)
    places = st.integers(0, len(nodes) - 1)
    for reader, reached in data.draw(st.lists(st.tuples(places, places), max_size=6)):
        if reader <= reached:
            fold_nodes(nodes[reader], nodes[reached])
    check(start, model, before, coalesce_nodes(nodes[0], nodes[-1]))


def random_update(rng: random.Random, before: RowSet) -> TableUpdate:
    """A legal update like those of :func:`updates`."""
    stay = [key for key in before.keys().tolist() if rng.random() < 0.8]
    removed = sorted(set(before.keys().tolist()) - set(stay))
    after = sorted(rng.sample(range(41), len(stay))) if rng.random() < 0.5 else stay
    shifted = (
        RowSetShiftData.between(RowSet.from_keys(stay), RowSet.from_keys(after)) if stay else RowSetShiftData.empty()
    )
    added = sorted(set(rng.sample(range(46), rng.randrange(6))) - set(after))
    modified = tuple(RowSet.from_keys([key for key in after if rng.random() < 0.3]) for _ in range(COLUMNS))
    return TableUpdate(RowSet.from_keys(added), RowSet.from_keys(removed), shifted, modified)


@pytest.mark.parametrize("seed", range(60))
def test_folded_histories_tell_what_was_missed(seed: int) -> None:
    """Whichever readers come, are folded in whichever order, read to whichever later node, and leave."""
    rng = random.Random(seed)
    before = RowSet.from_keys(sorted(rng.sample(range(41), rng.randrange(16))))
    model = Model()
    model.apply(TableUpdate.of_added(before, COLUMNS))
    node = UpdateNode(0, before, TableUpdate.of_added(before, COLUMNS))
    readers = [(node, model.copy(), 0)]
    folded = FoldedHistories()
    for _ in range(25):
        step = rng.choice(["fold", "read", "join", "leave", "pass"])
        chosen = [] if step == "pass" else [rng.randrange(8) for _ in range(rng.randrange(7))]
        update = random_update(rng, node.row_set)
        node.next = UpdateNode(node.step + 1, update.apply_to(node.row_set), update)
        node = node.next
        model.apply(update)
        if step == "pass":
            folded.clear()
        elif step == "join":
            readers.append((node, model.copy(), node.step))
        for place in chosen:
            if place >= len(readers):
                continue
            reader, start, reached = readers[place]
            if step == "fold":
                reader, end = folded.fold(reader, node)
                readers[place] = reader, start, max(reached, end.step)
            elif step == "read":
                check(start, model, reader.row_set, coalesce_nodes(reader, node))
                readers[place] = node, model.copy(), node.step
            elif step == "leave":
                del readers[place]
    for reader, start, _ in readers:
        check(start, model, reader.row_set, coalesce_nodes(reader, node))


@pytest.mark.parametrize("order", [[3, 2, 1, 0], [0, 1, 2, 3], [2, 0, 3, 1]])
def test_a_folded_history_tells_what_happened_until_a_node_before_the_present(order: list[int]) -> None:
    """From the one up to which it is folded, also when another reader has gone on to the present."""
    rows = RowSet.flat(20)
    nodes = [UpdateNode(0, rows, TableUpdate.of_added(rows, 1))]
    for number in range(1, 20):
        update = TableUpdate(RowSet.EMPTY, RowSet.EMPTY, RowSetShiftData.empty(), (RowSet.from_range(number, number),))
        nodes[-1].next = UpdateNode(number, rows, update)
        nodes.append(nodes[-1].next)
    readers, folded = nodes[:4], FoldedHistories()
    for place in order:
        readers[place], _ = folded.fold(readers[place], nodes[5])
    first, *others = order
    assert coalesce_nodes(readers[first], nodes[19]).modified[0] == RowSet.from_range(first + 1, 19)
    for place in others:
        assert coalesce_nodes(readers[place], nodes[6]).modified[0] == RowSet.from_range(place + 1, 6)


def test_readers_that_fold_in_one_pass_share_the_work_and_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty readers, the latest first, again and again: each keeps what is its own."""
    calls = 0

    def counted(first: TableUpdate, second: TableUpdate, before: RowSet) -> TableUpdate:
        nonlocal calls
        calls += 1
        return coalesce(first, second, before)

    monkeypatch.setattr("barrage_server.engine.update.coalesce", counted)
    rows = RowSet.flat(1000)
    node = UpdateNode(0, rows, TableUpdate.of_added(rows, 1))

    def tick(times: int) -> None:
        nonlocal node
        for _ in range(times):
            changed = RowSet.from_range(node.step % 1000, node.step % 1000)
            update = TableUpdate(RowSet.EMPTY, RowSet.EMPTY, RowSetShiftData.empty(), (changed,))
            node.next = UpdateNode(node.step + 1, rows, update)
            node = node.next

    readers, folded = [], FoldedHistories()
    for _ in range(20):
        readers.append(node)
        tick(1)
    for _ in range(3):
        tick(200)
        calls = 0
        folded.clear()
        for place in reversed(range(20)):
            readers[place], end = folded.fold(readers[place], node)
            assert end is node
        assert calls <= 200 + 20 * 2
    for place, reader in enumerate(readers):
        assert coalesce_nodes(reader, node).modified[0] == RowSet.from_range(place, 619)


def test_what_readers_have_missed_together_is_coalesced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = RowSet.flat(100)
    node = UpdateNode(0, rows, TableUpdate.of_added(rows, 1))
    readers, folded = [], FoldedHistories()
    for number in range(60):
        if number < 20:
            readers.append(node)
        update = TableUpdate(RowSet.EMPTY, RowSet.EMPTY, RowSetShiftData.empty(), (RowSet.from_range(number, number),))
        node.next = UpdateNode(number + 1, rows, update)
        node = node.next
    coalesced = []

    def recorded(first: TableUpdate, second: TableUpdate, before: RowSet) -> TableUpdate:
        coalesced.append(coalesce(first, second, before))
        return coalesced[-1]

    monkeypatch.setattr("barrage_server.engine.update.coalesce", recorded)
    for place in reversed(range(20)):
        readers[place], _ = folded.fold(readers[place], node)
    assert sum(update.modified[0].size > 1 for update in coalesced) <= 41, "the last reader's alone"


def check(start: Model, end: Model, before: RowSet, total: TableUpdate) -> None:
    again = start.copy()
    again.apply(total)
    assert sorted(again.rows) == sorted(end.rows)
    old_rows = set(start.rows.values())
    by_row = {row: key for key, row in end.rows.items()}
    for key, row in start.rows.items():
        lives = row in by_row
        assert (key in total.removed) != lives
        if lives:
            assert again.rows[by_row[row]] == row, "a row that stays ends under its key"
    for key, row in end.rows.items():
        new = row not in old_rows
        assert (key in total.added) == new
        for column in range(COLUMNS):
            touched = end.revisions.get((row, column), 0) > start.revisions.get((row, column), 0)
            assert (key in total.modified[column]) == (touched and not new)
    assert total.apply_to(before).keys().tolist() == sorted(end.rows)


def test_a_row_that_came_and_went_leaves_no_trace() -> None:
    """Coalescing drops rows that are added and removed in between."""
    added = TableUpdate.of_added(RowSet.from_range(5, 6), 1)
    removed = TableUpdate(RowSet.empty(), RowSet.from_range(5, 6), RowSetShiftData.empty(), (RowSet.empty(),))
    assert coalesce(added, removed, RowSet.flat(5)).is_empty


def test_a_key_used_again_is_removed_and_added() -> None:
    """A row that takes the key of a removed one is not a modification of it."""
    removed = TableUpdate(RowSet.empty(), RowSet.from_range(2, 2), RowSetShiftData.empty(), (RowSet.empty(),))
    total = coalesce(removed, TableUpdate.of_added(RowSet.from_range(2, 2), 1), RowSet.flat(5))
    assert (2 in total.added, 2 in total.removed, bool(total.modified_rows)) == (True, True, False)


def test_history_before_the_start_is_refused() -> None:
    """Coalescing goes forwards only."""
    empty = TableUpdate.empty(1)
    first, second = UpdateNode(0, RowSet.empty(), empty), UpdateNode(1, RowSet.empty(), empty)
    first.next = second
    with pytest.raises(ValueError, match="does not come after"):
        coalesce_nodes(second, first)


def test_a_blink_subscriber_is_owed_rows_that_are_gone() -> None:
    """What was added counts even when a later update removed it."""
    nodes = [UpdateNode(0, RowSet.empty(), TableUpdate.empty(1))]
    for step in range(1, 4):
        gone = nodes[-1].row_set
        new = RowSet.from_range(step * 10, step * 10 + 1)
        update = TableUpdate(new, gone, RowSetShiftData.empty(), (RowSet.empty(),))
        nodes.append(UpdateNode(step, new, update))
        nodes[-2].next = nodes[-1]
    assert added_since(nodes[0], nodes[3]).keys().tolist() == [10, 11, 20, 21, 30, 31]
    assert added_since(nodes[3], nodes[3]).is_empty
