"""The tables of simple operations: a function from parents to a table each.

A function checks its arguments, works out the traits of the result, and makes it follow its parents. The result of
parents that never change is a static table, without an operator. The default name is derived from the name of the first
parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from barrage_server.arguments import integer, text
from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.graph import UpdateGraph
from barrage_server.engine.static import StaticTable
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.table import Table
from barrage_server.engine.traits import TableTraits
from barrage_server.errors import InvalidRequestError
from barrage_server.operations import traits as traits_of
from barrage_server.operations.checks import part
from barrage_server.operations.estimate import held_bytes
from barrage_server.operations.merge import Merge
from barrage_server.operations.result import make, name_for
from barrage_server.operations.rows import (
    Bounds,
    Flatten,
    Reverse,
    Slice,
    head_pct_bounds,
    slice_bounds,
    tail_pct_bounds,
)
from barrage_server.plan.copies import MOST_ROWS
from barrage_server.rowset import RowSet
from barrage_server.wire.schema import TYPE_KEY, java_type

__all__ = [
    "empty_table",
    "flatten",
    "head",
    "head_pct",
    "merge",
    "meta_table",
    "reverse",
    "slice_rows",
    "snapshot",
    "tail",
    "tail_pct",
]

_FARTHEST: Final = (1 << 63) - 1
_MOST_SHOWN: Final = 20


def head(parents: Sequence[Table], rows: int, *, name: str | None = None) -> Table:
    """The first ``rows`` rows."""
    count = integer(rows, "num_rows")
    (table,) = parents
    traits = _staying(table)
    return _sliced(table, "head", slice_bounds(0, count), traits, name)


def tail(parents: Sequence[Table], rows: int, *, name: str | None = None) -> Table:
    """The last ``rows`` rows."""
    count = integer(rows, "num_rows")
    (table,) = parents
    bounds = slice_bounds(-count, 0) if count else slice_bounds(0, 0)
    return _sliced(table, "tail", bounds, _moving(table), name)


def head_pct(parents: Sequence[Table], pct: float, *, name: str | None = None) -> Table:
    """The first ``pct`` of the rows, from 0 to 1, rounded up."""
    (table,) = parents
    traits = _staying(table)
    return _sliced(table, "head_pct", head_pct_bounds(part(pct, "pct")), traits, name)


def tail_pct(parents: Sequence[Table], pct: float, *, name: str | None = None) -> Table:
    """The last ``pct`` of the rows, from 0 to 1, rounded up."""
    (table,) = parents
    return _sliced(table, "tail_pct", tail_pct_bounds(part(pct, "pct")), _moving(table), name)


def slice_rows(parents: Sequence[Table], start: int, stop: int, *, name: str | None = None) -> Table:
    """The rows from position ``start`` to ``stop``, without ``stop``.

    Negative positions count from the end; 0 as ``stop`` of a negative ``start`` is the end.

    Raises:
        InvalidRequestError: both count from the same side, and ``stop`` comes before ``start``.

    """
    first = integer(start, "start", least=-_FARTHEST)
    last = integer(stop, "stop", least=-_FARTHEST)
    if (first < 0) == (last < 0) and last < first:
        raise InvalidRequestError(f"stop must not come before start: a slice from {first} to {last} has no meaning.")
    (table,) = parents
    traits = _moving(table)
    if first >= 0 and last >= 0:
        traits = replace(_staying(table), is_flat=table.traits.is_flat and not first)
    return _sliced(table, "slice", slice_bounds(first, last), traits, name)


def flatten(parents: Sequence[Table], *, name: str | None = None) -> Table:
    """The rows with their positions as keys."""
    (table,) = parents
    given = table.traits
    # Row keys of a blink table are not used again, as positions are.
    traits = TableTraits(
        append_only=given.append_only,
        add_only=given.append_only,
        is_flat=True,
        ring_capacity=given.ring_capacity,
        stated=traits_of.route_of(given),
    )
    return make([table], "flatten", Flatten(table.schema), traits, key_columns=table.key_columns, name=name)


def reverse(parents: Sequence[Table], *, name: str | None = None) -> Table:
    """The rows in the opposite order."""
    (table,) = parents
    traits = TableTraits(ring_capacity=table.traits.ring_capacity, stated=traits_of.route_of(table.traits))
    return make([table], "reverse", Reverse(table.schema), traits, key_columns=table.key_columns, name=name)


def _sliced(table: Table, operation: str, bounds: Bounds, traits: TableTraits, name: str | None) -> Table:
    operator = Slice(table.schema, bounds, keeps_history=traits.is_blink)
    return make([table], operation, operator, traits, key_columns=table.key_columns, name=name)


def _staying(table: Table) -> TableTraits:
    """Traits of first rows, which stay when rows are added at the end.

    Rows added before them push rows out.
    """
    given = table.traits
    return replace(traits_of.of_rows(given), add_only=given.append_only, is_flat=given.is_flat)


def _moving(table: Table) -> TableTraits:
    """Traits of rows that may leave the result while they stay in the input."""
    return TableTraits(is_blink=table.traits.is_blink, stated=traits_of.route_of(table.traits))


def merge(parents: Sequence[Table], *, name: str | None = None) -> Table:
    """The rows of the first table, then those of the second, and so on.

    Raises:
        InvalidRequestError: there are no tables, or their columns differ; the text has both schemas.
        LimitError: row keys are too large.

    """
    if not parents:
        raise InvalidRequestError("A merge needs at least one table.")
    first = parents[0]
    orders = [_order(first, other) for other in parents]
    refreshing = [parent for parent in parents if parent.is_refreshing]
    # Rows at the end of the last table are at the end of the result.
    grows = len(refreshing) == 1 and parents[-1] is refreshing[0] and refreshing[0].traits.append_only
    traits = TableTraits(
        append_only=grows, add_only=grows, stated=traits_of.route_of(*(parent.traits for parent in parents))
    )
    operator = Merge(pa.schema(list(first.schema)), orders)
    return make(parents, "merge", operator, traits, name=name)


def snapshot(parents: Sequence[Table], *, name: str | None = None) -> Table:
    """The table as it is now, which shares the columns of the version.

    Raises:
        TableFailedError: a table that is derived has failed.

    """
    (table,) = parents
    if isinstance(table, DerivedTable):
        table.check_usable()
    version = table.version
    traits = TableTraits(is_flat=version.row_set.is_flat, stated=traits_of.route_of(table.traits))
    return StaticTable(
        table.graph,
        name_for(table, "snapshot", name),
        table.schema,
        version.row_set,
        version.views,
        # what the table overwrites later it keeps for this one
        state_bytes=held_bytes(table),
        key_columns=table.key_columns,
        traits=traits,
    )


def empty_table(graph: UpdateGraph, rows: int, *, name: str | None = None) -> Table:
    """A static table of ``rows`` rows without columns."""
    count = integer(rows, "size", most=MOST_ROWS)
    called = "empty_table" if name is None else text(name, "name")
    return StaticTable(graph, called, pa.schema([]), RowSet.flat(count), (), traits=TableTraits(is_flat=True))


def meta_table(parents: Sequence[Table], *, name: str | None = None) -> Table:
    """A row with name and Java type of each column, as Deephaven's servers have."""
    (table,) = parents
    fields = list(table.schema)
    strings = [[field.name for field in fields], [_type_name(field) for field in fields], ["Normal"] * len(fields)]
    columns = [*(pa.array(column, pa.string()) for column in strings), pa.array([False] * len(fields), pa.bool_())]
    schema = pa.schema(
        [(column, pa.string()) for column in ("Name", "DataType", "ColumnType")] + [("IsPartitioning", pa.bool_())]
    )
    store, rows = ColumnStore(schema, overwrites=False), RowSet.flat(len(fields))
    if fields:
        for stored, values in zip(store.columns, columns, strict=True):
            stored.write(rows, values, None)
    return StaticTable(
        table.graph,
        name_for(table, "meta_table", name),
        schema,
        rows,
        store.views(),
        nbytes=store.nbytes,
        traits=TableTraits(is_flat=True),
    )


def _order(first: Table, other: Table) -> list[int]:
    """The numbers in ``other`` of the columns of ``first``."""
    numbers = {field.name: (number, field.type) for number, field in enumerate(other.schema)}
    order = [numbers[field.name][0] for field in first.schema if numbers.get(field.name, (0, None))[1] == field.type]
    if len(order) != len(other.schema) or len(order) != len(first.schema):
        raise InvalidRequestError(
            f"Tables can be merged when they have the same columns. '{first.name}' has {_columns(first)}; "
            f"'{other.name}' has {_columns(other)}."
        )
    return order


def _columns(table: Table) -> str:
    shown_columns = [f"{field.name}: {field.type}" for field in list(table.schema)[:_MOST_SHOWN]]
    more = len(table.schema) - len(shown_columns)
    return ", ".join(shown_columns) + (f" and {more} more" if more > 0 else "") if shown_columns else "no columns"


def _type_name(field: pa.Field) -> str:
    stated = (field.metadata or {}).get(TYPE_KEY)
    return stated.decode(errors="replace") if stated else java_type(field.type) or str(field.type)
