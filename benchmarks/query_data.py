"""The rows of the works ``queries`` and ``ticking``, from seeds.

Two processes therefore compute from the same rows.

Columns are numpy arrays. A column ``sym`` holds numbers of symbols, from 0 to 999, which become strings where they are
put into tables. In the environment of a peer this module needs numpy only.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = [
    "CHANGED",
    "RIGHT_CHANGED",
    "SYMBOLS",
    "Columns",
    "checksum",
    "facts",
    "names",
    "quotes",
    "ticking",
    "words",
]

Columns = dict[str, npt.NDArray[Any]]

SYMBOLS: Final = 1000
CHANGED: Final = 10_000
"""Rows that change in a cycle."""
RIGHT_CHANGED: Final = 100
"""Rows of the right table of a natural join that change in a cycle."""
_WEIGHTS: Final = 1000


def words() -> list[str]:
    """The symbols."""
    return [f"S{number}" for number in range(SYMBOLS)]


def facts(rows: int) -> Columns:
    """The large table.

    It has two doubles, an int64 with a tenth of the values, one with a hundredth, symbols, and times.
    """
    random = np.random.default_rng(11)
    return {
        "x": random.random(rows),
        "y": random.random(rows),
        "part": random.integers(0, _part(rows, 10), rows),
        "item": random.integers(0, _part(rows, 100), rows),
        "sym": random.integers(0, SYMBOLS, rows, dtype=np.int32),
        "time": np.arange(rows, dtype=np.int64) * 10,
    }


def names(rows: int) -> Columns:
    """A row for each value of ``item`` in a large table of ``rows`` rows."""
    count = _part(rows, 100)
    return {"item": np.arange(count, dtype=np.int64), "v": np.random.default_rng(12).random(count)}


def quotes(rows: int) -> Columns:
    """A tenth as many rows as the large table, over the same time."""
    count = _part(rows, 10)
    random = np.random.default_rng(13)
    return {
        "sym": random.integers(0, SYMBOLS, count, dtype=np.int32),
        "quoted": np.arange(count, dtype=np.int64) * 100,
        "bid": random.random(count),
    }


def ticking(name: str, rows: int, cycle: int) -> Columns:
    """What is written to a table that ticks.

    Args:
        name: ``wide`` and ``small`` are keyed by ``id``, and only ``x`` changes in their rows. ``names`` is keyed by
            ``item``. ``trades`` and ``quotes`` are appended to, in the order of their times.
        rows: of the table at first.
        cycle: 0 for these rows; later ones change, or append, :data:`CHANGED` or :data:`RIGHT_CHANGED`.
    """
    random = np.random.default_rng([hash_of(name), cycle])
    count = min(RIGHT_CHANGED if name == "names" else CHANGED, rows)
    if name in {"trades", "quotes"}:
        first, made = (0, rows) if cycle == 0 else (rows + (cycle - 1) * count, count)
        time = np.arange(first, first + made, dtype=np.int64) * 10
        stamps = {"time": time} if name == "trades" else {"quoted": time + 5}
        symbols = random.integers(0, SYMBOLS, made, dtype=np.int32)
        return {"sym": symbols, **stamps, "x" if name == "trades" else "bid": random.random(made)}
    ids = np.arange(rows, dtype=np.int64) if cycle == 0 else random.choice(rows, count, replace=False).astype(np.int64)
    if name == "names":
        return {"item": ids, "v": random.random(len(ids))}
    # scattered over the groups, the same ones each time
    scattered = ids * 2_654_435_761 % (1 << 31)
    fixed = {"bin": scattered % SYMBOLS} if name == "small" else {"part": scattered % _part(rows, 10)}
    more = {} if name == "small" else {"item": scattered % _part(rows, 100)}
    return {"id": ids, **fixed, **more, "x": random.random(len(ids))}


def checksum(columns: Columns) -> list[float]:
    """The number of rows, and a sum of each column that depends on their order.

    Only columns of numbers count.
    """
    size = len(next(iter(columns.values())))
    weights = np.arange(size) % _WEIGHTS + 1.0
    return [
        float(size),
        *(float(np.dot(np.nan_to_num(column.astype(np.float64)), weights)) for column in columns.values()),
    ]


def hash_of(name: str) -> int:
    """A seed for a name, the same in every process."""
    return int.from_bytes(name.encode(), "little") % (1 << 32)


def _part(rows: int, divisor: int) -> int:
    return max(1, rows // divisor)
