"""The rows that pages show.

``id`` counts from :data:`FIRST_ID`, so that what is painted tells which rows they are: nothing else that a page paints
is as large. ``at`` is the time of the last change of a row, in microseconds since 1970, and larger than any id.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks import data

__all__ = [
    "CELLS",
    "FIRST_ID",
    "FIRST_TIME",
    "NUMBERS",
    "POINTS",
    "STILL",
    "TIME_STEP",
    "cells",
    "changed",
    "now",
    "points",
    "stamp_of",
    "stamped",
    "still",
]

FIRST_ID: Final = 1_100_000_000
NUMBERS: Final = 16
_NUMBER_NAMES: Final = [f"n{number}" for number in range(NUMBERS)]
STILL: Final = pa.schema(
    [("id", pa.int32()), ("price", pa.float64()), ("quantity", pa.int32()), ("symbol", pa.string())]
)
"""Of tables that do not change."""
CELLS: Final = pa.schema([("id", pa.int32()), ("at", pa.int64()), *((name, pa.float64()) for name in _NUMBER_NAMES)])
"""Of tables whose cells do, by id."""
POINTS: Final = pa.schema([("x", pa.timestamp("ns", "UTC")), ("y", pa.float64())])
"""Of tables that are plotted."""
FIRST_TIME: Final = 1_718_445_600_000_000_000
TIME_STEP: Final = 1_000_000
"""Nanoseconds, from one point to the next; the first one is at :data:`FIRST_TIME`."""
_STEP: Final = 1 << 20
_VALUES: Final = 64


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def still(count: int, columns: int = len(STILL)) -> Iterator[pa.RecordBatch]:
    """``count`` rows of the first ``columns`` columns of :data:`STILL`."""
    template = data.batch(0, min(_STEP, count))
    for first in range(0, count, _STEP):
        size = min(_STEP, count - first)
        ids = np.arange(FIRST_ID + first, FIRST_ID + first + size, dtype=np.int32)
        arrays = [pa.array(ids), *template.slice(0, size).columns[1:]]
        yield pa.record_batch(arrays, schema=STILL).select(STILL.names[:columns])


def cells(numbers: npt.NDArray[np.int64], seed: int) -> pa.RecordBatch:
    """Rows of :data:`CELLS` by their numbers, which begin with 0, changed now."""
    random = np.random.default_rng(seed)
    values = [pa.array(np.round(random.random(len(numbers)) * 1000, 2)) for _ in range(NUMBERS)]
    ids, at = pa.array((FIRST_ID + numbers).astype(np.int32)), pa.array(np.full(len(numbers), now()))
    return pa.record_batch([ids, at, *values], schema=CELLS)


def changed(rows: int, count: int) -> Iterator[pa.RecordBatch]:
    """Batches that change all cells of ``count`` of ``rows`` rows; stamp them."""
    random = np.random.default_rng(1)
    made = [cells(np.sort(random.choice(rows, count, replace=False)), seed) for seed in range(_VALUES)]
    while True:
        yield from made


def stamp_of(of: pa.RecordBatch) -> int:
    """When rows of :data:`CELLS` changed, as they say: the first of them."""
    return int(of["at"][0].as_py())


def stamped(of: pa.RecordBatch, seconds: float) -> pa.RecordBatch:
    """Rows of :data:`CELLS` that changed at that time, in seconds since 1970."""
    at = CELLS.names.index("at")
    return of.set_column(at, CELLS.field(at), pa.array(np.full(of.num_rows, round(seconds * 1e6))))


def points(first: int, count: int) -> Iterator[pa.RecordBatch]:
    """Rows of :data:`POINTS` by their numbers: a curve with noise.

    No two stretches of it are alike.
    """
    for begin in range(first, first + count, _STEP):
        numbers = np.arange(begin, min(begin + _STEP, first + count))
        x = pa.array(FIRST_TIME + numbers * TIME_STEP).cast(POINTS.field("x").type)
        noise = np.random.default_rng(begin).standard_normal(len(numbers))
        yield pa.record_batch([x, pa.array(np.sin(numbers / 1e5) * 50 + noise)], schema=POINTS)
