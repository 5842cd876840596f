"""Publishing rows once: staged on the server, then committed as a whole."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.client.channel import Channel
from barrage_server.client.failures import translated
from barrage_server.client.interruptible import Progress, run_interruptible
from barrage_server.client.lookup import look_up
from barrage_server.engine.frames import arrow_rows
from barrage_server.errors import (
    BarrageError,
    PublishError,
    SchemaMismatchError,
    UnavailableError,
    UnknownTableError,
)
from barrage_server.flight.staging import CommitCalls, chunks, stage
from barrage_server.public import public
from barrage_server.wire.commit_messages import (
    CommitRequest,
    CommitResult,
    StageRequest,
    StageResult,
    single_write_publisher,
)
from barrage_server.wire.dictionaries import survives_streams
from barrage_server.wire.intake import Intake

__all__ = ["PublishResult", "Uploadable", "Uploader", "act", "record_batches_of"]

Uploadable = Any
"""Rows to publish: a pyarrow table, record batch or record batch reader, a mapping of columns, or an object with the
Arrow PyCapsule protocol, such as a pandas or polars data frame."""

_SLOW_SECONDS: Final = 5.0
"""Seconds after which an upload keeps its connection alive by calls."""
_ARRAYS: Final = (pa.Array, pa.ChunkedArray)


@public
@dataclass(frozen=True, slots=True)
class PublishResult:
    """The outcome of a batch that was published under a publisher's name.

    Attributes:
        applied: whether this call has applied the batch; False when it had been committed before.
        rows: the number of rows applied; 0 for a repetition.
        last_batch: the publisher's last committed batch of the table now.
    """

    applied: bool
    rows: int
    last_batch: int


def record_batches_of(
    data: Uploadable, types: Mapping[str, pa.DataType] | None = None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Convert ``data`` to a schema and batches of a few MiB; a reader is read lazily.

    Args:
        data: the rows.
        types: column types by name, for Python values in a mapping.

    Raises:
        SchemaMismatchError: ``data`` does not hold rows.
        UnsupportedTypeError: tables cannot hold one of its types.
    """
    rows = arrow_rows(data, types)
    if isinstance(rows, pa.RecordBatch):
        batches = chunks([rows])
    else:
        batches = chunks(rows if isinstance(rows, pa.RecordBatchReader) else rows.to_batches())
    if all(map(survives_streams, rows.schema.types)):
        return rows.schema, batches
    intake = Intake(rows.schema)
    return intake.schema, map(intake.take, batches)


class _ChannelCalls(CommitCalls):
    """The calls for commits, over a client's connection."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def act(self, action: str, body: bytes, doing: str) -> bytes:  # noqa: ARG002  (errors name the address)
        """Return the body of an action's first result."""
        return act(self._channel, action, body)


class Uploader:
    """Publishes rows for one client: stages all rows, then commits them.

    The server remembers the last batch of each publisher, and takes a batch up to that number for a repetition. Batches
    of one publisher must therefore be committed in order: each concurrent upload uses another publisher's name. A name
    is used again after a success only, because a failed batch may have been committed.
    """

    def __init__(self, channel: Channel, timeout: float) -> None:
        self._channel = channel
        self._calls = _ChannelCalls(channel)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._identity = uuid.uuid4()
        self._names = 0
        self._free: list[tuple[str, int]] = []

    def publish(self, target: CommitRequest, data: Uploadable) -> int:
        """Publish ``data``.

        Args:
            target: the request to commit; its publisher, batch, tokens and schema are filled in here.
            data: the rows.

        Returns:
            The number of rows.

        Raises:
            BarrageError: nothing was published.
        """
        publisher, batch = self._borrow()
        result = self._send(replace(target, publisher=publisher, batch=batch), data)
        with self._lock:
            self._free.append((publisher, batch))
        return result.rows

    def publish_batch(self, target: CommitRequest, data: Uploadable) -> PublishResult:
        """Publish ``data`` as the batch of the publisher that ``target`` names.

        Args:
            target: the request to commit; its tokens and schema are filled in here.
            data: the rows.

        Raises:
            FencedError, LostBatchesError: the batch cannot be committed.
            BarrageError: nothing was published.
        """

        def committed() -> PublishResult | None:
            last = self.last_batch(target.publisher, target.table or "", target.epoch, takeover=target.takeover)
            return None if last is None or last < target.batch else PublishResult(False, 0, last)

        found = committed()  # rows of a repetition are not sent
        if found is not None:
            return found
        try:
            result = self._send(target, data)
        except PublishError:
            # Another process may have committed the batch meanwhile; the server then drops the rows staged here.
            found = committed()
            if found is None:
                raise
            return found
        return PublishResult(result.committed, result.rows, result.last_batch)

    def last_batch(self, publisher: str, table: str, epoch: str | None, *, takeover: bool = False) -> int | None:
        """Return the last batch that ``publisher`` committed to ``table``; None for none."""
        return self._calls.last_batch(publisher, table, epoch, takeover=takeover)

    def _send(self, target: CommitRequest, data: Uploadable) -> CommitResult:
        """Stage ``data``, and commit it."""
        name = target.table or ""
        if self._channel.login.has_session:
            self._channel.greet()  # renews the session before the rows are read, which may be possible once only
        try:
            schema, batches = record_batches_of(data, self._types_for(name, data))
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"Rows for table '{name}': {error}") from None
        request = StageRequest(target.publisher, name, target.batch, uuid.uuid4().hex, target.epoch)
        staged = run_interruptible(
            lambda progress: self._stage(request, schema, batches, progress),
            timeout=self._timeout,
            what=f"publishing to '{name}'",
        )
        return self._commit(replace(target, tokens=(staged.token,), schema=schema), staged.rows)

    def _types_for(self, name: str, data: Uploadable) -> Mapping[str, pa.DataType] | None:
        """Look up the types for Python values in ``data``; None for a new table.

        Not cached, because the table may be replaced.
        """
        if not isinstance(data, Mapping) or all(isinstance(column, _ARRAYS) for column in data.values()):
            return None
        try:
            return {field.name: field.type for field in look_up(self._channel, name).schema}
        except UnknownTableError:
            return None

    def _borrow(self) -> tuple[str, int]:
        """Return a publisher's name that is not in use, and its next batch number."""
        with self._lock:
            if self._free:
                publisher, batch = self._free.pop()
            else:
                self._names += 1
                publisher, batch = single_write_publisher(self._identity, self._names), -1
        return publisher, batch + 1

    def _stage(
        self, request: StageRequest, schema: pa.Schema, batches: Iterator[pa.RecordBatch], progress: Progress
    ) -> StageResult:
        began = time.monotonic()
        with ExitStack() as stack:

            def reported() -> Iterator[pa.RecordBatch]:
                is_slow = False
                for batch in batches:
                    if not is_slow and time.monotonic() - began > _SLOW_SECONDS:
                        is_slow = True
                        stack.enter_context(self._channel.kept_alive())
                    progress.check()
                    yield batch
                    progress.advance()

            with translated(self._channel.address):
                return stage(self._open_put, request, schema, reported(), nullcontext)

    def _open_put(
        self, descriptor: flight.FlightDescriptor, schema: pa.Schema
    ) -> tuple[flight.FlightStreamWriter, flight.FlightMetadataReader]:
        writer, answers = self._channel.client().do_put(descriptor, schema, self._channel.options())
        return writer, answers

    def _commit(self, request: CommitRequest, rows: int) -> CommitResult:
        try:
            try:
                return self._calls.commit(request)
            except UnavailableError:
                # The answer may be lost after a commit; commits are idempotent.
                return replace(self._calls.commit(request), committed=True, duplicate=False, rows=rows)
        except BarrageError:
            with suppress(BarrageError):  # staged rows expire on the server
                self._calls.abort(request.tokens)
            raise


def act(channel: Channel, action: str, body: bytes) -> bytes:
    """Do an action; return the body of its first result, or ``{}`` without a result."""

    def ask() -> list[flight.Result]:
        with translated(channel.address):
            return list(channel.client().do_action(flight.Action(action, body), channel.short()))

    results = channel.logged_in(ask)
    answer: bytes = results[0].body.to_pybytes() if results else b"{}"
    return answer
