"""Deltas: published rows, applied to their table in one cycle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from barrage_server.engine import AppendTable, KeyedTable, ReplacedTable, Table, UpdateGraph
from barrage_server.engine.cycle_log import CycleNote
from barrage_server.engine.kinds import spec_of
from barrage_server.errors import (
    AlreadyExistsError,
    InvalidRequestError,
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

__all__ = ["CheckNew", "Part", "TableStore", "Target", "apply_rows", "publish_parts", "publish_rows"]


CheckNew: TypeAlias = Callable[[Mapping[str, pa.Schema]], object]
"""Raises if a publisher may not create tables with these names and schemas, all in one commit."""


class TableStore(Protocol):
    """Finds and creates tables by name."""

    @property
    def graph(self) -> UpdateGraph:
        """The update graph of all its tables."""

    def find(self, name: str) -> Table | None:
        """The table ``name``, if there is one."""

    def keeps(self, table: Table) -> bool:
        """Whether ``table`` is in the data directory."""

    def make(self, name: str, schema: pa.Schema, spec: TableSpec) -> Table:
        """Create a table, which :meth:`find` does not return yet."""

    def making(self, names: Collection[str]) -> AbstractContextManager[None]:
        """Let no other publisher create tables of these names during the ``with`` body.

        Waits for publishers that create them now.

        Raises:
            AlreadyExistsError: a name is reserved.
        """

    def serve(self, table: Table, spec: TableSpec) -> CycleNote:
        """A note that serves a new table, for the cycle with its first rows.

        The cycle must be within :meth:`making` of its name.
        """

    def discard(self, table: Table) -> None:
        """Drop a new table that was not served."""

    def exchange(self, before: Table, after: Table, spec: TableSpec) -> CycleNote:
        """A note that serves ``after`` in place of ``before``.

        ``before`` takes no more rows from then on; commits to ``before`` count for ``after``.
        """


@dataclass(frozen=True, slots=True)
class Target:
    """A table, and the way in which rows are applied to it.

    Attributes:
        table: its name.
        mode: ``None`` for the default of the table: upsert with keys, replace for a table that is replaced as a whole,
            append otherwise. Append to a table with keys is an upsert. Replace turns an append table into one of the
            kind ``replaced``, which accepts append and replace from then on.
        key: key columns. A new table with key columns is a keyed one; they must equal those of an existing table.
        kind: kind of a new table; an existing table must have it.
        capacity: rows that a ring keeps.
    """

    table: str
    mode: PublishMode | None = None
    key: tuple[str, ...] | None = None
    kind: TableKind | None = None
    capacity: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Rows for one table.

    Attributes:
        target: the table and the mode.
        schema: the schema of a new table, which is the schema of ``batches`` before their conversion to plain form.
            Needed if there are none.
        batches: the rows, in order.
        committed: makes a note for the cycle, from the table that has the rows; ``None`` for no note.
    """

    target: Target
    schema: pa.Schema
    batches: Sequence[pa.RecordBatch]
    committed: Callable[[Table], CycleNote] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(batch.num_rows for batch in self.batches)


def publish_rows(
    store: TableStore,
    target: Target,
    schema: pa.Schema,
    batches: Sequence[pa.RecordBatch],
    *,
    limit: int | None = None,
    check_new: CheckNew | None = None,
) -> tuple[int, Table]:
    """Call :func:`publish_parts` for one table.

    Returns:
        The number of applied rows, and the table.
    """
    part = Part(target, schema, batches)
    (table,) = publish_parts(store, [part], limit=limit, check_new=check_new)
    return part.rows, table


def publish_parts(
    store: TableStore, parts: Sequence[Part], *, limit: int | None = None, check_new: CheckNew | None = None
) -> list[Table]:
    """Apply rows to their tables in one cycle: all of them, or nothing.

    Tables that do not exist are created, and are served from that cycle on: refused rows leave no table behind, and
    drop no table that another publisher uses.

    Args:
        store: finds and creates tables.
        parts: the rows, each part of another table.
        limit: bytes that the rows of a part may have in the table's types.
        check_new: called with the schemas of tables to be created, by name; raises if the publisher may not create
            them.

    Returns:
        The table of each part.

    Raises:
        InvalidRequestError: a subclass of it, if rows do not fit; nothing has changed then.
    """
    if len({part.target.table for part in parts}) < len(parts):
        raise InvalidRequestError("A table is named twice in one commit; put its rows together.")
    while True:
        try:
            return _publish(store, parts, limit, check_new)
        except _AnotherTableError:
            continue  # another publisher was faster: its table gets the rows


class _AnotherTableError(Exception):
    """A name has another table than before."""


def _publish(store: TableStore, parts: Sequence[Part], limit: int | None, check_new: CheckNew | None) -> list[Table]:
    found = [store.find(part.target.table) for part in parts]
    new = {part.target.table: part.schema for part, there in zip(parts, found, strict=True) if there is None}
    if new and check_new is not None:
        check_new(new)
    tables: list[Table] = []
    made: list[Table] = []
    with ExitStack() as stack:
        try:
            with store.graph.cycle():
                for part, there in zip(parts, found, strict=True):
                    table, note = _table_for(store, part, there, limit)
                    tables.append(table)
                    if note is not None:
                        made.append(table)
                        store.graph.note(note)
                    apply_rows(table, part.target.mode, part.schema, part.batches)
                    if part.committed is not None:
                        store.graph.note(part.committed(table))
                if made:
                    stack.enter_context(store.making([table.name for table in made]))
                for part, there in zip(parts, found, strict=True):
                    if store.find(part.target.table) is not there:
                        raise _AnotherTableError
        except BaseException:
            for table in made:
                store.discard(table)
            raise
    return tables


def _table_for(store: TableStore, part: Part, there: Table | None, limit: int | None) -> tuple[Table, CycleNote | None]:
    """The checked table for the rows of ``part``, and a note that serves a new one.

    Args:
        store: finds and creates tables.
        part: the rows.
        there: the present table of that name, if there is one.
        limit: bytes that the rows may have in the table's types.
    """
    target = part.target
    if there is None:
        if target.mode is PublishMode.DELETE:
            raise UnknownTableError(f"There is no table '{target.table}' to delete rows from.")
        spec = _spec_of_new(target)
        table = store.make(target.table, part.schema, spec)
        _check_key(table, target)
        return table, store.serve(table, spec)
    _check_kind(there, target)
    _check_key(there, target)
    _check_nulls(there, part.batches, limit)
    if type(there) is not AppendTable or target.mode is not PublishMode.REPLACE or target.kind is not None:
        return there, None
    # An append table promises its subscribers that no row is removed: another table takes its place, and is durable if
    # it is.
    spec = TableSpec(TableKind.REPLACED, durable=store.keeps(there))
    table = store.make(there.name, there.schema, spec)
    return table, store.exchange(there, table, spec)


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
    """Check the size of columns of type null in the types of the table.

    Raises:
        LimitError: it exceeds ``limit``.
    """
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
        raise LimitError(
            f"These rows have {total:,} bytes in table '{table.name}'; {limit:,} may come at once (put_bytes)."
        )


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
    """Apply rows to a table in one cycle.

    Args:
        table: the table.
        wanted: the mode; see :class:`Target`.
        schema: the schema of the rows.
        batches: the rows.

    Raises:
        InvalidRequestError: a subclass of it, if the rows do not fit; nothing has changed then.
    """
    mode = _mode_for(table, wanted)
    if isinstance(table, AppendTable):
        with table.graph.cycle():
            # also without rows, so that a wrong schema is reported at the first batch
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
    """No rows, in plain form.

    Empty arrays of nested encodings made by pyarrow fail its own validation.
    """
    plain = pa.schema([field.with_type(plain_type(field.type)) for field in schema], schema.metadata)
    return pa.RecordBatch.from_arrays([empty_array(field.type) for field in plain], schema=plain)
