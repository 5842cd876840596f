"""The operations of a plan for messages of Deephaven's clients (table.proto)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from barrage_proto import deephaven_pb2, table_pb2
from google.protobuf.message import Message

from barrage_server.deephaven.aggregations import aggregation_of, combined_of, specified
from barrage_server.deephaven.conditions import conditions_of
from barrage_server.deephaven.update_by import update_by_of
from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.plan import copies, ranges
from barrage_server.plan import operation as plan

__all__ = ["CALLS", "Planned", "planned"]

Reference: TypeAlias = deephaven_pb2.TableReference
_INPUTS: Final = ("source_id", "left_id", "right_id", "base_id", "trigger_id")
_DESCRIPTORS: Final = table_pb2.SortDescriptor
_JOINS: Final = table_pb2.NaturalJoinTablesRequest
_MATCHES: Final = {
    _JOINS.JOIN_TYPE_NOT_SPECIFIED: plan.NaturalJoinType.ERROR_ON_DUPLICATE,
    _JOINS.ERROR_ON_DUPLICATE: plan.NaturalJoinType.ERROR_ON_DUPLICATE,
    _JOINS.FIRST_MATCH: plan.NaturalJoinType.FIRST_MATCH,
    _JOINS.LAST_MATCH: plan.NaturalJoinType.LAST_MATCH,
}
_RANGES: Final = table_pb2.RangeJoinTablesRequest
_STARTS: Final = {
    _RANGES.LESS_THAN: ("", "<"),
    _RANGES.LESS_THAN_OR_EQUAL: ("", "<="),
    _RANGES.LESS_THAN_OR_EQUAL_ALLOW_PRECEDING: ("<- ", "<="),
}
_ENDS: Final = {
    _RANGES.GREATER_THAN: ("<", ""),
    _RANGES.GREATER_THAN_OR_EQUAL: ("<=", ""),
    _RANGES.GREATER_THAN_OR_EQUAL_ALLOW_FOLLOWING: ("<=", " ->"),
}


@dataclass(frozen=True, slots=True)
class Planned:
    """An operation, and its input tables."""

    operation: plan.Operation
    inputs: tuple[Reference, ...]


CALLS: Final[dict[str, tuple[str, type[Message]]]] = {
    "EmptyTable": ("empty_table", table_pb2.EmptyTableRequest),
    "TimeTable": ("time_table", table_pb2.TimeTableRequest),
    "DropColumns": ("drop_columns", table_pb2.DropColumnsRequest),
    "Update": ("update", table_pb2.SelectOrUpdateRequest),
    "LazyUpdate": ("lazy_update", table_pb2.SelectOrUpdateRequest),
    "View": ("view", table_pb2.SelectOrUpdateRequest),
    "UpdateView": ("update_view", table_pb2.SelectOrUpdateRequest),
    "Select": ("select", table_pb2.SelectOrUpdateRequest),
    "SelectDistinct": ("select_distinct", table_pb2.SelectDistinctRequest),
    "Filter": ("filter", table_pb2.FilterTableRequest),
    "UnstructuredFilter": ("unstructured_filter", table_pb2.UnstructuredFilterTableRequest),
    "Sort": ("sort", table_pb2.SortTableRequest),
    "Head": ("head", table_pb2.HeadOrTailRequest),
    "Tail": ("tail", table_pb2.HeadOrTailRequest),
    "HeadBy": ("head_by", table_pb2.HeadOrTailByRequest),
    "TailBy": ("tail_by", table_pb2.HeadOrTailByRequest),
    "Ungroup": ("ungroup", table_pb2.UngroupRequest),
    "MergeTables": ("merge", table_pb2.MergeTablesRequest),
    "NaturalJoinTables": ("natural_join", table_pb2.NaturalJoinTablesRequest),
    "ExactJoinTables": ("exact_join", table_pb2.ExactJoinTablesRequest),
    "CrossJoinTables": ("cross_join", table_pb2.CrossJoinTablesRequest),
    "AjTables": ("aj", table_pb2.AjRajTablesRequest),
    "RajTables": ("raj", table_pb2.AjRajTablesRequest),
    "RangeJoinTables": ("range_join", table_pb2.RangeJoinTablesRequest),
    "MultiJoinTables": ("multi_join", table_pb2.MultiJoinTablesRequest),
    "WhereIn": ("where_in", table_pb2.WhereInRequest),
    "ComboAggregate": ("combo_aggregate", table_pb2.ComboAggregateRequest),
    "AggregateAll": ("aggregate_all", table_pb2.AggregateAllRequest),
    "Aggregate": ("aggregate", table_pb2.AggregateRequest),
    "UpdateBy": ("update_by", table_pb2.UpdateByRequest),
    "Snapshot": ("snapshot", table_pb2.SnapshotTableRequest),
    "SnapshotWhen": ("snapshot_when", table_pb2.SnapshotWhenTableRequest),
    "Flatten": ("flatten", table_pb2.FlattenRequest),
    "MetaTable": ("meta_table", table_pb2.MetaTableRequest),
    "Slice": ("slice", table_pb2.SliceRequest),
}
"""The unary calls of the service that compute: by name, the operation's name in a batch, and the request's class."""


def planned(kind: str, request: Any) -> Planned:
    """The operation for a request.

    Args:
        kind: the name of the operation in a batch.
        request: the message.

    Raises:
        InvalidRequestError: a part of the message is missing or makes no sense.
        UnsupportedOperationError: there is no such operation here.
    """
    reader = _READERS.get(kind)
    if reader is None:
        raise UnsupportedOperationError(f"There is no operation '{kind}' here. docs/queries.md lists those there are.")
    operation = reader(request)
    return Planned(operation, tuple(_inputs(request)))


def _inputs(request: Any) -> Sequence[Reference]:
    names = [field.name for field in request.DESCRIPTOR.fields]
    if "source_ids" in names:
        found = list(request.source_ids)
    elif "multi_join_inputs" in names:
        found = [entry.source_id for entry in request.multi_join_inputs]
    else:
        found = [getattr(request, name) for name in _INPUTS if name in names]
    if any(one.WhichOneof("ref") is None for one in found):
        raise InvalidRequestError("The operation does not say which table it is for.")
    return found


def _time_table(request: table_pb2.TimeTableRequest) -> plan.Operation:
    by_text = request.WhichOneof("period") == "period_string"
    # Deephaven's clients send 0 for now
    starts_at = request.start_time_string or request.start_time_nanos or None
    return plan.TimeTable(request.period_string if by_text else request.period_nanos, starts_at, request.blink_table)


def _sort(request: table_pb2.SortTableRequest) -> plan.Operation:
    sorts = list(request.sorts)
    if [one.direction for one in sorts] == [_DESCRIPTORS.REVERSE]:
        return plan.Reverse()
    columns = []
    for one in sorts:
        if one.direction not in (_DESCRIPTORS.ASCENDING, _DESCRIPTORS.DESCENDING):
            raise InvalidRequestError("A column is sorted in ascending or descending order; a reversal stands alone.")
        columns.append(plan.SortColumn(one.column_name, one.direction == _DESCRIPTORS.DESCENDING, one.is_absolute))
    return plan.Sort(tuple(columns))


def _natural_join(request: table_pb2.NaturalJoinTablesRequest) -> plan.Operation:
    on, joins = tuple(request.columns_to_match), tuple(request.columns_to_add)
    if request.join_type == _JOINS.EXACTLY_ONE_MATCH:
        return plan.ExactJoin(on, joins)
    match = _MATCHES.get(request.join_type)
    if match is None:
        raise InvalidRequestError(f"There is no natural join of type {request.join_type}.")
    return plan.NaturalJoin(on, joins, match)


def _where_in(request: table_pb2.WhereInRequest) -> plan.Operation:
    columns = tuple(request.columns_to_match)
    return plan.WhereNotIn(columns) if request.inverted else plan.WhereIn(columns)


def _cross_join(request: table_pb2.CrossJoinTablesRequest) -> plan.Operation:
    on, joins = tuple(request.columns_to_match), tuple(request.columns_to_add)
    return plan.Join(on, joins, request.reserve_bits) if request.reserve_bits else plan.Join(on, joins)


def _multi_join(request: table_pb2.MultiJoinTablesRequest) -> plan.Operation:
    return plan.MultiJoin(
        tuple(
            plan.MultiJoinColumns(tuple(entry.columns_to_match), tuple(entry.columns_to_add))
            for entry in request.multi_join_inputs
        )
    )


def _stamped(request: table_pb2.AjRajTablesRequest) -> tuple[str, ...]:
    return (*request.exact_match_columns, request.as_of_column)


def _range_join(request: table_pb2.RangeJoinTablesRequest) -> plan.Operation:
    match = request.range_match
    if not match:
        start, end = _STARTS.get(request.range_start_rule), _ENDS.get(request.range_end_rule)
        if start is None or end is None:
            raise InvalidRequestError("The range join does not say which ends its ranges have.")
        (before, low), (high, behind) = start, end
        first, value, last = request.left_start_column, request.right_range_column, request.left_end_column
        match = f"{before}{first} {low} {value} {high} {last}{behind}"
    return ranges.RangeJoin((*request.exact_match_columns, match), tuple(map(aggregation_of, request.aggregations)))


def _aggregate(request: table_pb2.AggregateRequest) -> plan.Operation:
    if request.preserve_empty or request.HasField("initial_groups_id"):
        raise UnsupportedOperationError("Groups begin and end with their rows here: no initial groups, none is kept.")
    return plan.AggregateBy(tuple(map(aggregation_of, request.aggregations)), tuple(request.group_by_columns))


def _view(request: table_pb2.SelectOrUpdateRequest) -> plan.Operation:
    columns = tuple(request.column_specs)
    return plan.View(columns) if columns else plan.Select()  # of all columns, as Deephaven has it


_READERS: Final[dict[str, Callable[[Any], plan.Operation]]] = {
    "empty_table": lambda request: plan.EmptyTable(request.size),
    "time_table": _time_table,
    "drop_columns": lambda request: plan.DropColumns(tuple(request.column_names)),
    "update": lambda request: plan.Update(tuple(request.column_specs)),
    "lazy_update": lambda request: plan.LazyUpdate(tuple(request.column_specs)),
    "view": _view,
    "update_view": lambda request: plan.UpdateView(tuple(request.column_specs)),
    "select": lambda request: plan.Select(tuple(request.column_specs)),
    "select_distinct": lambda request: plan.SelectDistinct(tuple(request.column_names)),
    "filter": lambda request: plan.Where(conditions_of(request.filters)),
    "unstructured_filter": lambda request: plan.Where(tuple(request.filters)),
    "sort": _sort,
    "head": lambda request: plan.Head(request.num_rows),
    "tail": lambda request: plan.Tail(request.num_rows),
    "head_by": lambda request: plan.HeadBy(request.num_rows, tuple(request.group_by_column_specs)),
    "tail_by": lambda request: plan.TailBy(request.num_rows, tuple(request.group_by_column_specs)),
    "ungroup": lambda request: plan.Ungroup(tuple(request.columns_to_ungroup), request.null_fill),
    "merge": lambda request: plan.Merge(request.key_column or None),
    "natural_join": _natural_join,
    "exact_join": lambda request: plan.ExactJoin(tuple(request.columns_to_match), tuple(request.columns_to_add)),
    "cross_join": _cross_join,
    "aj": lambda request: plan.AsOfJoin(_stamped(request), tuple(request.columns_to_add)),
    "raj": lambda request: plan.ReverseAsOfJoin(_stamped(request), tuple(request.columns_to_add)),
    "range_join": _range_join,
    "multi_join": _multi_join,
    "where_in": _where_in,
    "combo_aggregate": lambda request: plan.AggregateBy(
        tuple(map(combined_of, request.aggregates)), tuple(request.group_by_columns)
    ),
    "aggregate_all": lambda request: plan.AggregateAllBy(specified(request.spec), tuple(request.group_by_columns)),
    "aggregate": _aggregate,
    "update_by": lambda request: plan.UpdateBy(
        tuple(map(update_by_of, request.operations)), tuple(request.group_by_columns)
    ),
    "snapshot": lambda _: plan.Snapshot(),
    "snapshot_when": lambda request: copies.SnapshotWhen(
        tuple(request.stamp_columns), request.initial, request.incremental, request.history
    ),
    "flatten": lambda _: plan.Flatten(),
    "meta_table": lambda _: plan.MetaTable(),
    "slice": lambda request: plan.Slice(request.first_position_inclusive, request.last_position_exclusive),
}
