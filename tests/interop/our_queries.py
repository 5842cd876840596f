"""Names that the texts of random plans use, which are written for pydeephaven, for tables of our client."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

import barrage_server as bs
from barrage_server.client.remote_table import RemoteTable
from barrage_server.plan.condition import (
    All,
    AnyOf,
    Column,
    Compare,
    Comparison,
    Condition,
    Contains,
    IsNull,
    Matches,
    Not,
    OneOf,
)

__all__ = ["planned"]

_COMPARISONS: Final = {
    "eq": Comparison.EQUAL,
    "ne": Comparison.NOT_EQUAL,
    "lt": Comparison.LESS,
    "le": Comparison.LESS_OR_EQUAL,
    "gt": Comparison.GREATER,
    "ge": Comparison.GREATER_OR_EQUAL,
}
_OPPOSITES: Final = {
    Comparison.EQUAL: Comparison.NOT_EQUAL,
    Comparison.NOT_EQUAL: Comparison.EQUAL,
    Comparison.LESS: Comparison.GREATER_OR_EQUAL,
    Comparison.LESS_OR_EQUAL: Comparison.GREATER,
    Comparison.GREATER: Comparison.LESS_OR_EQUAL,
    Comparison.GREATER_OR_EQUAL: Comparison.LESS,
}

_EMPTY: Final = re.compile(r"(?<=\()(?:(?:by|on)=)?\[\](?=\))|, (?:by|on)=\[\]")
"""Lists that say nothing: our methods refuse empty ones, which are often a mistake, and take none."""


def _compared(comparison: Comparison) -> Callable[[Any, Any], Condition]:
    return lambda left, right: Compare(comparison, left, right)


def _opposite(condition: Condition) -> Condition:
    """What Deephaven's clients mean by ``not_``: the opposite of ``<`` is ``>=``, which NaN does not meet either."""
    match condition:
        case Compare(comparison, left, right):
            return Compare(_OPPOSITES[comparison], left, right)
        case All(conditions):
            return AnyOf(tuple(map(_opposite, conditions)))
        case AnyOf(conditions):
            return All(tuple(map(_opposite, conditions)))
        case Not(inner):
            return inner
    return Not(condition)


_FILTERS: Final = SimpleNamespace(
    ColumnName=Column,
    and_=lambda parts: All(tuple(parts)),
    or_=lambda parts: AnyOf(tuple(parts)),
    not_=_opposite,
    is_null=lambda name: IsNull(Column(name)),
    is_not_null=lambda name: Not(IsNull(Column(name))),
    in_=lambda name, values: OneOf(Column(name), tuple(values)),
    contains=lambda name, text: Contains(Column(name), text),
    matches=lambda name, pattern: Matches(Column(name), pattern),
    **{name: _compared(comparison) for name, comparison in _COMPARISONS.items()},
)


class _Query:
    """A chain of calls that ends with ``exec``."""

    def __init__(self, table: RemoteTable) -> None:
        self._table = table

    def exec(self) -> RemoteTable:
        """The table."""
        return self._table

    def __getattr__(self, name: str) -> Callable[..., _Query]:
        return lambda *arguments, **keywords: _Query(getattr(self._table, name)(*arguments, **keywords))


class _Session:
    """The calls of a session that texts use."""

    def merge_tables(self, tables: Sequence[RemoteTable]) -> RemoteTable:
        return bs.merge(tables)

    def query(self, table: RemoteTable) -> _Query:
        return _Query(table)


_NAMES: Final[dict[str, Any]] = {
    "session": _Session(),
    "agg": bs.agg,
    "ub": bs.updateby,
    "filters": _FILTERS,
    "NaturalJoinType": SimpleNamespace(
        ERROR_ON_DUPLICATE="error_on_duplicate", FIRST_MATCH="first_match", LAST_MATCH="last_match"
    ),
    "SortDirection": SimpleNamespace(ASCENDING="ascending", DESCENDING="descending"),
}


def planned(text: str, sources: Mapping[str, RemoteTable]) -> RemoteTable:
    """The table of a plan's text, on tables of a client by name."""
    found = eval(_EMPTY.sub("", text), {**_NAMES, **sources})
    assert isinstance(found, RemoteTable)
    return found
