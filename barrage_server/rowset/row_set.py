"""Ordered sets of 64-bit row keys, as immutable values.

Positions are the ranks of keys: the key at position ``i`` is the ``i``-th smallest. A table's row set maps between
the two spaces of the protocol: row keys, which survive the insertion of other rows, and row positions, of which
viewports are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import index
from typing import ClassVar, Final, cast

import numpy as np
import numpy.typing as npt

from barrage_server.errors import RowSetError
from barrage_server.public import public
from barrage_server.rowset import _combine, _key_lists, _ranges, _storage
from barrage_server.rowset._key_storage import KeyStorage
from barrage_server.rowset._ranges import MAX_KEY, Keys, Mask, RangeList, as_keys
from barrage_server.rowset._segments import Segments
from barrage_server.rowset._storage import NOTHING, KeyList, Span

__all__ = ["RowSet"]

_KEY_BITS: Final = 63


@public
class RowSet:
    """An immutable ordered set of row keys (int64, 0 to 2**63 - 1)."""

    __slots__ = ("_held",)

    EMPTY: ClassVar[RowSet]

    _held: KeyStorage

    def __init__(self) -> None:
        """Make an empty set; class methods make other sets."""
        self._held = NOTHING

    @classmethod
    def _of(cls, held: KeyStorage) -> RowSet:
        made = cls.__new__(cls)
        made._held = held
        return made

    # -- making -------------------------------------------------------------------------------------------------------

    @classmethod
    def empty(cls) -> RowSet:
        """Return the set without keys."""
        return cls.EMPTY

    @classmethod
    def from_range(cls, first: int, last: int) -> RowSet:
        """Return the keys first..last, both included.

        Args:
            first: the first key.
            last: the last key; the set is empty when it is smaller than ``first``.

        Raises:
            RowSetError: a key is out of bounds.

        """
        try:
            first, last = index(first), index(last)
        except TypeError:
            raise RowSetError("the first and the last key of a range are integers") from None
        if last < first:
            return cls.EMPTY
        if first < 0 or last > MAX_KEY:
            raise RowSetError(f"row keys lie within 0 and 2**63 - 1; the range {first}-{last} does not")
        return cls._of(Span(first, last))

    @classmethod
    def flat(cls, size: int) -> RowSet:
        """Return the keys 0..size-1; RowSetError when ``size`` is negative or no integer."""
        try:
            last = index(size) - 1
        except TypeError:
            raise RowSetError("the size of a set is an integer") from None
        if last < -1:
            raise RowSetError(f"a set cannot have {size} keys")
        return cls.from_range(0, last)

    @classmethod
    def from_ranges(cls, starts: npt.ArrayLike, ends: npt.ArrayLike) -> RowSet:
        """Return the keys of inclusive ranges; ranges that touch are merged.

        Args:
            starts: first keys, an array-like of int64, shape ``(ranges,)``. The ranges are sorted and disjoint.
            ends: last keys, of the same shape.

        Raises:
            RowSetError: the ranges are not as described.

        """
        first, last = as_keys(starts), as_keys(ends)
        if first.size != last.size:
            raise RowSetError(f"there are {first.size} starts of ranges, but {last.size} ends")
        if not first.size:
            return cls.EMPTY
        if int(first[0]) < 0:
            raise RowSetError(f"row keys cannot be negative, and {int(first[0])} is")
        if (first > last).any():
            place = int(np.argmax(first > last))
            raise RowSetError(f"the range {int(first[place])}-{int(last[place])} ends before it starts")
        if (first[1:] <= last[:-1]).any():
            place = int(np.argmax(first[1:] <= last[:-1]))
            raise RowSetError(
                f"ranges must be sorted and disjoint: one starts at {int(first[place + 1])}, the one before ends at "
                f"{int(last[place])}"
            )
        joined = _ranges.join_adjacent(first, last)
        if joined[0] is first:  # the caller may keep writing to its arrays
            joined = first.copy(), last.copy()
        return cls._of_ranges(*joined)

    @classmethod
    def from_keys(cls, keys: npt.ArrayLike | Iterable[int]) -> RowSet:
        """Return the set of ``keys``, in any order, which may repeat.

        Raises:
            RowSetError: a key is out of bounds.

        """
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
    def from_sorted_keys(cls, keys: Keys) -> RowSet:
        """Return the set of ``keys``, unchecked: int64, from 0, strictly increasing."""
        return cls._of(_storage.of_keys(keys))

    @classmethod
    def _of_ranges(cls, starts: Keys, ends: Keys) -> RowSet:
        """Return the set of a range list, whose arrays become read-only."""
        return cls._of(_storage.of_ranges(starts, ends))

    @classmethod
    def union_all(cls, sets: Iterable[RowSet]) -> RowSet:
        """Return the keys in any of the sets, which often are one object: then this one."""
        parts: list[RowSet] = []
        try:
            for part in sets:
                if part._held.size and not (parts and part is parts[-1]):
                    parts.append(part)
        except (AttributeError, TypeError):
            raise RowSetError("a union is of a list of row sets") from None
        if len(parts) > 1:
            parts = list({id(part): part for part in parts}.values())
        if len(parts) < 2:
            return parts[0] if parts else cls.EMPTY
        if len(parts) == 2:
            return parts[0] | parts[1]
        if _combine.are_few(*[part._held for part in parts]):
            return cls.from_sorted_keys(_key_lists.union(*[part.keys() for part in parts]))
        ranges = [part.ranges() for part in parts if part._segments() is None]
        result = cls.EMPTY
        if ranges:
            starts, ends = (np.concatenate(arrays) for arrays in zip(*ranges, strict=True))
            result = cls._of_ranges(*_ranges.merge(starts, ends))
        for part in parts:
            if part._segments() is not None:
                result = result | part
        return result

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of keys."""
        return self._held.size

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory, without derived arrays; sets may share parts."""
        return self._held.nbytes

    def packed(self) -> RowSet:
        """Return an equal set without derived arrays, and not as a view of a large array."""
        held = self._held.packed()
        return self if held is self._held else RowSet._of(held)

    def __len__(self) -> int:
        """Return the number of keys; RowSetError for 2**63, which ``len`` cannot return."""
        if self._held.size > MAX_KEY:
            raise RowSetError("a row set of 2**63 keys has a size and no len()")
        return self._held.size

    def __bool__(self) -> bool:
        return self._held.size != 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no key."""
        return self._held.size == 0

    @property
    def first_key(self) -> int:
        """The smallest key; RowSetError when there is none."""
        if not self._held.size:
            raise RowSetError("an empty row set has no first key")
        return self._held.first

    @property
    def last_key(self) -> int:
        """The largest key; RowSetError when there is none."""
        if not self._held.size:
            raise RowSetError("an empty row set has no last key")
        return self._held.last

    @property
    def is_contiguous(self) -> bool:
        """Whether the keys are one range, or none."""
        held = self._held
        return held.last - held.first + 1 == held.size

    @property
    def is_flat(self) -> bool:
        """Whether the keys are 0..size-1, so that each key is its own position."""
        return self._held.last + 1 == self._held.size

    @property
    def is_scattered(self) -> bool:
        """Whether most ranges have one key, so that a list of keys costs less."""
        return self._held.is_scattered

    @property
    def range_count(self) -> int:
        """The number of ranges, none of which touches another."""
        return self._held.range_count()

    def ranges(self) -> RangeList:
        """Return the inclusive ranges as ``(starts, ends)``: int64, sorted, read-only.

        No range touches another.
        """
        return self._held.ranges()

    def keys(self) -> Keys:
        """Return all keys, strictly increasing, as a read-only int64 array.

        Raises:
            RowSetError: there are too many keys to list.

        """
        self._held = _storage.listed(self._held)
        return self._held.keys()

    def _segments(self) -> Segments | None:
        """Return the segments for set operations; None when they use ranges."""
        return self._held.segments()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowSet):
            return NotImplemented
        mine, theirs = self._held, other._held
        if mine is theirs:
            return True
        if (mine.size, mine.first, mine.last) != (theirs.size, theirs.first, theirs.last):
            return False
        if mine.is_contiguous:
            return True
        if isinstance(mine, KeyList) or isinstance(theirs, KeyList):
            return np.array_equal(self.keys(), other.keys())
        if mine.segments() is not None and theirs.segments() is not None:
            return mine.segments() == theirs.segments()
        return all(map(np.array_equal, mine.ranges(), theirs.ranges()))

    def __hash__(self) -> int:
        return hash((self._held.size, self._held.first, self._held.last))

    def __repr__(self) -> str:
        pairs = list(zip(*(part.tolist() for part in self._held.head()), strict=True))
        text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in pairs)
        if pairs and pairs[-1][1] != self._held.last:
            text += f",..{self._held.last}; {self._held.size} keys"
        return f"{{{text}}}"

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, int | np.integer):
            return False
        key = int(key)
        return self._held.first <= key <= self._held.last and self._held.holds(key)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the keys; :meth:`keys` and :meth:`ranges` are faster."""
        return iter(self.keys().tolist())

    # -- set operations -----------------------------------------------------------------------------------------------

    def __or__(self, other: RowSet) -> RowSet:
        if not isinstance(other, RowSet):
            return NotImplemented
        return self._result(_combine.union(self._held, other._held), other)

    def __and__(self, other: RowSet) -> RowSet:
        if not isinstance(other, RowSet):
            return NotImplemented
        return self._result(_combine.intersection(self._held, other._held), other)

    def __sub__(self, other: RowSet) -> RowSet:
        if not isinstance(other, RowSet):
            return NotImplemented
        return self._result(_combine.difference(self._held, other._held), other)

    def __xor__(self, other: RowSet) -> RowSet:
        """Return the keys in one of the two sets and not in both."""
        if not isinstance(other, RowSet):
            return NotImplemented
        return self._result(_combine.symmetric_difference(self._held, other._held), other)

    def exchanged(self, removed: RowSet, added: RowSet) -> RowSet:
        """Return the set without ``removed`` and with ``added``.

        It costs less than set operations: a few changes of a large set are kept beside it, until there are many of
        them, or an operation needs all keys.

        Args:
            removed: keys that are in the set; unchecked.
            added: keys that are not in the set without ``removed``; unchecked.
        """
        return self._result(_combine.exchanged(self._held, removed._held, added._held), self)

    def toggled(self, keys: Keys, come: Mask | None = None) -> RowSet:
        """Return the keys in either this set or ``keys``, and not in both.

        For few keys it costs less than ``^`` with a set of them.

        Args:
            keys: int64, from 0, strictly increasing; unchecked.
            come: whether each of them comes, as it is not in the set; unchecked. If that is known, few changes of a
                large set are kept beside it as by :meth:`exchanged`.
        """
        held = _combine.toggled(self._held, keys, come)
        return self if held is self._held else RowSet._of(held)

    def _result(self, held: KeyStorage, other: RowSet) -> RowSet:
        """Return the set with this storage: ``self`` or ``other`` if it is their storage."""
        return self if held is self._held else other if held is other._held else RowSet._of(held)

    def is_disjoint(self, other: RowSet) -> bool:
        """Whether no key is in both."""
        return _combine.are_disjoint(self._held, _held_by(other))

    def is_superset(self, other: RowSet) -> bool:
        """Whether all keys of ``other`` are in this set."""
        return _combine.is_superset(self._held, _held_by(other))

    # -- parts --------------------------------------------------------------------------------------------------------

    def restrict(self, first: int, last: int) -> RowSet:
        """Return the keys within first..last, both included."""
        first, last = _integer(first, "the first key"), _integer(last, "the last key")
        return self._result(_combine.within(self._held, first, last), RowSet.EMPTY)

    def slice(self, start: int, stop: int) -> RowSet:
        """Return the keys at positions start..stop-1, without those beyond the set."""
        held = self._held
        start, stop = max(_integer(start, "a position"), 0), min(_integer(stop, "a position"), held.size)
        if start >= stop:
            return RowSet.EMPTY
        if stop - start == held.size:
            return self
        return RowSet._of(held.slice(start, stop))

    def shift(self, delta: int) -> RowSet:
        """Return each key plus ``delta``; RowSetError when one would leave 0..2**63-1."""
        delta, held = _integer(delta, "the delta of a shift"), self._held
        if delta == 0 or not held.size:
            return self
        if held.first + delta < 0 or held.last + delta > MAX_KEY:
            raise RowSetError(f"shifting {self!r} by {delta} leaves the space of row keys, 0 to 2**63 - 1")
        return RowSet._of(held.shift(delta))

    def blocks(self, bits: int) -> RowSet:
        """Return the numbers of the blocks of ``2**bits`` keys that have a key."""
        bits = _integer(bits, "the number of bits")
        if not 0 <= bits < _KEY_BITS:
            raise RowSetError(f"a block has from 2**0 to 2**{_KEY_BITS - 1} keys, not 2**{bits}")
        return RowSet._of(self._held.blocks(bits)) if self else self

    # -- positions and keys -------------------------------------------------------------------------------------------

    def __getitem__(self, position: int) -> int:
        """Return the key at ``position``; RowSetError when it is not within 0..size-1."""
        if not 0 <= position < self._held.size:
            raise RowSetError(f"position {position} is outside of a row set of {self._held.size} keys")
        return self._held.at(int(position))

    def select(self, positions: npt.ArrayLike) -> Keys:
        """Return the key at each of the positions (int64, in any order).

        Raises:
            RowSetError: a position is not within 0..size-1.

        """
        wanted = as_keys(positions)
        if not wanted.size:
            return wanted.copy()
        low, high = int(wanted.min()), int(wanted.max())
        if low < 0 or high >= self._held.size:
            raise RowSetError(f"position {low if low < 0 else high} is outside of a row set of {self._held.size} keys")
        return self._held.select(wanted)

    def rank(self, keys: npt.ArrayLike) -> Keys:
        """Return for each key (int64, in any order) how many keys are strictly below it."""
        wanted = as_keys(keys)
        return self._held.rank(wanted) if wanted.size and self else np.zeros(wanted.size, np.int64)

    def find(self, keys: npt.ArrayLike) -> Keys:
        """Return the position of each key (int64, in any order); -1 for a missing one."""
        wanted = as_keys(keys)
        return self._held.find(wanted) if wanted.size and self else np.full(wanted.size, -1, np.int64)

    def contains(self, keys: npt.ArrayLike) -> Mask:
        """Tell for each key (int64, in any order) whether it is in the set."""
        wanted = as_keys(keys)
        return self._held.contains(wanted) if wanted.size and self else np.zeros(wanted.size, np.bool_)

    def subset(self, positions: RowSet) -> RowSet:
        """Return the keys at ``positions``; positions beyond the set are ignored."""
        _held_by(positions)
        positions = positions.restrict(0, self._held.size - 1)
        if positions.is_contiguous:
            return self.slice(positions._held.first, positions._held.last + 1)
        return RowSet._of(self._held.subset(positions._held))

    def invert(self, keys: RowSet) -> RowSet:
        """Return the positions of ``keys``; RowSetError when a key is not in the set."""
        if not keys:
            return keys
        positions = self._held.invert(_held_by(keys))
        if positions is not None:
            return RowSet._of(positions)
        raise RowSetError(f"row key {(keys - self).first_key} is not in the row set, so it has no position")


def _held_by(other: RowSet) -> KeyStorage:
    """Return the storage of a set that a caller passed."""
    try:
        return other._held
    except AttributeError:
        raise RowSetError(f"a row set is wanted, not an object of the class {type(other).__name__}") from None


def _integer(value: int, what: str) -> int:
    """Check that ``value`` is an integer, and return it as one of Python."""
    try:
        return index(value)
    except TypeError:
        raise RowSetError(f"{what} is an integer, not an object of the class {type(value).__name__}") from None


RowSet.EMPTY = RowSet()
