"""Formulas composed by Python's operators: ``bs.col("price") * 2 > 1e6``.

An expression is the text of its formula, in the language of ``docs/queries.md``, with brackets where operators need
them. So it is checked, sent and computed as the text is.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, final

from barrage_server.arguments import duration_nanoseconds, shown, text
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.fixed_limits import FORMULA_CHARACTERS
from barrage_server.public import public

__all__ = ["Expression", "Value", "call", "col", "column_texts", "duration_text", "formula_text"]

Value: TypeAlias = Any
"""An expression, or a literal: None, a bool, a number, a string, a moment, a date, a time of day or a duration."""

_CHOICE, _OR, _AND, _EQUALITY, _RELATION, _SUM, _PRODUCT, _UNARY, _ATOM = range(9)
_INT, _LONG = 2**31 - 1, 2**63 - 1
_SECOND: Final = 1_000_000_000
_MEMBERS: Final = frozenset({"in", "not", "icase"})
_ELSEWHERE: Final = {
    "alias": "named",
    "astype": "cast",
    "in_": "is_in",
    "isin": "is_in",
    "isna": "is_null",
    "isnan": "is_nan",
    "isnull": "is_null",
    "otherwise": "choose",
    "shift": "at",
}
"""Methods by their names in other libraries."""


@public
@final
class Expression:
    """A formula that Python's operators combine with others.

    :func:`col` makes the first expressions. A text can be an expression, too.

    ``+ - * / %``, ``**``, ``//`` and comparisons are those of the formula language; ``&``, ``|`` and ``~`` are its
    ``&&``, ``||`` and ``!``, and need brackets around comparisons, as in pandas. An expression has no truth value.

    >>> trades.where((bs.col("price") > 100) & bs.col("sym").is_in(["A", "B"]))
    >>> trades.update((bs.col("price") * bs.col("size")).named("notional"))

    Args:
        text: a formula.

    Attributes:
        text: the formula.

    """

    __slots__ = ("_strength", "text")
    __array_ufunc__ = None  # a number of numpy leaves operators to this class
    __hash__ = None  # type: ignore[assignment]  # two of them are not equal or different: == makes a third one

    def __init__(self, text: str) -> None:
        self.text = formula_text(text, "text")
        self._strength = _CHOICE

    def __repr__(self) -> str:
        return f"<formula {self.text}>"

    def __bool__(self) -> bool:
        raise InvalidRequestError(
            f"The formula {shown(self.text)} is not true or false by itself. Combine conditions with &, | and ~, in "
            "brackets: (a > 1) & (b < 2)."
        )

    def __iter__(self) -> Any:
        raise InvalidRequestError(f"The formula {shown(self.text)} cannot be iterated over: it is one formula.")

    def __add__(self, other: Value) -> Expression:
        return _binary(self, "+", other, _SUM)

    def __radd__(self, other: Value) -> Expression:
        return _binary(other, "+", self, _SUM)

    def __sub__(self, other: Value) -> Expression:
        return _binary(self, "-", other, _SUM)

    def __rsub__(self, other: Value) -> Expression:
        return _binary(other, "-", self, _SUM)

    def __mul__(self, other: Value) -> Expression:
        return _binary(self, "*", other, _PRODUCT)

    def __rmul__(self, other: Value) -> Expression:
        return _binary(other, "*", self, _PRODUCT)

    def __truediv__(self, other: Value) -> Expression:
        return _binary(self, "/", other, _PRODUCT)

    def __rtruediv__(self, other: Value) -> Expression:
        return _binary(other, "/", self, _PRODUCT)

    def __mod__(self, other: Value) -> Expression:
        return _binary(self, "%", other, _PRODUCT)

    def __rmod__(self, other: Value) -> Expression:
        return _binary(other, "%", self, _PRODUCT)

    def __floordiv__(self, other: Value) -> Expression:
        return call("floorDiv", self, other)

    def __rfloordiv__(self, other: Value) -> Expression:
        return call("floorDiv", other, self)

    def __pow__(self, other: Value) -> Expression:
        return call("pow", self, other)

    def __rpow__(self, other: Value) -> Expression:
        return call("pow", other, self)

    def __neg__(self) -> Expression:
        return _made(f"-{_within(self, _ATOM)}", _UNARY)

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return call("abs", self)

    def __lt__(self, other: Value) -> Expression:
        return _binary(self, "<", other, _RELATION)

    def __le__(self, other: Value) -> Expression:
        return _binary(self, "<=", other, _RELATION)

    def __gt__(self, other: Value) -> Expression:
        return _binary(self, ">", other, _RELATION)

    def __ge__(self, other: Value) -> Expression:
        return _binary(self, ">=", other, _RELATION)

    def __eq__(self, other: Value) -> Expression:  # type: ignore[override]
        return _binary(self, "==", other, _EQUALITY)

    def __ne__(self, other: Value) -> Expression:  # type: ignore[override]
        return _binary(self, "!=", other, _EQUALITY)

    def __and__(self, other: Value) -> Expression:
        return _binary(self, "&&", other, _AND)

    def __rand__(self, other: Value) -> Expression:
        return _binary(other, "&&", self, _AND)

    def __or__(self, other: Value) -> Expression:
        return _binary(self, "||", other, _OR)

    def __ror__(self, other: Value) -> Expression:
        return _binary(other, "||", self, _OR)

    def __invert__(self) -> Expression:
        return _made(f"!{_within(self, _ATOM)}", _UNARY)

    def is_in(self, values: Iterable[Value], *, ignore_case: bool = False) -> Expression:
        """Whether the value is one of ``values``, of which there is at least one.

        Args:
            values: the values.
            ignore_case: whether strings are compared without regard to case.

        """
        return self._member("icase in" if ignore_case else "in", values)

    def not_in(self, values: Iterable[Value], *, ignore_case: bool = False) -> Expression:
        """Whether the value is none of ``values``, at least one."""
        return self._member("icase not in" if ignore_case else "not in", values)

    def is_null(self) -> Expression:
        """Whether there is no value."""
        return call("isNull", self)

    def is_nan(self) -> Expression:
        """Whether the value is not a number."""
        return call("isNaN", self)

    def choose(self, first: Value, second: Value) -> Expression:
        """``first`` where the condition holds, otherwise ``second``."""
        return _made(f"{_within(self, _OR)} ? {_within(first, _OR)} : {_within(second, _CHOICE)}", _CHOICE)

    def cast(self, type: str) -> Expression:  # noqa: A002  (what it is)
        """The value as another type of the language, such as ``"int"`` or ``"double"``."""
        from barrage_server.formula.parser import CASTS

        if text(type, "type") not in CASTS:
            raise InvalidRequestError(f"type must be one of {', '.join(CASTS)}, not {shown(type)}.")
        return _made(f"({type}){_within(self, _ATOM)}", _UNARY)

    def at(self, position: Value) -> Expression:
        """The value of this column at a position: ``bs.col("x").at(bs.col("ii") - 1)``.

        Raises:
            InvalidRequestError: this is not a column.

        """
        if not _is_name(self.text):
            raise InvalidRequestError(f"Only a column has values at other positions, not {shown(self.text)}.")
        return _made(f"{self.text}_[{_within(position, _CHOICE)}]")

    def call(self, method: str, *arguments: Value) -> Expression:
        """The result of a method of the value: ``bs.col("sym").call("startsWith", "A")``."""
        return _made(f"{_within(self, _ATOM)}.{_name(method, 'method')}{_listed(arguments)}")

    def named(self, name: str) -> str:
        """The formula of a new column, as ``update`` and similar methods take it."""
        return f"{_name(name, 'name')} = {self.text}"

    if not TYPE_CHECKING:  # type checkers know the names

        def __getattr__(self, name: str) -> Any:
            """Tell the nearest name of a method that is not there."""
            known = [method for method in dir(type(self)) if not method.startswith("_")]
            wanted = _ELSEWHERE.get(name.lower())
            close = [wanted] if wanted else difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known)}."
            raise AttributeError(f"A formula has no method {name!r}. {hint}")

    def _member(self, words: str, values: Iterable[Value]) -> Expression:
        try:
            given = None if isinstance(values, str | bytes | Expression) else list(values)
        except TypeError:
            given = None
        if given is None:
            raise InvalidRequestError(f"values must be a list of values, not {shown(values)}.")
        listed = [_within(value, _SUM) for value in given]
        if not listed:
            raise InvalidRequestError("values must not be empty.")
        # not as strong as a comparison: what follows a comma would be another value
        return _made(f"{_within(self, _SUM)} {words} {', '.join(listed)}", _CHOICE)


def column_texts(cols: Any) -> Any:
    """Replace the expressions among ``cols`` by their texts; keep all else."""
    if isinstance(cols, Expression):
        return cols.text
    if isinstance(cols, list | tuple):
        return [entry.text if isinstance(entry, Expression) else entry for entry in cols]
    return cols


def col(name: str) -> Expression:
    """A column to compute with: ``bs.col("price") > 100``.

    ``i`` and ``ii`` are the position of a row.

    Raises:
        InvalidRequestError: formulas cannot read a column of that name.

    """
    return _made(_name(name, "name"))


def call(function: str, *arguments: Value) -> Expression:
    """Call a function, built in or registered: ``bs.call("sqrt", bs.col("x"))``.

    Raises:
        InvalidRequestError: the name is none, or an argument is no value of the language.

    """
    parts = text(function, "function").split(".")  # such as Math.sqrt
    return _made(f"{'.'.join(_name(part, 'function') for part in parts)}{_listed(arguments)}")


def _is_name(name: str) -> bool:
    from barrage_server.formula.lexer import TokenKind, tokens  # imports numpy, which importing the package must not

    try:
        first, *rest = tokens(name)
    except InvalidRequestError:
        return False
    return first.kind is TokenKind.NAME and first.text == name and len(rest) == 1


def formula_text(value: Any, what: str) -> str:
    """The text of a formula; InvalidRequestError for any other value."""
    return value.text if isinstance(value, Expression) else text(value, what)


def _made(formula: str, strength: int = _ATOM) -> Expression:
    """An expression whose outermost operator has this strength."""
    if len(formula) > FORMULA_CHARACTERS.most:
        raise LimitError(
            f"A formula has at most {FORMULA_CHARACTERS.most:,} characters ({FORMULA_CHARACTERS.name}); this one has "
            f"{len(formula):,}. Compare with many values by where_in, and put sums together from columns that update "
            "makes."
        )
    found = Expression.__new__(Expression)
    found.text, found._strength = formula, strength
    return found


def _name(name: str, what: str) -> str:
    from barrage_server.formula.parser import WORDS

    if not _is_name(text(name, what)) or name in (*WORDS, *_MEMBERS):
        raise InvalidRequestError(
            f"{what} must be one word of letters, digits, _ and $, not {shown(name)}: formulas have no other names. "
            "Columns can be renamed."
        )
    return str.__str__(name)  # of a subclass, too


def _listed(arguments: Iterable[Value]) -> str:
    return f"({', '.join(_within(each, _OR) for each in arguments)})"


def _binary(left: Value, sign: str, right: Value, strength: int) -> Expression:
    # comparisons of comparisons get brackets on both sides
    first = strength + 1 if strength in (_EQUALITY, _RELATION) else strength
    return _made(f"{_within(left, first)} {sign} {_within(right, strength + 1)}", strength)


def _within(value: Value, least: int) -> str:
    """The text of an operand, in brackets if its operator is weaker than ``least``."""
    found = value if isinstance(value, Expression) else _literal(value)
    return found.text if found._strength >= least else f"({found.text})"


def _literal(value: Value) -> Expression:
    if type(value).__module__ == "numpy":
        value = _plain(value)
    if value is None:
        return _made("null")
    if isinstance(value, bool):
        return _made("true" if value else "false")
    if isinstance(value, int):
        if value == -_LONG - 1:
            return _made("Long.MIN_VALUE")
        if not -_LONG <= value <= _LONG:
            raise InvalidRequestError(f"The number {shown(value)} is not a value of formulas: it must fit a long.")
        digits = int.__repr__(value)  # of a subclass, such as an enumeration, too
        return _made(f"{digits}L" if abs(value) > _INT else digits, _UNARY if value < 0 else _ATOM)
    if isinstance(value, float):
        if math.isnan(value):
            return _made("Double.NaN")  # no column can have this name
        if math.isinf(value):
            return _made("Double.POSITIVE_INFINITY" if value > 0 else "Double.NEGATIVE_INFINITY")
        return _made(float.__repr__(value), _UNARY if math.copysign(1.0, value) < 0 else _ATOM)
    if isinstance(value, str):
        plain = str.__str__(value)
        try:
            plain.encode()
        except UnicodeEncodeError:
            raise InvalidRequestError(
                f"{plain[:60]!a} is not a value of formulas: it has half a surrogate pair."
            ) from None
        escaped = plain.replace("\\", "\\\\").replace("`", "\\`")
        return _made(f"`{escaped}`")
    found = _time(value)
    if found is None:
        raise InvalidRequestError(f"{shown(value)} is not a value of formulas.")
    return _made(f"'{found}'")


class _Moment(NamedTuple):
    """A numpy moment, as the literal without its quotes."""

    literal: str


def _plain(value: Any) -> Value:
    """A numpy scalar as a Python value; any other value unchanged."""
    import numpy as np

    if isinstance(value, np.timedelta64):
        return value
    if not isinstance(value, np.datetime64):
        return value.item() if isinstance(value, np.generic) else value
    exact = value.astype("datetime64[ns]")
    is_beyond = np.isnat(value) or exact.astype(value.dtype) != value
    return value if is_beyond else _Moment(f"{exact}Z")


def _time(value: Value) -> str | None:
    """The unquoted literal of a moment, date, time of day or duration, or None."""
    if isinstance(value, _Moment):
        return value.literal
    if isinstance(value, datetime):
        if value != value:  # pandas.NaT
            return None
        if value.tzinfo is None:
            raise InvalidRequestError(f"{shown(value)} needs a time zone, such as datetime.UTC, to be a moment.")
        try:
            return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
        except (OverflowError, ValueError):  # before the year 1
            return None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return value.isoformat() if value.tzinfo is None else None
    return duration_text(value)


def duration_text(value: Value) -> str | None:
    """The text of a duration, such as ``PT90.5S``; None for other values."""
    nanoseconds = duration_nanoseconds(value)
    if nanoseconds is value:
        return None
    whole, rest = divmod(abs(nanoseconds), _SECOND)
    return f"PT{'-' if nanoseconds < 0 else ''}{whole}.{rest:09d}S"
