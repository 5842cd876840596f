"""The rows of the measurements: 27.9 bytes each.

They are int64, float64, int32, and a short string of 1,000 distinct values.

In tables that tick, ``price`` is the time at which a row was written, in seconds since 1970, from which a receiver
computes its age. (A float64 has a quarter of a microsecond there.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["BYTES_PER_ROW", "SCHEMA", "SYMBOLS", "batch", "batches", "rows", "stamped"]

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("quantity", pa.int32()), ("symbol", pa.string())])
BYTES_PER_ROW = 27.9
SYMBOLS = [f"S{number}" for number in range(1000)]
PRICE = SCHEMA.names.index("price")
_WORDS = pa.array(SYMBOLS)


def rows(ids: npt.NDArray[np.int64], seed: int = 0) -> pa.RecordBatch:
    """Rows with the given ids; other values depend on the seed."""
    random = np.random.default_rng(seed)
    count = len(ids)
    return pa.record_batch(
        [
            pa.array(ids),
            pa.array(random.random(count) * 100),
            pa.array(random.integers(0, 1000, count, dtype=np.int32)),
            _WORDS.take(pa.array(random.integers(0, 1000, count))),
        ],
        schema=SCHEMA,
    )


def batch(first: int, count: int, seed: int = 0) -> pa.RecordBatch:
    """Rows with the ids ``first`` to ``first + count - 1``."""
    return rows(np.arange(first, first + count, dtype=np.int64), seed)


def batches(count: int, step: int = 1 << 20) -> Iterator[pa.RecordBatch]:
    """Rows with the ids 0 to ``count - 1``, in batches of ``step``.

    The other values repeat from batch to batch.
    """
    template = batch(0, min(step, count))
    for first in range(0, count, step):
        size = min(step, count - first)
        ids = pa.array(np.arange(first, first + size, dtype=np.int64))
        yield template.slice(0, size).set_column(0, SCHEMA.field(0), ids)


def stamped(of: pa.RecordBatch, seconds: float) -> pa.RecordBatch:
    """The same rows, written at that time."""
    return of.set_column(PRICE, SCHEMA.field(PRICE), pa.array(np.full(of.num_rows, seconds)))
