"""An append-only store of Arrow values of any type, addressed by a running index.

Columns whose values have no fixed width keep an index into a heap in each cell. Values are never changed or moved to
another index, so
a view of the heap stays right for ever, and overwriting a cell overwrites an index. Nulls are kept in the heap like any
other value: reading a run of rows is then a slice of a chunk, nulls at every depth included, and there is no second
place to look.

Values are kept in chunks. What is appended becomes a chunk of its own at first; small chunks at the end are merged so
that sizes fall geometrically, which copies each value a logarithmic number of times. A chunk has a limited number of
rows, and of bytes unless a single append or value is larger, so 32-bit offsets cannot overflow: a chunk never has more
than one array that was appended had, or the merge limit.

Indexes count on for ever, and are handed out and stored modulo 2**32. That is enough to find a value, because less than
2**32 values are there at any time: those of a ring come and go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.errors import LimitError

__all__ = ["INDEX", "MAX_CHUNK_BYTES", "MAX_CHUNK_ROWS", "Heap", "HeapView", "IndexArray"]

MAX_CHUNK_ROWS = 1 << 18
MAX_CHUNK_BYTES = 32 << 20

# What it costs, in tens of nanoseconds, to slice one run of values, and to take from a chunk: per row and per call.
_SLICE_COST, _TAKE_ROW_COST, _TAKE_COST = 60, 5, 600

IndexArray = npt.NDArray[np.uint32]
INDEX = np.dtype(np.uint32)
_INDEX_MASK = (1 << 32) - 1


class HeapView:
    """What was in a heap at some moment; immutable.

    Attributes:
        type: the Arrow type of the values.
        chunks: the values, in order of their indexes.
        starts: the index of the first value of each chunk.

    """

    __slots__ = ("chunks", "starts", "type")

    def __init__(self, data_type: pa.DataType, chunks: tuple[pa.Array, ...], starts: tuple[int, ...]) -> None:
        self.type = data_type
        self.chunks = chunks
        self.starts = starts

    def take(self, indexes: IndexArray) -> pa.Array:
        """The values at ``indexes`` in the order given, which may repeat. Consecutive indexes are read without a copy.

        Raises:
            LimitError: the values are together too large for one array of this type.

        """
        count = len(indexes)
        if count == 0:
            return pa.nulls(0, self.type)
        first, last = int(indexes[0]), int(indexes[-1])
        try:
            if (last - first) & _INDEX_MASK == count - 1 and (
                count == 1 or bool((indexes[1:] - indexes[:-1] == 1).all())
            ):
                return self.slice(self.starts[0] + ((first - self.starts[0]) & _INDEX_MASK), count)
            return self._pick(indexes)
        except pa.ArrowInvalid as error:
            raise LimitError(
                f"{count} values of type {self.type} are too large for one array. Read fewer rows at once."
            ) from error

    def pieces(self, indexes: IndexArray) -> Iterator[pa.Array]:
        """The values at ``indexes`` in the order given, in as many arrays as it takes."""
        try:
            values = self.take(indexes)
        except LimitError:
            half = len(indexes) // 2
            if half == 0:
                raise
            yield from self.pieces(indexes[:half])
            yield from self.pieces(indexes[half:])
        else:
            if len(values):
                yield values

    def slice(self, first: int, count: int) -> pa.Array:
        """``count`` values from the absolute index ``first`` on, without a copy when they lie in one chunk."""
        parts = self._slices(first, count)
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _slices(self, first: int, count: int) -> list[pa.Array]:
        number = bisect_right(self.starts, first) - 1
        parts = [self.chunks[number].slice(first - self.starts[number], count)]
        count -= len(parts[0])
        while count:
            number += 1
            parts.append(self.chunks[number].slice(0, count))
            count -= len(parts[-1])
        return parts

    def _pick(self, indexes: IndexArray) -> pa.Array:
        base = self.starts[0]
        wanted = (indexes - INDEX.type(base & _INDEX_MASK)).astype(np.int64)  # modulo 2**32
        wanted += base
        low = bisect_right(self.starts, int(wanted.min())) - 1
        high = bisect_right(self.starts, int(wanted.max())) - 1
        breaks = np.flatnonzero(wanted[1:] - wanted[:-1] != 1) + 1
        if len(breaks) * _SLICE_COST < len(wanted) * _TAKE_ROW_COST + min(high - low + 1, len(wanted)) * _TAKE_COST:
            bounds = [0, *breaks.tolist(), len(wanted)]
            firsts = wanted[bounds[:-1]].tolist()
            parts = [
                self.slice(first, stop - start) for first, (start, stop) in zip(firsts, pairwise(bounds), strict=True)
            ]
            return pa.concat_arrays(parts)
        return self._take_by_chunk(wanted, low, high)

    def _take_by_chunk(self, wanted: npt.NDArray[np.int64], low: int, high: int) -> pa.Array:
        """The values at absolute indexes, all of them in the chunks ``low`` to ``high``."""
        if low == high:
            wanted -= self.starts[low]
            return self.chunks[low].take(pa.array(wanted))
        starts = np.array(self.starts[low : high + 1], np.int64)
        numbers = starts.searchsorted(wanted, "right") - 1
        wanted -= starts[numbers]
        steps = np.diff(numbers)
        order = None
        if steps.min() < 0:
            order = np.argsort(numbers.astype(np.uint16) if high - low < 1 << 16 else numbers, kind="stable")
            numbers, wanted = numbers[order], wanted[order]
            steps = np.diff(numbers)
        bounds = [0, *(np.flatnonzero(steps) + 1).tolist(), len(wanted)]
        parts = [
            self.chunks[low + int(numbers[start])].take(pa.array(wanted[start:stop]))
            for start, stop in pairwise(bounds)
        ]
        values = pa.concat_arrays(parts)
        if order is None:
            return values
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order), dtype=np.int64)
        return values.take(pa.array(back))


class Heap:
    """A heap that is written to.

    Args:
        data_type: the Arrow type of the values.
        chunk_rows: the most rows of a chunk. A smaller number frees the memory of a ring earlier.

    """

    __slots__ = ("_chunk_rows", "_chunks", "_sizes", "_starts", "_view", "nbytes", "next_index", "type")

    def __init__(self, data_type: pa.DataType, *, chunk_rows: int = MAX_CHUNK_ROWS) -> None:
        self.type = data_type
        self.next_index = 0
        self.nbytes = 0
        self._chunk_rows = chunk_rows
        self._chunks: list[pa.Array] = []
        self._starts: list[int] = []
        self._sizes: list[int] = []  # bytes per chunk
        self._view: HeapView | None = None

    @property
    def first_index(self) -> int:
        """The lowest index that is still there."""
        return self._starts[0] if self._starts else self.next_index

    def __len__(self) -> int:
        return self.next_index - self.first_index

    def append(self, values: pa.Array) -> IndexArray:
        """Copy ``values`` in, and return their indexes (modulo 2**32).

        Raises:
            LimitError: the heap would hold 2**32 values or more.

        """
        first, count = self.next_index, len(values)
        if len(self) + count > _INDEX_MASK:
            raise LimitError(f"A column of type {self.type} can hold {_INDEX_MASK:,} values. Split the table.")
        self._view = None
        for start in range(0, len(values), self._chunk_rows):
            part = values.slice(start, self._chunk_rows)
            self._append(part, part.nbytes)
        return np.arange(first, first + count, dtype=np.int64).astype(INDEX)

    def absolute(self, index: int) -> int:
        """The absolute index of a value that is there, of its index modulo 2**32."""
        return self.first_index + ((index - self.first_index) & _INDEX_MASK)

    def snapshot(self) -> HeapView:
        """What is in the heap now."""
        if self._view is None:
            self._view = HeapView(self.type, tuple(self._chunks), tuple(self._starts))
        return self._view

    def drop_before(self, index: int) -> None:
        """Let go of the chunks whose values all lie below the absolute index ``index``."""
        count = 0
        while count < len(self._chunks) and self._starts[count] + len(self._chunks[count]) <= index:
            count += 1
        if count:
            self.nbytes -= sum(self._sizes[:count])
            del self._chunks[:count], self._starts[:count], self._sizes[:count]
            self._view = None

    def _append(self, values: pa.Array, nbytes: int) -> None:
        """Append as one chunk, or in halves when that would be too many bytes."""
        count = len(values)
        if nbytes > MAX_CHUNK_BYTES and count > 1:
            for part in (values.slice(0, count // 2), values.slice(count // 2)):
                self._append(part, part.nbytes)
            return
        parts = [values]
        while self._chunks:
            last, size = self._chunks[-1], self._sizes[-1]
            total = count + len(last)
            if len(last) > 2 * count or total > self._chunk_rows or nbytes + size > MAX_CHUNK_BYTES:
                break
            parts.append(last)
            count, nbytes = total, nbytes + size
            self.nbytes -= size
            del self._chunks[-1], self._starts[-1], self._sizes[-1]
        parts.reverse()
        # Concatenating copies, even a single array: a chunk must not keep the message alive that its values came in.
        chunk = pa.concat_arrays(parts)
        end = self.next_index + len(values)
        self._chunks.append(chunk)
        self._starts.append(end - count)
        size = chunk.nbytes
        self._sizes.append(size)
        self.nbytes += size
        self.next_index = end
