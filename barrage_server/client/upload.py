"""Publishing rows once: staged on the server, then committed as a whole."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.client.channel import Channel
from barrage_server.client.failures import translated
from barrage_server.client.lookup import look_up
from barrage_server.client.patience import Progress, patiently
from barrage_server.engine.frames import arrow_rows
from barrage_server.errors import BarrageError, PublishError, SchemaMismatchError, UnavailableError, UnknownTableError
from barrage_server.wire.dictionaries import survives_streams
from barrage_server.wire.intake import Intake
from barrage_server.wire.protocol import (
    ABORT_ACTION,
    COMMIT_ACTION,
    STAGE_COMMAND,
    AbortRequest,
    CommitRequest,
    CommitResult,
    StageEnd,
    StageRequest,
    StageResult,
)

__all__ = ["Uploadable", "Uploader", "act", "record_batches_of"]

Uploadable = Any
"""Rows to publish: a pyarrow table, record batch or record batch reader, a mapping of columns, or anything that speaks
the Arrow PyCapsule protocol, such as a pandas or polars data frame."""

_BATCH_BYTES: Final = 8 << 20
_ARRAYS: Final = (pa.Array, pa.ChunkedArray)


def record_batches_of(
    data: Uploadable, types: Mapping[str, pa.DataType] | None = None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema and the rows of ``data``, in batches of a few MiB; a reader is read as the batches are asked for.

    Args:
        data: the rows.
        types: of columns by name, for those of a mapping whose values have no Arrow type of their own.

    Raises:
        SchemaMismatchError: it is nothing that holds rows.
        UnsupportedTypeError: tables cannot hold one of its types.
    """
    rows = arrow_rows(data, types)
    if isinstance(rows, pa.RecordBatch):
        batches = _sliced([rows])
    else:
        batches = _sliced(rows if isinstance(rows, pa.RecordBatchReader) else rows.to_batches())
    if all(map(survives_streams, rows.schema.types)):
        return rows.schema, batches
    intake = Intake(rows.schema)
    return intake.schema, map(intake.take, batches)


def _sliced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = max(1, batch.num_rows * _BATCH_BYTES // max(1, batch.get_total_buffer_size()))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def stage(
    channel: Channel, request: StageRequest, schema: pa.Schema, batches: Iterator[pa.RecordBatch], progress: Progress
) -> StageResult:
    """Send rows to where nobody sees them yet. Without the end marker, sent last, the server drops them."""
    rows = 0
    with translated(channel.address):
        descriptor = flight.FlightDescriptor.for_command(STAGE_COMMAND)
        writer, answers = channel.client().do_put(descriptor, schema, channel.options())
        try:
            writer.write_metadata(request.to_json())
            for batch in batches:
                progress.check()
                _write(writer, batch)
                progress.advance()
                rows += batch.num_rows
            writer.write_metadata(StageEnd(rows).to_json())
            writer.done_writing()
            answer = answers.read()
        except BaseException:
            with suppress(pa.ArrowException):  # the server says that the end is missing, which is no news here
                writer.close()
            raise
        writer.close()  # what the server has against it comes out here
    if answer is None:
        raise PublishError(f"The server did not confirm the rows for '{request.table}'; nothing was published.")
    return StageResult.from_json(answer.to_pybytes())


def _write(writer: flight.FlightStreamWriter, batch: pa.RecordBatch) -> None:
    try:
        writer.write_batch(batch)
    except pa.ArrowException:
        writer.close()  # raises the server's reason, where there is one
        raise


class Uploader:
    """Publishes rows for one client: stages them, and commits them once all are there.

    The server remembers the last batch of each publisher, and takes one that is not beyond it for a repetition. Batches
    of one name must therefore be committed in order: each concurrent upload has a publisher's name of its own, and
    names are used again.
    """

    def __init__(self, channel: Channel, timeout: float) -> None:
        self._channel = channel
        self._timeout = timeout
        self._lock = threading.Lock()
        self._name = f"client-{uuid.uuid4()}"
        self._names = 0
        self._free: list[tuple[str, int]] = []

    def publish(self, target: CommitRequest, data: Uploadable) -> int:
        """Publish ``data`` as ``target`` says (its publisher, batch, tokens and schema are filled in here).

        Returns:
            The number of rows.

        Raises:
            BarrageError: nothing was published.
        """
        if self._channel.login.has_session:
            self._channel.greet()  # rows may be there to be read once only, so the session had better be alive
        try:
            schema, batches = record_batches_of(data, self._types_for(target.table, data))
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"Rows for table '{target.table}': {error}") from None
        publisher, batch = self._borrow()
        try:
            request = StageRequest(publisher, target.table, batch, attempt=uuid.uuid4().hex)
            staged = patiently(
                lambda progress: stage(self._channel, request, schema, batches, progress),
                timeout=self._timeout,
                what=f"publishing to '{target.table}'",
            )
            tokens = (staged.token,)
            self._commit(replace(target, publisher=publisher, batch=batch, tokens=tokens, schema=schema))
            return staged.rows
        finally:
            with self._lock:
                self._free.append((publisher, batch))

    def _types_for(self, name: str, data: Uploadable) -> Mapping[str, pa.DataType] | None:
        """The types of the table's columns, where ``data`` has values to be converted to them and there is the table.

        They are asked for each time: the table may be another one by now.
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

    def _commit(self, request: CommitRequest) -> CommitResult:
        body = request.to_json()
        try:
            try:
                answer = act(self._channel, COMMIT_ACTION, body)
            except UnavailableError:
                # It may have been committed, and only the answer lost: asking again does nothing a second time.
                answer = act(self._channel, COMMIT_ACTION, body)
            return CommitResult.from_json(answer)
        except BarrageError:
            _abort(self._channel, request.tokens)
            raise


def act(channel: Channel, action: str, body: bytes) -> bytes:
    """One action; the body of its first result, or ``{}`` when there is none."""

    def ask() -> list[flight.Result]:
        with translated(channel.address):
            return list(channel.client().do_action(flight.Action(action, body), channel.short()))

    results = channel.logged_in(ask)
    answer: bytes = results[0].body.to_pybytes() if results else b"{}"
    return answer


def _abort(channel: Channel, tokens: tuple[str, ...]) -> None:
    try:
        act(channel, ABORT_ACTION, AbortRequest(tokens).to_json())
    except BarrageError:
        return  # they expire on the server by themselves
