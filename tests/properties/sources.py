"""Tables that change in every way that tables can, each with a model of plain Python beside it."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from barrage_server.engine import (
    AppendTable,
    KeyedTable,
    ReplacedTable,
    ReplicaTable,
    ReplicaUpdate,
    RingTable,
    Table,
    UpdateGraph,
)
from barrage_server.engine.condition import Condition
from barrage_server.engine.restricted import Restriction, restrict
from barrage_server.rowset import RowSet, RowSetShiftData

SCHEMA = pa.schema(
    [
        ("key", pa.int32()),
        ("number", pa.float64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("items", pa.list_(pa.int16())),
    ]
)
Row = tuple[Any, ...]


def make_row(chance: random.Random, key: int | None = None) -> Row:
    """A row of random cells, many of them null; few different values, so that upserts often leave cells as they are."""
    return (
        chance.randrange(12) if key is None else key,
        chance.choice([None, 0.0, 1.5, -2.25, 1e300]),
        chance.choice([None, "", "a", "ab", "ä" * 40]),
        chance.choice([None, True, False]),
        chance.choice([None, [], [1], [1, None, 3]]),
    )


def to_table(rows: list[Row]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in SCHEMA]
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def rows_of(table: pa.Table) -> list[Row]:
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


class Source:
    """A table, what can be done to it, and what it must contain then."""

    table: Table

    def __init__(self, graph: UpdateGraph) -> None:
        raise AssertionError("every source makes its table")

    def change(self, chance: random.Random) -> None:
        """Do something to the table."""
        raise AssertionError("every source says what it does")

    def check(self) -> None:
        """The table must be what the model says."""
        raise AssertionError("every source has a model")


class AppendSource(Source):
    def __init__(self, graph: UpdateGraph) -> None:
        self.table = self.rows = AppendTable(graph, "t", SCHEMA)
        self.model: list[Row] = []

    def change(self, chance: random.Random) -> None:
        rows = [make_row(chance) for _ in range(chance.choice([0, 1, 1, 2, 7]))]
        self.rows.append(to_table(rows))
        self.model += rows

    def check(self) -> None:
        assert rows_of(self.table.to_arrow()) == self.model


class RingSource(Source):
    CAPACITY = 9

    def __init__(self, graph: UpdateGraph) -> None:
        self.table = self.rows = RingTable(graph, "t", SCHEMA, self.CAPACITY)
        self.model: list[Row] = []

    def change(self, chance: random.Random) -> None:
        rows = [make_row(chance) for _ in range(chance.choice([0, 1, 2, 4, 8, 9, 20]))]
        self.rows.append(to_table(rows))
        self.model = (self.model + rows)[-self.CAPACITY :]

    def check(self) -> None:
        assert rows_of(self.table.to_arrow()) == self.model


class KeyedSource(Source):
    def __init__(self, graph: UpdateGraph) -> None:
        self.table = self.rows = KeyedTable(graph, "t", SCHEMA, ["key"])
        self.model: dict[int, Row] = {}

    def change(self, chance: random.Random) -> None:
        rows = [make_row(chance) for _ in range(chance.choice([0, 1, 2, 5]))]
        match chance.choice(["upsert", "upsert", "upsert", "delete", "replace", "several"]):
            case "upsert":
                self._upsert(rows)
            case "delete":
                self._delete(rows)
            case "replace":
                self.rows.replace(to_table(rows))
                self.model = {row[0]: row for row in rows}
            case _:  # one cycle that deletes, and makes again, what it has made
                with self.table.graph.cycle():
                    self._upsert(rows)
                    self._delete(rows[:2])
                    self._upsert([make_row(chance) for _ in range(2)])

    def _upsert(self, rows: list[Row]) -> None:
        self.rows.upsert(to_table(rows))
        self.model |= {row[0]: row for row in rows}

    def _delete(self, rows: list[Row]) -> None:
        self.rows.delete(to_table(rows).select(["key"]))
        for row in rows:
            self.model.pop(row[0], None)

    def check(self) -> None:
        found = rows_of(self.table.to_arrow())
        assert sorted(found, key=lambda row: row[0]) == [self.model[key] for key in sorted(self.model)]


class ReplacedSource(Source):
    def __init__(self, graph: UpdateGraph) -> None:
        self.table = self.rows = ReplacedTable(graph, "t", SCHEMA)
        self.model: list[Row] = []

    def change(self, chance: random.Random) -> None:
        self.model = [make_row(chance) for _ in range(chance.choice([0, 1, 3, 8]))]
        self.rows.replace(to_table(self.model))

    def check(self) -> None:
        assert rows_of(self.table.to_arrow()) == self.model


class ShiftingSource(Source):
    """A replica that is fed removes, shifts, adds and modifies all at once, as the result of a sort has them."""

    def __init__(self, graph: UpdateGraph) -> None:
        self.table = self.replica = ReplicaTable(graph, "t", SCHEMA)
        self.model: dict[int, Row] = {}

    def change(self, chance: random.Random) -> None:
        before = sorted(self.model)
        likely = chance.choice([0.0, 0.0, 0.1, 0.1, 0.3, 0.3, 1.0])
        removed = [key for key in before if chance.random() < likely]
        stayed = [key for key in before if key not in set(removed)]
        moved = self._places(chance, stayed)
        taken = set(moved)
        near = [*removed, *(key + step for key in [*moved, 0] for step in range(5))]
        added = sorted({key for key in chance.choices(near, k=chance.choice([0, 1, 3, 6, 12])) if key not in taken})
        rows = {place: self.model[key] for key, place in zip(stayed, moved, strict=True)}
        modified: dict[int, tuple[RowSet, pa.Array]] = {}
        for number in chance.sample(range(len(SCHEMA)), chance.choice([0, 1, 3])):
            changed = [key for key in moved if chance.random() < 0.4]
            values = [make_row(chance)[number] for _ in changed]
            for key, value in zip(changed, values, strict=True):
                rows[key] = (*rows[key][:number], value, *rows[key][number + 1 :])
            modified[number] = (RowSet.from_keys(changed), pa.array(values, SCHEMA.field(number).type))
        new = {key: make_row(chance) for key in added}
        update = ReplicaUpdate(
            added=RowSet.from_keys(added),
            removed=RowSet.from_keys(removed),
            shifted=RowSetShiftData.between(RowSet.from_keys(stayed), RowSet.from_keys(moved)),
            columns=to_table([new[key] for key in added]).columns,
            modified=modified,
        )
        self.replica.apply(update)
        self.model = rows | new

    @staticmethod
    def _places(chance: random.Random, stayed: list[int]) -> list[int]:
        """Where the rows that stay go: anywhere, in the same order."""
        match chance.choice(["stay", "up", "down", "down", "anywhere", "anywhere", "anywhere", "far"]):
            case "stay":
                return stayed
            case "up":
                return [key + 1 for key in stayed]
            case "down":
                return [key - stayed[0] for key in stayed]
            case "far":
                cut, jump = chance.randrange(len(stayed) + 1), 1 << chance.choice([20, 21, 40])
                return (
                    stayed if stayed and stayed[-1] > jump else [*stayed[:cut], *(key + jump for key in stayed[cut:])]
                )
            case _:
                return sorted(chance.sample(range(2 * len(stayed) + 8), len(stayed)))

    def check(self) -> None:
        assert self.table.version.row_set == RowSet.from_keys(sorted(self.model))
        assert rows_of(self.table.to_arrow()) == [self.model[key] for key in sorted(self.model)]


class PartSource(KeyedSource):
    """A part of a keyed table, whose rows change sides of its condition."""

    def __init__(self, graph: UpdateGraph) -> None:
        super().__init__(graph)
        self.table = restrict(self.rows, Restriction(frozenset([Condition("number > 0 or text == 'a'")])))

    def check(self) -> None:
        shown = [row for row in self.model.values() if (row[1] is not None and row[1] > 0) or row[2] == "a"]
        found = rows_of(self.table.to_arrow())
        assert sorted(found, key=lambda row: row[0]) == sorted(shown, key=lambda row: row[0])


SOURCES: list[type[Source]] = [
    ShiftingSource,
    KeyedSource,
    PartSource,
    ShiftingSource,
    RingSource,
    AppendSource,
    ReplacedSource,
]
