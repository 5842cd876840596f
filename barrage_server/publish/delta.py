"""One delta: rows that somebody sent, applied to the table they are meant for in one cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from barrage_server.engine import AppendTable, KeyedTable, ReplacedTable, Table, UpdateGraph
from barrage_server.engine.kinds import spec_of
from barrage_server.errors import (
    AlreadyExistsError,
    KeyMismatchError,
    LimitError,
    UnknownTableError,
    UnsupportedOperationError,
)
from barrage_server.wire.empty import empty_array
from barrage_server.wire.plain_size import plain_size
from barrage_server.wire.plain_type import plain_type
from barrage_server.wire.protocol import PublishMode, TableKind
from barrage_server.wire.table_spec import TableSpec

__all__ = ["TableStore", "Target", "apply_rows", "publish_rows"]


class TableStore(Protocol):
    """Where tables are found and made by name."""

    @property
    def graph(self) -> UpdateGraph:
        """The graph that all its tables belong to."""

    def find(self, name: str) -> Table | None:
        """The table of that name, if there is one."""

    def make(self, name: str, schema: pa.Schema, spec: TableSpec) -> Table:
        """A new table, which is not found yet; AlreadyExistsError when the name is kept for something else."""

    def offer(self, table: Table) -> Table:
        """Let a new table be found, unless there is one of its name; the one that is found from now on."""

    def discard(self, table: Table) -> None:
        """Let go of a new table that is not to be found."""

    def exchange(self, before: Table, after: Table) -> None:
        """Let ``after`` be found in the place of ``before``, which takes no more rows; what publishers have committed
        to that counts for it. UnavailableError when ``before`` is not found any more.
        """


@dataclass(frozen=True, slots=True)
class Target:
    """Which table, and what is to happen to it.

    Attributes:
        table: its name.
        mode: ``None``: what suits the table (append; upsert when it has keys; replace when it is replaced as a whole).
            Append to a table with keys is an upsert. Replace makes an append table one of the kind ``replaced``, which
            takes append and replace from then on.
        key: key columns. They make a new table a keyed one, and must be those of a table that is there.
        kind: kind of a new table; a table that is there must be of it.
        capacity: rows that a ring keeps.

    """

    table: str
    mode: PublishMode | None = None
    key: tuple[str, ...] | None = None
    kind: TableKind | None = None
    capacity: int | None = None


def publish_rows(
    store: TableStore,
    target: Target,
    schema: pa.Schema,
    batches: Sequence[pa.RecordBatch],
    *,
    limit: int | None = None,
) -> tuple[int, Table]:
    """Apply ``batches`` to ``target`` in one cycle: all of them, or nothing. The table is made when it does not exist.

    A table that is made here is found by others once it has its rows: rows that are refused leave no table behind, and
    take none away that another publisher uses.

    Args:
        store: where the table is found or made.
        target: which table, and how.
        schema: what a new table gets; also the schema of ``batches`` before they were brought to plain form, or there
            are none.
        batches: the rows, in order.
        limit: bytes that they may have once they are of the table's types.

    Returns:
        Rows that were applied, and the table.

    Raises:
        InvalidRequestError: one of its subclasses says what does not fit; nothing has changed then.

    """
    while True:
        table = store.find(target.table)
        if table is None:
            made = _publish_new(store, target, schema, batches)
            if made is None:
                continue  # another publisher was faster: its table gets the rows
            table = made
        else:
            _check_kind(table, target)
            _check_key(table, target)
            _check_nulls(table, batches, limit)
            if type(table) is AppendTable and target.mode is PublishMode.REPLACE and target.kind is None:
                table = _overwritten(store, table, schema, batches)
            else:
                apply_rows(table, target.mode, schema, batches)
        return sum(batch.num_rows for batch in batches), table


def _check_kind(table: Table, target: Target) -> None:
    own = spec_of(table)
    if target.kind is not None and (own is None or own.kind is not target.kind):
        raise AlreadyExistsError(
            f"Table '{table.name}' exists and is not of the kind '{target.kind}'. Drop it first, or use another name."
        )
    if target.capacity is None:
        return
    if own is None or own.capacity is None:
        raise AlreadyExistsError(f"Table '{table.name}' exists and is no ring; leave the capacity out.")
    if own.capacity != target.capacity:
        raise AlreadyExistsError(
            f"Table '{table.name}' exists with a capacity of {own.capacity} rows, not {target.capacity}."
        )


def _overwritten(store: TableStore, table: Table, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> Table:
    """A table of the kind ``replaced`` with these rows, in the place of ``table``.

    An append table has promised its subscribers that no row goes away; they hear that there is another table now.
    """
    made = store.make(table.name, table.schema, TableSpec(TableKind.REPLACED))
    try:
        apply_rows(made, PublishMode.REPLACE, schema, batches)
        store.exchange(table, made)
    except BaseException:
        store.discard(made)
        raise
    return made


def _publish_new(
    store: TableStore, target: Target, schema: pa.Schema, batches: Sequence[pa.RecordBatch]
) -> Table | None:
    """Make the table with these rows in it; ``None`` when there is one of its name by then."""
    if target.mode is PublishMode.DELETE:
        raise UnknownTableError(f"There is no table '{target.table}' to delete rows from.")
    table = store.make(target.table, schema, _spec_of_new(target))
    found: Table | None = None
    try:
        _check_key(table, target)
        apply_rows(table, target.mode, schema, batches)
        found = store.offer(table)
    finally:
        if found is not table:
            store.discard(table)
    return table if found is table else None


def _spec_of_new(target: Target) -> TableSpec:
    if target.mode is PublishMode.UPSERT and not target.key:
        raise KeyMismatchError(f"Table '{target.table}' is new: name the key columns that rows are matched by.")
    otherwise = TableKind.REPLACED if target.mode is PublishMode.REPLACE else TableKind.APPEND
    return TableSpec.implied(target.kind, target.key, target.capacity, otherwise)


def _check_key(table: Table, target: Target) -> None:
    if target.key and set(target.key) != set(table.key_columns):
        has = f"the key {', '.join(table.key_columns)}" if table.key_columns else "no key"
        raise KeyMismatchError(
            f"Table '{table.name}' has {has}, and this is published with the key {', '.join(target.key)}. Use the same "
            f"key, or another table."
        )


def _check_nulls(table: Table, batches: Sequence[pa.RecordBatch], limit: int | None) -> None:
    """Columns of type null take what the columns of the table take that they go to."""
    if limit is None:
        return
    total = 0
    types = {field.name: field.type for field in table.schema}
    for batch in batches:
        for field, column in zip(batch.schema, batch.columns, strict=True):
            wanted = types.get(field.name)
            if wanted is not None and field.type != wanted:
                total += plain_size(column, wanted)
    if total > limit:
        raise LimitError(f"These rows have {total:,} bytes in table '{table.name}'; {limit:,} may come at once.")


def _mode_for(table: Table, mode: PublishMode | None) -> PublishMode:
    if isinstance(table, KeyedTable):
        return PublishMode.UPSERT if mode in (None, PublishMode.APPEND) else mode
    if isinstance(table, ReplacedTable) and mode is PublishMode.APPEND:
        return mode
    if isinstance(table, ReplacedTable):
        allowed = PublishMode.REPLACE
    elif isinstance(table, AppendTable):
        allowed = PublishMode.APPEND
    else:
        raise UnsupportedOperationError(
            f"Table '{table.name}' follows another one and cannot be published to; choose another name."
        )
    if mode not in (None, allowed):
        hint = "" if mode is PublishMode.APPEND else " Tables with keys can: make one under another name with a key."
        raise UnsupportedOperationError(f"Table '{table.name}' takes only {allowed}, not {mode}.{hint}")
    return allowed


def apply_rows(table: Table, wanted: PublishMode | None, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    """Apply rows to a table in one cycle; ``wanted`` as in :class:`Target`.

    Raises:
        InvalidRequestError: one of its subclasses says what does not fit; nothing has changed then.

    """
    mode = _mode_for(table, wanted)
    if isinstance(table, AppendTable):
        with table.graph.cycle():
            # also without any row, so that a schema that does not fit is told at the first try
            for batch in batches or [_empty(schema)]:
                table.append(batch)
        return
    rows = pa.Table.from_batches(batches, schema=batches[0].schema if batches else schema)
    if isinstance(table, ReplacedTable):
        (table.append if mode is PublishMode.APPEND else table.replace)(rows)
    elif isinstance(table, KeyedTable):
        if mode is PublishMode.DELETE:
            table.delete(rows)
        elif mode is PublishMode.REPLACE:
            table.replace(rows)
        else:
            table.upsert(rows)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    """No rows, in plain form: of nested encodings pyarrow makes empty arrays that it holds for damaged."""
    plain = pa.schema([field.with_type(plain_type(field.type)) for field in schema], schema.metadata)
    return pa.RecordBatch.from_arrays([empty_array(field.type) for field in plain], schema=plain)
