"""Plans as batches of Deephaven's table service (``BatchTableRequest``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeAlias

from barrage_proto import deephaven_pb2
from barrage_proto import table_pb2 as proto
from google.protobuf.message import Message

from barrage_server.deephaven.aggregations import aggregation_message, spec_message
from barrage_server.deephaven.conditions import condition_message
from barrage_server.deephaven.update_by import update_by_message
from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.plan import copies, ranges
from barrage_server.plan import operation as plan
from barrage_server.plan.plan import NamedTable, Plan, Result, Source

__all__ = ["Batch", "batch_of"]

Reference: TypeAlias = deephaven_pb2.TableReference
Operation: TypeAlias = proto.BatchTableRequest.Operation
Inputs: TypeAlias = Sequence[Reference]

_DESCRIPTOR: Final = proto.SortDescriptor
_JOIN: Final = proto.NaturalJoinTablesRequest
_MATCHES: Final = {
    plan.NaturalJoinType.ERROR_ON_DUPLICATE: _JOIN.ERROR_ON_DUPLICATE,
    plan.NaturalJoinType.FIRST_MATCH: _JOIN.FIRST_MATCH,
    plan.NaturalJoinType.LAST_MATCH: _JOIN.LAST_MATCH,
}
_INSTEAD: Final = {
    "blink_to_append_only": "Call it in a script of the server, and take the table that it gives.",
    "full_outer_join": "natural_join keeps the rows of the left table that match none.",
    "head_pct": "Use head, with a number of rows.",
    "left_outer_join": "natural_join keeps the rows of the left table that match none.",
    "rename_columns": "Use view, with all columns that are wanted.",
    "ring_table": "Call it in a script of the server, and take the table that it gives.",
    "tail_pct": "Use tail, with a number of rows.",
}
"""Advice for operations that Deephaven's clients do not have."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A request, and the names of its operations.

    Attributes:
        request: the message; its last operation has the result.
        verbs: for each operation of the message, the method that it stands for.
    """

    request: proto.BatchTableRequest
    verbs: tuple[str, ...]


def batch_of(asked: Plan, result: bytes, ticket_of: Callable[[str], bytes]) -> Batch:
    """The batch that computes a plan with one output.

    Args:
        asked: the plan. No step follows its output.
        result: the ticket that the output gets.
        ticket_of: returns the ticket of a table of the server, by name.

    Raises:
        UnsupportedOperationError: Deephaven's table service has no message for an operation.
        InvalidRequestError: an operation has a value that its message cannot hold.
    """
    operations: list[Operation] = []
    verbs: list[str] = []
    offsets: list[int] = []  # by step: index of the operation with its result
    (output,) = asked.outputs
    for step in asked.steps[: output + 1]:
        inputs = [_reference(source, offsets, ticket_of) for source in step.inputs]
        try:
            made = list(_messages(step.operation, inputs, len(operations)))
        except (TypeError, ValueError) as error:  # raised by protobuf for a value that its fields cannot hold
            raise InvalidRequestError(f"'{step.operation.verb}' has a value that cannot be sent: {error}.") from None
        operations += made
        verbs += [step.operation.verb] * len(made)
        offsets.append(len(operations) - 1)
    last = operations[offsets[output]]
    getattr(last, last.WhichOneof("op") or "").result_id.ticket = result
    return Batch(proto.BatchTableRequest(ops=operations), tuple(verbs))


def _reference(source: Source, offsets: Sequence[int], ticket_of: Callable[[str], bytes]) -> Reference:
    match source:
        case Result(step):
            return Reference(batch_offset=offsets[step])
        case NamedTable(name):
            return Reference(ticket=deephaven_pb2.Ticket(ticket=ticket_of(name)))
    return Reference(ticket=deephaven_pb2.Ticket(ticket=source.ticket.encode()))


def _messages(operation: plan.Operation, inputs: Inputs, offset: int) -> Iterable[Operation]:
    """The messages of one operation, each on the result of the previous one.

    ``where`` has several if it has both trees of conditions and texts. ``offset`` is the index of the first one.
    """
    if not isinstance(operation, plan.Where):
        yield _message(operation, inputs)
        return
    source = inputs[0]
    if not operation.conditions:  # the next operation, or the output, needs a message to refer to
        yield Operation(fetch_table=deephaven_pb2.FetchTableRequest(source_id=source))
    for is_text, conditions in groupby(operation.conditions, lambda condition: isinstance(condition, str)):
        filters: Any = list(conditions)
        if is_text:
            texts = proto.UnstructuredFilterTableRequest(source_id=source, filters=filters)
            yield Operation(unstructured_filter=texts)
        else:
            trees = proto.FilterTableRequest(source_id=source, filters=map(condition_message, filters))
            yield Operation(filter=trees)
        source, offset = Reference(batch_offset=offset), offset + 1


def _message(operation: plan.Operation, inputs: Inputs) -> Operation:
    writer = _WRITERS.get(type(operation))
    if writer is None:
        verb = operation.verb
        raise UnsupportedOperationError(
            " ".join([f"A Deephaven server cannot be asked for '{verb}'.", _INSTEAD.get(verb, "")]).strip()
        )
    return writer(operation, inputs)


def _made(kind: str, request: Message) -> Operation:
    made = Operation()
    getattr(made, kind).CopyFrom(request)
    return made


def _select(kind: str) -> Callable[[Any, Inputs], Operation]:
    def write(operation: Any, inputs: Inputs) -> Operation:
        return _made(kind, proto.SelectOrUpdateRequest(source_id=inputs[0], column_specs=operation.columns))

    return write


def _rows(kind: str) -> Callable[[Any, Inputs], Operation]:
    def write(operation: Any, inputs: Inputs) -> Operation:
        return _made(kind, proto.HeadOrTailRequest(source_id=inputs[0], num_rows=operation.rows))

    return write


def _rows_by(kind: str) -> Callable[[Any, Inputs], Operation]:
    def write(operation: Any, inputs: Inputs) -> Operation:
        by, rows = operation.by, operation.rows
        request = proto.HeadOrTailByRequest(source_id=inputs[0], num_rows=rows, group_by_column_specs=by)
        return _made(kind, request)

    return write


def _select_distinct(operation: plan.SelectDistinct, inputs: Inputs) -> Operation:
    if not operation.columns:
        raise UnsupportedOperationError("A Deephaven server takes no 'select_distinct' of all columns: name them.")
    request = proto.SelectDistinctRequest(source_id=inputs[0], column_names=operation.columns)
    return Operation(select_distinct=request)


def _time_table(operation: plan.TimeTable, _: Inputs) -> Operation:
    request = proto.TimeTableRequest(blink_table=operation.blink)
    if isinstance(operation.period, str):
        request.period_string = operation.period
    else:
        request.period_nanos = operation.period
    if isinstance(operation.start, str):
        request.start_time_string = operation.start
    else:
        request.start_time_nanos = operation.start or 0  # Deephaven takes 0 for now
    return Operation(time_table=request)


def _reverse(_: plan.Reverse, inputs: Inputs) -> Operation:
    sorts = [_DESCRIPTOR(direction=_DESCRIPTOR.REVERSE)]
    return Operation(sort=proto.SortTableRequest(source_id=inputs[0], sorts=sorts))


def _sort(operation: plan.Sort, inputs: Inputs) -> Operation:
    sorts = [
        _DESCRIPTOR(
            column_name=column.name,
            is_absolute=column.absolute,
            direction=_DESCRIPTOR.DESCENDING if column.descending else _DESCRIPTOR.ASCENDING,
        )
        for column in operation.columns
    ]
    return Operation(sort=proto.SortTableRequest(source_id=inputs[0], sorts=sorts))


def _aggregate_by(operation: plan.AggregateBy, inputs: Inputs) -> Operation:
    if not operation.aggregations:
        raise UnsupportedOperationError(
            "A Deephaven server takes no 'agg_by' without aggregations. Use select_distinct for the groups alone."
        )
    aggregations = map(aggregation_message, operation.aggregations)
    return Operation(
        aggregate=proto.AggregateRequest(source_id=inputs[0], aggregations=aggregations, group_by_columns=operation.by)
    )


def _where_in(inverted: bool) -> Callable[[Any, Inputs], Operation]:
    def write(operation: Any, inputs: Inputs) -> Operation:
        request = proto.WhereInRequest(**_sides(inputs), inverted=inverted, columns_to_match=operation.columns)
        return Operation(where_in=request)

    return write


def _sides(inputs: Inputs) -> Mapping[str, Any]:
    return {"left_id": inputs[0], "right_id": inputs[1]}


def _joined(operation: Any, inputs: Inputs) -> Mapping[str, Any]:
    """The fields that the messages of joins by equal keys share."""
    return {**_sides(inputs), "columns_to_match": operation.on, "columns_to_add": operation.joins}


def _as_of(kind: str) -> Callable[[Any, Inputs], Operation]:
    def write(operation: Any, inputs: Inputs) -> Operation:
        *equal, stamps = operation.on
        request = proto.AjRajTablesRequest(
            **_sides(inputs), exact_match_columns=equal, as_of_column=stamps, columns_to_add=operation.joins
        )
        return _made(kind, request)

    return write


def _range_join(operation: ranges.RangeJoin, inputs: Inputs) -> Operation:
    *equal, match = operation.on
    aggregations = map(aggregation_message, operation.aggregations)
    return Operation(
        range_join=proto.RangeJoinTablesRequest(
            **_sides(inputs), exact_match_columns=equal, range_match=match, aggregations=aggregations
        )
    )


def _multi_join(operation: plan.MultiJoin, inputs: Inputs) -> Operation:
    joined = [
        proto.MultiJoinInput(source_id=source, columns_to_match=columns.on, columns_to_add=columns.joins)
        for source, columns in zip(inputs, operation.columns, strict=True)
    ]
    return Operation(multi_join=proto.MultiJoinTablesRequest(multi_join_inputs=joined))


def _snapshot_when(operation: copies.SnapshotWhen, inputs: Inputs) -> Operation:
    return Operation(
        snapshot_when=proto.SnapshotWhenTableRequest(
            base_id=inputs[0],
            trigger_id=inputs[1],
            initial=operation.initial,
            incremental=operation.incremental,
            history=operation.history,
            stamp_columns=operation.stamps,
        )
    )


_WRITERS: Final[dict[type[plan.Operation], Callable[[Any, Inputs], Operation]]] = {
    plan.EmptyTable: lambda operation, _: Operation(empty_table=proto.EmptyTableRequest(size=operation.rows)),
    plan.TimeTable: _time_table,
    plan.DropColumns: lambda operation, inputs: Operation(
        drop_columns=proto.DropColumnsRequest(source_id=inputs[0], column_names=operation.columns)
    ),
    plan.Select: _select("select"),
    plan.View: _select("view"),
    plan.Update: _select("update"),
    plan.UpdateView: _select("update_view"),
    plan.LazyUpdate: _select("lazy_update"),
    plan.SelectDistinct: _select_distinct,
    plan.Head: _rows("head"),
    plan.Tail: _rows("tail"),
    plan.HeadBy: _rows_by("head_by"),
    plan.TailBy: _rows_by("tail_by"),
    plan.Slice: lambda operation, inputs: Operation(
        slice=proto.SliceRequest(
            source_id=inputs[0],
            first_position_inclusive=operation.start,
            last_position_exclusive=operation.stop,
        )
    ),
    plan.Flatten: lambda _, inputs: Operation(flatten=proto.FlattenRequest(source_id=inputs[0])),
    plan.MetaTable: lambda _, inputs: Operation(meta_table=proto.MetaTableRequest(source_id=inputs[0])),
    plan.Snapshot: lambda _, inputs: Operation(snapshot=proto.SnapshotTableRequest(source_id=inputs[0])),
    plan.Reverse: _reverse,
    plan.Sort: _sort,
    plan.Ungroup: lambda operation, inputs: Operation(
        ungroup=proto.UngroupRequest(
            source_id=inputs[0], null_fill=operation.null_fill, columns_to_ungroup=operation.columns
        )
    ),
    plan.Merge: lambda operation, inputs: Operation(
        merge=proto.MergeTablesRequest(source_ids=inputs, key_column=operation.order_by or "")
    ),
    plan.NaturalJoin: lambda operation, inputs: Operation(
        natural_join=_JOIN(**_joined(operation, inputs), join_type=_MATCHES[operation.match])
    ),
    plan.ExactJoin: lambda operation, inputs: Operation(
        exact_join=proto.ExactJoinTablesRequest(**_joined(operation, inputs))
    ),
    plan.Join: lambda operation, inputs: Operation(
        cross_join=proto.CrossJoinTablesRequest(**_joined(operation, inputs), reserve_bits=operation.reserve_bits)
    ),
    plan.AsOfJoin: _as_of("aj"),
    plan.ReverseAsOfJoin: _as_of("raj"),
    ranges.RangeJoin: _range_join,
    plan.MultiJoin: _multi_join,
    plan.WhereIn: _where_in(inverted=False),
    plan.WhereNotIn: _where_in(inverted=True),
    plan.AggregateAllBy: lambda operation, inputs: Operation(
        aggregate_all=proto.AggregateAllRequest(
            source_id=inputs[0], spec=spec_message(operation.aggregation), group_by_columns=operation.by
        )
    ),
    plan.AggregateBy: _aggregate_by,
    plan.UpdateBy: lambda operation, inputs: Operation(
        update_by=proto.UpdateByRequest(
            source_id=inputs[0],
            operations=map(update_by_message, operation.operations),
            group_by_columns=operation.by,
        )
    ),
    copies.SnapshotWhen: _snapshot_when,
}
