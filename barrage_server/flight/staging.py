"""Publishing by stage and commit: rows are sent invisibly, and made visible once.

Rows are sent in chunks of bounded size. Publishers differ in their connections, error texts and retries, which they
pass in; the sequence of the calls is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.errors import PublishError
from barrage_server.wire.commit_messages import (
    AbortRequest,
    AbortResult,
    CommitRequest,
    CommitResult,
    KeepRequest,
    KeepResult,
    LastBatchRequest,
    LastBatchResult,
    StageEnd,
    StageRequest,
    StageResult,
)
from barrage_server.wire.plain_size import plain_batch_size
from barrage_server.wire.protocol import ABORT_ACTION, COMMIT_ACTION, KEEP_ACTION, LAST_BATCH_ACTION, STAGE_COMMAND

__all__ = ["FLIGHT_ERRORS", "CommitCalls", "OpenPut", "chunks", "stage"]

FLIGHT_ERRORS: Final = (flight.FlightError, pa.ArrowException, OSError)
"""The exceptions of failed calls of ``pyarrow.flight``."""

_CHUNK_BYTES: Final = 8 << 20

OpenPut = Callable[[flight.FlightDescriptor, pa.Schema], tuple[flight.FlightStreamWriter, flight.FlightMetadataReader]]
"""Begins a ``DoPut``, with the options and credentials of the connection."""


def chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Slice ``batches`` to about 8 MiB, or one row, and skip empty ones.

    Arrow's own sizes end the process where a list without elements has no offsets.
    """
    for batch in batches:
        rows = batch.num_rows
        step = max(1, rows * _CHUNK_BYTES // max(plain_batch_size(batch), _CHUNK_BYTES))
        for start in range(0, rows, step):
            yield batch.slice(start, step)


def stage(
    open_put: OpenPut,
    request: StageRequest,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    guarded: Callable[[], AbstractContextManager[None]],
) -> StageResult:
    """Send ``batches``, which stay invisible until a commit names their token.

    When ``batches`` raises, the server drops the rows, because the end mark is missing.

    Args:
        open_put: begins the call.
        request: the publisher, the table and the batch.
        schema: the schema of the batches.
        batches: the rows, in :func:`chunks`.
        guarded: a context for each call of Flight. ``batches`` runs outside of it: its errors are the caller's.

    Raises:
        PublishError: the server gave no answer after the last row.
    """
    with guarded():
        writer, answers = open_put(flight.FlightDescriptor.for_command(STAGE_COMMAND), schema)
    rows = 0
    try:
        with guarded(), _reason_first(writer):
            writer.write_metadata(request.to_json())
        for batch in batches:
            with guarded(), _reason_first(writer):
                writer.write_batch(batch)
            rows += batch.num_rows
        with guarded(), _reason_first(writer):
            writer.write_metadata(StageEnd(rows).to_json())
            writer.done_writing()
            answer = answers.read()
            writer.close()
    except BaseException:
        with suppress(*FLIGHT_ERRORS):  # the expected error: the end mark is missing
            writer.close()
        raise
    if answer is None:
        raise PublishError(f"The server did not confirm the rows for table '{request.table}'; nothing was published.")
    return StageResult.from_json(answer.to_pybytes())


@contextmanager
def _reason_first(writer: flight.FlightStreamWriter) -> Iterator[None]:
    """Raise the server's reason when a write fails on a stream that it ended."""
    try:
        yield
    except FLIGHT_ERRORS:
        writer.close()
        raise


class CommitCalls(ABC):
    """The short calls of a publisher about staged batches."""

    @abstractmethod
    def act(self, action: str, body: bytes, doing: str) -> bytes:
        """Run an action for the purpose ``doing``, and return its first result."""

    def commit(self, request: CommitRequest) -> CommitResult:
        """Make staged batches visible; ``duplicate`` is set for a repeated batch."""
        names = ", ".join(repr(part.table) for part in request.parts)
        doing = f"commit batch {request.batch} to table {names}"
        return CommitResult.from_json(self.act(COMMIT_ACTION, request.to_json(), doing))

    def abort(self, tokens: Iterable[str]) -> int:
        """Drop the rows of known tokens; returns their number."""
        wanted = tuple(tokens)
        return self._abort(AbortRequest(wanted)) if wanted else 0

    def abort_batch(self, publisher: str, table: str, batch: int, epoch: str | None = None) -> int:
        """Drop the rows that ``publisher`` staged as ``batch`` of ``table``.

        With ``epoch``, only those of this epoch.

        Returns:
            The number of their tokens.
        """
        return self._abort(AbortRequest(publisher=publisher, table=table, batch=batch, epoch=epoch))

    def keep_batch(self, publisher: str, table: str, batch: int, epoch: str | None = None) -> float:
        """Keep the rows that ``publisher`` staged as ``batch`` of ``table``.

        With ``epoch``, only those of this epoch.

        Returns:
            The seconds until they expire.
        """
        request = KeepRequest(publisher=publisher, table=table, batch=batch, epoch=epoch)
        answer = self.act(KEEP_ACTION, request.to_json(), "keep staged rows")
        return KeepResult.from_json(answer).expiry_ms / 1000

    def last_batch(self, publisher: str, table: str, epoch: str | None = None, *, takeover: bool = False) -> int | None:
        """The last batch that ``publisher`` committed to ``table``; None without one.

        With ``epoch``, the last batch of that epoch. FencedError is raised when the epoch could not commit, with
        ``takeover`` as a new one.
        """
        return self._ask(LastBatchRequest(publisher, table, epoch, takeover)).last_batch

    def takes_gaps(self, publisher: str, table: str) -> bool:
        """Whether ``table`` takes a batch without those before it, as blink tables do."""
        return self._ask(LastBatchRequest(publisher, table)).takes_gaps

    def _ask(self, request: LastBatchRequest) -> LastBatchResult:
        doing = f"ask for the last batch of table {request.table!r}"
        return LastBatchResult.from_json(self.act(LAST_BATCH_ACTION, request.to_json(), doing))

    def _abort(self, request: AbortRequest) -> int:
        return AbortResult.from_json(self.act(ABORT_ACTION, request.to_json(), "abort staged rows")).dropped
