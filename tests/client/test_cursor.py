"""A consumer's place in the updates: it coalesces, and what it keeps is bounded."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.client.cursor import Cursor
from barrage_server.client.update import Update
from barrage_server.engine import KeyedTable, TableUpdate, TableVersion, UpdateGraph
from barrage_server.errors import UnknownColumnError

SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.int64())])


class _Watched:
    """A keyed table whose every update goes to a cursor."""

    def __init__(self, rows: int = 0) -> None:
        self.table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["key"])
        self.cursor = Cursor()
        if rows:
            self.put(0, rows, 0)
        self.table.add_listener(self._offer)

    def put(self, start: int, stop: int, value: int) -> None:
        keys = np.arange(start, stop)
        self.table.upsert({"key": keys, "value": np.full(len(keys), value)})

    def _offer(self, update: TableUpdate, before: TableVersion, after: TableVersion) -> None:
        self.cursor.offer(Update(before.detached(), after.detached(), update, step=after.step))


def test_nothing_is_taken_where_nothing_happened() -> None:
    watched = _Watched()
    assert watched.cursor.take() is None
    assert not watched.cursor


def test_updates_in_between_become_one() -> None:
    watched = _Watched(3)
    for value in range(1, 40):
        watched.put(1, 2, value)
    watched.put(7, 8, 70)
    update = watched.cursor.take()
    assert update is not None
    assert update.modified_values("value")["value"].to_pylist() == [39]
    assert update.modified_previous_values("value")["value"].to_pylist() == [0]
    assert update.modified_values().to_pylist() == [{"key": 1, "value": 39}]
    assert update.added_values(["value"]).to_pylist() == [{"value": 70}]
    assert update.modified["key"].is_empty
    assert update.step == watched.table.version.step
    assert watched.cursor.take() is None


def test_old_values_stay_readable_while_the_table_goes_on() -> None:
    watched = _Watched(4)
    watched.table.delete({"key": [2]})
    update = watched.cursor.take()
    assert update is not None
    for value in range(1, 30):
        watched.put(0, 100, value)
    assert update.removed_values().to_pylist() == [{"key": 2, "value": 0}]
    assert update.before.to_table()["value"].to_pylist() == [0] * 4
    assert "-1" in repr(update)
    assert update


def test_a_held_update_does_not_keep_the_history() -> None:
    watched = _Watched(4)
    watched.put(0, 1, 1)
    update = watched.cursor.take()
    watched.put(0, 1, 2)
    link = weakref.ref(watched.table.version)
    watched.put(0, 1, 3)
    watched.cursor.take()
    gc.collect()
    assert link() is None
    assert update is not None
    assert update.modified_values("value")["value"].to_pylist() == [1]


def test_a_started_cursor_loses_nothing_when_changes_outweigh_the_table() -> None:
    watched = _Watched(50_000)
    watched.cursor.started = True
    for value in range(1, 12):
        watched.put(0, 50_000, value)
    update = watched.cursor.take()
    assert update is not None
    assert set(update.modified_previous_values("value")["value"].to_pylist()) == {0}
    assert set(update.modified_values("value")["value"].to_pylist()) == {11}


def test_a_cursor_that_was_not_started_begins_anew() -> None:
    watched = _Watched(50_000)
    for value in range(1, 4):
        watched.put(0, 50_000, value)
    assert not watched.cursor
    watched.put(0, 1, 9)
    update = watched.cursor.take()
    assert update is not None
    assert update.modified_previous_values("value")["value"].to_pylist() == [3]


def test_a_column_that_is_not_there_is_named() -> None:
    watched = _Watched(1)
    watched.put(0, 1, 1)
    update = watched.cursor.take()
    assert update is not None
    with pytest.raises(UnknownColumnError, match="key, value"):
        update.modified_values("nonsense")
