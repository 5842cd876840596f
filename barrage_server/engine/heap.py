"""An append-only store of Arrow values of any type, addressed by index.

Columns of variable-width values keep an index into a heap in each cell. Values are never changed or moved to another
index, so a view of the heap stays valid, and overwriting a cell overwrites an index. The heap stores nulls like any
other value: a run of rows is then read as a slice of a chunk, including nulls at every depth.

Values are kept in chunks. An append makes a chunk of its own at first; small chunks at the end are merged so that sizes
fall geometrically, which copies each value a logarithmic number of times. No chunk crosses a multiple of the largest
number of rows, and chunks between two multiples are merged into one: reading a table in such pieces returns the chunks
themselves. A chunk also has a limit in bytes, unless a single append or value is larger, so 32-bit offsets cannot
overflow.

A heap whose values are released one by one counts the values in use per chunk, and frees chunks without any. The column
collects the rest of the garbage (:mod:`barrage_server.engine.heap_column`).

Indexes increase without end, and are stored modulo 2**32. That identifies a value, because fewer than 2**32 lie between
the first and the last stored value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.engine.sorting import order_of_small
from barrage_server.engine.values import take
from barrage_server.errors import LimitError
from barrage_server.wire.array_bound import MOST_ITEMS, read_in_parts
from barrage_server.wire.empty import empty_array

__all__ = ["INDEX", "INDEX_MASK", "MAX_CHUNK_BYTES", "MAX_CHUNK_ROWS", "READ_ROWS", "Heap", "HeapView", "IndexArray"]

MAX_CHUNK_ROWS = 1 << 18
# Rows per piece when a whole table is read. Chunks have this size, so that pieces are zero-copy.
READ_ROWS = 1 << 16
MAX_CHUNK_BYTES = 32 << 20

# Costs in tens of nanoseconds: of slicing one run of values, and of a take from a chunk, per row and per call.
_SLICE_COST, _TAKE_ROW_COST, _TAKE_COST = 60, 5, 600

# Up to this number of rows, runs of adjacent values are not searched for.
_FEW_ROWS = 1024

# Garbage that is not collected: bytes, and percent of the bytes in use.
_MIN_GARBAGE = 1 << 20
_MAX_GARBAGE = 25
# Most indexes between the oldest and the newest value; older values are moved to the end.
_MAX_SPAN = 1 << 31

IndexArray = npt.NDArray[np.uint32]
INDEX = np.dtype(np.uint32)
INDEX_MASK = (1 << 32) - 1


class HeapView:
    """A snapshot of a heap; immutable.

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
        """The values at ``indexes``, which may repeat, in the order given.

        Consecutive indexes are read without a copy.

        Raises:
            LimitError: the values are together too large for one array of this type.
        """
        count = len(indexes)
        if count == 0:
            return empty_array(self.type)
        first, last = int(indexes[0]), int(indexes[-1])
        try:
            if (last - first) & INDEX_MASK == count - 1 and (
                count == 1 or bool((indexes[1:] - indexes[:-1] == 1).all())
            ):
                return self.run(first, count)
            return self._pick(indexes)
        except pa.ArrowInvalid as error:
            raise self._too_large(count) from error

    def run(self, index: int, count: int) -> pa.Array:
        """``count`` values from ``index`` (modulo 2**32) on.

        Raises:
            LimitError: the values are together too large for one array of this type.
        """
        return self.slice(self.starts[0] + ((index - self.starts[0]) & INDEX_MASK), count)

    def pieces(self, indexes: IndexArray) -> Iterator[pa.Array]:
        """The values at ``indexes`` in order, in as many arrays as their size requires."""
        parts = read_in_parts(lambda start, stop: self.take(indexes[start:stop]), 0, len(indexes))
        return (values for _, _, values in parts if len(values))

    def slice(self, first: int, count: int) -> pa.Array:
        """``count`` values from the absolute index ``first`` on; a view within a chunk.

        Raises:
            LimitError: the values are together too large for one array of this type.
        """
        parts = self._slices(first, count)
        try:
            return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        except pa.ArrowInvalid as error:
            raise self._too_large(count) from error

    def _too_large(self, count: int) -> LimitError:
        return LimitError(
            f"{count:,} values of type {self.type} are too large for one array, which holds "
            f"{MOST_ITEMS:,} bytes of texts or items of lists. Read fewer rows at once."
        )

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
        # few rows, or values that repeat
        few = len(indexes) <= _FEW_ROWS or len(indexes) > len(self.chunks[0])
        if few and len(self.chunks) == 1 and not pat.is_nested(self.type):
            return take(self.chunks[0], indexes - INDEX.type(base & INDEX_MASK))
        wanted = (indexes - INDEX.type(base & INDEX_MASK)).astype(np.int64)  # modulo 2**32
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
        """The values at absolute indexes, all in the chunks ``low`` to ``high``."""
        if low == high:
            wanted -= self.starts[low]
            return take(self.chunks[low], wanted)
        starts = np.array(self.starts[low : high + 1], np.int64)
        numbers = starts.searchsorted(wanted, "right") - 1
        wanted -= starts[numbers]
        steps = np.diff(numbers)
        order = None
        if steps.min() < 0:
            order = order_of_small(numbers, 0, high - low)
            numbers, wanted = numbers[order], wanted[order]
            steps = np.diff(numbers)
        bounds = [0, *(np.flatnonzero(steps) + 1).tolist(), len(wanted)]
        parts = [take(self.chunks[low + int(numbers[start])], wanted[start:stop]) for start, stop in pairwise(bounds)]
        values = pa.concat_arrays(parts)
        if order is None:
            return values
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order), dtype=np.int64)
        return take(values, back)


class Heap:
    """A heap that one thread writes to.

    Args:
        data_type: the Arrow type of the values.
        chunk_rows: the most rows of a chunk. A smaller number frees the memory of a ring earlier.

    Attributes:
        nbytes: bytes of all chunks.
        garbage: an estimate of the bytes of released values.
        next_index: the absolute index of the next value.
        merged_bytes: chunks up to this size, in bytes, are merged with any later value.
        pinned_before: chunks that begin before this index are not freed.
    """

    __slots__ = (
        "_chunk_rows",
        "_chunks",
        "_closed",
        "_sizes",
        "_starts",
        "_used",
        "_view",
        "garbage",
        "merged_bytes",
        "nbytes",
        "next_index",
        "pinned_before",
        "type",
    )

    def __init__(self, data_type: pa.DataType, *, chunk_rows: int = MAX_CHUNK_ROWS) -> None:
        self.type = data_type
        self.next_index = 0
        self.nbytes = 0
        self.garbage = 0.0
        self._chunk_rows = chunk_rows
        self._chunks: list[pa.Array] = []
        self._starts: list[int] = []
        self._sizes: list[int] = []  # bytes per chunk
        self._used: list[int] = []  # values per chunk that were not released
        self._closed = 0  # chunks that begin before this index are not merged with later ones
        self.pinned_before = 0
        self.merged_bytes = 0
        self._view: HeapView | None = None

    @property
    def first_index(self) -> int:
        """The absolute index of the first stored value."""
        return self._starts[0] if self._starts else self.next_index

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def append(self, values: pa.Array) -> IndexArray:
        """Like :meth:`extend`, with the indexes (modulo 2**32) as an array."""
        first = self.extend(values)
        return np.arange(first, first + len(values), dtype=np.int64).astype(INDEX)

    def extend(self, values: pa.Array) -> int:
        """Copy ``values`` in; returns the absolute index of the first value.

        Raises:
            LimitError: indexes would be 2**32 or more apart.
        """
        first, count = self.next_index, len(values)
        if first + count - self.first_index > INDEX_MASK:
            raise LimitError(f"A column of type {self.type} can hold {INDEX_MASK:,} values. Split the table.")
        self._view = None
        start = 0
        while start < count:
            part = values.slice(start, self._chunk_rows - self.next_index % self._chunk_rows)
            self._append(part, part.nbytes)
            start += len(part)
        return first

    def absolute(self, index: int) -> int:
        """The absolute index of a stored value, from its index modulo 2**32."""
        return self.first_index + ((index - self.first_index) & INDEX_MASK)

    def snapshot(self) -> HeapView:
        """A snapshot of the heap."""
        if self._view is None:
            self._view = HeapView(self.type, tuple(self._chunks), tuple(self._starts))
        return self._view

    def drop_before(self, index: int) -> None:
        """Drop the chunks that end before or at the absolute index ``index``."""
        count = 0
        while count < len(self._chunks) and self._starts[count] + len(self._chunks[count]) <= index:
            count += 1
        self._drop(range(count))

    def release(self, indexes: IndexArray) -> None:
        """Take note that one cell per index no longer uses the value.

        Chunks without used values are freed.
        """
        if len(indexes) == 0:
            return
        first = self.first_index
        absolute = (indexes - INDEX.type(first & INDEX_MASK)).astype(np.int64) + first
        numbers = np.array(self._starts, np.int64).searchsorted(absolute, "right") - 1
        counts = np.bincount(numbers)
        touched = np.flatnonzero(counts)
        unused = []
        for number, count in zip(touched.tolist(), counts[touched].tolist(), strict=True):
            self._used[number] -= count
            if self._starts[number] >= self.pinned_before:
                self.garbage += count * self._sizes[number] / len(self._chunks[number])
                if self._used[number] <= 0:
                    unused.append(number)
        self._drop(unused)

    def close(self) -> None:
        """Merge no later value into the present chunks."""
        self._closed = self.next_index

    def pin(self) -> None:
        """Keep all present values, even if they are released."""
        self.close()
        self.pinned_before = self.next_index

    def drop_between(self, first: int, stop: int) -> None:
        """Drop the chunks between two absolute indexes, whose values are all unused."""
        bounds = zip(self._starts, self._chunks, strict=True)
        self._drop([n for n, (start, chunk) in enumerate(bounds) if first <= start and start + len(chunk) <= stop])

    def collectable_span(self) -> tuple[int, int] | None:
        """The absolute indexes (first, stop) around most garbage; ``None`` if little."""
        if self.next_index - self.first_index > _MAX_SPAN:
            return self.first_index, self.next_index - _MAX_SPAN // 2
        if self.garbage <= max(_MIN_GARBAGE, (self.nbytes - self.garbage) * _MAX_GARBAGE / 100):
            return None
        share = 1 - self.garbage / self.nbytes / 2
        poor = [
            number
            for number, (chunk, used) in enumerate(zip(self._chunks, self._used, strict=True))
            if self._starts[number] >= self.pinned_before and used <= share * len(chunk)
        ]
        return (self._starts[poor[0]], self._starts[poor[-1]] + len(self._chunks[poor[-1]])) if poor else None

    def _drop(self, numbers: Sequence[int]) -> None:
        for number in reversed(numbers):
            size, unused = self._sizes[number], len(self._chunks[number]) - self._used[number]
            self.nbytes -= size
            if self._starts[number] >= self.pinned_before:
                self.garbage -= size * unused / len(self._chunks[number])
            del self._chunks[number], self._starts[number], self._sizes[number], self._used[number]
            self._view = None

    def _append(self, values: pa.Array, nbytes: int) -> None:
        """Append as one chunk, or in halves if that would be too many bytes."""
        count = len(values)
        if nbytes > MAX_CHUNK_BYTES and count > 1:
            for part in (values.slice(0, count // 2), values.slice(count // 2)):
                self._append(part, part.nbytes)
            return
        parts, end = [(values, count)], self.next_index + count  # with how many of the values are used
        room = (end - 1) % self._chunk_rows + 1
        is_last = room == self._chunk_rows
        while self._chunks:
            last, size = self._chunks[-1], self._sizes[-1]
            total = count + len(last)
            is_much = len(last) > 2 * count and nbytes + size > self.merged_bytes and not is_last
            if is_much or total > room or nbytes + size > MAX_CHUNK_BYTES:
                break
            if self._starts[-1] + total != end or self._starts[-1] < self._closed:
                break
            parts.append((last, self._used[-1]))
            count, nbytes = total, nbytes + size
            self._drop([len(self._chunks) - 1])
        parts.reverse()
        # Concatenating copies, even a single array: a chunk must not keep the message alive that its values came in.
        try:
            chunks = [(pa.concat_arrays([part for part, _ in parts]), sum(used for _, used in parts))]
        except pa.ArrowInvalid:  # too many items for one array, which may have few bytes, as nulls do
            chunks = [(pa.concat_arrays([part]), used) for part, used in parts]
        start = end - count
        for chunk, used in chunks:
            size = chunk.nbytes
            self._chunks.append(chunk)
            self._starts.append(start)
            self._sizes.append(size)
            self._used.append(used)
            self.nbytes += size
            self.garbage += size * (len(chunk) - used) / len(chunk)
            start += len(chunk)
        self.next_index = end
