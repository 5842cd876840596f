"""Tables with rows that are overwritten: by key, or by position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from barrage_server.arguments import names
from barrage_server.engine.conform import Rows, conform
from barrage_server.engine.graph import UpdateGraph
from barrage_server.engine.key_index import KeyIndex
from barrage_server.engine.key_values import KeyValues
from barrage_server.engine.operation import Operation, OperationKind
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.restorable import RestorableTable
from barrage_server.engine.schemas import SchemaLike, as_schema
from barrage_server.engine.sorting import last_of_each
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.types import check_key_type
from barrage_server.engine.update import TableUpdate, all_columns, coalesce
from barrage_server.engine.values import BoolArray
from barrage_server.errors import InvalidRequestError, KeyMismatchError, SchemaMismatchError
from barrage_server.public import public
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["KeyedTable", "ReplacedTable"]

# Row keys of deleted rows are used again once there are this many of them, or a quarter of the rows.
_MIN_FREE_KEYS = 1024
# The most rows of upserts that a cycle applies together: copying more of them costs as much time as it saves.
_MOST_ROWS_TOGETHER = 10_000


class _OverwrittenTable(RestorableTable):
    """A table that overwrites cells where they differ, and collects garbage."""

    def _modify(
        self,
        plan: ReadPlan,
        batch: Sequence[pa.Array],
        skip: frozenset[int] = frozenset(),
        order: Int64Array | None = None,
    ) -> tuple[RowSet, ...]:
        """Write the cells of existing rows that differ from the stored ones.

        Args:
            plan: the rows.
            batch: one array per column.
            skip: the numbers of columns to leave unchanged.
            order: the position in the batch of each row of the plan; ``None`` for equal orders.

        Returns:
            The changed rows of each column.
        """
        modified = [RowSet.empty()] * len(self._store.columns)
        if plan.size:
            rows = plan.rows
            for number, (column, values) in enumerate(zip(self._store.columns, batch, strict=True)):
                if number not in skip:
                    modified[number] = _chosen(rows, plan, column.update(plan, values, self._store.undo, order))
        return tuple(modified)

    def _discard(self, gone: RowSet) -> None:
        if gone:
            for column in self._store.columns:
                column.discard(gone)

    def _collect_garbage(self) -> None:
        for column in self._store.columns:
            column.collect(self._rows, self._store.undo)


def _chosen(rows: RowSet, plan: ReadPlan, chosen: BoolArray) -> RowSet:
    """The ``chosen`` rows of ``plan``, whose row keys are ``rows``."""
    count = int(np.count_nonzero(chosen))
    if count == plan.size:
        return rows
    if count == 0:
        return RowSet.empty()
    if plan.is_contiguous and 2 * count > plan.size:  # few are left out
        return rows - RowSet.from_sorted_keys(plan.keys.take(np.flatnonzero(~chosen)))
    return RowSet.from_sorted_keys(plan.keys.take(np.flatnonzero(chosen)))


def _together(operations: Sequence[Operation]) -> list[list[Operation]]:
    """Group small successive upserts: the last row of a key counts in either case."""
    found: list[list[Operation]] = []
    rows = 0
    for operation in operations:
        rows += len(operation.columns[0])
        if found and found[-1][0].kind is operation.kind is OperationKind.UPSERT and rows <= _MOST_ROWS_TOGETHER:
            found[-1].append(operation)
        else:
            found.append([operation])
            rows = len(operation.columns[0])
    return found


def _one_upsert(run: list[Operation]) -> list[Operation]:
    try:
        columns = [pa.concat_arrays(parts) for parts in zip(*(upsert.columns for upsert in run), strict=True)]
    except pa.ArrowException:  # too large for one array, or of a type that Arrow does not concatenate
        return run
    return [Operation(OperationKind.UPSERT, columns)]


@public
class KeyedTable(_OverwrittenTable):
    """A table with at most one row per key.

    A null is a key value like any other, and so is NaN (each equals itself); -0.0 is the key 0.0. Where a batch has a
    key more than once, its last row wins. A row keeps its row key as long as it lives.

    Args:
        graph: the update graph whose cycles move this table.
        name: its name in messages and logs.
        schema: column names and Arrow types, in order; or a mapping of names to types.
        key: the key columns, at least one.
        is_input: whether clients of Deephaven may write to it.

    Raises:
        KeyMismatchError: there is no key column, it is named twice, or the schema lacks it.
        UnsupportedTypeError: a column has a type that tables cannot hold, or a key column one that cannot be a key.
    """

    def __init__(
        self,
        graph: UpdateGraph,
        name: str,
        schema: SchemaLike,
        key: Sequence[str] | str,
        *,
        is_input: bool = False,
    ) -> None:
        schema = as_schema(schema)
        if key is None or (isinstance(key, Sequence) and not key):
            raise KeyMismatchError(
                f"Table '{name}' needs at least one key column; a table without keys is an append table."
            )
        key = names(key, "key", single=True)
        if len(set(key)) != len(key):
            raise KeyMismatchError(f"Table '{name}' names a key column twice: {', '.join(key)}.")
        numbers = {column: number for number, column in enumerate(schema.names)}
        missing = [column for column in key if column not in numbers]
        if missing:
            raise KeyMismatchError(
                f"Key column {', '.join(missing)} is not in the schema of table '{name}', "
                f"which has: {', '.join(schema.names)}."
            )
        types = [schema.field(numbers[column]).type for column in key]
        for column, data_type in zip(key, types, strict=True):
            check_key_type(data_type, column)
        super().__init__(graph, name, schema, key_columns=key, traits=TableTraits(is_input=is_input))
        self._key_numbers = [numbers[column] for column in key]
        self._index = KeyIndex(types, self._read_keys)
        self._next_key = 0
        self._free = RowSet.empty()

    def upsert(self, rows: Rows) -> None:
        """Modify the rows of known keys, and add rows for new ones.

        Cells that stay equal count as unchanged. Takes and raises what :meth:`AppendTable.append` does.
        """
        self._stage(OperationKind.UPSERT, conform(self.schema, rows, table=self.name))

    def delete(self, keys: Rows) -> None:
        """Remove the rows with these keys.

        Ignores columns other than the key columns, and keys without a row.

        Raises what :meth:`AppendTable.append` does, and:
            KeyMismatchError: ``keys`` lack a key column, or have it in another type.
        """
        self._stage(OperationKind.DELETE, self._keys_of(keys))

    def replace(self, rows: Rows) -> None:
        """Make ``rows`` the whole content, by the smallest possible update.

        Rows whose keys are missing in ``rows`` are removed.

        Takes and raises what :meth:`AppendTable.append` does.
        """
        self._stage(OperationKind.REPLACE, conform(self.schema, rows, table=self.name))

    @property
    def next_key(self) -> int:
        """The first row key that was never used. Lower ones without a row are free."""
        return self._next_key

    def _restore_rows(self, rows: RowSet, batch: Sequence[pa.Array]) -> None:
        super()._restore_rows(rows, batch)
        self._index.insert(self._keys_in(batch), rows.keys())

    def _resume(self, rows: RowSet, next_key: int) -> None:
        if rows and rows.last_key >= next_key:
            raise InvalidRequestError(f"Table '{self.name}' has a row key from {next_key} on.")
        self._rows, self._next_key = rows, next_key
        self._free = RowSet.flat(next_key) - rows

    def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
        """Apply the staged operations in order."""
        before = self._rows
        total = TableUpdate.empty(len(self.schema))
        if len(operations) > 1:
            operations = [one for run in _together(operations) for one in (run if len(run) == 1 else self._joined(run))]
        for operation in operations:
            if operation.kind is OperationKind.DELETE:
                update = self._apply_delete(operation.columns)
            elif operation.kind is OperationKind.UPSERT:
                update = self._apply_upsert(operation.columns)
            else:
                update = self._apply_replace(operation.columns)
            total = update if len(operations) == 1 else coalesce(total, update, before)
        self._collect_garbage()
        return total

    def _joined(self, run: list[Operation]) -> list[Operation]:
        """The upserts of ``run`` as one, or unchanged if a new key repeats.

        The joined upsert would place such a row behind later ones.
        """
        joined = _one_upsert(run)
        keys = self._keys_in(joined[0].columns)
        return joined if len(self._index.deduplicate(keys)) == keys.count else run

    def _stage(self, kind: OperationKind, columns: Sequence[pa.Array]) -> None:
        if len(columns[0]) or kind is OperationKind.REPLACE:
            self.graph.stage(self, Operation(kind, columns))

    def _keys_of(self, keys: Rows) -> list[pa.Array]:
        try:
            ordered = conform(self.schema, keys, table=self.name, only=self.key_columns)
        except SchemaMismatchError as error:
            raise KeyMismatchError(
                f"Deleting from '{self.name}' takes its key columns {', '.join(self.key_columns)}: {error}"
            ) from None
        places = {number: place for place, number in enumerate(sorted(self._key_numbers))}
        return [ordered[places[number]] for number in self._key_numbers]

    def _read_keys(self, rows: Int64Array) -> list[pa.Array]:
        """Key values stored under ``rows`` (any order), one array per key column."""
        return [self._store.columns[number].read_current(rows) for number in self._key_numbers]

    @property
    def nbytes(self) -> int:
        """Bytes of the columns and of the key index."""
        return super().nbytes + self._index.nbytes

    def _keys_in(self, batch: Sequence[pa.Array]) -> KeyValues:
        return KeyValues([batch[number] for number in self._key_numbers])

    def _apply_upsert(self, batch: Sequence[pa.Array]) -> TableUpdate:
        keys = self._keys_in(batch)
        return self._set(batch, keys, self._index.lookup(keys))

    def _apply_replace(self, batch: Sequence[pa.Array]) -> TableUpdate:
        before = self._rows
        keys = self._keys_in(batch)
        found = self._index.lookup(keys)
        gone = before - RowSet.from_keys(found[found >= 0])
        removal = self._remove(gone)
        return coalesce(removal, self._set(batch, keys, found), before)

    def _apply_delete(self, keys: Sequence[pa.Array]) -> TableUpdate:
        found = self._index.lookup(KeyValues(keys))
        return self._remove(RowSet.from_keys(found[found >= 0]))

    def _remove(self, gone: RowSet) -> TableUpdate:
        if gone:
            self._index.remove(gone.keys())
            self._discard(gone)
            self._rows = self._rows - gone
            self._free = self._free | gone
        return TableUpdate(RowSet.empty(), gone, RowSetShiftData.empty(), all_columns(RowSet.empty(), len(self.schema)))

    def _set(self, batch: Sequence[pa.Array], keys: KeyValues, found: Int64Array) -> TableUpdate:
        """Write ``batch``. The last row of each key counts.

        Args:
            batch: one array per column.
            keys: the keys of the rows.
            found: the row keys of these keys, int64; -1 for new keys.
        """
        known = found >= 0
        known_count = int(np.count_nonzero(known))
        order: Int64Array | None = None  # where in the batch the known rows are; they come first to last
        old_rows = found
        new_batch: Sequence[pa.Array] | None = None
        new_keys = keys
        if known_count == 0:
            new_batch = batch
        elif known_count < len(found):
            order, others = np.flatnonzero(known), np.flatnonzero(~known)
            old_rows = found.take(order)
            picked = pa.array(others)
            new_batch, new_keys = [column.take(picked) for column in batch], keys.take(others)

        modified = all_columns(RowSet.empty(), len(self.schema))
        if known_count:
            if known_count > 1 and not bool((old_rows[1:] > old_rows[:-1]).all()):
                old_rows, last = last_of_each(old_rows)
                order = last if order is None else order.take(last)
            modified = self._modify(ReadPlan.from_keys(old_rows), batch, frozenset(self._key_numbers), order)

        added = RowSet.empty()
        if new_batch is not None:
            last = self._index.deduplicate(new_keys)
            if len(last) < new_keys.count:
                picked = pa.array(last)
                new_batch, new_keys = [column.take(picked) for column in new_batch], new_keys.take(last)
            added = self._add(new_batch, new_keys)
        return TableUpdate(added, RowSet.empty(), RowSetShiftData.empty(), modified)

    def _add(self, batch: Sequence[pa.Array], keys: KeyValues) -> RowSet:
        added, reused = self._take_row_keys(len(batch[0]))
        for column, values in zip(self._store.columns, batch, strict=True):
            column.write(added, values, self._store.undo if reused else None)
        self._index.insert(keys, added.keys())
        self._rows = self._rows | added
        return added

    def _take_row_keys(self, count: int) -> tuple[RowSet, bool]:
        """Row keys for new rows, and whether some of them were in use before."""
        reused = RowSet.empty()
        if self._free.size >= max(_MIN_FREE_KEYS, self._rows.size // 4):
            reused = self._free.slice(0, count)
            self._free = self._free - reused
        fresh = count - reused.size
        new = RowSet.from_range(self._next_key, self._next_key + fresh - 1)
        self._next_key += fresh
        return reused | new, bool(reused)


@public
class ReplacedTable(_OverwrittenTable):
    """A table without keys, replaced as a whole.

    It suits, for example, the ordered result of a query in complete mode. Row ``i`` of the new content takes the place
    of row ``i`` of the old one; cells that are equal count as unchanged, and rows are added or removed at the end. Rows
    can be appended, too. Row ``i`` has the row key ``i``.

    Args:
        graph: the update graph whose cycles move this table.
        name: its name in messages and logs.
        schema: column names and Arrow types, in order; or a mapping of names to types.

    Raises:
        UnsupportedTypeError: a column has a type that tables cannot hold.
    """

    def __init__(self, graph: UpdateGraph, name: str, schema: SchemaLike) -> None:
        super().__init__(graph, name, schema, traits=TableTraits(is_flat=True))
        self._written = 0

    def replace(self, rows: Rows) -> None:
        """Make ``rows`` the whole content, in order.

        Takes and raises what :meth:`AppendTable.append` does.
        """
        self.graph.stage(self, Operation(OperationKind.REPLACE, conform(self.schema, rows, table=self.name)))

    def append(self, rows: Rows) -> None:
        """Add ``rows`` behind the last row, in order.

        Takes and raises what :meth:`AppendTable.append` does.
        """
        batch = conform(self.schema, rows, table=self.name)
        if len(batch[0]):
            self.graph.stage(self, Operation(OperationKind.APPEND, batch))

    @property
    def next_key(self) -> int:
        """The number of rows."""
        return self._rows.size

    def _resume(self, rows: RowSet, next_key: int) -> None:
        if rows != RowSet.flat(rows.size) or rows.size > next_key:
            raise InvalidRequestError(f"The row keys of table '{self.name}' are not those of rows before {next_key}.")
        self._rows, self._written = rows, next_key

    def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
        """Apply the last staged content, and the rows appended to it."""
        kinds = [operation.kind for operation in operations]
        first = len(kinds) - 1 - kinds[::-1].index(OperationKind.REPLACE) if OperationKind.REPLACE in kinds else 0
        before, total = self._rows, None
        for operation in operations[first:]:
            replaces = operation.kind is OperationKind.REPLACE
            update = self._put(0 if replaces else self._rows.size, operation.columns)
            total = update if total is None else coalesce(total, update, before)
        self._collect_garbage()
        return total if total is not None else TableUpdate.empty(len(self.schema))

    def _put(self, start: int, batch: Sequence[pa.Array]) -> TableUpdate:
        """Make ``batch`` the rows from position ``start`` to the end."""
        old, new = self._rows.size, start + len(batch[0])
        common = min(old, new)
        same = common - start
        modified = self._modify(ReadPlan.from_range(start, common - 1), [values.slice(0, same) for values in batch])
        added = RowSet.from_range(old, new - 1)
        if added:
            # Rows that once were there and shrank away may still be held by a reader; rows beyond were never seen.
            undo = self._store.undo if old < self._written else None
            for column, values in zip(self._store.columns, batch, strict=True):
                column.write(added, values.slice(old - start), undo)
        removed = RowSet.from_range(new, old - 1)
        self._discard(removed)
        self._written = max(self._written, new)
        self._rows = RowSet.flat(new)
        return TableUpdate(added, removed, RowSetShiftData.empty(), modified)
