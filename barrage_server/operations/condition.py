"""Conditions that are trees, compiled for the columns of a table.

They compare as formulas do: a comparison never gives null, null equals null and is lower than any value, and NaN is
unequal to all values and neither lower nor higher.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.arguments import shown
from barrage_server.engine.schemas import unknown_column
from barrage_server.engine.table import Table
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.fixed_limits import CONDITION_CANDIDATES
from barrage_server.formula.constant_comparisons import ConstantComparison, constant_comparison
from barrage_server.formula.kinds import DOUBLE, kind_of
from barrage_server.formula.strings import pattern_fault
from barrage_server.formula.vectors import constant
from barrage_server.operations.checks import columns_by_name
from barrage_server.operations.formula_view import Lookup
from barrage_server.operations.literals import bounds, checked_text, holds, is_text, literal_of, number_of
from barrage_server.plan.condition import (
    All,
    AnyOf,
    Column,
    Compare,
    Comparison,
    Condition,
    Contains,
    IsNan,
    IsNull,
    Matches,
    Not,
    OneOf,
    Operand,
    Search,
    check_condition,
)

__all__ = ["TreeCondition"]

Flags: TypeAlias = npt.NDArray[np.bool_]
_Values: TypeAlias = Mapping[str, pa.Array]
_Test: TypeAlias = Callable[[_Values], Flags]

_EXCHANGED: Final = {
    Comparison.LESS: Comparison.GREATER,
    Comparison.LESS_OR_EQUAL: Comparison.GREATER_OR_EQUAL,
    Comparison.GREATER: Comparison.LESS,
    Comparison.GREATER_OR_EQUAL: Comparison.LESS_OR_EQUAL,
}


class TreeCondition:
    """A tree as a computation of booleans without nulls.

    Args:
        condition: the tree.
        table: the table whose rows it is for.

    Attributes:
        comparison: the comparison of a column with a constant that it is, if it is one that can be shared.

    Raises:
        InvalidRequestError: values do not go together, or a regular expression does not compile.
        UnknownColumnError: it names a column that the table lacks.
        LimitError: it is too large.

    """

    type: Final = pa.bool_()
    column: Final = None
    positions: Final = False
    arrays: Final[tuple[str, ...]] = ()
    is_pure: Final = True
    calls_users: Final = False

    def __init__(self, condition: Condition, table: Table) -> None:
        check_condition(condition)
        compiler = _Compiler(table)
        self._test = compiler.test(condition)
        self._columns = tuple(compiler.used)
        self.comparison = _comparison_of(condition, table.schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the condition reads."""
        return self._columns

    def evaluate(
        self,
        inputs: _Values,
        rows: int,
        positions: npt.NDArray[Any] | None = None,  # noqa: ARG002  (as formulas have it)
        lookup: Lookup | None = None,  # noqa: ARG002
    ) -> pa.Array:
        """Whether the condition holds, per row."""
        return pa.array(self.flags(inputs, rows))

    def flags(
        self,
        inputs: _Values,
        rows: int,
        positions: npt.NDArray[Any] | None = None,  # noqa: ARG002
        lookup: Lookup | None = None,  # noqa: ARG002
    ) -> Flags:
        """Whether the condition holds, per row."""
        return np.broadcast_to(self._test(inputs), (rows,))


class _Compiler:
    """Compiles trees to functions.

    Attributes:
        used: the columns that were named, in order.

    """

    def __init__(self, table: Table) -> None:
        self.used: dict[str, None] = {}
        self._table = table
        self._numbers = columns_by_name(table.schema)

    def test(self, condition: Condition) -> _Test:
        match condition:
            case All(conditions):
                return _all([self.test(part) for part in conditions])
            case AnyOf(conditions):
                return _any([self.test(part) for part in conditions])
            case Not(part):
                inner = self.test(part)
                return lambda values: ~inner(values)
            case Compare(comparison, left, right, ignores_case):
                return self._compare(comparison, left, right, ignores_case)
            case OneOf():
                return self._one_of(condition)
            case IsNull(Column(name)):
                self._type(name)
                return lambda values: _flags(pc.is_null(values[name]))
            case IsNan(Column(name)):
                if not pat.is_floating(self._type(name)):
                    raise InvalidRequestError(f"Column {name!r} has the type {self._type(name)}, which has no NaN.")
                return lambda values: _flags(pc.is_nan(values[name]))
            case Matches(Column(name), pattern, ignores_case, inverted):
                self._text(name)
                _check_pattern(pattern)
                return _matching(name, rf"\A(?:{pattern})\z", "match_substring_regex", ignores_case, inverted)
            case Contains(Column(name), text, ignores_case, inverted):
                self._text(name)
                return _matching(name, checked_text(text), "match_substring", ignores_case, inverted)
            case Search(text, columns):
                return self._search(checked_text(text), columns)
        raise _no_condition(condition)

    def _type(self, name: str) -> pa.DataType:
        if name not in self._numbers:
            raise unknown_column(name, self._numbers, self._table.name)
        self.used[name] = None
        return self._table.schema.field(self._numbers[name]).type

    def _text(self, name: str) -> None:
        if not is_text(self._type(name)):
            raise InvalidRequestError(f"Column {name!r} has the type {self._type(name)}, and not strings.")

    def _compare(self, comparison: Comparison, left: Operand, right: Operand, ignores_case: bool) -> _Test:
        if not isinstance(comparison, Comparison):
            raise InvalidRequestError(f"A comparison is one of {', '.join(Comparison)}, not {shown(comparison)}.")
        if isinstance(left, Column) and isinstance(right, Column):
            return self._columns(comparison, left.name, right.name, ignores_case)
        if isinstance(left, Column):
            return self._value(comparison, left.name, right, ignores_case)
        if isinstance(right, Column):
            return self._value(_EXCHANGED.get(comparison, comparison), right.name, left, ignores_case)
        raise InvalidRequestError("A comparison needs a column on one side.")

    def _columns(self, comparison: Comparison, left: str, right: str, ignores_case: bool) -> _Test:
        common = _common(left, self._type(left), right, self._type(right))

        def test(values: _Values) -> Flags:
            first, second = (_folded(_as(values[name], common), ignores_case) for name in (left, right))
            return _compared(comparison, first, second)

        return test

    def _value(self, comparison: Comparison, name: str, value: Any, ignores_case: bool) -> _Test:
        data_type = self._type(name)
        if _is_beyond(data_type, value):
            return _beyond(comparison, name, is_large=value > 0)
        common, literal = literal_of(name, data_type, value)
        if isinstance(literal, Fraction):
            return _beside(comparison, name, common, literal)
        if isinstance(literal, str) and ignores_case:
            literal = pc.utf8_lower(pa.scalar(literal, common)).as_py()
        scalar = pa.scalar(literal, common)

        def test(values: _Values) -> Flags:
            return _compared(comparison, _folded(_as(values[name], common), ignores_case), scalar)

        return test

    def _one_of(self, condition: OneOf) -> _Test:
        if len(condition.candidates) > CONDITION_CANDIDATES.most:
            raise LimitError(
                f"A condition has at most {CONDITION_CANDIDATES.most:,} candidates ({CONDITION_CANDIDATES.name}), not "
                f"{len(condition.candidates):,}."
            )
        target, tests = condition.target, []
        literals = [one for one in condition.candidates if not isinstance(one, Column)]
        if isinstance(target, Column):
            columns = [one for one in condition.candidates if isinstance(one, Column)]
            tests = [self._compare(Comparison.EQUAL, target, one, condition.ignores_case) for one in columns]
            if literals:
                tests.append(self._among(target.name, literals, condition.ignores_case))
        else:
            for one in condition.candidates:
                tests.append(self._compare(Comparison.EQUAL, one, target, condition.ignores_case))
        found = _any(tests)
        return (lambda values: ~found(values)) if condition.inverted else found

    def _among(self, name: str, literals: list[Any], ignores_case: bool) -> _Test:
        data_type = self._type(name)
        found: list[Any] = []
        kinds: list[pa.DataType] = []
        for value in literals:
            if _is_beyond(data_type, value):
                continue
            kind, literal = literal_of(name, data_type, value)
            if isinstance(literal, Fraction):
                literal = literal.numerator if holds(kind, literal) else None
            elif isinstance(literal, Decimal):  # no value of the column has more digits after the point
                literal = literal if kind.scale == max(data_type.scale, 0) else None
            elif isinstance(literal, float):  # no integer is infinite
                literal = None if math.isnan(literal) or pat.is_integer(data_type) else literal
            if literal is not None:
                kinds.append(kind)
                found += [0.0, -0.0] if isinstance(literal, float) and literal == 0 else [literal]
        if not found:
            return _any([])
        common = kinds[0]
        wanted = _folded(pa.array(found, common), ignores_case)
        return lambda values: _flags(pc.is_in(_folded(_as(values[name], common), ignores_case), value_set=wanted))

    def _search(self, text: str, columns: tuple[Column, ...]) -> _Test:
        tests: list[_Test] = []
        for name in [column.name for column in columns] or list(self._numbers):
            if name not in self._numbers:
                raise unknown_column(name, self._numbers, self._table.name)
            data_type = self._table.schema.field(self._numbers[name]).type
            if is_text(data_type):
                self._text(name)
                tests.append(_matching(name, text, "match_substring", True, False))
            elif (number := number_of(text, data_type)) is not None:
                tests.append(self._value(Comparison.EQUAL, name, number, False))
        return _any(tests)


def _comparison_of(condition: Condition, schema: pa.Schema) -> ConstantComparison | None:
    """The comparison of a column of strings, numbers or booleans with a constant.

    The condition is one that has been compiled.
    """
    match condition:
        case All((only,)):
            return _comparison_of(only, schema)
        case Compare(_, Column(), Column(), _):
            return None
        case Compare(comparison, Column(name), value, False):
            pass
        case Compare(comparison, value, Column(name), False):
            comparison = _EXCHANGED.get(comparison, comparison)
        case _:
            return None
    data_type = schema.field(name).type
    if _is_beyond(data_type, value):
        return None
    common, literal = literal_of(name, data_type, value)
    kind = constant_kind = kind_of(data_type)
    if isinstance(literal, Fraction):
        if not pat.is_integer(data_type) or not holds(common, literal):
            return None
        literal = literal.numerator
    elif isinstance(literal, float) and pat.is_floating(data_type):
        constant_kind = DOUBLE
    elif not isinstance(literal, str | bool):
        return None
    return constant_comparison(
        comparison.value, name, kind, constant(literal, constant_kind), constant_kind, is_left=True
    )


def _no_condition(given: object) -> InvalidRequestError:
    hint = " A column is written Column('name')." if isinstance(getattr(given, "column", None), str) else ""
    return InvalidRequestError(f"A condition cannot be {shown(given)}.{hint}")


def _all(tests: list[_Test]) -> _Test:
    return lambda values: reduce(np.logical_and, (test(values) for test in tests), np.ones(1, np.bool_))


def _any(tests: list[_Test]) -> _Test:
    return lambda values: reduce(np.logical_or, (test(values) for test in tests), np.zeros(1, np.bool_))


def _flags(array: pa.Array) -> Flags:
    """Booleans without nulls: null is false."""
    flags: Flags = array.fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def _matching(name: str, pattern: str, function: str, ignores_case: bool, inverted: bool) -> _Test:
    match = getattr(pc, function)

    def test(values: _Values) -> Flags:
        found = match(_as(values[name], pa.large_string()), pattern, ignore_case=ignores_case)
        return _flags(pc.invert(found) if inverted else found)

    return test


def _compared(comparison: Comparison, left: pa.Array, right: pa.Array | pa.Scalar) -> Flags:
    """Compare an array with another one or with a value; both are of one type."""
    no_left = _flags(pc.is_null(left))
    no_right = _flags(pc.is_null(right)) if isinstance(right, pa.Array) else np.zeros(1, np.bool_)
    equal = no_left & no_right
    below, above = no_left & ~_is_nan(right), no_right & ~_is_nan(left)  # null is lower than all but NaN
    match comparison:
        case Comparison.EQUAL:
            return equal | _flags(pc.equal(left, right))
        case Comparison.NOT_EQUAL:
            return ~(equal | _flags(pc.equal(left, right)))
        case Comparison.LESS:
            return (below & ~no_right) | _flags(pc.less(left, right))
        case Comparison.LESS_OR_EQUAL:
            return below | _flags(pc.less_equal(left, right))
        case Comparison.GREATER:
            return (above & ~no_left) | _flags(pc.greater(left, right))
        case Comparison.GREATER_OR_EQUAL:
            return above | _flags(pc.greater_equal(left, right))


def _is_nan(values: pa.Array | pa.Scalar) -> Flags:
    """Where values are NaN; one flag for a scalar, and for types without NaN."""
    if not pat.is_floating(values.type):
        return np.zeros(1, np.bool_)
    found = pc.is_nan(values)
    return _flags(found) if isinstance(found, pa.Array) else np.array([found.as_py() is True])


def _is_beyond(data_type: pa.DataType, value: Any) -> bool:
    """Whether ``value`` is an integer beyond doubles, compared with doubles."""
    is_double = pat.is_floating(data_type) or pat.is_decimal(data_type)
    return is_double and isinstance(value, int) and abs(value) > sys.float_info.max


def _beyond(comparison: Comparison, name: str, *, is_large: bool) -> _Test:
    """Compare doubles with a number between the largest double and infinity.

    With ``is_large`` false, the number lies above minus infinity instead.
    """
    if comparison in (Comparison.EQUAL, Comparison.NOT_EQUAL):
        is_other = comparison is Comparison.NOT_EQUAL
        return lambda values: np.full(len(values[name]), is_other)
    if comparison in (Comparison.LESS, Comparison.LESS_OR_EQUAL):
        other = Comparison.LESS_OR_EQUAL if is_large else Comparison.LESS
    else:
        other = Comparison.GREATER if is_large else Comparison.GREATER_OR_EQUAL
    bound = pa.scalar(sys.float_info.max if is_large else -sys.float_info.max)
    return lambda values: _compared(other, _as(values[name], pa.float64()), bound)


def _beside(comparison: Comparison, name: str, common: pa.DataType, literal: Fraction) -> _Test:
    """Compare integers with a number that may lie between or beyond them."""
    if holds(common, literal):
        scalar = pa.scalar(literal.numerator, common)
        return lambda values: _compared(comparison, _as(values[name], common), scalar)
    if comparison in (Comparison.EQUAL, Comparison.NOT_EQUAL):
        is_other = comparison is Comparison.NOT_EQUAL
        return lambda values: np.full(len(values[name]), is_other)
    low, high = bounds(common)
    below = comparison in (Comparison.LESS, Comparison.LESS_OR_EQUAL)
    if not low <= literal <= high:
        is_low = (literal > high) is below
        if literal < low:  # null is lower than any number
            return lambda values: _flags(pc.is_null(values[name])) if below else _flags(pc.is_valid(values[name]))
        return lambda values: np.full(len(values[name]), is_low)
    scalar = pa.scalar(math.floor(literal), common)
    other = Comparison.LESS_OR_EQUAL if below else Comparison.GREATER
    return lambda values: _compared(other, _as(values[name], common), scalar)


def _common(left: str, first: pa.DataType, right: str, second: pa.DataType) -> pa.DataType:
    """The type in which two columns are compared."""
    if is_text(first) and is_text(second):
        return pa.large_string()
    if _is_number(first) and _is_number(second):
        if pat.is_integer(first) and pat.is_integer(second):
            wide = pat.is_uint64(first) or pat.is_uint64(second)
            return first if first == second else pa.decimal128(20) if wide else pa.int64()
        return pa.float64()
    if first == second and (pat.is_boolean(first) or pat.is_temporal(first)) and not pat.is_interval(first):
        return first
    if pat.is_timestamp(first) and pat.is_timestamp(second) and (first.tz is None) == (second.tz is None):
        return pa.timestamp("ns", first.tz)
    raise InvalidRequestError(
        f"Columns {left!r} and {right!r} have the types {first} and {second}, which cannot be compared."
    )


def _as(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Cast an array for a comparison."""
    if array.type == data_type:
        return array
    return array.cast(data_type, safe=not pat.is_floating(data_type))  # the nearest float stands for an integer


def _folded(array: pa.Array, ignores_case: bool) -> pa.Array:
    return pc.utf8_lower(array) if ignores_case and is_text(array.type) else array


def _check_pattern(pattern: Any) -> None:
    """Raise InvalidRequestError if a regular expression does not compile by itself."""
    text = checked_text(pattern)
    try:
        pc.match_substring_regex(pa.array([""], pa.large_string()), text)
    except pa.ArrowInvalid as error:
        fault = pattern_fault(error)
        raise InvalidRequestError(f"The regular expression {shown(text)} is not allowed: {fault}.") from None


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type))
