"""Values that come again and again are kept once: strings of few distinct values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from barrage_server.engine.heap import INDEX, Heap, IndexArray
from barrage_server.engine.key_index import KeyIndex
from barrage_server.engine.key_values import KeyValues
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.values import take

__all__ = ["Interner"]

# It is given up when there are more distinct values than the first, when they take more bytes than the second, or when
# there are more than the third and less than two values came for each.
MAX_VALUES = 1 << 16
MAX_BYTES = 16 << 20
_FEW_VALUES = 1024
# Values looked at in one go, and in the very first.
_STEP = 1 << 16
_FIRST_STEP = 1 << 12


class Interner:
    """Gives equal values one index in a heap, for as long as that pays.

    Args:
        heap: where new values go. Nothing else may be put into it meanwhile.

    Attributes:
        is_active: whether equal values still get one index. Once it is not, it never is again, and the values are
            pinned in the heap.
        count: how many distinct values there are, or were when it was given up.

    """

    __slots__ = ("_heap", "_index", "_seen", "count", "is_active")

    def __init__(self, heap: Heap) -> None:
        self.is_active = True
        self.count = 0
        self._heap = heap
        self._index = KeyIndex([heap.type], self._read)
        self._seen = 0

    @property
    def nbytes(self) -> int:
        """Bytes taken to find values again; the values themselves are the heap's."""
        return self._index.nbytes

    def append(self, values: pa.Array) -> IndexArray:
        """The index of each value (modulo 2**32), in the heap. The tail of ``values`` may be put there as it is, if it
        turns out that they are too many different ones.
        """
        parts: list[IndexArray] = []
        start = 0
        while start < len(values) and self.is_active:
            stop = start + (_STEP if self._seen else _FIRST_STEP)
            parts.append(self._append(values.slice(start, stop - start)))
            start = stop
        if start < len(values):
            parts.append(self._heap.append(values.slice(start)))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _append(self, values: pa.Array) -> IndexArray:
        encoded = values.dictionary_encode(null_encoding="encode")
        distinct = encoded.dictionary
        keys = KeyValues([distinct])
        found = self._index.lookup(keys)
        new = np.flatnonzero(found < 0)
        if len(new):
            first = self._heap.extend(distinct if len(new) == len(distinct) else take(distinct, new))
            found[new] = np.arange(first, first + len(new))
            self._index.insert(keys.take(new), found[new])
        self._seen += len(values)
        self.count = count = len(self._index)
        is_many = count > MAX_VALUES or self._heap.nbytes > MAX_BYTES
        if is_many or (count > _FEW_VALUES and 2 * count > self._seen):
            self.is_active = False
            self._index = KeyIndex([self._heap.type], self._read)
            self._heap.pin()  # nobody knows how often each of them is used
        indexes: IndexArray = found.astype(INDEX)[encoded.indices.to_numpy()]
        return indexes

    def _read(self, indexes: Int64Array) -> list[pa.Array]:
        return [self._heap.snapshot().take(indexes.astype(INDEX))]
