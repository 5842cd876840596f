"""Rows under consecutive keys of their own: those of a row set, and those that were added behind it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, UpdateGraph, renumbered
from barrage_server.engine.condition import Condition
from barrage_server.engine.renumbered import AppendedRows, Numbering
from barrage_server.engine.restricted import Restriction, restrict
from barrage_server.rowset import MAX_KEY, RowSet


@pytest.fixture(params=[(1, 4), (2, 16), (1 << 10, 1 << 16)], ids=["tiny", "small", "as it is"])
def tail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many rows are listed before they become a part of the row set."""
    least, most = request.param
    monkeypatch.setattr(renumbered, "_LEAST_TAIL", least)
    monkeypatch.setattr(renumbered, "_MOST_TAIL", most)


def check(numbering: Numbering, rows: list[int], random: np.random.Generator) -> None:
    """Compare a numbering with what a list of its rows says."""
    first = numbering.first
    assert numbering.rows == RowSet.from_keys(rows)
    for _ in range(4):
        chosen = np.flatnonzero(random.random(len(rows)) < random.random())
        keys = RowSet.from_sorted_keys(chosen + first)
        plan = numbering.plan_of(keys)
        wanted = [rows[place] for place in chosen]
        assert plan.keys.tolist() == wanted
        assert plan.size == len(wanted)
        assert numbering.keys_of(RowSet.from_keys(wanted)) == keys
    start, stop = sorted(random.integers(0, len(rows) + 1, 2).tolist())
    assert numbering.plan_of(RowSet.from_range(first + start, first + stop - 1)).keys.tolist() == rows[start:stop]
    for row in random.integers(0, rows[-1] + 3, 5).tolist():
        assert numbering.last_until(row) == first + sum(known <= row for known in rows) - 1
    place = int(random.integers(0, len(rows)))
    assert numbering.row_of(first + place) == rows[place]


@pytest.mark.usefixtures("tail")
@pytest.mark.parametrize("seed", range(6))
def test_added_rows_are_numbered_on_and_what_was_taken_earlier_stays(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = sorted({int(row) for row in random.integers(0, 30, 12)})
    appended = AppendedRows(RowSet.from_keys(rows))
    earlier: list[tuple[Numbering, list[int]]] = []
    for _ in range(25):
        more = rows[-1] + np.cumsum(random.integers(1, 4, int(random.integers(0, 9))))
        appended.append(more)
        rows.extend(more.tolist())
        assert (appended.size, appended.last) == (len(rows), rows[-1])
        earlier.append((appended.numbering(), list(rows)))
    for numbering, known in earlier:
        check(numbering, known, random)


def test_the_last_key_until_the_highest_row_is_that_of_the_last_row() -> None:
    """A column without storage, such as a constant, has one piece up to the highest row key."""
    assert Numbering(RowSet.from_keys([3, 9]), 7).last_until(MAX_KEY) == 8
    assert Numbering(RowSet.from_keys([3, 9]), 7, np.array([20])).last_until(MAX_KEY) == 9
    assert Numbering(RowSet.from_keys([MAX_KEY]), 7).last_until(MAX_KEY) == 7


def test_rows_of_a_row_set_have_keys_from_the_first_on() -> None:
    check(Numbering(RowSet.from_keys([3, 4, 9, 20]), 7), [3, 4, 9, 20], np.random.default_rng(0))


def test_there_may_be_no_row_at_first() -> None:
    appended = AppendedRows(RowSet.empty())
    assert (appended.size, appended.last) == (0, -1)
    appended.append(np.empty(0, np.int64))
    appended.append(np.array([5, 7]))
    assert appended.numbering().plan_of(RowSet.flat(2)).keys.tolist() == [5, 7]


@pytest.mark.usefixtures("tail")
def test_a_version_of_a_part_does_not_change_with_later_rows() -> None:
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    table = AppendTable(UpdateGraph(), "t", schema)
    part = restrict(table, Restriction(frozenset([Condition("n >= 50")])))
    random = np.random.default_rng(1)
    versions, shown = [], list[int]()
    for _ in range(20):
        values = random.integers(0, 100, int(random.integers(0, 12))).tolist()
        table.append({"n": values, "s": [f"row {value}" for value in values]})
        shown += [value for value in values if value >= 50]
        versions.append((part.version, list(shown)))
    for version, known in versions:
        assert version.row_set == RowSet.flat(len(known))
        assert version.to_table().to_pydict() == {"n": known, "s": [f"row {value}" for value in known]}
        some = RowSet.from_sorted_keys(np.flatnonzero(random.random(len(known)) < 0.5))
        assert version.read(some)[0].to_pylist() == [known[place] for place in some]


def test_the_row_set_of_a_part_is_not_made_anew_for_each_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cycle that appends costs what it appends, also where hidden rows lie between."""
    unions = 0
    union = RowSet.__or__

    def counted(mine: RowSet, other: RowSet) -> RowSet:
        nonlocal unions
        unions += mine is not other and min(mine.size, other.size) > 0
        return union(mine, other)

    table = AppendTable(UpdateGraph(), "t", pa.schema([("n", pa.int64())]))
    table.append({"n": list(range(10_000))})
    part = restrict(table, Restriction(frozenset([Condition("n < 5")])))
    monkeypatch.setattr(RowSet, "__or__", counted)
    for _ in range(50):
        table.append({"n": [1, 9, 2, 8]})
    assert part.version.size == 5 + 100
    assert unions == 0
    assert part.version.to_table()["n"].to_pylist() == [0, 1, 2, 3, 4] + [1, 2] * 50
