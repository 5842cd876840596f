"""Conditions on the rows of a table, as trees.

Clients that build conditions send these; users mostly write text. Strings are compared by code points; with
``ignores_case`` without regard to case. A comparison never gives null: null equals null and is lower than any value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final, TypeAlias

from barrage_server.arguments import is_writable, shown
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.fixed_limits import CONDITION_DEPTH, CONDITION_PARTS

__all__ = [
    "All",
    "AnyOf",
    "BigDecimal",
    "Column",
    "Compare",
    "Comparison",
    "Condition",
    "Contains",
    "Instant",
    "IsNan",
    "IsNull",
    "Literal",
    "LocalDate",
    "Matches",
    "Not",
    "OneOf",
    "Operand",
    "Search",
    "check_condition",
]


@dataclass(frozen=True, slots=True)
class Column:
    """The value of a column."""

    name: str


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment, in nanoseconds since 1970 UTC."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class LocalDate:
    """A date, in days since 1970."""

    days: int


@dataclass(frozen=True, slots=True)
class BigDecimal:
    """An exact decimal number: a sign, digits, and an optional decimal point."""

    digits: str


Literal: TypeAlias = str | bool | int | float | Instant | LocalDate | BigDecimal
Operand: TypeAlias = Column | Literal


class Comparison(StrEnum):
    """How two values are compared."""

    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    EQUAL = "=="
    NOT_EQUAL = "!="


@dataclass(frozen=True, slots=True)
class Compare:
    """Whether two operands compare so; at least one of them is a column.

    The comparison may be given as a text, such as ``">"``.
    """

    comparison: Comparison
    left: Operand
    right: Operand
    ignores_case: bool = False

    def __post_init__(self) -> None:
        if self.comparison in tuple(Comparison):  # as a text, too
            object.__setattr__(self, "comparison", Comparison(self.comparison))


@dataclass(frozen=True, slots=True)
class OneOf:
    """Whether ``target`` is one of ``candidates``, or none of them (``inverted``)."""

    target: Operand
    candidates: tuple[Operand, ...]
    ignores_case: bool = False
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a column is null."""

    column: Column


@dataclass(frozen=True, slots=True)
class IsNan:
    """Whether a column is NaN; null is not."""

    column: Column


@dataclass(frozen=True, slots=True)
class Matches:
    """Whether a regular expression (RE2) matches the whole of a string.

    Null does not match, inverted or not.
    """

    column: Column
    pattern: str
    ignores_case: bool = False
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class Contains:
    """Whether a string contains ``text``; null never does, inverted or not."""

    column: Column
    text: str
    ignores_case: bool = False
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """Whether a column contains ``text``, regardless of case, or is that number.

    Without ``columns``, all columns are searched.
    """

    text: str
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    """Whether ``condition`` does not hold."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class All:
    """Whether all of ``conditions`` hold."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Whether one of ``conditions`` holds."""

    conditions: tuple[Condition, ...]


_CONDITIONS: Final = (Compare, OneOf, IsNull, IsNan, Matches, Contains, Search, Not, All, AnyOf)
Condition: TypeAlias = Compare | OneOf | IsNull | IsNan | Matches | Contains | Search | Not | All | AnyOf


def _check_tuple(part: Condition, given: object, what: str) -> None:
    if not isinstance(given, tuple | list):  # an iterator can be read only once
        raise InvalidRequestError(f"{type(part).__name__} takes a tuple of {what}, not {shown(given)}.")


def _check_values(part: Condition, values: Iterable[object]) -> None:
    """Check that operands have no parts, so that ``repr`` of a condition is short."""
    for value in values:
        if isinstance(value, int) and not is_writable(value):
            raise InvalidRequestError("An integer of a condition has at most 4,000 digits.")
        name = value.name if isinstance(value, Column) else ""
        if isinstance(value, (*_CONDITIONS, tuple, list, dict, set, frozenset)) or not isinstance(name, str):
            raise InvalidRequestError(f"{type(part).__name__} takes columns and single values, not {shown(value)}.")


def check_condition(condition: Condition) -> None:
    """Check the size of a tree, before anything recurses into it.

    Raises:
        LimitError: it has too many parts, or is nested too deep.
        InvalidRequestError: what has several parts has no tuple of them, or a value is none.

    """
    todo, parts = [(condition, 1)], 0
    while todo:
        part, depth = todo.pop()
        parts += 1
        if parts > CONDITION_PARTS.most:
            raise LimitError(f"A condition has at most {CONDITION_PARTS.most:,} parts ({CONDITION_PARTS.name}).")
        if depth > CONDITION_DEPTH.most:
            raise LimitError(
                f"A condition is nested at most {CONDITION_DEPTH.most} levels deep ({CONDITION_DEPTH.name})."
            )
        match part:
            case All(conditions) | AnyOf(conditions):
                _check_tuple(part, conditions, "conditions")
                todo.extend((inner, depth + 1) for inner in conditions)
            case Not(inner):
                todo.append((inner, depth + 1))
            case OneOf(target, candidates, ignores_case, inverted):
                _check_tuple(part, candidates, "candidates")
                _check_values(part, (target, *candidates, ignores_case, inverted))
            case Search(text, columns):
                _check_tuple(part, columns, "columns")
                _check_values(part, (text, *columns))
            case Compare() | IsNull() | IsNan() | Matches() | Contains():
                _check_values(part, [getattr(part, field.name) for field in fields(part)])
