"""Commits: what is staged becomes one delta, once."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.engine import Table
from barrage_server.errors import (
    InvalidRequestError,
    PublishError,
    SchemaMismatchError,
    UnknownColumnError,
    UnsupportedTypeError,
)
from barrage_server.publish.delta import Part, TableStore, Target, publish_parts
from barrage_server.publish.ledger import Ledger
from barrage_server.publish.notes import BatchCommitted
from barrage_server.publish.staging import Staged, StagingArea
from barrage_server.wire.protocol import CommitRequest, CommitResult, StageRequest

__all__ = ["Committer"]


class Committer:
    """Turns staged batches into deltas of tables, one at a time.

    A commit is all or nothing: either its rows are visible in one cycle and its batch number is in the ledger, or
    neither. A batch whose number is not greater than the publisher's last one is a repetition and changes nothing.
    """

    def __init__(self, store: TableStore, staging: StagingArea, ledger: Ledger) -> None:
        self._store = store
        self._staging = staging
        self._ledger = ledger
        self._lock = threading.Lock()
        ledger.watch(store.find)

    def commit(self, request: CommitRequest) -> CommitResult:
        """Make the batches under ``request.tokens`` visible.

        Raises:
            PublishError: a token is unknown or was staged for another batch, or the publisher's last batch is not the
                expected one.
            InvalidRequestError: a subclass of it, when the rows or options do not fit the table.

        """
        with self._lock:  # a commit that is retried while the first attempt runs is its repetition
            if self._ledger.has(request.publisher, request.table, request.batch):
                self._staging.drop(request.tokens)
                self._store.graph.wait_until_durable()
                return self._result(request, duplicate=True, rows=0, step=self._store.graph.step)
            self._check_expected(request)
            staged = self._staging.find(request.tokens, request.publisher, request.table, request.batch)
            schema, batches = _gather(request, staged)
            target = Target(request.table, request.mode, request.key, request.kind, request.capacity)
            part = Part(target, schema, batches, lambda table: self._committed(request, table))
            (table,) = publish_parts(self._store, [part], limit=self._staging.limits.total_bytes)
            self._staging.drop(request.tokens)
            # Attempts that lost a race, or whose driver is gone, are never committed.
            self._staging.drop_sealed(request.publisher, request.table, request.batch)
            return self._result(request, duplicate=False, rows=part.rows, step=table.version.step)

    def _committed(self, request: CommitRequest, table: Table) -> BatchCommitted:
        """What records the batch, with the cycle that has its rows."""
        entry = {"publisher": request.publisher, "batch": request.batch}
        return BatchCommitted(
            table, lambda: self._ledger.advance(request.publisher, request.table, request.batch, table), entry
        )

    def staged(self, request: StageRequest, token: str) -> None:
        """Record that an entry was sealed; drop it if its batch was committed meanwhile."""
        if self._ledger.has(request.publisher, request.table, request.batch):
            self._staging.drop([token])

    def _check_expected(self, request: CommitRequest) -> None:
        last = self._ledger.last(request.publisher, request.table)
        if request.expected_last is not None and last != request.expected_last:
            known = "no batch" if last is None else f"batch {last} as the last one"
            raise PublishError(
                f"Batch {request.batch} of table '{request.table}' follows batch {request.expected_last}, and this "
                f"server knows {known} of its publisher: it was restarted, or the table was dropped."
            )

    def _result(self, request: CommitRequest, *, duplicate: bool, rows: int, step: int) -> CommitResult:
        last = self._ledger.last(request.publisher, request.table)
        return CommitResult(
            committed=not duplicate,
            duplicate=duplicate,
            rows=rows,
            last_batch=request.batch if last is None else last,
            step=step,
        )


def _gather(request: CommitRequest, staged: Sequence[Staged]) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """The schema and the rows of a commit, in the order in which they are applied."""
    schema = request.schema if request.schema is not None else next((entry.schema for entry in staged), None)
    if schema is None:
        raise InvalidRequestError(
            f"Batch {request.batch} of table '{request.table}' is empty: send the schema with it."
        )
    for entry in staged:
        if not entry.schema.equals(schema, check_metadata=False) and entry.rows:
            raise SchemaMismatchError(
                f"The parts of batch {request.batch} of table '{request.table}' have different schemas: "
                f"{_columns(schema)}, and {_columns(entry.schema)}."
            )
    batches = [batch for entry in staged for batch in entry.batches if batch.num_rows]
    if request.order_by is not None:
        batches = _sorted(batches, schema, request.order_by)
    return schema, batches


def _sorted(batches: list[pa.RecordBatch], schema: pa.Schema, column: str) -> list[pa.RecordBatch]:
    if column not in schema.names:
        raise UnknownColumnError(f"There is no column '{column}' to order by; there are: {', '.join(schema.names)}.")
    rows = pa.Table.from_batches(batches, schema=batches[0].schema if batches else schema)
    try:
        order = pc.sort_indices(rows, sort_keys=[(column, "ascending")])  # stable: equal rows keep their order
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise UnsupportedTypeError(
            f"Rows cannot be ordered by '{column}' of type {schema.field(column).type}."
        ) from error
    ordered: list[pa.RecordBatch] = rows.take(order).to_batches()
    return ordered


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
