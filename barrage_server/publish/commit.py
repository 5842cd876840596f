"""Commits of staged batches: one delta of each table, exactly once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.engine import BlinkTable, Table
from barrage_server.errors import (
    FencedError,
    InvalidRequestError,
    LostBatchesError,
    PublishError,
    SchemaMismatchError,
    UnknownColumnError,
    UnsupportedTypeError,
)
from barrage_server.publish.delta import CheckNew, Part, TableStore, Target, publish_parts
from barrage_server.publish.ledger import Identity, Ledger, LedgerEntry
from barrage_server.publish.notes import BatchCommitted
from barrage_server.publish.refused_batches import RefusedBatches
from barrage_server.publish.staging import Staged, StagingArea
from barrage_server.wire.commit_messages import (
    CommitPart,
    CommitRequest,
    CommitResult,
    LastBatchRequest,
    LastBatchResult,
    StageRequest,
    is_single_write,
)
from barrage_server.wire.protocol import PublishMode, TableKind

__all__ = ["Committer"]

logger = logging.getLogger("barrage_server.publish")


class Committer:
    """Turns staged batches into deltas of tables, one commit per publisher at a time.

    A commit is all or nothing: either the rows of all its tables are visible in one cycle and its batch number is in
    the ledger for each, or neither. A batch whose number is not greater than the publisher's last one is a repetition
    and changes nothing. A batch that does not follow the last one is refused.
    """

    def __init__(
        self, store: TableStore, staging: StagingArea, ledger: Ledger, refused: RefusedBatches | None = None
    ) -> None:
        self._store = store
        self._staging = staging
        self._ledger = ledger
        self._committing: set[str] = set()  # publishers
        self._refused = RefusedBatches() if refused is None else refused
        self._ended = threading.Condition()
        ledger.watch(store.find)

    def commit(
        self, request: CommitRequest, principal: str = "", now: float = 0.0, check_new: CheckNew | None = None
    ) -> CommitResult:
        """Make the batches under the tokens of ``request`` visible.

        Skips tables that have the batch already.

        Args:
            request: the request.
            principal: the user of the call.
            now: seconds of the wall clock.
            check_new: called with the schemas of tables to be created, by name; raises if the user may not create them.

        Raises:
            FencedError: the publisher's name belongs to another user, or another epoch has it.
            LostBatchesError: batches between the last one and this one are missing.
            PublishError: a token is unknown or was staged for another batch, or the publisher's last batch is not the
                expected one.
            LimitError: the server remembers as many publishers as it can.
            InvalidRequestError: a subclass of it, if the rows or options do not fit a table.
        """
        identity = Identity(request.publisher, request.epoch, principal)
        with self._turn_of(request.publisher):
            names = [part.table for part in request.parts]
            try:
                self._ledger.admit(identity, names, now, takeover=request.takeover)
            except FencedError as error:
                self._refused.warn(identity, names, request.batch, error)
                raise
            parts = [part for part in request.parts if not self._has(identity, part.table, request.batch)]
            for part in parts:
                self._check_expected(request, identity, part)
            if parts:
                rows, step = self._apply(request, identity, parts, now, check_new)
            else:
                self._store.graph.wait_until_durable()
                rows, step = 0, self._store.graph.step
            self._drop_superseded(request, identity)
            self._refused.committed(identity, names)
            lasts = [self._ledger.last_of(identity, name) for name in names]
            return CommitResult(
                committed=bool(parts),
                duplicate=not parts,
                rows=rows,
                last_batch=min((last for last in lasts if last is not None), default=request.batch),
                step=step,
            )

    @contextmanager
    def _turn_of(self, publisher: str) -> Iterator[None]:
        """Exclude other commits of ``publisher`` during the ``with`` body.

        A commit that is sent again while the first one runs is then a repetition. Commits of different publishers run
        concurrently, and share a sync of the journal.
        """
        with self._ended:
            self._ended.wait_for(lambda: publisher not in self._committing)
            self._committing.add(publisher)
        try:
            yield
        finally:
            with self._ended:
                self._committing.discard(publisher)
                self._ended.notify_all()

    def last_batch(self, request: LastBatchRequest, principal: str = "") -> LastBatchResult:
        """The last committed batch.

        Raises:
            FencedError: the publisher of the request may not commit.
        """
        if request.epoch is None:
            self._ledger.check_owner(request.publisher, principal)
            last = self._ledger.last(request.publisher, request.table)
        else:
            identity = Identity(request.publisher, request.epoch, principal)
            self._ledger.check(identity, takeover=request.takeover)
            last = self._ledger.last_of(identity, request.table)
        return LastBatchResult(last, takes_gaps=self._blinks(request.table))

    def check_stage(self, request: StageRequest, principal: str = "") -> None:
        """Raise FencedError if the batch of ``request`` could never be committed."""
        identity = Identity(request.publisher, request.epoch, principal)
        try:
            self._ledger.check(identity, takeover=True)
        except FencedError as error:
            self._refused.warn(identity, [request.table], request.batch, error)
            raise

    def staged(self, request: StageRequest, token: str) -> None:
        """Drop a newly sealed entry if its batch has been committed meanwhile."""
        if self._has(Identity(request.publisher, request.epoch), request.table, request.batch):
            self._staging.drop([token])

    def _apply(
        self,
        request: CommitRequest,
        identity: Identity,
        parts: Sequence[CommitPart],
        now: float,
        check_new: CheckNew | None,
    ) -> tuple[int, int]:
        """Apply and record the deltas in one cycle.

        Returns:
            The number of rows, and the step of the cycle.
        """
        # one entry for all parts: the ledger may forget the publisher's earlier epochs by age meanwhile
        entry = self._ledger.entry(identity, parts[0].table, request.batch, now)
        deltas = [self._delta(request, identity, part, replace(entry, table=part.table)) for part in parts]
        tables = publish_parts(self._store, deltas, limit=self._staging.limits.total_bytes, check_new=check_new)
        return sum(delta.rows for delta in deltas), max(table.version.step for table in tables)

    def _delta(self, request: CommitRequest, identity: Identity, part: CommitPart, entry: LedgerEntry) -> Part:
        target, schema, batches = _gather(request, part, self._staged(request, identity, part))

        def committed(table: Table) -> BatchCommitted:
            """The note that records the batch, in the cycle with its rows."""
            return BatchCommitted(table, lambda: self._ledger.advance(entry, table), entry.to_fields())

        return Part(target, schema, batches, committed)

    def _staged(self, request: CommitRequest, identity: Identity, part: CommitPart) -> list[Staged]:
        publisher, epoch, principal = identity.publisher, identity.epoch, identity.principal
        return self._staging.find(part.tokens, publisher, part.table, request.batch, epoch=epoch, principal=principal)

    def _drop_superseded(self, request: CommitRequest, identity: Identity) -> None:
        """Drop entries that can no longer be committed.

        These are other attempts at the batch, batches of a driver that has ended, and batches of earlier epochs.
        """

        def is_over(staged: StageRequest) -> bool:
            if staged.epoch == request.epoch:
                return staged.batch <= request.batch
            return self._ledger.is_earlier(staged.publisher, staged.epoch)

        for part in request.parts:
            self._staging.drop(part.tokens, identity.principal)
            self._staging.drop_those(identity.publisher, part.table, identity.principal, is_over)

    def _has(self, identity: Identity, table: str, batch: int) -> bool:
        last = self._ledger.last_of(identity, table)
        return last is not None and batch <= last

    def _check_expected(self, request: CommitRequest, identity: Identity, part: CommitPart) -> None:
        """Raise unless the batch follows the table's last one, as the publisher demands."""
        last = self._ledger.last_of(identity, part.table)
        if request.expected_last is not None and last != request.expected_last:
            known = "no batch" if last is None else f"batch {last} as the last one"
            raise PublishError(
                f"Batch {request.batch} of table '{part.table}' follows batch {request.expected_last}, and this "
                f"server knows {known} of its publisher: it was restarted, or the table was dropped."
            )
        first = 0 if last is None else last + 1
        if request.batch <= first or is_single_write(request.publisher) or self._needs_no_history(part):
            return
        missing = f"batch {first} is" if request.batch - first == 1 else f"batches {first} to {request.batch - 1} are"
        known = "no batch of it" if last is None else f"batch {last} as its last one"
        text = (
            f"Batch {request.batch} of publisher {request.publisher!r} does not follow in table '{part.table}': "
            f"{missing} missing, and this server knows {known}"
        )
        if not request.allow_gap:
            error = LostBatchesError(
                f"{text} (it was restarted, the table was dropped, or they went to another server). Publish the "
                "missing batches first, counted from 0, or accept the gap with allow_gap=True (--allow-gap)."
            )
            self._refused.warn(identity, [part.table], request.batch, error)
            raise error
        logger.warning("%s; committed without them, as its publisher allows", text)

    def _needs_no_history(self, part: CommitPart) -> bool:
        """Whether earlier batches do not matter: for replacement and blink tables."""
        return part.mode is PublishMode.REPLACE or part.kind is TableKind.BLINK or self._blinks(part.table)

    def _blinks(self, table: str) -> bool:
        return isinstance(self._store.find(table), BlinkTable)


def _gather(
    request: CommitRequest, part: CommitPart, staged: Sequence[Staged]
) -> tuple[Target, pa.Schema, list[pa.RecordBatch]]:
    """The target, the schema and the ordered rows of one table."""
    schema = part.schema if part.schema is not None else next((entry.schema for entry in staged), None)
    if schema is None:
        raise InvalidRequestError(f"Batch {request.batch} of table '{part.table}' is empty: send the schema with it.")
    for entry in staged:
        if not entry.schema.equals(schema, check_metadata=False) and entry.rows:
            raise SchemaMismatchError(
                f"The parts of batch {request.batch} of table '{part.table}' have different schemas: "
                f"{_columns(schema)}, and {_columns(entry.schema)}."
            )
    batches = [batch for entry in staged for batch in entry.batches if batch.num_rows]
    if part.order_by is not None:
        batches = _sorted(batches, schema, part.order_by)
    return Target(part.table, part.mode, part.key, part.kind, part.capacity), schema, batches


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
