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
from barrage_server.wire.dictionaries import survives_streams
from barrage_server.wire.intake import Intake
from barrage_server.wire.protocol import (
    CommitRequest,
    CommitResult,
    StageRequest,
    StageResult,
    single_write_publisher,
)

__all__ = ["PublishResult", "Uploadable", "Uploader", "act", "record_batches_of"]

Uploadable = Any
"""Rows to publish: a pyarrow table, record batch or record batch reader, a mapping of columns, or anything that speaks
the Arrow PyCapsule protocol, such as a pandas or polars data frame."""

_SLOW_SECONDS: Final = 5.0
"""Seconds after which the connection of an upload is kept from being silent."""
_ARRAYS: Final = (pa.Array, pa.ChunkedArray)


@public
@dataclass(frozen=True, slots=True)
class PublishResult:
    """What became of a batch that was published under a publisher's name.

    Attributes:
        applied: whether this call has changed the table; False when the batch had been committed before.
        rows: rows that were applied; 0 for a repetition.
        last_batch: the publisher's last committed batch of the table now.

    """

    applied: bool
    rows: int
    last_batch: int


def record_batches_of(
    data: Uploadable, types: Mapping[str, pa.DataType] | None = None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema and the rows of ``data``, in batches of a few MiB; a reader is read lazily.

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
    """The short calls over a client's connection."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def act(self, action: str, body: bytes, doing: str) -> bytes:  # noqa: ARG002  (errors name the address)
        """The first result of an action."""
        return act(self._channel, action, body)


class Uploader:
    """Publishes rows for one client: stages them, and commits them once all are there.

    The server remembers the last batch of each publisher, and takes one that is not beyond it for a repetition. Batches
    of one name must therefore be committed in order: each concurrent upload has a publisher's name of its own, and
    names are used again, after successes: whether a failed batch was committed may be unknown.
    """

    def __init__(self, channel: Channel, timeout: float) -> None:
        self._channel = channel
        self._calls = _ChannelCalls(channel)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._name = single_write_publisher(f"client-{uuid.uuid4()}")
        self._names = 0
        self._free: list[tuple[str, int]] = []

    def publish(self, target: CommitRequest, data: Uploadable) -> int:
        """Publish ``data`` to ``target`` (this fills in its publisher, batch, tokens and schema).

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
        """Publish ``data`` as the batch of the publisher that ``target`` names (this fills in tokens and schema).

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
            # Another process may have committed the batch meanwhile: what is staged for it is dropped then.
            found = committed()
            if found is None:
                raise
            return found
        return PublishResult(result.committed, result.rows, result.last_batch)

    def last_batch(self, publisher: str, table: str, epoch: str | None, *, takeover: bool = False) -> int | None:
        """The last batch that ``publisher`` committed to ``table``; None when there is none."""
        return self._calls.last_batch(publisher, table, epoch, takeover=takeover)

    def _send(self, target: CommitRequest, data: Uploadable) -> CommitResult:
        """Stage ``data``, and commit it."""
        name = target.table or ""
        if self._channel.login.has_session:
            self._channel.greet()  # rows may be readable once only, so the session is checked first
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
        """The types of the table's columns, if ``data`` has Python values and the table exists.

        Requested each time, because the table may have been replaced.
        """
        if not isinstance(data, Mapping) or all(isinstance(column, _ARRAYS) for column in data.values()):
            return None
        try:
            return {field.name: field.type for field in look_up(self._channel, name).schema}
        except UnknownTableError:
            return None

    def _borrow(self) -> tuple[str, int]:
        """A publisher's name that no other thread uses now, and its next batch number."""
        with self._lock:
            if self._free:
                publisher, batch = self._free.pop()
            else:
                self._names += 1
                publisher, batch = f"{self._name}-{self._names}", -1
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
                # It may have been committed, and only the answer lost: asking again does nothing a second time.
                return replace(self._calls.commit(request), committed=True, duplicate=False, rows=rows)
        except BarrageError:
            with suppress(BarrageError):  # what is staged expires on the server by itself
                self._calls.abort(request.tokens)
            raise


def act(channel: Channel, action: str, body: bytes) -> bytes:
    """One action; the body of its first result, or ``{}`` when there is none."""

    def ask() -> list[flight.Result]:
        with translated(channel.address):
            return list(channel.client().do_action(flight.Action(action, body), channel.short()))

    results = channel.logged_in(ask)
    answer: bytes = results[0].body.to_pybytes() if results else b"{}"
    return answer
