"""Columns that are read while they are written to, without a lock."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Event, Thread

import numpy as np
import pytest

from barrage_server.engine.columns import make_column
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.undo import Undo, UndoCursor, UndoEntry
from barrage_server.engine.undo_entries import DenseEntry
from barrage_server.rowset import RowSet
from tests.engine.column_model import MANNERS, Model, check_equal
from tests.engine.samples import SAMPLES, pick, shown

pytestmark = pytest.mark.usefixtures("small_numbers")


@pytest.mark.parametrize("name", ["int64", "string"])
def test_old_values_are_recorded_before_cells_are_overwritten(name: str) -> None:
    """Otherwise a reader could see a new value and find no record of the old one."""
    sample = SAMPLES[name]
    rows = RowSet.flat(4)
    plan = ReadPlan.from_row_set(rows)
    column = make_column(sample.type, number=0)
    column.write(rows, pick(sample, [0, 1, 2, 3]), None)

    class Watching(Undo):
        """Reads the version while its values are being recorded."""

        __slots__ = ()

        def record(self, entry: UndoEntry) -> None:
            seen.append(shown(snapshot.read(plan, cursor)))
            super().record(entry)
            seen.append(shown(snapshot.read(plan, cursor)))

    seen: list[list[str]] = []
    undo = Watching()
    snapshot, cursor = column.snapshot(), UndoCursor(undo)
    column.overwrite(rows, pick(sample, [4, 3, 1, 0]), undo)
    column.move(np.array([0, 1]), np.array([2, 3]), undo)
    column.update(rows, pick(sample, [1, 1, 1, 1]), undo)
    column.write(rows, pick(sample, [2, 2, 2, 2]), undo)
    assert seen == [shown(pick(sample, [0, 1, 2, 3]))] * 8


@pytest.mark.parametrize("name", ["int64", "string"])
def test_cells_are_gathered_before_the_records_are_looked_at(name: str) -> None:
    """Otherwise a write in between would be seen, and its record missed."""
    sample = SAMPLES[name]
    rows = RowSet.flat(4)
    column = make_column(sample.type, number=0)
    column.write(rows, pick(sample, [0, 1, 2, 3]), None)
    undo = Undo()

    class Late(UndoCursor):
        """Lets the writer go on as soon as the reader has looked."""

        __slots__ = ()

        def entries(self, number: int, epoch: int) -> list[UndoEntry | DenseEntry]:
            found = super().entries(number, epoch)
            column.overwrite(rows, pick(sample, [4, 3, 1, 0]), undo)
            return found

    got = column.snapshot().read(ReadPlan.from_row_set(rows), Late(undo))
    check_equal(got, pick(sample, [0, 1, 2, 3]))


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Let threads take turns as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(2e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize(
    ("name", "manner"), [("int64", MANNERS[0]), ("decimal128", MANNERS[0]), *(("string", manner) for manner in MANNERS)]
)
def test_versions_do_not_change_while_a_writer_goes_on(name: str, manner: tuple[bool, bool]) -> None:
    """Readers keep versions while cells are overwritten, moved, collected and grown, without any lock between them."""
    sample = SAMPLES[name].slice(1)
    rng = np.random.default_rng(5)
    model = Model(sample, 11, 1, manner)
    model.write({place: place for place in range(300)})
    model.version(None)
    published = [model.versions[-1]]
    done = Event()
    failures: list[str] = []

    def read(seed: int) -> None:
        choose = np.random.default_rng(seed)
        held = [published[0]]
        while not done.is_set() and not failures:
            held.append(published[0])
            if len(held) > 6:
                del held[int(choose.integers(len(held)))]
            for snapshot, cursor, values, written in held:
                keys = np.sort(choose.choice(np.array(list(values)), 40, replace=False))
                if choose.random() < 0.3:
                    keys = np.array(sorted(written & set(values)), np.int64)
                got = snapshot.read(ReadPlan.from_keys(keys), cursor)
                expected = pick(sample, [values[key] for key in keys.tolist()])
                if not got.equals(expected):
                    failures.append(f"{got} is not {expected}")
                if choose.random() < 0.02:
                    cursor.compact()

    readers = [Thread(target=read, args=(seed,)) for seed in (1, 2)]
    for reader in readers:
        reader.start()
    try:
        for cycle in range(400):
            for _ in range(3):
                places = rng.choice(300 + cycle * 4, 60, replace=False)
                model.values = dict(model.values)
                model.write({int(place): int(rng.integers(100)) for place in places})
            model.collect(1)
            if cycle % 50 == 20:
                model.move((200, 1))
            model.undo = model.undo.start_next()
            published[0] = (model.column.snapshot(), UndoCursor(model.undo), dict(model.values), model.recent)
    finally:
        done.set()
        for reader in readers:
            reader.join(30)
    assert failures == []
    assert not any(reader.is_alive() for reader in readers)
