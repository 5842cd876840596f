"""The tables of operations, derived once and shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from barrage_server.engine import Table
from barrage_server.engine.derived import DerivedTable
from barrage_server.errors import UnsupportedOperationError
from barrage_server.operations import aggregations, build, equi_join, formulas, join
from barrage_server.operations.as_of import as_of_join
from barrage_server.operations.budget import budget
from barrage_server.operations.copied import blink_to_append_only, ring_table
from barrage_server.operations.downsample.build import downsample
from barrage_server.operations.formula_view import Clock
from barrage_server.operations.head_by import head_by
from barrage_server.operations.merged_constituents import merge_constituents
from barrage_server.operations.multi_join import multi_join
from barrage_server.operations.partition import partition
from barrage_server.operations.range_join import range_join
from barrage_server.operations.result import owning
from barrage_server.operations.snapshot_when import snapshot_when
from barrage_server.operations.sort import sort
from barrage_server.operations.ungroup import ungroup
from barrage_server.operations.update_by.build import update_by
from barrage_server.operations.where_in import where_in
from barrage_server.plan import copies
from barrage_server.plan import downsample as plots
from barrage_server.plan import operation as plan
from barrage_server.plan.derivation import UNLIMITED, Allowance
from barrage_server.plan.joins import (
    AsOfJoin,
    ExactJoin,
    FullOuterJoin,
    Join,
    LeftOuterJoin,
    MultiJoin,
    NaturalJoin,
    RangeJoin,
    ReverseAsOfJoin,
    WhereIn,
    WhereNotIn,
)
from barrage_server.plan.partition import MergeConstituents, PartitionRows

__all__ = ["derive"]

Maker = Callable[[Sequence[Table], Any], Table]

_MAKERS: Final[dict[type[plan.Operation], Maker]] = {
    plan.Head: lambda inputs, operation: build.head(inputs, operation.rows),
    plan.Tail: lambda inputs, operation: build.tail(inputs, operation.rows),
    plan.HeadShare: lambda inputs, operation: build.head_pct(inputs, operation.share),
    plan.TailShare: lambda inputs, operation: build.tail_pct(inputs, operation.share),
    plan.Slice: lambda inputs, operation: build.slice_rows(inputs, operation.start, operation.stop),
    plan.Flatten: lambda inputs, _: build.flatten(inputs),
    plan.Reverse: lambda inputs, _: build.reverse(inputs),
    plan.Sort: lambda inputs, operation: sort(inputs, operation.columns),
    WhereIn: lambda inputs, operation: where_in(inputs, operation.columns),
    WhereNotIn: lambda inputs, operation: where_in(inputs, operation.columns, inverted=True),
    NaturalJoin: lambda inputs, operation: join.natural_join(inputs, operation.on, operation.joins, operation.match),
    ExactJoin: lambda inputs, operation: join.exact_join(inputs, operation.on, operation.joins),
    Join: lambda inputs, operation: equi_join.cross_join(inputs, operation.on, operation.joins, operation.reserve_bits),
    LeftOuterJoin: lambda inputs, operation: equi_join.left_outer_join(inputs, operation.on, operation.joins),
    FullOuterJoin: lambda inputs, operation: equi_join.full_outer_join(inputs, operation.on, operation.joins),
    MultiJoin: lambda inputs, operation: multi_join(inputs, operation.columns),
    AsOfJoin: lambda inputs, operation: as_of_join(inputs, operation.on, operation.joins),
    ReverseAsOfJoin: lambda inputs, operation: as_of_join(inputs, operation.on, operation.joins, reverse=True),
    RangeJoin: lambda inputs, operation: range_join(inputs, operation.on, operation.aggregations),
    plan.View: lambda inputs, operation: formulas.view(inputs, operation.columns),
    plan.UpdateView: lambda inputs, operation: formulas.update_view(inputs, operation.columns),
    plan.LazyUpdate: lambda inputs, operation: formulas.lazy_update(inputs, operation.columns),
    plan.DropColumns: lambda inputs, operation: formulas.drop_columns(inputs, operation.columns),
    plan.RenameColumns: lambda inputs, operation: formulas.rename_columns(inputs, operation.columns),
    plan.Where: lambda inputs, operation: formulas.where(inputs, operation.conditions),
    plan.Snapshot: lambda inputs, _: build.snapshot(inputs),
    copies.SnapshotWhen: lambda inputs, operation: snapshot_when(
        inputs,
        operation.stamps,
        initial=operation.initial,
        incremental=operation.incremental,
        history=operation.history,
    ),
    copies.BlinkToAppendOnly: lambda inputs, _: blink_to_append_only(inputs),
    copies.Ring: lambda inputs, operation: ring_table(inputs, operation.capacity, initialize=operation.initialize),
    plots.Downsample: downsample,
    plan.MetaTable: lambda inputs, _: build.meta_table(inputs),
    plan.Merge: lambda inputs, operation: _merged(inputs, operation.order_by),
    PartitionRows: lambda inputs, operation: partition(inputs, operation.columns),
    MergeConstituents: lambda inputs, operation: merge_constituents(inputs[0], operation.make, operation.sample),
    plan.HeadBy: lambda inputs, operation: head_by(inputs, operation.rows, operation.by),
    plan.TailBy: lambda inputs, operation: head_by(inputs, operation.rows, operation.by, from_end=True),
    plan.Ungroup: lambda inputs, operation: ungroup(inputs, operation.columns, null_fill=operation.null_fill),
    plan.AggregateBy: lambda inputs, operation: aggregations.agg_by(inputs, operation.aggregations, operation.by),
    plan.AggregateAllBy: lambda inputs, operation: aggregations.agg_all_by(inputs, operation.aggregation, operation.by),
    plan.UpdateBy: lambda inputs, operation: update_by(inputs, operation.operations, operation.by),
    plan.SelectDistinct: lambda inputs, operation: aggregations.select_distinct(inputs, operation.columns),
}


def _maker(operation: plan.Operation, now: Clock | None) -> Maker | None:
    match operation:
        case plan.Select(columns):
            return lambda inputs, _: formulas.select(inputs, columns, now=now)
        case plan.Update(columns):
            return lambda inputs, _: formulas.update(inputs, columns, now=now)
    return _MAKERS.get(type(operation))


def _merged(inputs: Sequence[Table], order_by: str | None) -> Table:
    merged = build.merge(inputs)
    return merged if order_by is None else owning(sort([merged], (plan.SortColumn(order_by),)), [merged])


_results: Final[WeakKeyDictionary[Table, WeakValueDictionary[tuple[str, Allowance, tuple[int, ...]], Table]]] = (
    WeakKeyDictionary()
)
"""The results that are referenced somewhere, by first input; then by operation, allowance, functions and inputs."""


def derive(
    operation: plan.Operation, inputs: Sequence[Table], now: Clock | None = None, allowance: Allowance = UNLIMITED
) -> Table:
    """Derive the table of ``operation`` on ``inputs``.

    An equal operation on the same inputs, with an equal allowance, gives the same table, as long as the table is
    referenced and has not failed. Raises what the operation finds wrong with its arguments and the columns of its
    inputs.

    Args:
        operation: the operation.
        inputs: its inputs.
        now: the clock of formulas that name the time.
        allowance: the limits of the result.

    """
    maker = _maker(operation, now)
    if maker is None:
        raise UnsupportedOperationError(f"There is no operation '{operation.verb}' here.")
    if not inputs:
        return maker(inputs, operation)
    # the text tells 1, 1.0 and True apart; the inputs live as long as their result
    key = f"{operation!r}", allowance, (inputs[0].graph.functions.generation, *map(id, inputs))
    known = _results.setdefault(inputs[0], WeakValueDictionary())
    found = known.get(key)
    if found is None or found.failure is not None:
        with budget(allowance.nbytes):
            found = maker(inputs, operation)
        if isinstance(found, DerivedTable) and found not in inputs:
            found.bound(allowance.seconds)
        if found.is_refreshing and not operation.is_of_its_moment:  # as a snapshot is
            known[key] = found
    return found
