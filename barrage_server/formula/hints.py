"""Hints at the end of error texts, for words of Python, pandas and SQL."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from barrage_server.formula.lexer import Token, TokenKind

__all__ = ["attribute_hint", "function_hint", "method_hint", "name_hint", "pair_hint", "token_hint", "type_hint"]

_MEMBERS: Final = "The values after 'in' have no brackets: sym in `A`, `B`."
_ONE_BY_ONE: Final = "Give several formulas as a list of strings."

_WORDS: Final = {
    "and": "Write '&&' for 'and'.",
    "or": "Write '||' for 'or'.",
    "not": "Write '!' for 'not', and 'x not in a, b'.",
    "is": "Compare with '==' and '!=', also with null: x == null.",
    "if": "A choice is written 'condition ? a : b'.",
    "between": "Write 'inRange(x, a, b)'.",
    "like": "Write 'x.contains(`...`)' or 'x.matches(`...`)'.",
    "lambda": "Formulas define no functions; register one.",
    ",": _ONE_BY_ONE,
}
_PAIRS: Final = {
    "**": "A power is 'pow(a, b)'.",
    "//": "A quotient that is rounded down is 'floorDiv(a, b)'.",
    "<>": "Write '!='.",
    "=>": "Write '>='.",
    "=<": "Write '<='.",
    "===": "Write '=='.",
}
_NAMES: Final = {
    "None": "Null is written 'null'.",
    "NULL": "Null is written 'null'.",
    "True": "Write 'true'.",
    "False": "Write 'false'.",
    "nan": "Write 'NAN_DOUBLE', or 'isNaN(x)' in a condition.",
    "NaN": "Write 'NAN_DOUBLE', or 'isNaN(x)' in a condition.",
    "np": "Functions are called without a module, such as 'log(x)'.",
    "pd": "Functions are called without a module, such as 'log(x)'.",
    "math": "Functions are called without a module, such as 'log(x)'.",
    "lambda": _WORDS["lambda"],
}
_FUNCTIONS: Final = {
    "str": "Write 'String.valueOf(x)'.",
    "int": "Write '(int)x', or 'parseInt(x)' of a string.",
    "float": "Write '(double)x', or 'parseDouble(x)' of a string.",
    "len": "The length of a string is 'x.length()'.",
    "mean": "The mean of a list is 'avg(list)', that of groups of rows 'agg_by'.",
    "isna": "Write 'isNull(x)'.",
    "notnull": "Write '!isNull(x)'.",
    "notna": "Write '!isNull(x)'.",
    "fillna": "Write 'replaceIfNull(x, y)'.",
    "coalesce": "Write 'replaceIfNull(x, y)'.",
    "cumsum": "Formulas compute one row at a time.",
    "day": "Write 'dayOfMonth(x, 'UTC')'.",
    "month": "Write 'monthOfYear(x, 'UTC')'.",
    "hour": "Write 'hourOfDay(x, 'UTC')'.",
    "minute": "Write 'minuteOfHour(x, 'UTC')'.",
}
_METHODS: Final = {
    "lower": "Write 'toLowerCase()'.",
    "upper": "Write 'toUpperCase()'.",
    "isnull": "Write 'isNull(x)'.",
    "isna": "Write 'isNull(x)'.",
    "notnull": "Write '!isNull(x)'.",
    "notna": "Write '!isNull(x)'.",
    "fillna": "Write 'replaceIfNull(x, y)'.",
    "isin": "Write 'x in a, b'.",
    "between": "Write 'inRange(x, a, b)'.",
    "mean": "The mean of a list is 'avg(list)', that of groups of rows 'agg_by'.",
    "cumsum": "Formulas compute one row at a time: 'update_by' has sums so far.",
    "rolling": "Formulas compute one row at a time: 'update_by' has windows.",
    "ewm": "Formulas compute one row at a time: 'update_by' has moving averages.",
    "ffill": "Formulas compute one row at a time: 'update_by' has forward_fill.",
    "shift": "The value of the row before is 'x_[ii - 1]'.",
    "diff": "The difference to the row before is 'x - x_[ii - 1]'.",
    "astype": "Write '(int)x', '(double)x' and so on.",
}
_TYPES: Final = {
    "bool": "boolean",
    "bool_": "boolean",
    "str": "String",
    "string": "String",
    "int8": "byte",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "bigint": "long",
    "integer": "int",
    "real": "float",
    "text": "String",
    "timestamp": "Instant",
    "datetime": "Instant",
    "DateTime": "Instant",
    "date": "LocalDate",
    "time": "LocalTime",
    "timedelta": "Duration",
}
_PARTS_OF_DATES: Final = ("year", "dayOfMonth", "dayOfWeek", "dayOfYear", "monthOfYear")


def _sentence(found: str | None) -> str:
    return f" {found}" if found else ""


def token_hint(before: Token | None, token: Token) -> str:
    """The hint for a token that does not fit behind another one, or nothing."""
    if before is not None and before.kind is TokenKind.NAME:
        if before.text == "in" and token.text in ("[", "("):
            return _sentence(_MEMBERS)
        if before.text in ("not", "lambda"):
            return _sentence(_WORDS[before.text])
        if before.text == "f" and before.end == token.at and token.kind in (TokenKind.STRING, TokenKind.QUOTED):
            return _sentence("Formulas have no f-strings: '+' joins strings and values.")
    if before is not None and before.kind is token.kind is TokenKind.OPERATOR and before.end == token.at:
        found = _PAIRS.get(before.text + token.text)
        if found:
            return _sentence(found)
    return _sentence(_WORDS.get(token.text) if token.kind in (TokenKind.NAME, TokenKind.OPERATOR) else None)


def name_hint(name: str) -> str:
    """The hint for a name that is no column."""
    return _sentence(_NAMES.get(name))


def function_hint(name: str) -> str:
    """The hint for an unknown function, or for unsuitable arguments."""
    return _sentence(_FUNCTIONS.get(name))


def method_hint(name: str, is_function: bool) -> str:
    """The hint for an unknown method.

    Args:
        name: the name.
        is_function: whether there is a function of that name.

    """
    if name in _METHODS:
        return _sentence(_METHODS[name])
    return f" '{name}' is a function: write '{name}(...)'." if is_function else ""


def attribute_hint(name: str) -> str:
    """The hint for reading an attribute."""
    if name in ("str", "dt"):
        return f" Leave '.{name}' out: strings and times have their methods themselves."
    return f" Or it is a function, such as '{name}(x)'." if name in _PARTS_OF_DATES else ""


def type_hint(name: str, known: Sequence[str]) -> str:
    """The hint for an unknown type of a cast.

    Args:
        name: the name.
        known: the types that there are.

    """
    close = [_TYPES[name]] if name in _TYPES else get_close_matches(name, known, 1)
    return f" Did you mean '{close[0]}'?" if close else f" There are {', '.join(known[:-1])} and {known[-1]}."


_EXACT: Final = frozenset({"BigDecimal", "byte", "short", "char", "int", "long"})
"""Types whose arithmetic is exact beside decimals."""


def pair_hint(operator: str, left: str, right: str) -> str:
    """The hint for two types that an operator does not take."""
    kinds = {left, right}
    if "null" in kinds:
        return " Write a null of a type, such as NULL_LONG or NULL_DOUBLE."
    if kinds <= {"String", "char"}:
        return " Strings are written in backticks."
    if "String" in kinds and kinds & {"Instant", "LocalDate", "LocalTime", "Duration"}:
        return " Times are in single quotes, such as '2024-06-15T10:00 UTC', '2024-06-15' or '10:00'."
    if kinds == {"Instant", "LocalDate"}:
        return " Write an instant, such as '2024-06-15T00:00 UTC', or take toLocalDate(x, 'UTC') of it."
    if "BigDecimal" in kinds and operator in ("+", "-", "*") and kinds <= _EXACT:
        return " The result may need more than 76 digits: take '(double)x'."
    if kinds == {"BigDecimal"}:
        return " Together they may need more than 76 digits: take '(double)x'."
    if operator in ("<", "<=", ">", ">=") and "boolean" in kinds:
        return " Several comparisons are written 'a < b && b < c'."
    return ""
