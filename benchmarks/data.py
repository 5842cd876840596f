"""The rows that everything is measured with: int64 + float64 + int32 + a short string of 1,000 distinct values, 27.9
bytes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("quantity", pa.int32()), ("symbol", pa.string())])
BYTES_PER_ROW = 27.9
_WORDS = pa.array([f"S{number:03d}" for number in range(1000)])


def batch(first: int, count: int, seed: int = 0) -> pa.RecordBatch:
    """Rows with the ids ``first`` to ``first + count - 1``."""
    return rows(np.arange(first, first + count, dtype=np.int64), seed)


def rows(ids: np.ndarray[tuple[int], np.dtype[np.int64]], seed: int = 0) -> pa.RecordBatch:
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
