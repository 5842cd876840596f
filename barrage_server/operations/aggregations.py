"""Tables of aggregations: ``agg_by``, ``agg_all_by``, ``select_distinct``."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import pyarrow as pa

from barrage_server.arguments import text
from barrage_server.engine import Table
from barrage_server.engine.partitioned import set_constituents
from barrage_server.engine.schemas import unknown_column
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.types import check_key_type
from barrage_server.errors import InvalidRequestError, UnsupportedTypeError
from barrage_server.formula import Text, compile_formula, split_assignment
from barrage_server.operations import checks
from barrage_server.operations.accumulators import FUNCTIONS, Accumulator, is_number
from barrage_server.operations.aggregate import Aggregate, AggregatedColumn
from barrage_server.operations.checks import (
    check_column_names,
    check_results,
    columns_by_name,
    new_name,
    pair,
)
from barrage_server.operations.constituents import Constituents
from barrage_server.operations.counted import CountWhere
from barrage_server.operations.distinct import DISTINCT, CountDistinct, Distinct, Unique
from barrage_server.operations.extremes import Extreme
from barrage_server.operations.formulas import condition_of
from barrage_server.operations.group_formula import GroupFormula
from barrage_server.operations.kept import KEPT, Kept
from barrage_server.operations.members import Listed
from barrage_server.operations.ordering import is_sortable
from barrage_server.operations.ranking import RANKED, ranked_of
from barrage_server.operations.result import make
from barrage_server.operations.traits import route_of
from barrage_server.plan.aggregation import FIELDS, Aggregation
from barrage_server.plan.function_fields import check_fields

__all__ = ["agg_all_by", "agg_by", "select_distinct"]


def agg_by(
    parents: Sequence[Table], aggregations: Sequence[Aggregation], by: Sequence[str], *, name: str | None = None
) -> Table:
    """Aggregate each group of rows that are equal in the columns ``by``.

    Without ``by``, all rows are one group.

    Raises:
        UnknownColumnError: the table lacks a column.
        InvalidRequestError: a function does not exist, cannot be computed of a column, or two results have one name.
        UnsupportedTypeError: a column of ``by`` cannot tell groups apart.
        LimitError: there are too many results.

    """
    (table,) = parents
    count = sum(max(1, len(aggregation.columns)) for aggregation in aggregations)
    check_results("An agg_by", "results", count)
    keys = _keys(table, by)
    columns = [column for aggregation in aggregations for column in _columns(table, aggregation, keys)]
    if not by and not columns:
        raise InvalidRequestError("Give aggregations, or columns that tell groups apart.")
    made = _grouped(table, "agg_by", columns, by, name)
    for aggregation in aggregations:
        if aggregation.function == Constituents.function:
            for column in aggregation.columns:
                set_constituents(made, column, table, tuple(keys), drop_keys=not aggregation.with_keys)
    return made


def agg_all_by(
    parents: Sequence[Table], aggregation: Aggregation, by: Sequence[str], *, name: str | None = None
) -> Table:
    """Aggregate all suitable columns by one aggregation, for each group.

    Raises what :func:`agg_by` does.
    """
    (table,) = parents
    function = aggregation.function
    if function in _OF_ROWS or aggregation.columns or (function == "formula" and not aggregation.parameter):
        raise InvalidRequestError("agg_all_by takes an aggregation without columns, such as bs.agg.avg().")
    used = {source for _, source in map(pair, by)} | {aggregation.weight}
    takes = _TAKES.get(function, is_sortable if function in RANKED else is_number)
    wanted = tuple(field.name for field in table.schema if field.name not in used and takes(field.type))
    if not wanted and function == "group":
        return _grouped(table, "agg_all_by", [], by, name)
    if not wanted:
        raise InvalidRequestError(
            f"Table '{table.name}' has no columns besides those of 'by' that {aggregation.function[:100]} can be "
            f"computed of."
        )
    columns = _columns(table, replace(aggregation, columns=wanted), _keys(table, by))
    return _grouped(table, "agg_all_by", columns, by, name)


def select_distinct(parents: Sequence[Table], columns: Sequence[str], *, name: str | None = None) -> Table:
    """A row for each combination of values in ``columns``, or in all columns.

    Raises what :func:`agg_by` does.
    """
    (table,) = parents
    return _grouped(table, "select_distinct", [], columns or table.schema.names, name)


def _any(_type: pa.DataType) -> bool:
    return True


def _can_be_key(data_type: pa.DataType) -> bool:
    try:
        check_key_type(data_type)
    except UnsupportedTypeError:
        return False
    return True


_COUNTS: Final = ("count", "count_where")
"""The functions that count rows."""
_OF_ROWS: Final = (*_COUNTS, Constituents.function)
"""The functions of whole rows."""
_TAKES: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    **dict.fromkeys(("first", "last", "sorted_first", "sorted_last", "group", "formula"), _any),
    "count_distinct": _can_be_key,
    "unique": _can_be_key,
    "distinct": is_sortable,
}
"""Tests of the column types that functions take; other functions take numbers."""
_NAMES: Final = (*_OF_ROWS, *FUNCTIONS, *RANKED, *DISTINCT, "group", "formula")
_Maker: TypeAlias = Callable[[Sequence[pa.DataType]], Accumulator]


def _grouped(
    table: Table, operation: str, columns: Sequence[AggregatedColumn], by: Sequence[str], name: str | None
) -> Table:
    keys = [pair(entry) for entry in by]
    names = [result for result, _ in keys]
    check_column_names([*names, *(column.name for column in columns)])
    known = columns_by_name(table.schema)
    numbers = [_number(table, source, known) for _, source in keys]
    operator = Aggregate(table.schema, numbers, names, columns, accumulates=table.traits.is_blink)
    traits = TableTraits(stated=route_of(table.traits))
    return make([table], operation, operator, traits, key_columns=names, name=name)


def _columns(table: Table, aggregation: Aggregation, keys: Mapping[str, int]) -> list[AggregatedColumn]:
    """The columns of results of one aggregation.

    Args:
        table: the input.
        aggregation: the aggregation.
        keys: the columns that tell groups apart, and their numbers among these.

    """
    function = aggregation.function
    if function in _NAMES:
        check_fields(aggregation, FIELDS)
    if function == "formula":
        return _formulas(table, aggregation, keys)
    if not aggregation.columns:
        raise InvalidRequestError(f"{function[:100]} needs columns, such as 'total = price'.")
    if function in _COUNTS:
        names = [new_name(name, "The name of a count") for name in aggregation.columns]
        return [_count(table, name, aggregation) for name in names]
    if function == Constituents.function:
        return [AggregatedColumn(new_name(name, "col"), Constituents(()), ()) for name in aggregation.columns]
    further = _further(table, aggregation)
    make_accumulator = _maker(table, aggregation)
    known, found = columns_by_name(table.schema), []
    for result, source in map(pair, aggregation.columns):
        wanted = [source, *further]
        numbers = tuple(_number(table, name, known) for name in wanted)
        types = [table.schema.field(number).type for number in numbers]
        try:
            found.append(AggregatedColumn(result, make_accumulator(types), numbers))
        except UnsupportedTypeError:
            check_key_type(types[0], source)  # names the column
            raise
        except TypeError:
            needs_order = function in RANKED or function in DISTINCT
            needed, takes = ("values that have an order", is_sortable) if needs_order else ("numbers", is_number)
            given = list(zip(wanted, types, strict=True))
            refused = [(name, kind) for name, kind in given if not takes(kind)] or given
            told = " and ".join(f"{name!r} of type {kind}" for name, kind in refused)
            raise InvalidRequestError(
                f"{function} takes {needed}, and not column {told}. Convert it in an update before."
            ) from None
    return found


def _count(table: Table, name: str, aggregation: Aggregation) -> AggregatedColumn:
    if aggregation.function == "count":
        return AggregatedColumn(name, None, ())
    if not aggregation.filters:
        raise InvalidRequestError("A count_where needs filters, such as 'price > 100'.")
    conditions = [condition_of(table, condition) for condition in aggregation.filters]
    if any(condition.positions for condition in conditions):
        raise InvalidRequestError(
            "The filters of count_where cannot name positions. Compute a column of them with 'update' before."
        )
    known = columns_by_name(table.schema)
    read = list(dict.fromkeys(column for condition in conditions for column in condition.columns))
    numbers = tuple(known[column] for column in read)
    types = [table.schema.field(number).type for number in numbers]
    return AggregatedColumn(name, CountWhere(read, types, conditions), numbers)


def _formulas(table: Table, aggregation: Aggregation, keys: Mapping[str, int]) -> list[AggregatedColumn]:
    """The columns of a formula: one, or one for each column of its parameter."""
    written, parameter = text(aggregation.formula, "formula"), aggregation.parameter
    known = columns_by_name(table.schema)
    _check_rows_stay(table, aggregation.function)
    if parameter is not None:
        if not aggregation.columns:
            raise InvalidRequestError("A formula with a formula_param needs cols, such as 'total = price'.")
        pairs = [(result, _number(table, source, known)) for result, source in map(pair, aggregation.columns)]
        return [_formula_of(table, pair, Text(written), parameter) for pair in pairs]
    if aggregation.columns:
        raise InvalidRequestError("A formula without a formula_param names its columns: cols must be empty.")
    result, formula = split_assignment(written)
    lists = {name: number for name, number in known.items() if name not in keys}
    return [_formula(table, result, formula, lists, keys)]


def _formula_of(table: Table, column: tuple[str, int], formula: Text, parameter: str) -> AggregatedColumn:
    """The column of a formula of one parameter.

    Args:
        table: the table.
        column: the name of the result, and the number of the column that the parameter stands for.
        formula: the formula.
        parameter: the name of the parameter.

    """
    result, number = column
    try:
        return _formula(table, result, formula, {parameter: number}, {})
    except InvalidRequestError as error:
        raise type(error)(f"For column '{table.schema.names[number]}': {error}") from None


def _formula(
    table: Table, result: str, formula: Text, lists: Mapping[str, int], keys: Mapping[str, int]
) -> AggregatedColumn:
    """The column of a formula over lists.

    Columns that tell groups apart are single values in the formula.
    """
    schema = table.schema
    types = {name: pa.list_(schema.field(number).type) for name, number in lists.items()}
    types |= {name: schema.field(name).type for name in keys}
    made = compile_formula(formula, types, table.graph.functions)
    if made.positions or not made.is_pure:
        raise InvalidRequestError(
            f"{formula.text[:100]!r} is not one of the values of a group alone. It cannot name positions, the time or "
            f"random numbers."
        )
    inputs = {name: lists[name] for name in made.columns if name in lists}
    single = {name: keys[name] for name in made.columns if name in keys}
    return AggregatedColumn(result, GroupFormula(made, inputs, single), tuple(inputs.values()))


def _further(table: Table, aggregation: Aggregation) -> Sequence[str]:
    """The columns that an aggregation reads beside its own: weights, or order."""
    function = aggregation.function
    if function not in _NAMES:
        close = difflib.get_close_matches(function[:100], _NAMES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else f" There are: {', '.join(_NAMES)}."
        raise InvalidRequestError(f"There is no aggregation {function[:100]!r}.{hint}")
    if function in RANKED or function == "group":
        if function not in KEPT:
            _check_rows_stay(table, function)
        if function.startswith("sorted_") and not aggregation.order_by:
            raise InvalidRequestError(f"{function} needs columns that rows are ordered by.")
        return aggregation.order_by
    if function not in FUNCTIONS or FUNCTIONS[function][1] == 1:
        return ()
    if not aggregation.weight:
        raise InvalidRequestError(f"{function} needs a column with weights.")
    return (aggregation.weight,)


def _check_rows_stay(table: Table, function: str) -> None:
    if table.traits.is_blink:
        raise InvalidRequestError(
            f"{function} needs the rows of its groups, which a blink table does not keep. Publish them to an append "
            f"table, or to a ring."
        )


def _maker(table: Table, aggregation: Aggregation) -> _Maker:
    function, with_nulls = aggregation.function, aggregation.with_nulls
    match function:
        case "group":
            return Listed
        case "count_distinct":
            return lambda types: CountDistinct(types, with_nulls=with_nulls)
        case "unique":
            return lambda types: Unique(types, with_nulls=with_nulls, sentinel=aggregation.sentinel)
        case "distinct":
            return lambda types: Distinct(types, with_nulls=with_nulls)
    if function in FUNCTIONS:
        return FUNCTIONS[function][0]
    if function in KEPT and (table.traits.is_blink or table.traits.append_only or not table.is_refreshing):
        return lambda types: _kept(function, types)
    ranked = ranked_of(function, aggregation.with_mean)
    return lambda types: ranked(types, checks.part(aggregation.share, "percentile"))


def _kept(function: str, types: Sequence[pa.DataType]) -> Accumulator:
    """The accumulator that keeps one row of each group, as rows never leave."""
    if KEPT[function]["by_value"] and Extreme.takes(types[0]):
        return Extreme(types, is_largest=KEPT[function]["from_end"])
    return Kept(types, **KEPT[function])


def _number(table: Table, name: str, known: Mapping[str, int]) -> int:
    if name not in known:
        raise unknown_column(name, known.keys(), table.name)
    return known[name]


def _keys(table: Table, by: Sequence[str]) -> dict[str, int]:
    """The columns that tell groups apart, and their numbers among these."""
    known, keys = columns_by_name(table.schema), {}
    for number, (_, source) in enumerate(map(pair, by)):
        _number(table, source, known)  # before formulas read the types of these columns
        keys[source] = number
    return keys
