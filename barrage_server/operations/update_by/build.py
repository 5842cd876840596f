"""The tables of ``update_by``."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from barrage_server.arguments import text
from barrage_server.engine import Table
from barrage_server.errors import InvalidRequestError
from barrage_server.formula import Text, compile_formula, split_assignment
from barrage_server.operations import traits as traits_of
from barrage_server.operations.checks import (
    check_column_names,
    check_results,
    columns_by_name,
    known_columns,
    new_name,
    pair,
)
from barrage_server.operations.formula_view import Computation
from barrage_server.operations.formulas import condition_of
from barrage_server.operations.result import make
from barrage_server.operations.update_by import rolling
from barrage_server.operations.update_by.cumulative import CountSoFar, Extreme, Fill, Total
from barrage_server.operations.update_by.functions import Frame, Scan, Window
from barrage_server.operations.update_by.moving import Moving
from barrage_server.operations.update_by.operator import UpdateBy
from barrage_server.operations.update_by.values import is_number, is_time
from barrage_server.plan.function_fields import check_fields
from barrage_server.plan.update_by import CUMULATIVE, FIELDS, MOVING, ROLLING, UpdateByOperation

__all__ = ["update_by"]

_Function = Scan | Window
_NAMES: Final = (*CUMULATIVE, *MOVING, *ROLLING)
_COUNTS: Final = ("cum_count_where", "rolling_count_where")
_FURTHEST: Final = 1 << 62


def update_by(
    parents: Sequence[Table],
    operations: Sequence[UpdateByOperation],
    by: Sequence[str] = (),
    *,
    name: str | None = None,
) -> Table:
    """The columns of a table, and the results of functions along each group.

    Raises:
        InvalidRequestError: there are no operations, one is of no such function, of columns that it cannot take or with
            a window that it cannot have, or the result would have a column twice.
        UnknownColumnError: the table lacks a column.
        UnsupportedTypeError: a column of ``by`` cannot tell groups apart.

    """
    (table,) = parents
    if not operations:
        raise InvalidRequestError("An update_by needs at least one operation, such as bs.updateby.cum_sum('price').")
    keys = known_columns(table, by, "by") if by else []
    functions: list[_Function] = []
    names: list[str] = []
    known: set[str] = set()
    for operation in operations:
        found = _functions(table, operation, keys)
        names += [result for result, _ in found]
        functions += [function for _, function in found]
        known.update(result for result, _ in found)
        check_results("An update_by", "results", len(names))
        if len(known) < len(names):  # at once: thousands of operations may each have all columns
            check_column_names(names)
    check_column_names(names)
    is_append_only = not table.is_refreshing or (table.traits.append_only and table.traits.is_flat)
    operator = UpdateBy(
        table.schema,
        list(dict.fromkeys(keys)),
        functions,
        names,
        is_append_only=is_append_only,
        keeps_history=table.traits.is_blink,
    )
    kept = [column for column in table.key_columns if column not in names]
    traits = traits_of.of_columns(table.traits)
    if not all(isinstance(function, Scan) or _is_settled(function.frame) for function in functions):
        traits = replace(traits, append_only=False, add_only=False)  # rows that are there change with those that come
    if traits.ring_capacity is not None:
        traits = replace(traits, ring_capacity=None)  # and with those that leave
    key_columns = kept if len(kept) == len(table.key_columns) else ()
    return make([table], "update_by", operator, traits, key_columns=key_columns, name=name)


def _is_settled(frame: Frame) -> bool:
    """Whether no window contains rows that are added behind it.

    The times of rows do not decrease.
    """
    return frame.after <= 0 if frame.time is None else frame.after < 0


def _functions(table: Table, operation: UpdateByOperation, keys: Sequence[int]) -> list[tuple[str, _Function]]:
    """The results of an operation: names and functions."""
    function = operation.function
    if function not in _NAMES:
        close = difflib.get_close_matches(function[:100], _NAMES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else f" There are: {', '.join(_NAMES)}."
        raise InvalidRequestError(f"An update_by has no function {function[:100]!r}.{hint}")
    check_fields(operation, FIELDS)
    time = _time(table, operation)
    if function in _COUNTS:
        return _counts(table, operation, time)
    if function == "rolling_formula":
        return _formulas(table, operation, time)
    make_one = _maker(table, operation, time)
    schema = table.schema
    if operation.columns:
        pairs = [(result, source) for result, source in map(pair, operation.columns)]
        numbers = known_columns(table, [source for _, source in pairs], "columns")
        return [
            (result, _made(make_one, function, schema.field(number), number))
            for (result, _), number in zip(pairs, numbers, strict=True)
        ]
    found = []
    for number, field in enumerate(schema):
        if number in keys or number == time or field.name == operation.weight:
            continue
        try:
            found.append((field.name, make_one(number, field.type)))
        except TypeError:
            continue
    if not found:
        raise InvalidRequestError(f"{function} can be computed of no column of table '{table.name}'.")
    return found


_Maker = Callable[[int, pa.DataType], _Function]


def _made(make_one: _Maker, function: str, field: pa.Field, number: int) -> _Function:
    try:
        return make_one(number, field.type)
    except TypeError:
        raise InvalidRequestError(
            f"{function} cannot take column {field.name!r} of type {field.type}. Convert it in an update before."
        ) from None


def _time(table: Table, operation: UpdateByOperation) -> int | None:
    """The number of the column of times, if the operation has one."""
    if operation.time_column is None:
        return None
    (number,) = known_columns(table, [text(operation.time_column, "ts_col")], "ts_col")
    field = table.schema.field(number)
    if not is_time(field.type):
        raise InvalidRequestError(
            f"ts_col must be a column of instants, or of 64-bit integers that are nanoseconds, not {field.name!r} of "
            f"type {field.type}."
        )
    return number


def _frame(operation: UpdateByOperation, time: int | None) -> Frame:
    """The window of a rolling function.

    Raises:
        InvalidRequestError: the window ends before it begins.

    """
    before, after = operation.before, operation.after
    for what, value in (("before", before), ("after", after)):
        if not -_FURTHEST <= value <= _FURTHEST * 2 - 1:
            raise InvalidRequestError(f"A window must be within 64-bit integers, and {what} is {value}.")
    if before + after < 0:
        unit = "rows" if time is None else "nanoseconds"
        raise InvalidRequestError(
            f"A window must not end before it begins: it goes {before} {unit} back and {after} {unit} on."
        )
    return Frame(time, before, after)


def _maker(table: Table, operation: UpdateByOperation, time: int | None) -> _Maker:
    """The maker of the function of a column.

    It raises TypeError for a type that the function does not take.
    """
    function = operation.function
    if function in MOVING:
        decay = operation.decay
        if decay is None or not (decay > 0 and math.isfinite(decay)):
            raise InvalidRequestError(f"The decay of {function} must be a finite number above 0, not {decay}.")
        return lambda number, kind: Moving(function, number, kind, float(decay), time, operation.control)
    if function in ("cum_sum", "cum_prod"):
        return lambda number, kind: Total(function, number, kind)
    if function in ("cum_min", "cum_max"):
        return lambda number, kind: Extreme(function, number, kind)
    if function == "forward_fill":
        return Fill
    if function == "delta":
        return lambda number, kind: rolling.Delta(number, kind, operation.delta)
    frame = _frame(operation, time)
    if function in ("rolling_sum", "rolling_prod"):
        return lambda number, kind: rolling.TotalIn(function, number, kind, frame)
    if function in ("rolling_min", "rolling_max"):
        return lambda number, kind: rolling.ExtremeIn(function, number, kind, frame)
    if function in ("rolling_avg", "rolling_std"):
        return lambda number, kind: rolling.MeanIn(function, number, kind, frame)
    if function == "rolling_count":
        return lambda number, _: rolling.CountIn(number, frame)
    if function == "rolling_group":
        return lambda number, kind: rolling.ListIn(number, kind, frame)
    (weight,) = known_columns(table, [text(operation.weight, "wcol")], "wcol")
    kind_of_weight = table.schema.field(weight).type
    if not is_number(kind_of_weight):
        raise InvalidRequestError(
            f"{function} cannot weigh by column {operation.weight!r} of type {kind_of_weight}. Give wcol a column of "
            "numbers."
        )
    return lambda number, kind: rolling.WeightedMeanIn(number, weight, [kind, kind_of_weight], frame)


def _counts(table: Table, operation: UpdateByOperation, time: int | None) -> list[tuple[str, _Function]]:
    """The number of rows that meet conditions."""
    if len(operation.columns) != 1:
        raise InvalidRequestError(f"{operation.function} needs one name, that of its result.")
    result = new_name(operation.columns[0], f"The name of a {operation.function}")
    if not operation.filters:
        raise InvalidRequestError(f"{operation.function} needs filters, such as 'price > 100'.")
    conditions = [condition_of(table, condition) for condition in operation.filters]
    if any(condition.positions for condition in conditions):
        raise InvalidRequestError(
            f"The filters of {operation.function} cannot name positions. Compute a column of them with 'update' before."
        )
    read = list(dict.fromkeys(column for condition in conditions for column in condition.columns))
    names = read or [table.schema.field(0).name]  # some column, for the number of rows
    known = columns_by_name(table.schema)
    inputs = [known[column] for column in names]
    if operation.function == "cum_count_where":
        return [(result, CountSoFar(names, inputs, conditions))]
    return [(result, rolling.CountWhereIn(names, inputs, conditions, _frame(operation, time)))]


def _formulas(table: Table, operation: UpdateByOperation, time: int | None) -> list[tuple[str, _Function]]:
    """The functions of a formula: one, or one for each column of its parameter."""
    written, parameter = text(operation.formula, "formula"), operation.parameter
    frame = _frame(operation, time)
    schema = table.schema
    if parameter is not None:
        if not operation.columns:
            raise InvalidRequestError("A formula with a formula_param needs cols, such as 'total = price'.")
        pairs = [pair(entry) for entry in operation.columns]
        numbers = known_columns(table, [source for _, source in pairs], "cols")
        return [
            (result, _formula(table, Text(written), {parameter: number}, frame))
            for (result, _), number in zip(pairs, numbers, strict=True)
        ]
    if operation.columns:
        raise InvalidRequestError("A formula without a formula_param names its columns: cols must be empty.")
    result, formula = split_assignment(written)
    return [(result, _formula(table, formula, columns_by_name(schema), frame))]


def _formula(table: Table, formula: Text, lists: Mapping[str, int], frame: Frame) -> Window:
    types = {name: pa.list_(table.schema.field(number).type) for name, number in lists.items()}
    made: Computation = compile_formula(formula, types, table.graph.functions)
    if made.positions or not made.is_pure:
        raise InvalidRequestError(
            f"{formula.text[:100]!r} is not one of the values of a window alone. It cannot name positions, the time or "
            f"random numbers."
        )
    inputs = {name: lists[name] for name in made.columns} or dict(list(lists.items())[:1])
    return rolling.FormulaIn(made, inputs, frame)
