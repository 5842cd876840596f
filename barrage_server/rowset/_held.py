"""How an ordered set of row keys is held: four representations, the choice between them, and what each can be asked.

:class:`RowSet` adds the operations. No caller can tell the representations apart but by speed: one range (two
numbers); sorted ranges (two int64 arrays); a roaring bitmap; or the sorted keys that the set was made from, which
become ranges or a bitmap when an operation asks for them: most sets of scattered keys are only listed, sent, and gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Final, Self, cast

import numpy as np
import numpy.typing as npt

from barrage_server.errors import RowSetError
from barrage_server.rowset import _ranges, _roaring
from barrage_server.rowset._ranges import MAX_KEY, NO_KEYS, NO_RANGES, Keys, RangeList

RANGES_ALWAYS: Final = 4096
"""Up to this many ranges, two arrays are never slower than a bitmap by more than microseconds."""
RANGES_PER_CONTAINER: Final = 32
"""A bitmap pays for each block of 65536 keys that it touches: fewer ranges a block than this, and arrays cost less."""
_CACHED: Final = 1 << 17  # arrays derived from a bitmap are kept up to this length (1 MiB), and made anew beyond
_SCATTERED: Final = 2  # keys per range up to which it costs less to list them
_LISTABLE: Final = 1 << 36


def as_keys(values: npt.ArrayLike) -> Keys:
    """Give ``values`` as a one-dimensional int64 array (the same one when it is that).

    RowSetError when they are not integers.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise RowSetError(f"row keys and positions come as one-dimensional arrays, not with {array.ndim} dimensions")
    if array.dtype == np.int64:
        return cast("Keys", array)
    if not array.size:
        return NO_KEYS
    if array.dtype.kind not in "iu" or (array.dtype.kind == "u" and int(array.max()) > MAX_KEY):
        raise RowSetError(
            f"row keys and positions are integers within 0 and 2**63 - 1, which these ({array.dtype}) are not"
        )
    return array.astype(np.int64)


def _is_dense(keys: Keys, count: int) -> bool:
    """Tell whether a bitmap pays for keys that form so many ranges."""
    if count <= RANGES_ALWAYS:
        return False
    blocks = keys >> 16
    return (int(np.count_nonzero(blocks[1:] != blocks[:-1])) + 1) * RANGES_PER_CONTAINER <= count


class HeldKeys:
    """An immutable ordered set of row keys, without the operations on it."""

    __slots__ = ("_bitmap", "_count", "_first", "_is_dense", "_keys", "_last", "_offsets", "_ranges", "_size")

    # A set of one range has neither a _bitmap nor an obligation to have _ranges; a set of ranges has _ranges; a bitmap
    # has _bitmap and is _is_dense; keys have _keys, and are to become a bitmap if they are _is_dense, ranges otherwise
    # (None: to be found out). Everything else is derived on demand and kept: two threads may derive the same value
    # twice, which does no harm.
    _first: int
    _last: int
    _size: int
    _count: int  # of ranges; 0 while it is not known
    _is_dense: bool | None
    _bitmap: _roaring.Bits | None
    _ranges: RangeList | None
    _offsets: Keys | None
    _keys: Keys | None

    def __init__(self) -> None:
        """Make an empty set; the class methods make the others."""
        self._first, self._last, self._size, self._count = 0, -1, 0, 0
        self._is_dense = False
        self._bitmap = self._offsets = self._keys = None
        self._ranges = NO_RANGES

    # -- making -------------------------------------------------------------------------------------------------------

    @classmethod
    def from_range(cls, first: int, last: int) -> Self:
        """Give the keys first..last, both included; nothing when ``last < first``.

        RowSetError when a key is out of bounds.
        """
        try:
            first, last = index(first), index(last)
        except TypeError:
            raise RowSetError("the first and the last key of a range are integers") from None
        if last < first:
            return cls()
        if first < 0 or last > MAX_KEY:
            raise RowSetError(f"row keys lie within 0 and 2**63 - 1; the range {first}-{last} does not")
        return cls._span(first, last)

    @classmethod
    def flat(cls, size: int) -> Self:
        """Give the keys 0..size-1."""
        try:
            last = index(size) - 1
        except TypeError:
            raise RowSetError("the size of a set is an integer") from None
        if last < -1:
            raise RowSetError(f"a set cannot have {size} keys")
        return cls.from_range(0, last)

    @classmethod
    def from_ranges(cls, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Self:
        """Give the keys of inclusive ranges, which must be sorted and disjoint; those that touch are merged.

        Both are array-likes of int64 of one length. RowSetError when they are not as described.
        """
        first, last = as_keys(starts), as_keys(ends)
        if first.size != last.size:
            raise RowSetError(f"there are {first.size} starts of ranges, but {last.size} ends")
        if not first.size:
            return cls()
        if int(first[0]) < 0:
            raise RowSetError(f"row keys cannot be negative, and {int(first[0])} is")
        if (first > last).any():
            index = int(np.argmax(first > last))
            raise RowSetError(f"the range {int(first[index])}-{int(last[index])} ends before it starts")
        if (first[1:] <= last[:-1]).any():
            index = int(np.argmax(first[1:] <= last[:-1]))
            raise RowSetError(
                f"ranges must be sorted and disjoint: one starts at {int(first[index + 1])}, the one before ends at "
                f"{int(last[index])}"
            )
        joined = _ranges.join_adjacent(first, last)
        if joined[0] is first:  # the arrays are the caller's, who may go on writing to them
            joined = first.copy(), last.copy()
        return cls._of_ranges(*joined)

    @classmethod
    def from_keys(cls, keys: npt.ArrayLike | Iterable[int]) -> Self:
        """Give the set of ``keys``, in any order, repeated or not. RowSetError when one is out of bounds."""
        if not isinstance(keys, np.ndarray | list | tuple):
            try:
                keys = list(cast("Iterable[int]", keys))
            except TypeError:
                raise RowSetError("row keys come as a collection of integers") from None
        array = as_keys(keys)
        if not (array[1:] > array[:-1]).all():
            array = np.unique(array)
        if array.size and int(array[0]) < 0:
            raise RowSetError(f"row keys cannot be negative, and {int(array[0])} is")
        return cls.from_sorted_keys(array)

    @classmethod
    def from_sorted_keys(cls, keys: Keys) -> Self:
        """Give the set of ``keys``, trusting that they are int64, not negative, and strictly increasing."""
        if not keys.size:
            return cls()
        first, last = int(keys[0]), int(keys[-1])
        if last - first == keys.size - 1:
            return cls._span(first, last)
        count = _ranges.count_in(keys)
        if keys.size <= min(_CACHED, _SCATTERED * count):
            return cls._as_keys(keys.copy(), count)
        if _is_dense(keys, count):
            return cls._as_bitmap(_roaring.from_keys(keys))
        return cls._as_listed(*_ranges.compress(keys), keys.size)

    @classmethod
    def _cut(cls, keys: Keys) -> Self:
        """Give the set of some keys next to each other of such a set as :meth:`_as_keys` makes."""
        if not keys.size:
            return cls()
        first, last = int(keys[0]), int(keys[-1])
        return cls._span(first, last) if last - first == keys.size - 1 else cls._as_keys(keys.copy())

    # Private makers: what they are given is trusted, and the representation is the one named.

    @classmethod
    def _span(cls, first: int, last: int) -> Self:
        made = cls()
        made._first, made._last, made._size = first, last, last - first + 1
        made._ranges = None
        return made

    @classmethod
    def _as_listed(cls, starts: Keys, ends: Keys, size: int | None = None) -> Self:
        starts.flags.writeable = ends.flags.writeable = False
        made = cls()
        made._first, made._last = int(starts[0]), int(ends[-1])
        made._ranges = (starts, ends)
        made._size = int((ends - starts).sum()) + starts.size if size is None else size
        return made

    @classmethod
    def _as_bitmap(cls, bits: _roaring.Bits) -> Self:
        made = cls()
        made._first, made._last, made._size = bits.min(), bits.max(), len(bits)
        made._bitmap, made._ranges, made._is_dense = bits, None, True
        return made

    @classmethod
    def _as_keys(cls, keys: Keys, count: int = 0, *, is_dense: bool | None = None) -> Self:
        keys.flags.writeable = False
        made = cls()
        made._first, made._last, made._size, made._count = int(keys[0]), int(keys[-1]), int(keys.size), count
        made._keys, made._is_dense, made._ranges = keys, is_dense, None
        return made

    @classmethod
    def _of_ranges(cls, starts: Keys, ends: Keys) -> Self:
        """Choose the representation for ranges that are sorted, disjoint and do not touch."""
        count = starts.size
        if count == 0:
            return cls()
        if count == 1:
            return cls._span(int(starts[0]), int(ends[0]))
        if count > RANGES_ALWAYS and _ranges.containers(starts, ends) * RANGES_PER_CONTAINER <= count:
            size = int((ends - starts).sum()) + count
            if size <= min(_CACHED, _SCATTERED * count):
                return cls._as_keys(_ranges.expand(starts, ends), count, is_dense=True)
            return cls._as_bitmap(_roaring.from_ranges(starts, ends, size))
        return cls._as_listed(starts, ends)

    @classmethod
    def _of_bits(cls, bits: _roaring.Bits) -> Self:
        """Choose the representation for the result of bitmap operations; only a small one is asked for its ranges."""
        size = len(bits)
        if size == 0:
            return cls()
        first, last = bits.min(), bits.max()
        if last - first == size - 1:
            return cls._span(first, last)
        if size <= RANGES_ALWAYS:
            return cls._as_listed(*_ranges.compress(_roaring.to_keys(bits)), size)
        return cls._as_bitmap(bits)

    @property
    def _bits(self) -> _roaring.Bits | None:
        """The bitmap, if this set is held as one, or is to be as soon as it takes part in an operation."""
        bits, keys = self._bitmap, self._keys
        if bits is None and keys is not None and self._is_dense is not False:
            if self._is_dense is None:
                self._is_dense = _is_dense(keys, self.range_count)
            if self._is_dense:
                bits = self._bitmap = _roaring.from_keys(keys)
        return bits

    def _own_keys(self) -> Keys | None:
        """Give the keys, if they are at hand and this is no set of ranges, which say more in less."""
        return None if self._is_dense is False and self._ranges is not None else self._keys

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of keys."""
        return self._size

    def __len__(self) -> int:
        """The number of keys; RowSetError for that of all keys there are, which ``len`` cannot give: see ``size``."""
        if self._size > MAX_KEY:
            raise RowSetError("a row set of 2**63 keys has a size and no len()")
        return self._size

    def __bool__(self) -> bool:
        return self._size != 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no key."""
        return self._size == 0

    @property
    def first_key(self) -> int:
        """The smallest key; RowSetError when there is none."""
        if not self._size:
            raise RowSetError("an empty row set has no first key")
        return self._first

    @property
    def last_key(self) -> int:
        """The largest key; RowSetError when there is none."""
        if not self._size:
            raise RowSetError("an empty row set has no last key")
        return self._last

    @property
    def is_contiguous(self) -> bool:
        """Whether the keys are one range, or none."""
        return self._last - self._first + 1 == self._size

    @property
    def is_flat(self) -> bool:
        """Whether the keys are 0..size-1, so that each key is its own position."""
        return self._last + 1 == self._size

    @property
    def range_count(self) -> int:
        """The number of ranges, none of which touches another."""
        if self.is_contiguous:
            return min(1, self._size)
        if not self._count:
            ranges, keys, bits = self._ranges, self._keys, self._bitmap
            if ranges is not None:
                self._count = ranges[0].size
            elif keys is not None:
                self._count = _ranges.count_in(keys)
            elif bits is not None:
                self._count = _roaring.range_count(bits)
        return self._count

    def ranges(self) -> RangeList:
        """Give the inclusive ``(starts, ends)`` of the ranges: int64, sorted, read-only, none touching the next."""
        ranges = self._ranges
        if ranges is None:
            if self._keys is not None:
                ranges = _ranges.compress(self._keys)
            elif self._bitmap is not None:
                ranges = _roaring.to_ranges(self._bitmap)
            else:
                ranges = np.array([self._first], np.int64), np.array([self._last], np.int64)
            ranges[0].flags.writeable = ranges[1].flags.writeable = False
            if ranges[0].size <= _CACHED:
                self._ranges = ranges
        return ranges

    def keys(self) -> Keys:
        """Give all keys, strictly increasing, as a read-only int64 array.

        RowSetError when they are too many to be listed.
        """
        keys = self._keys
        if keys is None:
            if self._size > _LISTABLE:
                raise RowSetError(f"a row set of {self._size} keys cannot be listed; work on its ranges")
            keys = _roaring.to_keys(self._bitmap) if self._bitmap is not None else _ranges.expand(*self.ranges())
            keys.flags.writeable = False
            if keys.size <= _CACHED and not self.is_contiguous:
                self._keys = keys
        return keys

    @property
    def is_scattered(self) -> bool:
        """Whether most ranges have one key, so that listing the keys costs less than their ranges."""
        return self._size <= _SCATTERED * self.range_count

    def _range_offsets(self) -> Keys:
        offsets = self._offsets
        if offsets is None:
            offsets = _ranges.offsets_of(*self.ranges())
            self._offsets = offsets
        return offsets

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HeldKeys):
            return NotImplemented
        if self is other:
            return True
        if (self._size, self._first, self._last) != (other._size, other._first, other._last):
            return False
        if self.is_contiguous:
            return True
        if self._keys is not None or other._keys is not None:
            return np.array_equal(self.keys(), other.keys())
        if self._bitmap is not None and other._bitmap is not None:
            return bool(self._bitmap == other._bitmap)
        mine, theirs = self.ranges(), other.ranges()
        return np.array_equal(mine[0], theirs[0]) and np.array_equal(mine[1], theirs[1])

    def __hash__(self) -> int:
        return hash((self._size, self._first, self._last))

    def __repr__(self) -> str:
        if self.is_contiguous:
            pairs = [(self._first, self._last)] if self._size else []
        elif self._keys is not None or self._bitmap is not None:
            keys = self._keys
            if keys is None and self._bitmap is not None:
                keys = _roaring.window(self._bitmap, 0, min(self._size, 8))
            assert keys is not None
            pairs = list(zip(*(part.tolist() for part in _ranges.compress(keys[:8])), strict=True))[:7]
        else:
            pairs = list(zip(*(part[:8].tolist() for part in self.ranges()), strict=True))
        text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in pairs)
        if pairs and pairs[-1][1] != self._last:
            text += f",..{self._last}; {self._size} keys"
        return f"{{{text}}}"

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, int | np.integer):
            return False
        key = int(key)
        if not self._first <= key <= self._last:
            return False
        if self.is_contiguous:
            return True
        if self._bitmap is not None:
            return key in self._bitmap
        if self._keys is not None:
            return int(self._keys[int(self._keys.searchsorted(key))]) == key
        starts, ends = self.ranges()
        return key <= int(ends[int(np.searchsorted(starts, key, "right")) - 1])
