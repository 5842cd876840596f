"""Aggregations of Deephaven's clients as those of a plan (table.proto, ``AggSpec``, ``Aggregation``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from barrage_proto import table_pb2 as proto

from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.plan import agg
from barrage_server.plan.aggregation import Aggregation

__all__ = ["aggregation_of", "combined_of", "specified"]

_PLAIN: Final = {
    "abs_sum": agg.abs_sum,
    "avg": agg.avg,
    "first": agg.first,
    "last": agg.last,
    "max": agg.max_,
    "min": agg.min_,
    "std": agg.std,
    "sum": agg.sum_,
    "var": agg.var,
}
_TYPES: Final = proto.ComboAggregateRequest
_COMBINED: Final = {
    _TYPES.SUM: agg.sum_,
    _TYPES.ABS_SUM: agg.abs_sum,
    _TYPES.AVG: agg.avg,
    _TYPES.FIRST: agg.first,
    _TYPES.LAST: agg.last,
    _TYPES.MIN: agg.min_,
    _TYPES.MAX: agg.max_,
    _TYPES.MEDIAN: agg.median,
    _TYPES.STD: agg.std,
    _TYPES.VAR: agg.var,
}


def aggregation_of(message: proto.Aggregation) -> Aggregation:
    """One aggregation with its columns.

    Raises:
        InvalidRequestError: a part of it is missing.
        UnsupportedOperationError: it is none of those that there are here.

    """
    match message.WhichOneof("type"):
        case "columns":
            return replace(specified(message.columns.spec), columns=tuple(message.columns.match_pairs))
        case "count":
            return agg.count_(message.count.column_name)
        case None:
            raise InvalidRequestError("An aggregation of the request is empty.")
        case other:
            raise _unsupported(other)


def specified(spec: proto.AggSpec) -> Aggregation:
    """An aggregation without columns. Raises what :func:`aggregation_of` does."""
    kind = spec.WhichOneof("type")
    if kind is None:
        raise InvalidRequestError("The specification of an aggregation is empty.")
    if kind in _PLAIN:
        return _PLAIN[kind]()
    match kind:
        case "median" if spec.median.average_evenly_divided:
            return agg.median()
        case "percentile" if not spec.percentile.average_evenly_divided:
            return agg.pct(spec.percentile.percentile)
        case "median" | "percentile":
            raise UnsupportedOperationError(
                "A median has the mean of the two values in the middle here, and a percentile is one of the values."
            )
        case "sorted_first":
            return agg.sorted_first(_columns(spec.sorted_first))
        case "sorted_last":
            return agg.sorted_last(_columns(spec.sorted_last))
        case "weighted_avg":
            return agg.weighted_avg(spec.weighted_avg.weight_column)
        case "weighted_sum":
            return agg.weighted_sum(spec.weighted_sum.weight_column)
    raise _unsupported(kind)


def combined_of(message: proto.ComboAggregateRequest.Aggregate) -> Aggregation:
    """An aggregation of the older call. Raises what :func:`aggregation_of` does."""
    columns = tuple(message.match_pairs)
    if message.type in _COMBINED:
        return replace(_COMBINED[message.type](), columns=columns)
    if message.type == _TYPES.COUNT:
        return agg.count_(message.column_name)
    if message.type == _TYPES.WEIGHTED_AVG:
        return replace(agg.weighted_avg(message.column_name), columns=columns)
    if message.type == _TYPES.PERCENTILE and not message.avg_median:
        return replace(agg.pct(message.percentile), columns=columns)
    raise _unsupported(str(message.type))


def _columns(message: proto.AggSpec.AggSpecSorted) -> Sequence[str]:
    return [column.column_name for column in message.columns]


def _unsupported(kind: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"The aggregation '{kind}' is not known here. docs/queries.md lists those that there are."
    )
