"""The simplest listener there is: follows a table through its updates alone, row by row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from barrage_server.engine import Table, TableUpdate, TableVersion


class Follower:
    """Row key -> values, kept up to date from updates and the values of the rows that they name, and nothing else."""

    def __init__(self, table: Table) -> None:
        self.rows: dict[int, list[Any]] = {}
        self.updates: list[TableUpdate] = []
        self.held: list[tuple[TableVersion, dict[int, list[Any]]]] = []
        self.take(TableUpdate.of_added(table.version.row_set, len(table.schema)), table.version)
        table.add_listener(self.listen)

    def listen(self, update: TableUpdate, previous: TableVersion, current: TableVersion) -> None:
        assert content(previous) == self.rows, "the previous version still reads as it was"
        self.updates.append(update)
        self.take(update, current)
        assert content(current) == self.rows, "the update says all that changed"

    def take(self, update: TableUpdate, current: TableVersion) -> None:
        rows = {key: values for key, values in self.rows.items() if key not in update.removed}
        moved: dict[int, list[Any]] = {}
        for key, values in rows.items():
            delta = next((delta for first, last, delta in update.shifted if first <= key <= last), 0)
            moved[key + delta] = list(values)
        for key, values in read(current, update.added.keys().tolist()).items():
            assert key not in moved
            moved[key] = values
        for column, changed in enumerate(update.modified):
            keys = changed.keys().tolist()
            for key, values in read(current, keys).items():
                assert key not in update.added
                moved[key][column] = values[column]
        self.rows = moved

    def hold(self, version: TableVersion) -> None:
        self.held.append((version, content(version)))

    def check_held(self) -> None:
        for version, expected in self.held:
            assert content(version) == expected, "a held version never changes"


def read(version: TableVersion, keys: list[int]) -> dict[int, list[Any]]:
    from barrage_server.rowset import RowSet

    arrays = version.read(RowSet.from_keys(keys))
    return {key: list(values) for key, values in zip(keys, rows_of(arrays), strict=True)}


def content(version: TableVersion) -> dict[int, list[Any]]:
    return read(version, version.row_set.keys().tolist())


def rows_of(arrays: list[pa.Array]) -> list[tuple[Any, ...]]:
    return list(zip(*(array.to_pylist() for array in arrays), strict=True))
