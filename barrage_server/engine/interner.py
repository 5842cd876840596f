"""Storage of each distinct value once, for columns of few distinct strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.engine.heap import INDEX, Heap, IndexArray
from barrage_server.engine.key_index import KeyIndex
from barrage_server.engine.key_values import KeyValues
from barrage_server.engine.plan import Int64Array
from barrage_server.wire.empty import empty_array

__all__ = ["Interner"]

# Interning stops with more distinct values than MAX_VALUES, more bytes than MAX_BYTES, or more values than _FEW_VALUES
# with fewer than two occurrences each.
MAX_VALUES = 1 << 16
MAX_BYTES = 16 << 20
_FEW_VALUES = 1024
# Known values that are searched linearly for a batch, or as many as the batch has; beyond that, an index is used.
_SCANNED = 1 << 11
_ONE_CHUNK = 1 << 20
# Values processed at a time, and at first.
_STEP = 1 << 16
FIRST_STEP = 1 << 12


class Interner:
    """Assigns one heap index to equal values, while that saves memory.

    Args:
        heap: where new values go. Nothing else may be put into it meanwhile.

    Attributes:
        is_active: whether equal values still get one index. Once False, it stays False, and the values are pinned in
            the heap.
        count: number of distinct values, now or when interning stopped.
    """

    __slots__ = ("_first", "_heap", "_index", "_known", "_seen", "count", "is_active")

    def __init__(self, heap: Heap) -> None:
        self.is_active = True
        self.count = 0
        self._heap = heap
        heap.merged_bytes = _ONE_CHUNK  # taking from one chunk is much faster than from several
        self._first = 0
        self._known: pa.Array | None = None  # the values, unless there are many
        self._index: KeyIndex | None = None  # by value, if there are many
        self._seen = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the index by value, without the values, which are in the heap."""
        index = self._index  # another thread may replace it
        return 0 if index is None else index.nbytes

    def append(self, values: pa.Array) -> IndexArray:
        """Store ``values``; returns their indexes (modulo 2**32) in the heap.

        If there are too many distinct values, the rest of ``values`` is appended without interning.
        """
        parts: list[IndexArray] = []
        start = 0
        while start < len(values) and self.is_active:
            stop = start + (_STEP if self._seen else FIRST_STEP)
            part = values.slice(start, stop - start)
            parts.append(self._append(part, len(part)))
            start = stop
        if start < len(values):
            parts.append(self._heap.append(values.slice(start)))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def append_encoded(self, values: pa.DictionaryArray) -> IndexArray:
        """Store values that have a dictionary.

        Returns their indexes as :meth:`append` does.
        """
        known, places = values.dictionary, values.indices
        if places.null_count:
            places = places.fill_null(len(known))
            known = pa.concat_arrays([known, pa.nulls(1, known.type)])
        indexes: IndexArray = self._append(known, len(values))[places.to_numpy()]
        return indexes

    def _append(self, values: pa.Array, rows: int) -> IndexArray:
        """Store ``values`` of a number of rows, which may share values."""
        if self.count <= max(_SCANNED, len(values)):
            indexes = self._scan(values)
        else:
            encoded = values.dictionary_encode(null_encoding="encode")
            keys = KeyValues([encoded.dictionary])
            indexes = self._look_up(keys)[encoded.indices.to_numpy()]
            new = indexes < 0
            if new.any():
                self._add(values.filter(pa.array(new)).unique())
                indexes = self._look_up(keys)[encoded.indices.to_numpy()]
        self._seen += rows
        is_many = self.count > MAX_VALUES or self._heap.nbytes > MAX_BYTES
        if is_many or (self.count > _FEW_VALUES and 2 * self.count > self._seen):
            self.is_active = False
            self._index = self._known = None
            self._heap.merged_bytes = 0
            self._heap.pin()  # their uses were not counted
        return indexes.astype(INDEX)

    def _scan(self, values: pa.Array) -> Int64Array:
        """The absolute indexes of ``values``, found by a scan of all known values."""
        known = self._all()
        found = pc.index_in(values, value_set=known)
        if found.null_count:
            self._add(values.filter(found.is_null()).unique())
            found = pc.index_in(values, value_set=self._all())
        indexes: Int64Array = found.to_numpy().astype(np.int64) + self._first
        return indexes

    def _look_up(self, keys: KeyValues) -> Int64Array:
        """The absolute indexes of values; -1 for unknown ones."""
        if self._index is None:
            self._index = KeyIndex([self._heap.type], self._read)
            self._index.insert(KeyValues([self._all()]), np.arange(self._first, self._first + self.count))
            self._known = None
        return self._index.lookup(keys)

    def _add(self, values: pa.Array) -> None:
        """Add new, distinct values."""
        first = self._heap.extend(values)
        if self.count == 0:
            self._first = first
        self.count += len(values)
        self._known = None
        if self._index is not None:
            self._index.insert(KeyValues([values]), np.arange(first, first + len(values)))

    def _all(self) -> pa.Array:
        if self.count == 0:
            return empty_array(self._heap.type)
        known = self._known
        if known is None:
            known = self._heap.snapshot().slice(self._first, self.count)
            if self.count <= _SCANNED:
                self._known = known
        return known

    def _read(self, indexes: Int64Array) -> list[pa.Array]:
        return [self._heap.snapshot().take(indexes.astype(INDEX))]
