"""A column beside the simplest model of it: a dict of values per version."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.engine import cells, heap, heap_column, interner
from barrage_server.engine.column import ColumnSnapshot
from barrage_server.engine.columns import make_column
from barrage_server.engine.heap_column import HeapColumn
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.undo import Undo, UndoCursor
from barrage_server.rowset import RowSet
from tests.engine.samples import pick, shown

# Whether values are released one by one, and whether equal ones may be kept once.
MANNERS = [(True, True), (True, False), (False, False)]

# With these, a few rows are enough for garbage to be collected, for equal values to be kept once or no more, and for
# what was written last to be kept twice.
SMALL_NUMBERS: Final[list[tuple[ModuleType, str, int]]] = [
    (cells, "_FEWEST_RECENT", 1),
    (heap, "_MIN_GARBAGE", 20),
    (heap, "_MAX_SPAN", 80),
    (heap_column, "_MIN_SWEEP", 3),
    (heap_column, "_SWEEP", 1),
    (heap_column, "_MIN_WORN_BYTES", 20),
    (heap_column, "_WORN", 1),
    (interner, "_FEW_VALUES", 2),
    (interner, "_SCANNED", 2),
    (interner, "FIRST_STEP", 5),
    (interner, "_STEP", 7),
    (interner, "MAX_VALUES", 6),
]


class Model:
    """A column, and beside it what each version must read."""

    def __init__(self, sample: pa.Array, page_bits: int, spread: int, manner: tuple[bool, bool] = (True, True)) -> None:
        self.sample = sample
        self.spread = spread
        reuses, interns = manner
        self.column = make_column(sample.type, number=3, page_bits=page_bits, reuses=reuses, interns=interns)
        self.undo = Undo()
        if isinstance(self.column, HeapColumn) and spread > 1:
            self.column.heap.next_index = 2**32 - 25  # as after having taken and dropped that many
        self.values: dict[int, int] = {}
        self.highest = -1
        self.versions: list[tuple[ColumnSnapshot, UndoCursor, dict[int, int], set[int]]] = []
        self.recent: set[int] = set()  # the rows that were written last

    def apply(self, name: str, argument: Any) -> None:
        getattr(self, name)(argument)

    def write(self, chosen: dict[int, int]) -> None:
        chosen = {place * self.spread: value for place, value in sorted(chosen.items())}
        values = pick(self.sample, list(chosen.values()), padding=len(chosen) % 11)
        keys = np.array(list(chosen), np.int64)
        known = np.array([key in self.values for key in chosen])
        if known.any():
            rows = RowSet.from_keys(keys[known])
            given = values.filter(pa.array(known))
            if len(chosen) % 3:
                old = pick(self.sample, [self.values[key] for key in rows.keys().tolist()])
                expected = [ours != theirs for ours, theirs in zip(shown(old), shown(given), strict=True)]
                order = None
                if len(chosen) % 2:  # they come in another order, among others
                    order = len(chosen) - 1 - np.flatnonzero(known)
                    given = values.take(pa.array(np.arange(len(chosen) - 1, -1, -1)))
                assert self.column.update(rows, given, self.undo, order).tolist() == expected
            else:
                self.column.overwrite(rows, given, self.undo)
        if not known.all():
            never = int(keys[~known][0]) > self.highest
            undo = None if never else self.undo
            self.column.write(keys[~known], values.filter(pa.array(~known)), undo)
        self.highest = max(self.highest, int(keys[-1]))
        self.values.update(chosen)
        self.recent = set(chosen)

    def move(self, argument: tuple[int, int]) -> None:
        first, delta = argument[0] * self.spread, argument[1] * self.spread
        sources = [key for key in sorted(self.values) if key >= first and key + delta >= 0]
        moved = {key + delta: self.values[key] for key in sources}
        covered = set(moved) & set(self.values) - set(sources)
        self.column.discard(RowSet.from_keys(sorted(covered)))
        self.highest = max([self.highest, *moved])
        self.column.move(np.array(sources, np.int64), np.array(sorted(moved), np.int64), self.undo)
        for key in sources:
            del self.values[key]
        self.values.update(moved)

    def drop(self, place: int) -> None:
        self.remove(set(range(place)))
        self.column.drop_before(min(self.values, default=100 * self.spread))

    def remove(self, places: set[int]) -> None:
        rows = {place * self.spread for place in places} & set(self.values)
        self.column.discard(RowSet.from_keys(sorted(rows)))
        self.values = {key: value for key, value in self.values.items() if key not in rows}

    def collect(self, times: int) -> None:
        for _ in range(times):
            self.column.collect(RowSet.from_keys(sorted(self.values)), self.undo)

    def compact(self, number: int) -> None:
        if self.versions:
            self.versions[number % len(self.versions)][1].compact()

    def version(self, _: None) -> None:
        self.undo = self.undo.start_next()
        self.versions.append((self.column.snapshot(), UndoCursor(self.undo), dict(self.values), self.recent))

    def check(self) -> None:
        for snapshot, cursor, values, written in self.versions:
            keys = sorted(values)
            recent = [key for key in keys if key in written]
            for part in (keys, keys[1::2], keys[len(keys) // 3 :][:5], recent, recent[1:], recent[: len(recent) // 2]):
                rows = np.array(part, np.int64)
                expected = pick(self.sample, [values[key] for key in part])
                for plan in (ReadPlan.from_keys(rows), ReadPlan.from_row_set(RowSet.from_keys(rows))):
                    check_equal(snapshot.read(plan, cursor), expected)
        current = np.array(sorted(self.values), np.int64)[::-1].repeat(2)
        expected = pick(self.sample, [self.values[key] for key in current.tolist()])
        check_equal(self.column.read_current(current), expected)
        if isinstance(self.column, HeapColumn):
            check_garbage(self.column, current)


def check_garbage(column: HeapColumn, rows: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    """The heap knows its garbage, unless it keeps values once or frees them in order."""
    heap, view = column.heap, column.heap.snapshot()
    assert heap.nbytes == sum(chunk.nbytes for chunk in view.chunks)
    if not column.counts_values:
        assert heap.garbage == 0
        return
    indexes = [heap.absolute(int(index)) for index in column.indexes.gather(ReadPlan.from_keys(np.unique(rows)))]
    garbage = 0.0
    for chunk, start in zip(view.chunks, view.starts, strict=True):
        used = sum(start <= index < start + len(chunk) for index in indexes)
        assert used > 0 or start < heap.pinned_before
        garbage += chunk.nbytes * (len(chunk) - used) / len(chunk) if start >= heap.pinned_before else 0
    assert heap.garbage == pytest.approx(garbage, abs=1e-6)


def check_equal(got: pa.Array, expected: pa.Array) -> None:
    got.validate(full=True)
    assert got.type == expected.type
    assert shown(got) == shown(expected)
    assert got.null_count == expected.null_count
