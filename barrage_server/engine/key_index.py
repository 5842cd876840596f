"""From key values to row keys: a hash table in numpy, worked on for whole batches at a time.

The table has one 32-bit tag (a hash) and one row key per slot; key values are not kept a second time but read from the
table that is indexed, and compared. The slot of an entry follows from its tag, so the table grows without looking at
any key. Collisions move on to the next slot; removed entries leave a tombstone until the table is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine.key_values import HashArray, KeyValues, hash_keys
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.types import check_key_type
from barrage_server.errors import LimitError

__all__ = ["KeyIndex"]

_EMPTY, _REMOVED, _FIRST_TAG = 0, 1, 2
_MIN_SLOTS = 1024
_MAX_SLOTS = 1 << 32
# Slots in use, in percent: rebuilt above the first; a new table has at most the second.
_MAX_LOAD = 65
_NEW_LOAD = 50

Slots = npt.NDArray[np.int64]
Tags = npt.NDArray[np.uint32]


class KeyIndex:
    """Finds the rows that have given key values. A key has at most one row.

    Args:
        types: the Arrow types of the key columns.
        read_keys: the key values stored under row keys, which come in any order and may repeat: one array per key
            column.
        hasher: a hash for each key.

    Raises:
        UnsupportedTypeError: values of one of the types cannot be keys.

    """

    def __init__(
        self,
        types: Sequence[pa.DataType],
        read_keys: Callable[[Int64Array], list[pa.Array]],
        *,
        hasher: Callable[[KeyValues], HashArray] = hash_keys,
    ) -> None:
        for data_type in types:
            check_key_type(data_type)
        self._read_keys = read_keys
        self._hasher = hasher
        self._count = 0
        self._removed = 0
        self._tags: Tags = np.zeros(_MIN_SLOTS, np.uint32)
        self._rows: npt.NDArray[np.uint32] | Int64Array = np.zeros(_MIN_SLOTS, np.uint32)

    def __len__(self) -> int:
        """Number of keys."""
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._tags.nbytes + self._rows.nbytes

    def lookup(self, columns: Sequence[pa.Array]) -> Int64Array:
        """For each key, the row key of its row; -1 when there is none."""
        keys = KeyValues(columns)
        found = np.full(keys.count, -1, np.int64)
        if keys.count == 0 or self._count == 0:
            return found
        tags = self._tags_of(keys)
        slots = self._home(tags)
        hits = np.flatnonzero(self._seek(tags, slots))
        while len(hits):
            # An equal tag is a candidate. Nearly all are right; the others go on from the next slot.
            rows = self._rows[slots[hits]].astype(np.int64)
            given = keys if len(hits) == keys.count else keys.take(hits)
            same = self._equals_stored(given, rows)
            found[hits[same]] = rows[same]
            if same.all():
                break
            hits = hits[~same]
            slots[hits] = self._following(slots[hits])
            part = slots[hits]
            hit = self._seek(tags[hits], part)
            slots[hits] = part
            hits = hits[hit]
        return found

    def insert(self, columns: Sequence[pa.Array], rows: Int64Array) -> None:
        """Add keys that differ from each other and from those that are there.

        Args:
            columns: the key values.
            rows: the row key of each, different from each other and from those that are there.

        Raises:
            LimitError: there are too many keys.

        """
        if len(rows) == 0:
            return
        self._make_room(len(rows), int(rows.max()))
        tags = self._tags_of(KeyValues(columns))
        self._place(tags, rows)
        self._count += len(rows)

    def remove(self, rows: Int64Array) -> None:
        """Forget the keys of ``rows``, whose key values must still be readable. Rows that are not in the index are
        ignored.
        """
        if len(rows) == 0 or self._count == 0:
            return
        tags = self._tags_of(KeyValues(self._read_keys(rows)))
        slots = self._home(tags)
        rest = np.arange(len(rows))
        while len(rest):
            part = slots[rest]
            hit = self._seek(tags[rest], part)
            mine = hit & (self._rows[part] == rows[rest])
            gone = np.unique(part[mine])
            self._tags[gone] = _REMOVED
            self._count -= len(gone)
            self._removed += len(gone)
            on = hit & ~mine
            rest = rest[on]
            slots[rest] = self._following(part[on])

    def deduplicate(self, columns: Sequence[pa.Array]) -> Int64Array:
        """The positions of the last row of each distinct key, increasing. A batch without repeated keys gives all
        positions.
        """
        keys = KeyValues(columns)
        everything = np.arange(keys.count, dtype=np.int64)
        if keys.count < 2:
            return everything
        hashes = self._hasher(keys)
        ordered = np.sort(hashes)
        if not (ordered[1:] == ordered[:-1]).any():
            return everything
        keep = np.ones(keys.count, np.bool_)
        # Rows of equal hash stand together, in their order. The last of each run stays, and those equal to it go; what
        # remains has the same hash by chance, and is looked at again.
        rest = np.argsort(hashes, kind="stable")
        while len(rest):
            ends = np.flatnonzero(np.append(hashes[rest[1:]] != hashes[rest[:-1]], True))
            sizes = np.diff(ends, prepend=-1)
            leaders = np.repeat(rest[ends], sizes)
            others = rest != leaders
            rest, leaders = rest[others], leaders[others]
            same = keys.take(rest).equal(keys.take(leaders))
            keep[rest[same]] = False
            rest = rest[~same]
        return np.flatnonzero(keep)

    def _equals_stored(self, keys: KeyValues, rows: Int64Array) -> npt.NDArray[np.bool_]:
        """Which keys equal those stored under ``rows``. In halves where the stored ones are too large for one array."""
        try:
            return keys.equal(KeyValues(self._read_keys(rows)))
        except LimitError:
            half = len(rows) // 2
            if half == 0:
                raise
            first = self._equals_stored(keys.take(np.arange(half)), rows[:half])
            return np.append(first, self._equals_stored(keys.take(np.arange(half, len(rows))), rows[half:]))

    def _tags_of(self, keys: KeyValues) -> Tags:
        tags = (self._hasher(keys) >> np.uint64(32)).astype(np.uint32)
        return np.maximum(tags, _FIRST_TAG, out=tags)

    def _home(self, tags: Tags) -> Slots:
        return tags.astype(np.int64) & (len(self._tags) - 1)

    def _following(self, slots: Slots) -> Slots:
        return (slots + 1) & (len(self._tags) - 1)

    def _seek(self, tags: Tags, slots: Slots) -> npt.NDArray[np.bool_]:
        """Move ``slots`` on, in place, to the next one with the same tag; says where there is one before an empty
        slot.
        """
        seen = self._tags[slots]
        hit: npt.NDArray[np.bool_] = seen == tags
        rest = np.flatnonzero(~hit & (seen != _EMPTY))
        while len(rest):
            part = self._following(slots[rest])
            slots[rest] = part
            seen = self._tags[part]
            found = seen == tags[rest]
            hit[rest] = found
            rest = rest[~found & (seen != _EMPTY)]
        return hit

    def _place(self, tags: Tags, rows: npt.NDArray[np.integer]) -> None:
        """Put entries into free slots."""
        slots = self._home(tags)
        own = rows.astype(self._rows.dtype, copy=False)
        while len(slots):
            seen = self._tags[slots]
            free = np.flatnonzero(seen < _FIRST_TAG)
            # Several may want one slot: all write their row key, and the one that reads its own has got it.
            wanted = slots[free]
            self._rows[wanted] = own[free]
            won = free[self._rows[wanted] == own[free]]
            self._removed -= int(np.count_nonzero(seen[won] == _REMOVED))
            self._tags[slots[won]] = tags[won]
            lost = np.ones(len(slots), np.bool_)
            lost[won] = False
            slots, tags, own = self._following(slots[lost]), tags[lost], own[lost]

    def _make_room(self, more: int, highest_row: int) -> None:
        count = self._count + more
        if (count + self._removed) * 100 > len(self._tags) * _MAX_LOAD:
            slots = max(_MIN_SLOTS, 1 << (count * 100 // _NEW_LOAD - 1).bit_length())
            if slots > _MAX_SLOTS:
                raise LimitError(f"A table can have {_MAX_SLOTS // 2:,} keys, not {count:,}. Split it into several.")
            used = np.flatnonzero(self._tags >= _FIRST_TAG)
            tags, rows = self._tags[used], self._rows[used]
            self._tags = np.zeros(slots, np.uint32)
            self._rows = np.zeros(slots, self._rows.dtype)
            self._removed = 0
            self._place(tags, rows)
        if highest_row >= 1 << 32 and self._rows.dtype == np.uint32:
            self._rows = self._rows.astype(np.int64)
