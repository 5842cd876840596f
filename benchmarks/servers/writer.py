"""Rows for tables that tick, written at a steady rate by a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks import data

__all__ = ["ROWS_PER_VIEW", "Writer", "appended", "one_per_view", "upserted"]

ROWS_PER_VIEW = 100
_IDS, _VALUES = 61, 64  # without a common factor, so that the same rows come again after 3,904 batches only


def appended(first: int, count: int) -> Iterator[pa.RecordBatch]:
    """Batches of ``count`` rows with ids from ``first`` on."""
    template = data.batch(0, count)
    while True:
        ids = pa.array(np.arange(first, first + count, dtype=np.int64))
        yield template.set_column(0, data.SCHEMA.field(0), ids)
        first += count


def upserted(keys: int, count: int) -> Iterator[pa.RecordBatch]:
    """Batches of about ``count`` rows with random ids from 0 to ``keys - 1``.

    No id is twice in a batch.
    """
    random = np.random.default_rng(1)
    drawn = []
    for _ in range(_IDS):
        ids = np.unique(random.integers(0, keys, count))
        random.shuffle(ids)
        drawn.append(ids)
    yield from _updates(drawn, count)


def one_per_view(keys: int) -> Iterator[pa.RecordBatch]:
    """Batches that change one row of each stretch of 100 ids."""
    firsts = np.arange(0, keys, ROWS_PER_VIEW)
    yield from _updates([firsts + number * 37 % ROWS_PER_VIEW for number in range(_IDS)], len(firsts))


def _updates(ids: list[npt.NDArray[np.int64]], count: int) -> Iterator[pa.RecordBatch]:
    values = [data.batch(0, count, seed) for seed in range(_VALUES)]
    number = 0
    while True:
        keys = ids[number % _IDS]
        rows = values[number % _VALUES].slice(0, len(keys))
        yield rows.set_column(0, data.SCHEMA.field(0), pa.array(keys))
        number += 1


class Writer:
    """Writes a batch every ``seconds`` until it is stopped.

    A late batch is written at once.

    Rows are stamped with the time at which they were due, so that a writer that cannot keep up shows in their age.

    Args:
        write: takes a batch.
        batches: what is written.
        seconds: from one batch to the next.
        stamped: gives a batch the time at which it was due.
    """

    def __init__(
        self,
        write: Callable[[pa.RecordBatch], object],
        batches: Iterator[pa.RecordBatch],
        seconds: float,
        stamped: Callable[[pa.RecordBatch, float], pa.RecordBatch] = data.stamped,
    ) -> None:
        self._write, self._batches, self._seconds, self._stamped = write, batches, seconds, stamped
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        next(batches)  # so that what is made beforehand is made now
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop writing; raise what it has failed with."""
        self._stopped.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        due = time.time()
        try:
            while not self._stopped.wait(max(0.0, due - time.time())):
                self._write(self._stamped(next(self._batches), due))
                due += self._seconds
        except BaseException as error:  # raised by stop()
            self._error = error
