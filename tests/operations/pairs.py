"""Operations on two tables: random changes of one side or both, against a computation of plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from barrage_server.engine import Table, TableUpdate, UpdateGraph
from barrage_server.operations import build
from barrage_server.operations.aggregations import agg_by
from barrage_server.operations.sort import sort
from barrage_server.plan import aggregation as agg
from barrage_server.plan.operation import SortColumn
from tests.operations.oracle import Rows, Watch, cells_of, plain_rows
from tests.properties.sources import SOURCES

KINDS = list(dict.fromkeys(SOURCES))

FORMS: dict[str, Callable[[Table], Table]] = {
    "as it is": lambda table: table,
    "in order": lambda table: sort([table], [SortColumn("number")]),
    "positions": lambda table: build.flatten([table]),
    "some": lambda table: build.tail([table], 3),
    "still": lambda table: build.snapshot([table]),
}


@dataclass(frozen=True)
class PairCase:
    """An operation on two tables, and the simplest computation of the same.

    Attributes:
        make: makes the table of the left and the right one.
        expected: the rows of the result, from those of both; in their order, unless ``any_order``.
        left: for each column of the result, the left columns that its values may change with.
        right: the same of the right table. A right row that comes or goes may change all of them.
        any_order: whether the order of the rows is left open.

    """

    make: Callable[[Table, Table], Table]
    expected: Callable[[Rows, Rows], Rows]
    left: list[list[int]]
    right: list[list[int]]
    any_order: bool = False


def same_key(value: Any) -> Any:
    """A value as a key: NaN equals itself, and zeros are equal."""
    return repr(value + 0.0) if isinstance(value, float) else value


def key_of(row: tuple[Any, ...], columns: list[int]) -> tuple[Any, ...]:
    """The key of a row: its values in some columns."""
    return tuple(same_key(row[number]) for number in columns)


def by_key(table: Table) -> Table:
    """A row for each number and text."""
    return agg_by([table], [agg.count_("n"), agg.sum_("total = key")], ["number", "text"])


def check_pair(case: PairCase, seed: int, left_form: str | None = None, right_form: str | None = None) -> None:
    """Make the operation, and check its result after each of some changes."""
    chance = random.Random(seed)
    graph = UpdateGraph()
    sources = [chance.choice(KINDS)(graph) for _ in range(2)]
    for source in sources:
        for _ in range(chance.randrange(3)):
            source.change(chance)
    forms = [left_form or chance.choice(list(FORMS)), right_form or chance.choice(list(FORMS))]
    left, right = (FORMS[form](source.table) for form, source in zip(forms, sources, strict=True))
    inputs = [Watch(left), Watch(right)]
    with pytest.MonkeyPatch.context() as patch:
        if chance.random() < 0.4:
            attach = UpdateGraph.attach

            def attach_late(self: UpdateGraph, table: Any) -> None:
                """Beside the start there are cycles, which the table catches up with as one."""
                for source in chance.choices(sources, k=3):
                    source.change(chance)
                attach(self, table)

            patch.setattr(UpdateGraph, "attach", attach_late)
        made = case.make(left, right)
    watch = Watch(made)
    for _ in range(10):
        for each in (*inputs, watch):
            each.last = None
        with graph.cycle():
            for source in chance.choice([sources, sources[:1], sources[1:]]):
                source.change(chance)
        for each in (*inputs, watch):
            each.check_problems()
        assert made.failure is None, made.failure
        found, wanted = cells_of(plain_rows(made)), cells_of(case.expected(plain_rows(left), plain_rows(right)))
        if case.any_order:
            found, wanted = sorted(found, key=repr), sorted(wanted, key=repr)
        assert found == wanted
        if watch.last is not None:
            check_modified(case, watch.last, inputs[0].last, inputs[1].last)
    watch.check_held()


def check_modified(case: PairCase, update: TableUpdate, left: TableUpdate | None, right: TableUpdate | None) -> None:
    """Columns are modified only with what they depend on."""
    assert left is not None or right is not None, "without a change of the inputs there is none"
    for rows, mine, theirs in zip(update.modified, case.left, case.right, strict=True):
        if rows:
            by_left = left is not None and any(left.modified[number] for number in mine)
            by_right = right is not None and bool(
                theirs and (right.added or right.removed or any(right.modified[number] for number in theirs))
            )
            assert by_left or by_right
