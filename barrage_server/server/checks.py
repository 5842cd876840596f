"""The check of an upload's batches: each is checked while the next one arrives."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Final

import pyarrow as pa

from barrage_server.server.workers import Workers
from barrage_server.wire.intake import Intake

__all__ = ["checked"]

_MANY_BYTES: Final = 1 << 18
"""Least bytes of a batch that another thread checks: smaller ones are not worth its wake-up."""


def checked(
    batches: Iterable[pa.RecordBatch], intake: Intake, workers: Workers
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches in plain form, in their order, each with the bytes that it counts for.

    One of ``workers`` checks a large batch while the next one is received. Only one batch is checked at a time, so that
    at most one more is in memory. If no worker is free, the calling thread checks: no upload waits for another one.

    Args:
        batches: the received batches. The iterator may block.
        intake: checks and counts batches.
        workers: threads that may check.

    Raises:
        WireFormatError: a batch is damaged.
        LimitError: the batches have more bytes than allowed.

    """
    pending: _Check | None = None
    try:
        for batch in batches:
            if pending is not None:
                done, pending = pending, None
                yield done.result()
            pending = _Check(batch, intake, workers)
        if pending is not None:
            done, pending = pending, None
            yield done.result()
    finally:
        if pending is not None:
            pending.end()


class _Check:
    """The check of one batch, running or done."""

    def __init__(self, batch: pa.RecordBatch, intake: Intake, workers: Workers) -> None:
        self._batch = batch
        self._intake = intake
        self._future: Future[tuple[pa.RecordBatch, int]] | None = None
        if batch.get_total_buffer_size() >= _MANY_BYTES:
            self._future = workers.submit_if_free(self._take)

    def result(self) -> tuple[pa.RecordBatch, int]:
        """The plain batch and its bytes, or the error of the check."""
        if self._future is None or self._future.cancel():  # no worker has begun
            return self._take()
        return self._future.result()

    def end(self) -> None:
        """Give up the check. Returns when no worker runs it."""
        if self._future is not None and not self._future.cancel():
            concurrent.futures.wait([self._future])

    def _take(self) -> tuple[pa.RecordBatch, int]:
        before = self._intake.nbytes
        plain = self._intake.take(self._batch)
        return plain, self._intake.nbytes - before
