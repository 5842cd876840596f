"""An operation beside the simplest computation of the same, and how it goes on in a chain of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from barrage_server.engine import Table, TableUpdate, TableVersion
from tests.operations.oracle import Row, Rows, Watch, cell, cells_of, plain_rows

COLUMNS = ["key", "number", "text", "flag", "items"]
KEY, NUMBER, TEXT, FLAG, ITEMS = range(5)


@dataclass(frozen=True)
class Sides:
    """What operations on several tables take beside their parent; all have the columns of the sources.

    Attributes:
        other: any table.
        unique: one in which no key appears twice.
        lookup: one with a row for each flag.

    """

    other: Table
    unique: Table
    lookup: Table

    @property
    def tables(self) -> tuple[Table, Table, Table]:
        return self.other, self.unique, self.lookup


@dataclass(frozen=True)
class Given:
    """The rows that a result is expected of: those of its parent, and of the tables beside it."""

    rows: Rows
    other: Rows
    unique: Rows
    lookup: Rows


class Model:
    """What a result is that depends on more than the rows there are.

    Attributes:
        IN_CELLS: whether it expects cells of the oracle, which differ in any bit.

    """

    IN_CELLS: ClassVar[bool] = False

    @property
    def expected(self) -> Rows:
        raise AssertionError("every model says what it expects")

    def follow(self, others: TableUpdate | None) -> None:
        """A cycle has passed, with this update of the other table."""


@dataclass(frozen=True)
class Link:
    """An operation of a chain.

    Attributes:
        make: makes the table from its parent and the tables beside it.
        expected: the rows of the result; for a ``model``, unused.
        model: makes what knows the rows instead, before the table is made.
        back: formulas that give the columns of the sources again; None: there are none.
        back_row: the same in plain Python.
        ends: whether the result has other columns and no way back, and ends a chain.
        keys: how many columns in front tell rows apart, whose order is left open; None: rows are in the order of
            ``expected``; 0: in any order.
        accumulates: whether rows of a blink table count for as long as the result lives.
        grows: whether it may have more rows than its parent.
        suits: whether the operation is defined for a parent.

    """

    make: Callable[[Table, Sides], Table]
    expected: Callable[[Given], Rows] = lambda given: given.rows
    model: Callable[[Watch, Sides], Model] | None = None
    back: Sequence[str] | None = None
    back_row: Callable[[Row], Row] | None = None
    ends: bool = False
    keys: int | None = None
    accumulates: bool = False
    grows: bool = False
    suits: Callable[[Table], bool] = lambda table: True


def same(found: Any, wanted: Any) -> bool:
    """Whether two cells are equal, but for what rounding in another order makes of floats."""
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, float) and isinstance(wanted, float | int):
        if math.isnan(found) or math.isnan(wanted):
            return math.isnan(found) and math.isnan(wanted)
        return math.isclose(found, wanted, rel_tol=1e-7, abs_tol=1e-7)
    return bool(found == wanted)


def told(value: Any) -> Any:
    """A value as one that tells rows apart: NaN equals itself, and zeros are equal."""
    return cell(value + 0.0) if isinstance(value, float) else cell(value)


def check_rows(found: Rows, wanted: Rows, keys: int | None) -> None:
    """The rows of a result are those that are expected; the order counts for ``keys`` None."""
    assert len(found) == len(wanted), (found, wanted)
    if keys is not None:
        width = keys or len(found[0] if found else ())

        def place(row: Row) -> str:
            return repr([told(value) for value in row[:width]])

        found, wanted = sorted(found, key=place), sorted(wanted, key=place)
        if keys:
            assert len(set(map(place, found))) == len(found), "a key is there once"
    for one, other in zip(found, wanted, strict=True):
        assert all(map(same, one, other)), (one, other)


class Arrivals:
    """The rows that a table has and gets, in the order of their arrival, for as long as it is followed."""

    def __init__(self, table: Table, *, initialize: bool = True) -> None:
        self.table = table
        self.rows = plain_rows(table) if initialize else []
        table.add_listener(self.listen)

    def listen(self, update: TableUpdate, previous: TableVersion, current: TableVersion) -> None:
        columns = [array.to_pylist() for array in current.read(update.added)]
        self.rows += list(zip(*columns, strict=True))


class Stage:
    """An operation of a chain, with its parent and what is beside it."""

    def __init__(self, link: Link, parent: Watch, sides: Sequence[Watch]) -> None:
        self.link, self.parent, self.sides = link, parent, sides
        other, unique, lookup = (watch.table for watch in sides)
        tables = Sides(other, unique, lookup)
        self.arrivals = Arrivals(parent.table) if link.accumulates and parent.table.traits.is_blink else None
        self.model = None if link.model is None else link.model(parent, tables)
        self.watch = Watch(link.make(parent.table, tables))

    @property
    def table(self) -> Table:
        return self.watch.table

    def follow(self) -> None:
        """A cycle has passed."""
        if self.model is not None:
            self.model.follow(self.sides[0].last)

    def check(self) -> None:
        """The content is what those of the inputs make it, and changes only with them."""
        for watch in (self.parent, self.watch, *self.sides):
            watch.check_problems()
        assert self.table.failure is None, self.table.failure
        if self.model is not None:
            wanted = self.model.expected
        else:
            rows = plain_rows(self.parent.table) if self.arrivals is None else self.arrivals.rows
            other, unique, lookup = (plain_rows(watch.table) for watch in self.sides)
            wanted = self.link.expected(Given(rows, other, unique, lookup))
        found = plain_rows(self.table)
        if self.model is not None and self.model.IN_CELLS:
            assert cells_of(found) == wanted
        else:
            check_rows(found, wanted, self.link.keys)
        if self.watch.last is not None:
            assert any(watch.last is not None for watch in (self.parent, *self.sides)), "its inputs have not changed"


def stages_of(link: Link, parent: Watch, sides: Sequence[Watch]) -> list[Stage]:
    """The operation, and the one that gives the columns of the sources again."""
    stages = [Stage(link, parent, sides)]
    if link.back is not None:
        back, back_row = list(link.back), link.back_row
        assert back_row is not None
        again = Link(lambda table, _: table.view(back), lambda given: [back_row(row) for row in given.rows])
        stages.append(Stage(again, stages[0].watch, sides))
    return stages
