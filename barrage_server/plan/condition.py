"""Conditions on the rows of a table, as trees.

Clients that build conditions send these; users mostly write text. Strings are compared by code points; with
``ignores_case`` without regard to case. A comparison never gives null: null equals null and is lower than any value.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

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
    """A decimal number, exactly: a sign, digits, and maybe a point with digits after it."""

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
    """Whether ``left`` and ``right`` compare so. At least one of them is a column."""

    comparison: Comparison
    left: Operand
    right: Operand
    ignores_case: bool = False


@dataclass(frozen=True, slots=True)
class OneOf:
    """Whether ``target`` is one of ``candidates``; with ``inverted``, whether it is none of them."""

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
    """Whether the whole of a string matches a regular expression (RE2); null does not, inverted or not."""

    column: Column
    pattern: str
    ignores_case: bool = False
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class Contains:
    """Whether a string contains ``text``; null does not, inverted or not."""

    column: Column
    text: str
    ignores_case: bool = False
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """Whether one of ``columns`` (empty: any column) contains ``text``, without regard to case, or is that number."""

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


Condition: TypeAlias = Compare | OneOf | IsNull | IsNan | Matches | Contains | Search | Not | All | AnyOf
