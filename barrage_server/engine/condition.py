"""Conditions on the columns of a row: ``region == 'EU' and price < 100``.

Python's parser parses the text; no part of it is executed. A condition has comparisons of columns with values and with
columns of the same type, ``in``, ``is None``, ``and``, ``or``, ``not``, and nothing else. Each value must be one that
the column can have, so that no row depends on a conversion that may fail. As in SQL, a comparison with null is null,
``not`` null is null, and a row is chosen when the condition is true.
"""

from __future__ import annotations

import ast
import decimal
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.arguments import shown, text
from barrage_server.errors import InvalidRequestError

__all__ = ["Condition"]

_MOST_CHARACTERS: Final = 10_000
_MOST_DEPTH: Final = 50
_COLUMN: Final = "column"
"""The function whose call names a column whose name is no name in Python."""

_Test = Callable[[pa.RecordBatch], pa.Array]

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    # the function, and the one with its sides exchanged
    ast.Eq: ("equal", "equal"),
    ast.NotEq: ("not_equal", "not_equal"),
    ast.Lt: ("less", "greater"),
    ast.LtE: ("less_equal", "greater_equal"),
    ast.Gt: ("greater", "less"),
    ast.GtE: ("greater_equal", "less_equal"),
}
_WHAT_THERE_IS: Final = (
    "there are comparisons (==, !=, <, <=, >, >=), in, not in, is None, is not None, and, or, not, names of columns, "
    f"{_COLUMN}('name'), numbers, strings, True, False"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the columns of a row. Conditions of one text are equal.

    Attributes:
        text: the condition.
        columns: the names of the columns that it is about, in the order in which it names them.

    Raises:
        InvalidRequestError: the text is no condition; says why.
    """

    text: str
    columns: tuple[str, ...] = field(init=False, compare=False, repr=False)
    _tree: ast.expr = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        tree = _parsed(text(self.text, "A condition"))
        columns = tuple(dict.fromkeys(_checked(tree)))
        if not columns:
            raise InvalidRequestError(f"A condition is about at least one column: {shown(self.text)}.")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "_tree", tree)

    def predicate(self, schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.Array]:
        """A function that evaluates the condition for the rows of a record batch.

        It takes batches with the :attr:`columns` of ``schema``, in any order, and returns one boolean or null per row.

        Raises:
            InvalidRequestError: the schema lacks a column, or a value is none that its column can have.
        """
        known = set(schema.names)
        missing = [name for name in self.columns if name not in known]
        if missing:
            raise InvalidRequestError(f"The condition {shown(self.text)} names {missing[0]!r}, which is no column.")
        try:
            test = _Compiler(schema).test(self._tree)
            test(_no_rows(schema))
        except InvalidRequestError as error:
            raise InvalidRequestError(f"The condition {shown(self.text)}: {error}") from None
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidRequestError(
                f"The condition {shown(self.text)} does not fit the types of the columns: {error}"
            ) from None
        return test


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _parsed(source: str) -> ast.expr:
    if len(source) > _MOST_CHARACTERS:
        raise InvalidRequestError(f"A condition may have {_MOST_CHARACTERS:,} characters, not {len(source):,}.")
    try:
        return ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        told = error.msg if isinstance(error, SyntaxError) else "it cannot be read"
        raise InvalidRequestError(
            f"{shown(source)} is no condition: {told}. It is written with ==, !=, <, <=, >, >=, in, and, or, not."
        ) from None


def _checked(node: ast.expr, depth: int = 0) -> Iterator[str]:
    """Yield the columns of a condition.

    Raises:
        InvalidRequestError: the condition has syntax that conditions do not allow.
    """
    if depth > _MOST_DEPTH:
        raise InvalidRequestError(f"A condition may be nested {_MOST_DEPTH} deep, and this one is deeper.")
    match node:
        case ast.BoolOp(values=values):
            for value in values:
                yield from _checked(value, depth + 1)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _checked(operand, depth + 1)
        case ast.Compare():
            for left, op, right in _pairs(node):
                yield from _operands(left, op, right)
        case ast.Constant(value=bool()):
            pass
        case _:
            yield _column_name(node)


def _operands(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Iterator[str]:
    if isinstance(op, ast.Is | ast.IsNot):
        if not (isinstance(right, ast.Constant) and right.value is None):
            raise InvalidRequestError("A condition has 'is' before None only; compare with ==.")
        yield _column_name(left)
    elif isinstance(op, ast.In | ast.NotIn):
        if not isinstance(right, ast.Tuple | ast.List | ast.Set) or not right.elts:
            raise InvalidRequestError("A condition has 'in' before a list of values: region in ['EU', 'US'].")
        for value in right.elts:
            _value(value)
        yield _column_name(left)
    else:
        found = []
        for side in (left, right):
            if _is_value(side):
                _value(side)
            else:
                found.append(_column_name(side))
        if not found:
            raise InvalidRequestError("A condition compares a column with a value, or with another column.")
        yield from found


def _pairs(node: ast.Compare) -> Iterator[tuple[ast.expr, ast.cmpop, ast.expr]]:
    left = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        yield left, op, right
        left = right


def _is_value(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd)
    )


def _value(node: ast.expr) -> Any:
    """The value of a literal; InvalidRequestError for any other expression."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | bytes() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if value is not True:
            return -value
        case ast.UnaryOp(op=ast.UAdd(), operand=ast.Constant(value=int() | float() as value)) if value is not True:
            return value
        case ast.Constant(value=None):
            raise InvalidRequestError("Nothing is equal to None in a condition; write 'is None'.")
    raise InvalidRequestError(f"A condition has values such as 1.5 or 'EU' there; {_WHAT_THERE_IS}.")


def _column_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id=function), args=[ast.Constant(value=str() as name)], keywords=[]) if (
            function == _COLUMN
        ):
            return name
    raise InvalidRequestError(f"A condition does not have {_kind(node)}; {_WHAT_THERE_IS}.")


def _kind(node: ast.expr) -> str:
    return {"BinOp": "arithmetic", "Call": "calls", "Attribute": "attributes", "Subscript": "subscripts"}.get(
        type(node).__name__, f"'{ast.unparse(node)[:40]}' there"
    )


def _combined(combine: Callable[[pa.Array, pa.Array], pa.Array], tests: Sequence[_Test]) -> _Test:
    """The answers of one test or more, as one."""
    return tests[0] if len(tests) == 1 else lambda batch: reduce(combine, (test(batch) for test in tests))


class _Compiler:
    """Compiles the parts of a checked condition for one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def test(self, node: ast.expr) -> _Test:
        """A function from batches to booleans."""
        match node:
            case ast.BoolOp(op=op, values=values):
                combine = pc.and_kleene if isinstance(op, ast.And) else pc.or_kleene
                return _combined(combine, [self.test(value) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.test(operand)
                return lambda batch: pc.invert(inner(batch))
            case ast.Compare():
                return _combined(pc.and_kleene, [self._comparison(*pair) for pair in _pairs(node)])
            case ast.Constant(value=bool() as value):
                return lambda batch: pa.repeat(pa.scalar(value), batch.num_rows)
        name = _column_name(node)
        if not pat.is_boolean(self._type(name)):
            raise InvalidRequestError(f"Column {name!r} has no booleans; compare it with something.")
        return lambda batch: batch[name]

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> _Test:
        if isinstance(op, ast.Is | ast.IsNot):
            check, name = (pc.is_null if isinstance(op, ast.Is) else pc.is_valid), _column_name(left)
            return lambda batch: check(batch[name])
        if isinstance(op, ast.In | ast.NotIn):
            assert isinstance(right, ast.Tuple | ast.List | ast.Set)
            return self._among(_column_name(left), [_value(value) for value in right.elts], isinstance(op, ast.NotIn))
        function, exchanged = _COMPARISONS[type(op)]
        if _is_value(left):
            left, right, function = right, left, exchanged
        compare, name = getattr(pc, function), _column_name(left)
        if _is_value(right):
            value = self._scalar(name, _value(right))
            return lambda batch: compare(batch[name], value)
        other = _column_name(right)
        if self._type(name) != self._type(other):
            raise InvalidRequestError(
                f"Columns {name!r} and {other!r} have different types, {self._type(name)} and {self._type(other)}."
            )
        return lambda batch: compare(batch[name], batch[other])

    def _among(self, name: str, values: Sequence[Any], is_negated: bool) -> _Test:
        scalars = [self._scalar(name, value) for value in values]

        def among(batch: pa.RecordBatch) -> pa.Array:
            found = reduce(pc.or_kleene, (pc.equal(batch[name], scalar) for scalar in scalars))
            return pc.invert(found) if is_negated else found

        data_type = self._type(name)
        # is_in takes 0.0 and -0.0 for different numbers, and knows no views
        if pat.is_floating(data_type) or pat.is_string_view(data_type) or pat.is_binary_view(data_type):
            return among
        wanted = pa.array(scalars, data_type)

        def is_in(batch: pa.RecordBatch) -> pa.Array:
            column = batch[name]
            found = pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=wanted), pa.scalar(None, pa.bool_()))
            return pc.invert(found) if is_negated else found

        return is_in

    def _type(self, name: str) -> pa.DataType:
        return self._schema.field(name).type

    def _scalar(self, name: str, value: Any) -> pa.Scalar:
        """``value`` in the type of the column; InvalidRequestError if it does not fit."""
        data_type = self._type(name)
        wrong = InvalidRequestError(f"Column {name!r} has the type {data_type}, and {shown(value)} is no such value.")
        try:
            if isinstance(value, bool) or pat.is_boolean(data_type):
                if isinstance(value, bool) and pat.is_boolean(data_type):
                    return pa.scalar(value, data_type)
                raise wrong
            if isinstance(value, str) and pat.is_time(data_type):
                # Arrow parses no times, but times of a day, and cuts nothing off
                instant = pa.scalar(f"1970-01-01T{value}").cast(pa.timestamp(data_type.unit))
                return pa.scalar(instant.value, pa.int64()).cast(_width(data_type)).cast(data_type)
            if isinstance(value, str) and pat.is_temporal(data_type):
                return pa.scalar(value).cast(data_type)
            if pat.is_decimal(data_type) and isinstance(value, int | float):
                return pa.scalar(decimal.Decimal(repr(value)), data_type)
            if pat.is_floating(data_type) and isinstance(value, int | float):
                made = pa.scalar(float(value), data_type)
                kept = float(made.as_py())
                # the nearest number stands for a fraction, but neither for an integer, nor infinity or 0 for a number
                if kept != value and (isinstance(value, int) or math.isinf(kept) or kept == 0):
                    raise wrong
                return made
            if isinstance(value, int | float) and not pat.is_integer(data_type):
                raise wrong
            if isinstance(value, float) and pat.is_integer(data_type) and int(value) != value:
                raise wrong  # Arrow would cut it off
            return pa.scalar(value, data_type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, decimal.DecimalException):
            raise wrong from None


def _width(data_type: pa.DataType) -> pa.DataType:
    return pa.int32() if pat.is_time32(data_type) else pa.int64()
