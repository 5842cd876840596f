"""Updates within the server's process: cycles of one table of each kind, whose sizes stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import barrage_server as bs

__all__ = ["KINDS", "SCHEMA", "Updates"]

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("text", pa.string())])
KINDS = ("keyed", "ring", "blink", "replaced")
KEYS = 5_000
_CAPACITY = 5_000
_ROWS = 10
_BLINKS, _TIMES = 50_000, 22
"""Rows, and how often: a blink table keeps the last million rows readable, and would grow until then."""
_REPLACED = 50
_DRAWN = 500
"""Different batches, which come again and again."""


class Updates:
    """Writes to the tables of a server, which it makes.

    Args:
        server: the server.
        seed: of all rows.

    """

    def __init__(self, server: bs.Server, seed: int) -> None:
        random = np.random.default_rng(seed)
        keyed = server.keyed_table("keyed", SCHEMA, key=["id"])
        keyed.upsert(_rows(np.arange(KEYS), random))
        ring = server.ring_table("ring", SCHEMA, capacity=_CAPACITY)
        ring.append(_rows(np.arange(_CAPACITY), random))
        blink = server.blink_table("blink", SCHEMA)
        many = _rows(np.arange(_BLINKS), random)
        for _ in range(_TIMES):
            blink.append(many)
        self._tables: tuple[Any, ...] = (keyed, ring, blink)
        self._replaced = server.replaced_table("replaced", SCHEMA)
        self._batches = [_rows(random.choice(KEYS, _ROWS, replace=False), random) for _ in range(_DRAWN)]
        self._contents = [_rows(np.arange(_REPLACED), random) for _ in range(_DRAWN)]
        self._number = 0

    def run(self, count: int) -> None:
        """Run ``count`` cycles, one table each."""
        keyed, ring, blink = self._tables
        for _ in range(count):
            number = self._number
            self._number += 1
            rows = self._batches[number % _DRAWN]
            match number % 8:
                case 0 | 1 | 2:
                    keyed.upsert(rows)
                case 3:
                    keyed.delete(rows.select(["id"]))
                case 4:  # the rows that are gone come back, and one cycle in eight has no key of its own
                    keyed.upsert(self._batches[(number - 1) % _DRAWN])
                case 5:
                    ring.append(rows)
                case 6:
                    blink.append(rows)
                case _:
                    self._replaced.replace(self._contents[number % _DRAWN])


def _rows(ids: Any, random: np.random.Generator) -> pa.RecordBatch:
    count = len(ids)
    texts = [f"text {number:x}" for number in random.integers(0, 1 << 40, count)]
    return pa.record_batch([pa.array(ids), pa.array(random.random(count)), pa.array(texts)], schema=SCHEMA)
