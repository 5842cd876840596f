"""What every operation must satisfy, whatever it computes: its content, its updates, and the versions that are held."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from barrage_server.engine import Table, TableUpdate, TableVersion, UpdateGraph
from barrage_server.rowset import RowSet
from tests.properties import sources

Row = tuple[Any, ...]
Rows = list[Row]


def make_row(chance: random.Random, key: int | None = None) -> Row:
    """A row with nulls, NaN, infinity and both zeros; few different values."""
    return (
        chance.randrange(12) if key is None else key,
        chance.choice([None, 0.0, -0.0, 1.5, -2.25, 1e300, float("nan"), float("inf")]),
        chance.choice([None, "", "a", "ab", "AB", "ä" * 40]),
        chance.choice([None, True, False]),
        chance.choice([None, [], [1], [1, None, 3]]),
    )


def cell(value: Any) -> Any:
    """A value that equals another one if every bit does: NaN equals itself, and zeros differ."""
    if isinstance(value, list):
        return [cell(each) for each in value]
    return repr(value) if isinstance(value, float) else value


def read(version: TableVersion, rows: RowSet) -> dict[int, Row]:
    """The cells of rows, by row key."""
    arrays = version.read(rows)
    if not arrays:
        return dict.fromkeys(rows, ())
    values = zip(*([cell(value) for value in array.to_pylist()] for array in arrays), strict=True)
    return dict(zip(rows, values, strict=True))


def content(version: TableVersion) -> dict[int, Row]:
    return read(version, version.row_set)


def plain_rows(table: Table) -> Rows:
    """The rows in order, as Python values."""
    columns = [column.to_pylist() for column in table.to_arrow().columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.size


def cells_of(rows: Sequence[Row]) -> Rows:
    return [tuple(map(cell, row)) for row in rows]


class Watch:
    """Follows a table by its updates alone, and checks each of them."""

    def __init__(self, table: Table, exact: Sequence[int] = ()) -> None:
        self.table = table
        self.exact = exact
        self.rows = content(table.version)
        self.updates: list[TableUpdate] = []
        self.last: TableUpdate | None = None
        self.held: list[tuple[TableVersion, dict[int, Row]]] = []
        self.problem: BaseException | None = None
        table.add_listener(self.listen)

    def listen(self, update: TableUpdate, previous: TableVersion, current: TableVersion) -> None:
        """Errors of listeners are only logged: the first one is kept for :meth:`check_problems`."""
        try:
            self.check_update(update, previous, current)
        except BaseException as error:
            self.problem = self.problem or error

    def check_problems(self) -> None:
        """Raise what was wrong with an update."""
        if self.problem is not None:
            raise self.problem

    def check_update(self, update: TableUpdate, previous: TableVersion, current: TableVersion) -> None:
        assert content(previous) == self.rows, "the previous version reads as it was"
        assert current.step > previous.step, "a table has one update for a cycle"
        self.check(update, previous.row_set, current.row_set)
        self.updates.append(update)
        self.last = update
        self.take(update, current)
        assert content(current) == self.rows, "the update says all that has changed"
        if len(self.held) < 3:
            self.held.append((previous, content(previous)))

    @staticmethod
    def check(update: TableUpdate, before: RowSet, after: RowSet) -> None:
        """The rules of updates."""
        assert not update.is_empty
        assert before.is_superset(update.removed)
        stayed = before - update.removed
        edges = [*update.shifted.starts.tolist(), *update.shifted.ends.tolist()]
        assert all(key in stayed for key in edges), "shifts reach no further than the rows that they move"
        moved = update.shifted.apply(stayed) if update.shifted.size else stayed
        assert moved.is_disjoint(update.added)
        assert moved | update.added == after
        for rows in update.modified:
            assert moved.is_superset(rows)

    def take(self, update: TableUpdate, current: TableVersion) -> None:
        stayed = [key for key in self.rows if key not in update.removed]
        places = update.shifted.apply_keys(stayed).tolist() if stayed else []
        rows = {place: list(self.rows[key]) for key, place in zip(stayed, places, strict=True)}
        rows |= {key: list(values) for key, values in read(current, update.added).items()}
        for column, changed in enumerate(update.modified):
            for key, values in read(current, changed).items():
                assert column not in self.exact or rows[key][column] != values[column], "equal cells are not modified"
                rows[key][column] = values[column]
        self.rows = {key: tuple(rows[key]) for key in sorted(rows)}

    def check_held(self) -> None:
        self.check_problems()
        for version, expected in self.held:
            assert content(version) == expected, "a held version never changes"


@dataclass(frozen=True)
class Case:
    """An operation, and the simplest computation of the same.

    Attributes:
        make: makes the table from its parent.
        expected: the rows of the result, from those of the parent.
        depends: for each column of the result, the columns of the parent that its values may change with; ``None``: the
            column of the same number.
        exact: the columns of the result of which only cells are modified that differ.

    """

    make: Callable[[Table], Table]
    expected: Callable[[Rows], Rows]
    depends: Sequence[Sequence[int]] | None = None
    exact: Sequence[int] = ()


class Stage:
    """An operation of a chain, with its parent."""

    def __init__(self, case: Case, parent: Watch) -> None:
        self.case = case
        self.parent = parent
        self.watch = Watch(case.make(parent.table), case.exact)

    @property
    def table(self) -> Table:
        return self.watch.table

    def check(self) -> None:
        """The content is what the parent's makes it; modified columns depend on what the parent has modified."""
        self.parent.check_problems()
        self.watch.check_problems()
        wanted = self.case.expected(plain_rows(self.parent.table))
        assert cells_of(plain_rows(self.table)) == cells_of(wanted)
        update, source = self.watch.last, self.parent.last
        if update is None:
            return
        assert source is not None, "without a change of the parent there is none"
        depends = self.case.depends
        for column, rows in enumerate(update.modified):
            if rows:
                needed = [column] if depends is None else depends[column]
                assert any(source.modified[number] for number in needed)


def check_stages(kind: type[sources.Source], seed: int, cases: Callable[[random.Random], list[Case]]) -> None:
    """Make the operations of a chain at different times, and check all of them after each change of the source."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    top = Watch(source.table)
    stages: list[Stage] = []
    wanted = cases(chance)
    for number in range(8 + len(wanted)):
        if wanted and (number > 2 or chance.random() < 0.5):
            parent = stages[-1].watch if stages else top
            stages.append(Stage(wanted.pop(0), parent))
        for stage in stages:
            stage.check()
        for watch in (top, *(stage.watch for stage in stages)):
            watch.last = None
        source.change(chance)
        for stage in stages:
            stage.check()
    for stage in stages:
        stage.watch.check_held()
