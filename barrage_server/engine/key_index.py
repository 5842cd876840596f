"""A map from key values to row keys, for whole batches at a time.

Dense integer keys have a place each (:mod:`barrage_server.engine.direct_rows`). For all other keys a hash table has the
candidate rows (:mod:`barrage_server.engine.slots`); their key values are read from the indexed table and compared. No
key is stored a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine.direct_rows import DirectRows
from barrage_server.engine.key_values import KeyValues, is_integer_like
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.slots import HashArray, Slots
from barrage_server.engine.types import check_key_type
from barrage_server.wire.array_bound import read_in_parts

__all__ = ["KeyIndex"]

_BLOCK = 1 << 16  # keys looked up at a time, so that they stay in the caches
# Places by which sparse direct rows shrink: for each removed key, and in addition.
_GIVEN_UP, _MIN_GIVEN_UP = 32, 1 << 12


class KeyIndex:
    """Finds the rows of given key values. A key has at most one row.

    Args:
        types: the Arrow types of the key columns.
        read_keys: the key values stored under row keys, which come in any order and may repeat: one array per key
            column.
        hasher: a hash for each key.

    Attributes:
        direct: the rows of dense integer keys; ``None`` when the keys are not one column of integers. It has every key
            within its range, and the hash table has none of them.

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
        self._type = types[0]
        self._read_keys = read_keys
        self._hasher = hasher
        self._slots = Slots(self._hash_rows)
        self.direct = DirectRows() if len(types) == 1 and is_integer_like(types[0]) else None
        self._highest = -(1 << 63)  # no integer key in the hash table is higher

    def __len__(self) -> int:
        """Number of keys."""
        return self._slots.count + (self.direct.count if self.direct else 0)

    @property
    def nbytes(self) -> int:
        """Bytes of the index."""
        direct = self.direct  # another thread may give it up
        return self._slots.nbytes + (0 if direct is None else direct.nbytes)

    def lookup(self, keys: KeyValues) -> Int64Array:
        """The row key of each key, int64; -1 for unknown keys."""
        if keys.count > _BLOCK:
            blocks = range(0, keys.count, _BLOCK)
            return np.concatenate([self.lookup(keys.slice(start, start + _BLOCK)) for start in blocks])
        if self.direct is None:
            return self._search(keys)
        numbers, valid = keys.numbers
        known = self.direct.find(numbers) if valid is None else None
        if known is not None:
            return known
        covered = self._covered(keys)
        if not covered.any():
            return self._search(keys)
        found = np.empty(keys.count, np.int64)
        found[covered] = self.direct.lookup(numbers[covered])
        found[~covered] = self._search(keys.take(np.flatnonzero(~covered)))
        return found

    def insert(self, keys: KeyValues, rows: Int64Array) -> None:
        """Add new, distinct keys.

        Args:
            keys: the key values.
            rows: the row key of each, different from each other and from those that are there.

        Raises:
            LimitError: there are too many keys.
        """
        if len(rows) == 0:
            return
        if self.direct is not None:
            self._cover(keys)
            covered = self._covered(keys)
            if covered.all():
                self.direct.set(keys.numbers[0], rows)
                return
            if covered.any():
                self.direct.set(keys.numbers[0][covered], rows[covered])
                rest = np.flatnonzero(~covered)
                keys, rows = keys.take(rest), rows[rest]
        self._slots.insert(self._hasher(keys), rows)

    def remove(self, rows: Int64Array) -> None:
        """Remove ``rows``, whose key values must still be readable; ignore unknown rows."""
        if len(rows) == 0 or not len(self):
            return
        rows = np.unique(rows)
        for part, keys in self._stored(rows):
            if self.direct is not None:
                covered = self._covered(keys)
                self.direct.remove(keys.numbers[0][covered], part[covered])
                rest = np.flatnonzero(~covered)
                self._unhash(keys.take(rest), part[rest])
            else:
                self._unhash(keys, part)
        if self.direct is not None and self.direct.is_sparse:
            given_up = self.direct.shrink(_GIVEN_UP * len(rows) + _MIN_GIVEN_UP)
            if len(given_up):
                self._slots.insert(self._hash_rows(given_up), given_up)

    def deduplicate(self, keys: KeyValues) -> Int64Array:
        """The positions of the last row of each distinct key, ascending."""
        everything = np.arange(keys.count, dtype=np.int64)
        if keys.count < 2 or (self.direct is not None and _is_increasing(*keys.numbers)):
            return everything
        hashes = self._hasher(keys)
        ordered = np.sort(hashes)
        if not (ordered[1:] == ordered[:-1]).any():
            return everything
        keep = np.ones(keys.count, np.bool_)
        # Sort rows by hash, stably. The last of each run is kept, and rows equal to it are dropped; the rest collides,
        # and is sorted by value.
        rest = np.argsort(hashes, kind="stable")
        ends = np.flatnonzero(np.append(hashes[rest[1:]] != hashes[rest[:-1]], True))
        leaders = np.repeat(rest[ends], np.diff(ends, prepend=-1))
        others = rest != leaders
        rest, leaders = rest[others], leaders[others]
        same = keys.take(rest).equal(keys.take(leaders))
        keep[rest[same]] = False
        rest = np.sort(rest[~same])
        if len(rest) > 1:
            chance = keys.take(rest)
            order = chance.order()
            ordered_keys = chance.take(order)
            followed = ordered_keys.slice(0, len(rest) - 1).equal(ordered_keys.slice(1, len(rest)))
            keep[rest[order[:-1][followed]]] = False
        return np.flatnonzero(keep)

    def _search(self, keys: KeyValues) -> Int64Array:
        """The row keys of keys outside of the direct rows; -1 for unknown keys."""
        found = np.full(keys.count, -1, np.int64)
        if keys.count == 0 or not self._slots.count:
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

    def _unhash(self, keys: KeyValues, rows: Int64Array) -> None:
        """Remove the entries of ``rows`` with the given keys from the hash table."""
        if keys.count == 0 or not self._slots.count:
            return
        search = self._slots.search(self._hasher(keys))
        gone = []
        while len(search.positions):
            mine = search.rows == rows[search.positions]
            gone.append(search.slots[mine])
            search.settle(mine)
        if gone:
            self._slots.clear(np.concatenate(gone))

    def _covered(self, keys: KeyValues) -> npt.NDArray[np.bool_]:
        """Whether the direct rows cover each key."""
        if self.direct is None or self.direct.end == self.direct.first:
            return np.zeros(keys.count, np.bool_)
        numbers, valid = keys.numbers
        covered = self.direct.covers(numbers)
        return covered if valid is None else covered & valid

    def _cover(self, keys: KeyValues) -> None:
        """Extend the direct rows over new keys where these are dense."""
        assert self.direct is not None
        numbers, valid = keys.numbers
        outside = ~self.direct.covers(numbers)
        numbers = numbers[outside if valid is None else outside & valid]
        if len(numbers) == 0:
            return
        self._highest = max(self._highest, int(numbers.max()))
        end = self.direct.end_for(numbers, others=self._slots.count, highest=self._highest)
        begin = self.direct.end
        if end == begin:
            return
        self.direct.grow(end)
        if self._slots.count:
            # Existing keys of the new part move.
            between = KeyValues.of_numbers(np.arange(begin, end, dtype=np.int64), self._type)
            rows = self._search(between)
            there = np.flatnonzero(rows >= 0)
            if len(there):
                moving, rows = between.take(there), rows[there]
                self._unhash(moving, rows)
                self.direct.set(moving.numbers[0], rows)

    def _equals_stored(self, keys: KeyValues, rows: Int64Array) -> npt.NDArray[np.bool_]:
        """Whether each key equals the key stored under the row key at its position."""
        start, same = 0, []
        for part, stored in self._stored(rows):
            given = keys if len(part) == keys.count else keys.slice(start, start + len(part))
            same.append(given.equal(stored))
            start += len(part)
        return same[0] if len(same) == 1 else np.concatenate(same)

    def _hash_rows(self, rows: Int64Array) -> HashArray:
        """The hashes of the keys stored under ``rows``."""
        parts = [self._hasher(keys) for _, keys in self._stored(rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _stored(self, rows: Int64Array) -> Iterator[tuple[Int64Array, KeyValues]]:
        """Yield the keys stored under ``rows`` in parts: row keys and key values."""

        def read(start: int, stop: int) -> KeyValues:
            return KeyValues(self._read_keys(rows[start:stop]))

        for block in range(0, len(rows), _BLOCK):
            for start, stop, keys in read_in_parts(read, block, min(block + _BLOCK, len(rows))):
                yield rows[start:stop], keys


def _is_increasing(numbers: Int64Array, valid: npt.NDArray[np.bool_] | None) -> bool:
    return valid is None and bool((numbers[1:] > numbers[:-1]).all())
