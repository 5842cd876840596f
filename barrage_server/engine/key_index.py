"""From key values to row keys, for whole batches at a time.

A hash says which rows may have a key (:mod:`barrage_server.engine.slots`); the key values of these rows are read from
the table that is indexed, and compared. No key is kept a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine.key_values import KeyValues
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.slots import HashArray, Slots
from barrage_server.engine.types import check_key_type
from barrage_server.errors import LimitError

__all__ = ["KeyIndex"]

_BLOCK = 1 << 16  # keys looked up in one go, so that they stay in the caches


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
        hasher: Callable[[KeyValues], HashArray] = KeyValues.hash,
    ) -> None:
        for data_type in types:
            check_key_type(data_type)
        self._read_keys = read_keys
        self._hasher = hasher
        self._slots = Slots(self._hash_rows)

    def __len__(self) -> int:
        """Number of keys."""
        return self._slots.count

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._slots.nbytes

    def lookup(self, keys: KeyValues) -> Int64Array:
        """For each key, the row key of its row; -1 when there is none."""
        if keys.count > _BLOCK:
            blocks = range(0, keys.count, _BLOCK)
            return np.concatenate([self.lookup(keys.slice(start, start + _BLOCK)) for start in blocks])
        found = np.full(keys.count, -1, np.int64)
        if keys.count == 0 or not len(self):
            return found
        search = self._slots.search(self._hasher(keys))
        while len(search.positions):
            # Nearly all candidates are right.
            positions = search.positions
            given = keys if len(positions) == keys.count else keys.take(positions)
            same = self._equals_stored(given, search.rows)
            if same.all():
                found[positions] = search.rows
            else:
                found[positions[same]] = search.rows[same]
            search.settle(same)
        return found

    def insert(self, keys: KeyValues, rows: Int64Array) -> None:
        """Add keys that differ from each other and from those that are there.

        Args:
            keys: the key values.
            rows: the row key of each, different from each other and from those that are there.

        Raises:
            LimitError: there are too many keys.

        """
        if len(rows):
            self._slots.insert(self._hasher(keys), rows)

    def remove(self, rows: Int64Array) -> None:
        """Forget the keys of ``rows``, whose key values must still be readable. Rows that are not in the index are
        ignored.
        """
        if len(rows) == 0 or not len(self):
            return
        rows = np.unique(rows)
        search = self._slots.search(self._hash_rows(rows))
        gone = []
        while len(search.positions):
            mine = search.rows == rows[search.positions]
            gone.append(search.slots[mine])
            search.settle(mine)
        if gone:
            self._slots.clear(np.concatenate(gone))

    def deduplicate(self, keys: KeyValues) -> Int64Array:
        """The positions of the last row of each distinct key, increasing. A batch without repeated keys gives all
        positions.
        """
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

    def _hash_rows(self, rows: Int64Array) -> HashArray:
        """The hashes of the keys stored under ``rows``."""
        try:
            return self._hasher(KeyValues(self._read_keys(rows)))
        except LimitError:
            half = len(rows) // 2
            if half == 0:
                raise
            return np.append(self._hash_rows(rows[:half]), self._hash_rows(rows[half:]))
