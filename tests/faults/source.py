"""What publishers send, batch by batch, and what tables must have after it: the same from a number in any process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EPOCH = "faults"
CAPACITY = 200
KEYS = 97
SPARK_KEYS = 41
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.int64()), ("text", pa.string())])
PLAIN = ("py_log", "py_keyed", "py_ring", "py_whole")
"""Tables of the publisher in plain Python."""
SPARK = ("spark_log", "spark_last", "spark_sums", "spark_format")
"""Tables of the streaming queries."""


def batch(name: str, number: int) -> pa.Table:
    """The rows of a batch: some, sometimes many, sometimes none, each with an id of its own."""
    chance = np.random.default_rng([sum(name.encode()), number])
    size = int(chance.integers(4000, 8000)) if chance.random() < 0.08 else int(chance.integers(0, 60))
    ids = (number << 20) + np.arange(size, dtype=np.int64)
    keys = chance.integers(0, KEYS if name in PLAIN else SPARK_KEYS, size)
    values = chance.integers(-1000, 1000, size)
    texts = pa.array([f"{name} {value}" for value in values.tolist()], pa.string())
    return pa.table([ids, keys, values, texts], SCHEMA)


def mode(name: str, number: int) -> str:
    """How a batch of the publisher is applied."""
    if name == "py_whole":
        return "replace"
    if name == "py_keyed":
        return "delete" if number % 5 == 4 else "upsert"
    return "append"


def sent(name: str, number: int) -> pa.Table:
    """What the publisher sends: of a deletion the keys alone."""
    rows = batch(name, number)
    return rows.select(["k"]) if mode(name, number) == "delete" else rows


def options(name: str) -> dict[str, Any]:
    """What makes a table of the publisher."""
    if name == "py_keyed":
        return {"key": "k"}
    return {"capacity": CAPACITY} if name == "py_ring" else {}


def content(name: str, last: int | None) -> pa.Table:
    """All that table ``name`` has after the batches 0 to ``last``, computed from them at once, in the order of ids."""
    if name in PLAIN:
        return _PLAIN[name](name, -1 if last is None else last)
    rows = _all("spark", range(0 if last is None else last + 1))
    if name == "spark_last":
        newest = rows.group_by("k").aggregate([("id", "max")]).rename_columns(["k", "id"])
        return newest.select(["id", "k"]).sort_by("id")
    if name == "spark_sums":
        sums = rows.group_by("k").aggregate([("v", "sum"), ("v", "count")]).rename_columns(["k", "v", "n"])
        return sums.sort_by("k")
    return rows.sort_by("id")


def ordered(name: str, table: pa.Table) -> pa.Table:
    """The rows of a table in the order of :func:`content`, with its columns."""
    order = "k" if name == "spark_sums" else "id"
    names = {"spark_last": ["id", "k"], "spark_sums": ["k", "v", "n"]}.get(name, SCHEMA.names)
    return table.select(names).sort_by(order).combine_chunks()


def _all(name: str, numbers: Iterable[int]) -> pa.Table:
    return pa.concat_tables([SCHEMA.empty_table(), *(batch(name, number) for number in numbers)])


def _log(name: str, last: int) -> pa.Table:
    return _all(name, range(last + 1))


def _ring(name: str, last: int) -> pa.Table:
    rows = _all(name, range(last + 1))
    return rows.slice(max(0, rows.num_rows - CAPACITY))


def _whole(name: str, last: int) -> pa.Table:
    return batch(name, last) if last >= 0 else SCHEMA.empty_table()


def _keyed(name: str, last: int) -> pa.Table:
    """The last row of each key that no later batch deletes."""
    newest: dict[int, int] = {}
    for number in range(last + 1):
        rows = batch(name, number)
        for row_id, key in zip(rows["id"].to_pylist(), rows["k"].to_pylist(), strict=True):
            if mode(name, number) == "delete":
                newest.pop(key, None)
            else:
                newest[key] = row_id
    rows = _all(name, {row_id >> 20 for row_id in newest.values()})
    return rows.filter(pc.is_in(rows["id"], pa.array(newest.values(), pa.int64()))).sort_by("id")


_PLAIN: dict[str, Callable[[str, int], pa.Table]] = {
    "py_log": _log,
    "py_keyed": _keyed,
    "py_ring": _ring,
    "py_whole": _whole,
}
