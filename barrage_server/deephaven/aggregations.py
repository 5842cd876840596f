"""Aggregations as messages of Deephaven, and back (``AggSpec``, ``Aggregation``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from barrage_proto import table_pb2 as proto

from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.plan import agg
from barrage_server.plan.aggregation import Aggregation

__all__ = ["aggregation_message", "aggregation_of", "combined_of", "filter_texts", "spec_message", "specified"]

_PLAIN: Final = {
    "abs_sum": agg.abs_sum,
    "avg": agg.avg,
    "first": agg.first,
    "group": agg.group,
    "last": agg.last,
    "max": agg.max_,
    "min": agg.min_,
    "std": agg.std,
    "sum": agg.sum_,
    "var": agg.var,
}
_SURROGATES: Final = range(0xD800, 0xE000)
_TYPES: Final = proto.ComboAggregateRequest
_COMBINED: Final = {
    _TYPES.SUM: agg.sum_,
    _TYPES.ABS_SUM: agg.abs_sum,
    _TYPES.AVG: agg.avg,
    _TYPES.FIRST: agg.first,
    _TYPES.GROUP: agg.group,
    _TYPES.LAST: agg.last,
    _TYPES.MIN: agg.min_,
    _TYPES.MAX: agg.max_,
    _TYPES.MEDIAN: agg.median,
    _TYPES.STD: agg.std,
    _TYPES.VAR: agg.var,
}


def aggregation_of(message: proto.Aggregation) -> Aggregation:
    """Read one aggregation with its columns.

    Raises:
        InvalidRequestError: a part of the message is missing.
        UnsupportedOperationError: there is no such aggregation here.
    """
    match message.WhichOneof("type"):
        case "columns":
            return replace(specified(message.columns.spec), columns=tuple(message.columns.match_pairs))
        case "count":
            return agg.count_(message.count.column_name)
        case "count_where":
            return agg.count_where(message.count_where.column_name, tuple(message.count_where.filters))
        case "partition":
            partition = message.partition
            return agg.partition(partition.column_name, partition.include_group_by_columns)
        case "formula":
            return agg.formula(message.formula.selectable.raw)
        case None:
            raise InvalidRequestError("An aggregation of the request is empty.")
        case other:
            raise _unsupported(other)


def specified(spec: proto.AggSpec) -> Aggregation:
    """Read an aggregation without columns, with errors as :func:`aggregation_of`."""
    kind = spec.WhichOneof("type")
    if kind is None:
        raise InvalidRequestError("The specification of an aggregation is empty.")
    if kind in _PLAIN:
        return _PLAIN[kind]()
    match kind:
        case "median":
            return agg.median(average_evenly_divided=spec.median.average_evenly_divided)
        case "percentile":
            return agg.pct(spec.percentile.percentile, average_evenly_divided=spec.percentile.average_evenly_divided)
        case "sorted_first":
            return agg.sorted_first(_columns(spec.sorted_first))
        case "sorted_last":
            return agg.sorted_last(_columns(spec.sorted_last))
        case "count_distinct":
            return agg.count_distinct(count_nulls=spec.count_distinct.count_nulls)
        case "distinct":
            return agg.distinct(include_nulls=spec.distinct.include_nulls)
        case "unique":
            return agg.unique(
                include_nulls=spec.unique.include_nulls,
                non_unique_sentinel=_sentinel(spec.unique.non_unique_sentinel),
            )
        case "formula":
            return agg.formula(spec.formula.formula, spec.formula.param_token)
        case "weighted_avg":
            return agg.weighted_avg(spec.weighted_avg.weight_column)
        case "weighted_sum":
            return agg.weighted_sum(spec.weighted_sum.weight_column)
    raise _unsupported(kind)


def combined_of(message: proto.ComboAggregateRequest.Aggregate) -> Aggregation:
    """Read an aggregation of the older call, with errors as :func:`aggregation_of`."""
    columns = tuple(message.match_pairs)
    if message.type in _COMBINED:
        return replace(_COMBINED[message.type](), columns=columns)
    if message.type == _TYPES.COUNT:
        return agg.count_(message.column_name)
    if message.type == _TYPES.WEIGHTED_AVG:
        return replace(agg.weighted_avg(message.column_name), columns=columns)
    if message.type == _TYPES.PERCENTILE:
        return agg.pct(message.percentile, columns, average_evenly_divided=message.avg_median)
    raise _unsupported(str(message.type))


def aggregation_message(aggregation: Aggregation) -> proto.Aggregation:
    """Write the message of one aggregation with its columns.

    Raises:
        InvalidRequestError: a part of the aggregation is missing.
        UnsupportedOperationError: a Deephaven server has no message for it.
    """
    match aggregation.function:
        case "count":
            return proto.Aggregation(count=proto.Aggregation.AggregationCount(column_name=_result(aggregation)))
        case "count_where":
            counted = proto.Aggregation.AggregationCountWhere(
                column_name=_result(aggregation), filters=filter_texts(aggregation.filters, "count_where")
            )
            return proto.Aggregation(count_where=counted)
        case "partition":
            partition = proto.Aggregation.AggregationPartition(
                column_name=_result(aggregation), include_group_by_columns=aggregation.with_keys
            )
            return proto.Aggregation(partition=partition)
        case "formula" if aggregation.parameter is None:
            formula = proto.Aggregation.AggregationFormula(selectable=proto.Selectable(raw=aggregation.formula or ""))
            return proto.Aggregation(formula=formula)
    spec = spec_message(aggregation)
    columns = proto.Aggregation.AggregationColumns(spec=spec, match_pairs=aggregation.columns)
    return proto.Aggregation(columns=columns)


def spec_message(aggregation: Aggregation) -> proto.AggSpec:
    """Write the message of an aggregation without its columns."""
    function, spec = aggregation.function, proto.AggSpec()
    if function in _PLAIN:
        getattr(spec, function).SetInParent()
        return spec
    match function:
        case "median":
            spec.median.average_evenly_divided = aggregation.with_mean is not False
        case "pct":
            spec.percentile.percentile = aggregation.share
            spec.percentile.average_evenly_divided = bool(aggregation.with_mean)
        case "sorted_first" | "sorted_last":
            for name in aggregation.order_by:
                getattr(spec, function).columns.add(column_name=name)
        case "count_distinct":
            spec.count_distinct.count_nulls = aggregation.with_nulls
        case "distinct":
            spec.distinct.include_nulls = aggregation.with_nulls
        case "unique":
            spec.unique.include_nulls = aggregation.with_nulls
            spec.unique.non_unique_sentinel.CopyFrom(_sentinel_message(aggregation.sentinel))
        case "formula":
            spec.formula.formula = aggregation.formula or ""
            spec.formula.param_token = aggregation.parameter or ""
        case "weighted_avg" | "weighted_sum":
            getattr(spec, function).weight_column = aggregation.weight or ""
        case _:
            raise UnsupportedOperationError(f"A Deephaven server has no aggregation '{function}' of columns.")
    return spec


def filter_texts(filters: Sequence[Any], verb: str) -> list[str]:
    """Conditions of a message that takes texts alone.

    Raises:
        UnsupportedOperationError: a condition is a tree.
    """
    for condition in filters:
        if not isinstance(condition, str):
            raise UnsupportedOperationError(
                f"The conditions of '{verb}' are texts on a Deephaven server: write 'size > 100', for example."
            )
    return list(filters)


def _result(aggregation: Aggregation) -> str:
    if len(aggregation.columns) != 1:
        raise InvalidRequestError(f"The aggregation '{aggregation.function}' names one column: that of its result.")
    return aggregation.columns[0]


def _sentinel_message(sentinel: str | bool | int | float | None) -> proto.AggSpec.AggSpecNonUniqueSentinel:
    match sentinel:
        case None:
            return proto.AggSpec.AggSpecNonUniqueSentinel(null_value=proto.NULL_VALUE)
        case str():
            return proto.AggSpec.AggSpecNonUniqueSentinel(string_value=sentinel)
        case bool():
            return proto.AggSpec.AggSpecNonUniqueSentinel(bool_value=sentinel)
        case int():
            return proto.AggSpec.AggSpecNonUniqueSentinel(long_value=sentinel)
    return proto.AggSpec.AggSpecNonUniqueSentinel(double_value=sentinel)


def _sentinel(message: proto.AggSpec.AggSpecNonUniqueSentinel) -> str | bool | int | float | None:
    """The value for groups without a single value; None by default."""
    kind = message.WhichOneof("type")
    if kind is None or kind == "null_value":
        return None
    if kind == "char_value":
        if not 0 <= message.char_value < 1 << 16 or message.char_value in _SURROGATES:
            raise InvalidRequestError(f"The sentinel {message.char_value} is no character.")
        return chr(message.char_value)
    found: str | bool | int | float = getattr(message, kind)
    return found


def _columns(message: proto.AggSpec.AggSpecSorted) -> Sequence[str]:
    return [column.column_name for column in message.columns]


def _unsupported(kind: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"The aggregation '{kind}' is not known here. docs/queries.md lists those that there are."
    )
