"""Estimates of the memory of operations, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barrage_server.engine import Table
from barrage_server.engine.derived import DerivedTable
from barrage_server.plan import copies
from barrage_server.plan import downsample as plots
from barrage_server.plan import operation as plan
from barrage_server.plan.update_by import UpdateByOperation

__all__ = ["state_bytes"]

_SHARING: Final = (
    plan.View,
    plan.UpdateView,
    plan.LazyUpdate,
    plan.DropColumns,
    plan.RenameColumns,
    plan.Head,
    plan.Tail,
    plan.HeadShare,
    plan.TailShare,
    plan.Slice,
    plan.Flatten,
    plan.Reverse,
    plan.Ungroup,
    plan.MetaTable,
    plan.EmptyTable,
    plan.TimeTable,
)
"""Operations that hold row sets and views alone."""
_CELL_BYTES: Final = 9
"""Bytes of a value of fixed width. Texts are counted when they are computed."""
_ROW_BYTES: Final = 48
"""Bytes of a row in an order index, or in a group index with its accumulators (docs/memory.md)."""
_INPUT_BYTES: Final = 256
"""Bytes of a table of a merge, and of its views, without its row set."""
_MERGED: Final = 4
"""How often a merge has the row keys of its tables while it sorts them."""


def state_bytes(operation: plan.Operation, inputs: Sequence[Table]) -> int:
    """Estimate the bytes that ``operation`` on ``inputs`` takes.

    Rows that a join multiplies are not counted.
    """
    rows = sum(table.size for table in inputs)
    match operation:
        case plan.Select(columns) | plan.Update(columns):
            return rows * _CELL_BYTES * sum("=" in column for column in columns)
        case plan.UpdateBy(operations):
            return rows * (_ROW_BYTES + _CELL_BYTES * sum(_results(one, inputs[0]) for one in operations))
        case plan.Where():
            return rows
        case plan.Merge(None):
            return sum(_INPUT_BYTES + _MERGED * table.version.row_set.nbytes for table in inputs)
        case plan.Snapshot():
            return sum(map(held_bytes, inputs))
        case copies.SnapshotWhen(history=has_history):
            base, trigger = inputs
            copied = trigger.size if has_history else 1
            return base.size * copied * _CELL_BYTES * (len(base.schema) + len(trigger.schema))
        case plots.Downsample(ys=ys):
            return rows * (1 + len(ys)) // 8 + 1  # extremes of blocks of 256 rows
        case copies.BlinkToAppendOnly():
            return rows * _CELL_BYTES * len(inputs[0].schema)
        case copies.Ring(capacity):
            return min(rows, capacity) * _CELL_BYTES * len(inputs[0].schema)
    return 0 if isinstance(operation, _SHARING) else rows * _ROW_BYTES


def held_bytes(table: Table) -> int:
    """The bytes of the values that ``table`` keeps for one of its versions, at most.

    Of a table that hides rows they are estimated from the rows that it shows: its readers are told the number.
    """
    if not table.is_refreshing or table.traits.append_only:
        return 0
    if any(isinstance(one, DerivedTable) and one.hides_rows for one in table.lineage()):
        return table.size * _CELL_BYTES * len(table.schema)
    return table.nbytes


def _results(operation: UpdateByOperation, table: Table) -> int:
    """The approximate number of columns that ``update_by`` stores."""
    return len(operation.columns) or (1 if operation.formula is not None else len(table.schema))
