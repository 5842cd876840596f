"""Rows under keys of their own that they keep, whatever other rows come and go."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import KeyedTable, UpdateGraph
from barrage_server.engine.condition import Condition
from barrage_server.engine.placed import PlacedRows
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.restricted import RestrictedTable, Restriction, restrict
from barrage_server.engine.types import normalise, plain_type
from barrage_server.rowset import RowSet
from tests.engine.followers import Follower
from tests.engine.samples import SAMPLES

NUMBERS = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.string())])


def part(table: KeyedTable, where: str = "n >= 0") -> RestrictedTable:
    return restrict(table, Restriction(frozenset([Condition(where)])))


def most_rows(held: list[tuple[Any, dict[int, int]]], now: dict[int, int]) -> int:
    """As many keys as there were rows at a time are enough for ever."""
    return max([12, len(now), *(len(rows) for _, rows in held)])


@pytest.mark.parametrize("seed", range(6))
def test_each_row_keeps_its_key_until_it_leaves(seed: int) -> None:
    """Compared with a dict, row by row; a version's map stays what it was."""
    chance = random.Random(seed)
    first = sorted(chance.sample(range(40), 12))
    placed = PlacedRows(RowSet.from_keys(first))
    model = dict(zip(first, range(len(first)), strict=True))
    held: list[tuple[Any, dict[int, int]]] = []
    for _ in range(60):
        going = sorted(row for row in model if chance.random() < chance.random())
        coming = sorted({row for row in range(80) if chance.random() < 0.2} - (model.keys() - set(going)))
        removed, added = placed.change(np.array(going, np.int64), np.array(coming, np.int64))
        assert removed == RowSet.from_keys([model.pop(row) for row in going])
        assert added.size == len(coming) and not added & RowSet.from_keys(list(model.values()))
        model.update(zip(coming, added.keys().tolist(), strict=True))
        assert placed.rows == RowSet.from_keys(list(model.values()))
        assert not model or placed.rows.last_key < most_rows(held, model)
        asked = [row for row in range(90) if chance.random() < chance.random()]
        assert placed.find(np.array(asked, np.int64)).tolist() == [model.get(row, -1) for row in asked]
        held.append((placed.sources(), {key: row for row, key in model.items()}))
    for view, rows in held:
        keys = sorted(rows)
        assert view.read(ReadPlan.from_keys(np.array(keys, np.int64))).to_pylist() == [rows[key] for key in keys]


def test_there_may_be_no_row_at_first() -> None:
    placed, none = PlacedRows(RowSet.empty()), np.empty(0, np.int64)
    assert placed.find(np.array([3])).tolist() == [-1]
    assert placed.change(none, none) == (RowSet.empty(), RowSet.empty())
    assert placed.change(none, np.array([3, 9])) == (RowSet.empty(), RowSet.flat(2))
    assert placed.find(np.array([2, 3, 9, 10])).tolist() == [-1, 0, 1, -1]


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=40)
def test_keys_and_updates_do_not_depend_on_hidden_rows(seed: int) -> None:
    """Of two tables that differ in hidden rows alone, wherever they are and however many there are, the parts have the
    same keys, the same order of rows and the same updates, as long as one row comes at a time.
    """
    chance = random.Random(seed)
    tables = [KeyedTable(UpdateGraph(), "t", NUMBERS, "k") for _ in range(2)]
    parts = [part(table) for table in tables]
    seen = [Follower(made) for made in parts]
    shown: dict[int, int] = {}
    for _ in range(25):
        for table in tables:  # hidden rows come, go, and change
            hidden = [key for key in range(100, 140) if chance.random() < 0.3]
            (table.delete if chance.random() < 0.5 else table.upsert)(
                {"k": hidden, "n": [-1 - chance.randrange(3) for _ in hidden], "s": ["hidden"] * len(hidden)}
            )
        counts = [len(follower.updates) for follower in seen]
        assert counts[0] == counts[1]
        key = chance.randrange(12)
        does = chance.choice(["shows", "hides", "deletes"])
        # where it was before, hidden or not at all, may differ as well
        value = chance.randrange(5) if does == "shows" else -1
        for table in tables:
            if does == "deletes":
                table.delete({"k": [key]})
            else:
                if key not in shown and chance.random() < 0.5:
                    table.upsert({"k": [key], "n": [-7], "s": ["hidden"]})
                table.upsert({"k": [key], "n": [value], "s": ["x"]})
        shown.pop(key, None) if does != "shows" else shown.update({key: value})
        first, second = (made.to_arrow() for made in parts)
        assert first.equals(second)
        assert dict(zip(first["k"].to_pylist(), first["n"].to_pylist(), strict=True)) == shown
        assert parts[0].version.row_set == parts[1].version.row_set
    first_updates, second_updates = (
        [(each.added, each.removed, each.shifted.size, each.modified) for each in follower.updates] for follower in seen
    )
    assert first_updates == second_updates


@pytest.mark.parametrize("name", SAMPLES)
def test_not_a_bit_of_hidden_rows_is_read_once_rows_have_changed_sides(name: str) -> None:
    """The bytes of arrays are those of a table whose hidden rows have other values."""
    sample = normalise(SAMPLES[name], plain_type(SAMPLES[name].type))
    is_shown = [True, *[False] * 7, True, False, True, True, *[False] * 5, True, True, True, *[False] * 9, True]
    schema = pa.schema([("k", pa.int64()), ("v", pa.bool_()), ("x", sample.type)])
    found = []
    for shift in range(min(3, len(sample))):
        table = KeyedTable(UpdateGraph(), "t", schema, "k")
        made = part(table, "v")
        for turned in (True, False):  # all rows change sides
            places = [(place if at else place + shift) % len(sample) for place, at in enumerate(is_shown)]
            values = sample.take(pa.array(places))
            flags = [at != turned for at in is_shown]
            table.upsert(pa.table({"k": list(range(len(places))), "v": flags, "x": values}, schema))
        version = made.version
        size = version.row_set.size
        keys = version.row_set.keys()
        assert size == sum(is_shown)
        chosen = [RowSet.from_keys(keys[start:stop]) for start in range(size) for stop in range(start + 1, size + 1)]
        chosen.append(RowSet.from_keys(keys[::3]))
        batches = [pa.record_batch(version.read(rows), ["k", "v", "x"]) for rows in chosen]
        found.append([batch.serialize().to_pybytes() for batch in batches])
    assert all(other == found[0] for other in found[1:])


def test_rows_that_change_sides_cost_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of another row is looked at: positions in row sets are not asked for."""
    table = KeyedTable(UpdateGraph(), "t", NUMBERS, "k")
    table.upsert({"k": list(range(10_000)), "n": [0, -1] * 5_000, "s": ["x"] * 10_000})
    made = part(table)
    seen = Follower(made)
    table.upsert({"k": [0], "n": [-1], "s": ["x"]})  # from here on rows are placed

    def refused(*_: object) -> None:
        raise AssertionError("the rows are numbered anew")

    monkeypatch.setattr(RowSet, "invert", refused)
    for key in range(1, 50):
        table.upsert({"k": [key, key + 100, key + 201], "n": [0, 7, -1], "s": ["y"] * 3})
    assert {(update.added.size, update.shifted.size) for update in seen.updates[1:]} <= {(0, 0), (1, 0), (2, 0), (3, 0)}
    rows = table.to_arrow()
    wanted = {k: n for k, n in zip(rows["k"].to_pylist(), rows["n"].to_pylist(), strict=True) if n >= 0}
    shown = made.to_arrow()
    assert dict(zip(shown["k"].to_pylist(), shown["n"].to_pylist(), strict=True)) == wanted


def test_a_part_without_rows_that_change_sides_keeps_no_keys() -> None:
    """It takes no memory for each row then."""
    table = KeyedTable(UpdateGraph(), "t", NUMBERS, "k")
    table.upsert({"k": list(range(100)), "n": [0, -1] * 50, "s": ["x"] * 100})
    made = part(table)
    table.upsert({"k": list(range(100)), "n": [5, -2] * 50, "s": ["y"] * 100})
    table.upsert({"k": [200, 201], "n": [-1, 1], "s": ["y"] * 2})
    assert made.state_bytes == made.version.row_set.nbytes
    table.upsert({"k": [200], "n": [1], "s": ["y"]})
    table.upsert({"k": [7], "n": [1], "s": ["y"]})
    assert made.state_bytes > made.version.row_set.nbytes
