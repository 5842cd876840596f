"""Conditions made by hand of what they do not take: an error of this project, at once."""

from __future__ import annotations

from typing import Any

import pytest

import barrage_server as bs
from barrage_server.plan.condition import (
    All,
    AnyOf,
    Column,
    Compare,
    Comparison,
    Contains,
    IsNull,
    Matches,
    OneOf,
    Search,
)


def shared(levels: int) -> Any:
    """A tree whose parts are shared: written out, it has ``2**levels`` of them."""
    found: Any = IsNull(Column("s"))
    for _ in range(levels):
        found = All((found, found))
    return found


TREE = shared(60)
FIVE: Any = 5
ITERATOR: Any = iter([IsNull(Column("s"))])
WRONG = [
    All(ITERATOR),
    AnyOf(ITERATOR),
    All(FIVE),
    OneOf(Column("k"), FIVE),
    OneOf(Column("k"), ITERATOR),
    Search("a", FIVE),
    Compare(Comparison.LESS, Column("k"), 10**5000),
    Compare(Comparison.LESS, Column("k"), -(10**5000)),
    IsNull(TREE),
    Compare(Comparison.LESS, Column("k"), TREE),
    OneOf(Column("k"), (TREE,)),
    Search(TREE),
    Matches(Column("s"), TREE),
    Contains(Column("s"), TREE),
    TREE,
]


@pytest.mark.parametrize("condition", WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_what_a_condition_does_not_take_is_refused(condition: Any) -> None:
    table = bs.table({"s": ["a", None], "k": [1, 2]})
    with pytest.raises(bs.BarrageError):
        table.where(condition)


@pytest.mark.parametrize("method", ["view", "update", "select", "sort", "drop_columns", "rename_columns", "ungroup"])
def test_a_tree_where_none_belongs_is_refused(method: str) -> None:
    """Without being written out."""
    table = bs.table({"s": ["a", None], "k": [1, 2]})
    for wrong in (TREE, [TREE]):
        with pytest.raises(bs.BarrageError):
            getattr(table, method)(wrong)
