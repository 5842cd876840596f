"""The check of an upload's batches, beside their receipt: each is checked while the next one arrives."""

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
"""Bytes of a batch from which on another thread is worth its wake-up."""


def checked(
    batches: Iterable[pa.RecordBatch], intake: Intake, workers: Workers
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches in plain form, in their order, with the bytes that each counts for.

    A large batch is checked by one of ``workers`` while the next one is received; at most one at a time, so that one
    batch more is in memory. Where no thread is free, the caller's does it: no upload waits for the checks of another.

    Args:
        batches: as they came. It may block.
        intake: what checks and counts them.
        workers: threads.

    Raises:
        WireFormatError: a batch is damaged.
        LimitError: it is more than may come.

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
        """The plain batch and its bytes; raises what is wrong with it."""
        if self._future is None or self._future.cancel():  # no thread has begun with it
            return self._take()
        return self._future.result()

    def end(self) -> None:
        """The result is not needed. Returns when no thread works on it."""
        if self._future is not None and not self._future.cancel():
            concurrent.futures.wait([self._future])

    def _take(self) -> tuple[pa.RecordBatch, int]:
        before = self._intake.nbytes
        plain = self._intake.take(self._batch)
        return plain, self._intake.nbytes - before
