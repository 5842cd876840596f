"""A map from hashes to candidate rows: an open hash table in numpy.

It grows and shrinks in small steps. The table is an array of buckets of seven slots. A slot has a fingerprint (one byte
of the hash) and a row key; neither key nor hash is stored, so that a slot takes little more than five bytes, and a
search compares the keys of the few candidates. The fingerprints of a bucket are one 64-bit word, which is compared at
once; its eighth byte is the bucket's *reach*: the distance of the furthest entry that overflowed from this bucket, its
home. A search covers the home of its hash and its reach. Removals leave no marks.

**Homes are ordered by hash**: of ``n`` buckets the home is ``hash * n >> 32``, so that hashes are ascending in the
table, except for overflows. Therefore the table can change its size in place and in steps (a *move*). During a move
there are two sizes and a *frontier*: hashes below it have the home of the smaller size, all others the home of the
larger size. The smaller size has earlier homes, so the two parts never overlap. To grow, the frontier moves down from
the highest hash, and entries move to the back; to shrink it moves up, and they move to the front. Each insertion and
removal moves a few buckets, so that no cycle pays for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from barrage_server.engine.memory import GrowingArray
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.sorting import positions_in_order
from barrage_server.errors import LimitError

__all__ = ["HashArray", "Search", "Slots"]

HashArray = npt.NDArray[np.uint64]

SLOTS = 7
MIN_BUCKETS = 16
MAX_ENTRIES = 1 << 32
# Overflow buckets, after the last home bucket. More are added when needed.
_SPARE = 16
_END = 1 << 32  # end of the 32 bits of a hash that determine its home

# Entries per slot, in percent: of a new table, when one begins to grow, when one begins to shrink.
_NEW, _GROW, _SHRINK = 65, 72, 22
# Buckets moved per inserted or removed entry: growing ends before the part of the smaller size is filled to 85 percent.
_MOVES = 8 / SLOTS
_MIN_MOVES = 32
# Entries, and buckets, that are worked on in one go, so that they stay in the caches.
_BLOCK, _BLOCK_BUCKETS = 1 << 16, 1 << 13

_BYTE = np.uint64(0xFF)
_HALF = np.uint64(32)
_ONES = np.uint64(0x0101010101010101)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH = np.uint64(0x8080808080808000)  # of the seven fingerprints
_ONE = np.uint64(1)
_FAR = 255  # a reach that is this large is only known to be that large


class Slots:
    """The hash table.

    Args:
        hash_rows: returns the hashes of the entries with these row keys, in any order; called for entries that move.
    """

    def __init__(self, hash_rows: Callable[[Int64Array], HashArray]) -> None:
        self._hash_rows = hash_rows
        self.count = 0
        self._start(MIN_BUCKETS, np.dtype(np.uint32))

    def _start(self, buckets: int, dtype: np.dtype[Any]) -> None:
        self._small = self._large = buckets
        self._frontier = 0
        self.furthest = 0  # no reach is larger
        self._words = GrowingArray(buckets + _SPARE, np.uint64)
        self._rows = GrowingArray((buckets + _SPARE) * SLOTS, dtype)
        self.words: HashArray = self._words.array
        self.rows: npt.NDArray[np.integer] = self._rows.array

    @property
    def nbytes(self) -> int:
        """Bytes of the table.

        May be read by any thread, also while the table changes its size.
        """
        return self._words.nbytes + self._rows.nbytes

    @property
    def is_moving(self) -> bool:
        """Whether the table is between two sizes."""
        return self._small != self._large

    @property
    def _spare(self) -> int:
        """Buckets needed behind the last home."""
        return max(_SPARE, self.furthest)

    @property
    def _bytes(self) -> npt.NDArray[np.uint8]:
        return self.words.view(np.uint8)

    def search(self, hashes: HashArray) -> Search:
        """Search for entries with these hashes."""
        return Search(self, hashes)

    def insert(self, hashes: HashArray, rows: Int64Array) -> None:
        """Add entries; row keys must differ from each other and from existing ones.

        Raises:
            LimitError: there would be too many entries.
        """
        if len(rows):
            dtype = np.dtype(np.uint64 if int(rows.max()) >= _END else self.rows.dtype)
            self._make_room(len(rows), dtype)
            for start in range(0, len(rows), _BLOCK):
                self._place(hashes[start : start + _BLOCK], rows[start : start + _BLOCK])
            self.count += len(rows)

    def clear(self, slots: Int64Array) -> None:
        """Remove the entries in these slots, which must be distinct."""
        if len(slots):
            self._bytes[slots + slots // SLOTS + 1] = 0
            self.count -= len(slots)
            self._give_room(len(slots))

    def homes(self, hashes: HashArray) -> Int64Array:
        """The home of each hash."""
        high = hashes >> _HALF
        if self.is_moving:
            buckets = np.where(high >= np.uint64(self._frontier), np.uint64(self._large), np.uint64(self._small))
            return ((high * buckets) >> _HALF).view(np.int64)
        return ((high * np.uint64(self._large)) >> _HALF).view(np.int64)

    # Putting entries into slots.

    def _place(self, hashes: HashArray, rows: Int64Array) -> None:
        homes = self.homes(hashes)
        if len(rows) >= SLOTS * MIN_BUCKETS:
            # In ascending order, for the caches.
            order = _order(hashes)
            homes, hashes, rows = homes[order], hashes[order], rows[order]
        self._fill(homes, fingerprints(hashes), rows.astype(self.rows.dtype, copy=False))

    def _fill(self, homes: Int64Array, prints: npt.NDArray[np.uint8], rows: npt.NDArray[np.integer]) -> None:
        """Put each entry into the first free slot from its home on."""
        buckets = homes.copy()
        while len(rows):
            last = int(buckets.max())
            if last >= len(self.words):
                self._resize(last + 1 + _SPARE)
            free = _zero_bytes(self.words[buckets])
            has_free = np.flatnonzero(free)
            wanted = buckets[has_free]
            places = _lowest(free[has_free])
            slots = wanted * SLOTS + places - 1
            # Several entries may choose one slot: all write their row key, and the one that reads its own has won.
            self.rows[slots] = rows[has_free]
            won = self.rows[slots] == rows[has_free]
            winners = has_free[won]
            self._bytes[wanted[won] * 8 + places[won]] = prints[winners]
            self._note_reach(homes[winners], buckets[winners])
            rest = np.ones(len(rows), np.bool_)
            rest[winners] = False
            buckets += free == 0
            homes, buckets, prints, rows = homes[rest], buckets[rest], prints[rest], rows[rest]

    def _note_reach(self, homes: Int64Array, buckets: Int64Array) -> None:
        reach = buckets - homes
        away = np.flatnonzero(reach)
        if len(away):
            reach = reach[away]
            self.furthest = max(self.furthest, int(reach.max()))
            np.maximum.at(self._bytes, homes[away] * 8, np.minimum(reach, _FAR).astype(np.uint8))

    def _lay_out(self, hashes: HashArray, rows: Int64Array) -> None:
        """Place entries into an empty part, each into the first free slot from its home."""
        order = _order(hashes)
        hashes, own = hashes[order], rows[order].astype(self.rows.dtype, copy=False)
        homes = self.homes(hashes)
        places = np.arange(len(own), dtype=np.int64)
        slots = places + np.maximum.accumulate(homes * SLOTS - places)
        buckets = slots // SLOTS
        if len(own) and int(buckets[-1]) >= len(self.words):
            self._resize(int(buckets[-1]) + 1 + _SPARE)
        where = slots + buckets + 1
        prints = fingerprints(hashes)
        taken = self._bytes[where] != 0
        free = int(taken.argmax()) if taken.any() else len(own)
        self.rows[slots[:free]] = own[:free]
        self._bytes[where[:free]] = prints[:free]
        self._note_reach(homes[:free], buckets[:free])
        self._fill(homes[free:], prints[free:], own[free:])

    def _resize(self, buckets: int) -> None:
        del self.words, self.rows
        self._words.resize(buckets)
        self._rows.resize(buckets * SLOTS)
        self.words, self.rows = self._words.array, self._rows.array

    # Changing the size.

    def _make_room(self, more: int, dtype: np.dtype[Any]) -> None:
        """Make room for ``more`` entries."""
        count = self.count + more
        if count > MAX_ENTRIES:
            raise LimitError(f"A table can have {MAX_ENTRIES:,} keys, not {count:,}. Split it into several.")
        if dtype != self.rows.dtype or (2 * more >= self.count and count * 100 > self._small * SLOTS * _GROW):
            self._rebuild(count, dtype)
            return
        steps = _steps(more)
        while steps > 0 and count * 100 > self._small * SLOTS * _GROW:
            if not self.is_moving:
                self._large = self._small * 3 // 2
                self._frontier = _END
                self._resize(self._large + self._spare)
            steps -= self._grow(min(steps, _BLOCK_BUCKETS))

    def _give_room(self, fewer: int) -> None:
        """Shrink after ``fewer`` removals."""
        if self._large <= MIN_BUCKETS or self.count * 100 > self._large * SLOTS * _SHRINK:
            return
        if fewer >= self.count:
            self._rebuild(self.count, self.rows.dtype)
            return
        if not self.is_moving:
            self._small = max(MIN_BUCKETS, self._large // 2)
            self._frontier = 0
        steps = 2 * _steps(fewer)  # there is little in them
        while steps > 0 and self.is_moving:
            steps -= self._shrink(min(steps, _BLOCK_BUCKETS))

    def _rebuild(self, count: int, dtype: np.dtype[Any]) -> None:
        """Make a new table for ``count`` entries, and insert the present ones."""
        words, rows = self.words, self.rows
        self._start(max(MIN_BUCKETS, count * 100 // (SLOTS * _NEW) + 1), dtype)
        for begin in range(0, len(words), _BLOCK_BUCKETS):
            found = _entries(words, rows, begin, begin + _BLOCK_BUCKETS)
            if len(found):
                self._lay_out(self._hash_rows(found), found)

    def _grow(self, steps: int) -> int:
        """Move the frontier down by about ``steps`` buckets; returns the number."""
        end = (((self._frontier - 1) * self._small) >> 32) + 1  # after the last home of the small size
        begin = self._boundary_before(max(0, end - steps))
        self._move(begin, self._boundary_after(end), -(-(begin << 32) // self._small))
        if self._frontier == 0:
            self._small = self._large
        return end - begin

    def _shrink(self, steps: int) -> int:
        """Move the frontier up by about ``steps`` buckets; returns the number."""
        begin = (self._frontier * self._large) >> 32  # the first home of the large size
        end = self._boundary_after(min(begin + steps, self._large))
        self._move(self._boundary_before(begin), end, min(_END, -(-(end << 32) // self._large)))
        if self._frontier == _END:
            self._large = self._small
            self._resize(self._large + self._spare)
        return end - begin

    def _move(self, begin: int, end: int, frontier: int) -> None:
        """Set the frontier, and move all entries between two boundaries."""
        rows = _entries(self.words, self.rows, begin, end)
        self.words[begin:end] = 0
        self._frontier = frontier
        if len(rows):
            self._lay_out(self._hash_rows(rows), rows)

    def _boundary_before(self, bucket: int) -> int:
        """The last boundary at or before ``bucket`` without an entry across it.

        An entry lies across the boundaries between its home and its bucket.
        """
        width = 64 + self.furthest
        while bucket > 0:
            first = max(0, bucket - width)
            crossed = self._crossed(first, bucket)  # the boundaries first + 1 to bucket
            known = 0 if first == 0 else self.furthest  # further to the front, others may cross that do not show here
            clear = np.flatnonzero(~crossed[known:])
            if len(clear):
                return first + known + int(clear[-1]) + 1
            bucket = first + known
        return 0

    def _boundary_after(self, bucket: int) -> int:
        """The first boundary at or behind ``bucket`` without an entry across it."""
        width, total = 64 + self.furthest, len(self.words)
        while 0 < bucket < total:
            first, last = max(0, bucket - 1 - self.furthest), min(total, bucket + width)
            crossed = self._crossed(first, last)[bucket - 1 - first :]  # the boundaries bucket to last
            clear = np.flatnonzero(~crossed)
            if len(clear):
                return bucket + int(clear[0])
            bucket = last + 1
        return min(bucket, total)

    def _crossed(self, first: int, last: int) -> npt.NDArray[np.bool_]:
        """Whether an entry lies across each boundary from ``first + 1`` to ``last``.

        Counts only entries with a home from ``first`` on.
        """
        reach = (self.words[first:last] & _BYTE).view(np.int64)
        if self.furthest >= _FAR:
            reach = np.where(reach == _FAR, self.furthest, reach)
        places = np.arange(first, last, dtype=np.int64)
        crossed: npt.NDArray[np.bool_] = np.maximum.accumulate(places + reach) > places
        return crossed


class Search:
    """Candidates for hashes, one per hash at a time.

    Args:
        table: the table. It must not change during the search.
        hashes: the hashes to find.

    Attributes:
        positions: the positions of the hashes that have a candidate now.
        rows: the row keys of these candidates.
        slots: the slots of these candidates.
    """

    __slots__ = ("_buckets", "_left", "_matches", "_patterns", "_table", "positions", "rows", "slots")

    def __init__(self, table: Slots, hashes: HashArray) -> None:
        self._table = table
        self._patterns = np.maximum(hashes & _BYTE, _ONE) * _ONES
        self._buckets = table.homes(hashes)
        words = table.words[self._buckets]
        self._left = (words & _BYTE).view(np.int64)
        if table.furthest >= _FAR:
            far = self._left == _FAR
            self._left[far] = np.minimum(table.furthest, len(table.words) - 1 - self._buckets[far])
        self._matches = _zero_bytes(words ^ self._patterns)
        self.positions = np.arange(len(hashes), dtype=np.int64)
        self.slots = self.rows = self.positions
        self._go_on()

    def settle(self, found: npt.NDArray[np.bool_]) -> None:
        """Advance to the next candidates.

        Args:
            found: whether each present candidate matched. A hash without a match gets its next candidate; other hashes,
                and those without further candidates, are dropped.
        """
        if found.all():
            self.positions, self.rows, self.slots = self.positions[:0], self.rows[:0], self.slots[:0]
            return
        self._keep(np.flatnonzero(~found))
        self._matches &= self._matches - _ONE
        self._go_on()

    def _go_on(self) -> None:
        """Advance to the next bucket with a candidate; drop hashes without one."""
        waiting = np.flatnonzero(self._matches == 0)
        waiting = waiting[self._left[waiting] > 0]
        while len(waiting):
            buckets = self._buckets[waiting] + 1
            self._buckets[waiting] = buckets
            left = self._left[waiting] - 1
            self._left[waiting] = left
            matches = _zero_bytes(self._table.words[buckets] ^ self._patterns[waiting])
            self._matches[waiting] = matches
            waiting = waiting[(matches == 0) & (left > 0)]
        has_match = self._matches != 0
        if not has_match.all():
            self._keep(np.flatnonzero(has_match))
        self.slots = self._buckets * SLOTS + _lowest(self._matches) - 1
        self.rows = self._table.rows[self.slots].astype(np.int64)

    def _keep(self, chosen: Int64Array) -> None:
        self.positions, self._patterns = self.positions[chosen], self._patterns[chosen]
        self._buckets, self._left, self._matches = self._buckets[chosen], self._left[chosen], self._matches[chosen]


def _entries(words: HashArray, rows: npt.NDArray[np.integer], begin: int, end: int) -> Int64Array:
    """The row keys of the entries in the buckets from ``begin`` to before ``end``."""
    used = words[begin:end].view(np.uint8).reshape(-1, 8)[:, 1:].ravel() != 0
    found: Int64Array = rows[begin * SLOTS : end * SLOTS][used].astype(np.int64)
    return found


def fingerprints(hashes: HashArray) -> npt.NDArray[np.uint8]:
    """The fingerprint of each hash; 0 is reserved for a free slot."""
    return np.maximum(hashes.astype(np.uint8), np.uint8(1))


def _zero_bytes(words: HashArray) -> HashArray:
    """The high bits of the zero bytes among the seven upper bytes of each word."""
    return ~(((words & _LOW) + _LOW) | words) & _HIGH


def _lowest(bits: HashArray) -> Int64Array:
    """The number, 1 to 7, of the lowest byte of each word with its high bit set."""
    return np.bitwise_count((bits & (~bits + _ONE)) - _ONE).astype(np.int64) >> 3


def _order(hashes: HashArray) -> Int64Array:
    """The order of hashes by home."""
    return positions_in_order((hashes >> _HALF).view(np.int64), 32)


def _steps(entries: int) -> int:
    return int(entries * _MOVES) + _MIN_MOVES
