"""Shift data: how keys of rows have moved between two versions of a table.

A shift moves each row with a key within ``start..end`` by ``delta``. The rules are those of the protocol's
*IndexShiftData*: sources do not overlap in the key space before, destinations do not overlap in the key space after,
and no shift changes the order of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from barrage_server.errors import RowSetError
from barrage_server.public import public
from barrage_server.rowset import _ranges
from barrage_server.rowset._ranges import MAX_KEY, NO_KEYS, Keys, as_keys
from barrage_server.rowset.row_set import RowSet

__all__ = ["RowSetShiftData"]

_BY_PIECE = 64  # most shifts for which segments are cut and joined rather than listed


@public
class RowSetShiftData:
    """Immutable, sorted shifts ``(start, end, delta)``.

    Sources and destinations are disjoint and in the same order. Only rows move: a key without a row may be within a
    source or a destination.
    """

    __slots__ = ("_deltas", "_ends", "_starts")

    EMPTY: ClassVar[RowSetShiftData]

    _starts: Keys
    _ends: Keys
    _deltas: Keys

    def __init__(self) -> None:
        """Make shift data without shifts; class methods make others."""
        self._starts = self._ends = self._deltas = NO_KEYS

    @classmethod
    def empty(cls) -> RowSetShiftData:
        """Return shift data without shifts."""
        return cls.EMPTY

    @classmethod
    def from_arrays(cls, starts: npt.ArrayLike, ends: npt.ArrayLike, deltas: npt.ArrayLike) -> RowSetShiftData:
        """Make shifts of inclusive ranges of keys.

        Args:
            starts: first keys before the shift, an array-like of int64, shape ``(shifts,)``, ascending.
            ends: last keys before the shift, of the same shape.
            deltas: the numbers added to the keys of each range, of the same shape.

        Raises:
            RowSetError: sources or destinations overlap, change their order or leave the key space, or a delta is 0.

        """
        first, last, delta = (as_keys(values).copy() for values in (starts, ends, deltas))
        if not first.size == last.size == delta.size:
            raise RowSetError(f"shift data has {first.size} starts, {last.size} ends and {delta.size} deltas")
        if not first.size:
            return cls.EMPTY
        if (delta == 0).any():
            raise RowSetError("a shift by 0 moves nothing: leave it out of the shift data")
        if (first > last).any() or int(first[0]) < 0 or (first[1:] <= last[:-1]).any():
            raise RowSetError("the sources of shifts must be ranges of row keys, sorted, that do not overlap")
        if (delta < -first).any() or (delta > MAX_KEY - last).any():
            raise RowSetError("a shift leaves the space of row keys, 0 to 2**63 - 1")
        if ((first + delta)[1:] <= (last + delta)[:-1]).any():
            raise RowSetError("the destinations of shifts must not overlap, nor change the order of rows")
        return cls._of(first, last, delta)

    @classmethod
    def _of(cls, starts: Keys, ends: Keys, deltas: Keys) -> RowSetShiftData:
        if not starts.size:
            return cls.EMPTY
        made = cls()
        made._starts, made._ends, made._deltas = starts, ends, deltas
        for array in (starts, ends, deltas):
            array.flags.writeable = False
        return made

    @classmethod
    def between(cls, before: RowSet, after: RowSet) -> RowSetShiftData:
        """Return the fewest shifts that move each key to the key at the same position.

        The cost follows the number of ranges.

        Args:
            before: the keys before the shift.
            after: the same number of keys, after the shift.

        Raises:
            RowSetError: the two differ in size.

        """
        if before.size != after.size:
            raise RowSetError(f"{before.size} rows cannot be shifted onto {after.size} keys")
        if before.is_contiguous and after.is_contiguous:
            return cls._joined(*before.ranges(), after.ranges()[0] - before.ranges()[0])
        # Only rows between the first and the last key that is in one of the two sets can have moved.
        gone, new = before - after, after - before
        if not gone.size:
            return cls.EMPTY
        low, high = min(gone.first_key, new.first_key), max(gone.last_key, new.last_key)
        before, after = before.restrict(low, high), after.restrict(low, high)
        if before._segments() is not None and after._segments() is not None:
            return cls._joined(*_runs(before.keys(), after.keys() - before.keys()))
        old_offsets, new_offsets = _ranges.offsets_of(*before.ranges()), _ranges.offsets_of(*after.ranges())
        begin, stop, in_old, in_new = _ranges.overlaps(
            (old_offsets[:-1], old_offsets[1:] - 1), (new_offsets[:-1], new_offsets[1:] - 1)
        )
        move = before.ranges()[0][in_old] - old_offsets[in_old]
        deltas = after.ranges()[0][in_new] - new_offsets[in_new] - move
        return cls._joined(begin + move, stop + move, deltas)

    @classmethod
    def _joined(cls, starts: Keys, ends: Keys, deltas: Keys) -> RowSetShiftData:
        """Join neighbouring pieces with equal deltas, and leave out those with delta 0.

        Raises:
            RowSetError: the pieces would change the order of rows.

        """
        if not starts.size:
            return cls.EMPTY
        if ((starts + deltas)[1:] <= (ends + deltas)[:-1]).any():
            raise RowSetError("these shifts would put two rows on one key, or change their order")
        differs = deltas[1:] != deltas[:-1]
        first = np.concatenate(([True], differs))
        moves = deltas[first] != 0
        last = np.concatenate((differs, [True]))
        return cls._of(starts[first][moves], ends[last][moves], deltas[first][moves])

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def starts(self) -> Keys:
        """The first key of each source range, before the shift (int64, read-only)."""
        return self._starts

    @property
    def ends(self) -> Keys:
        """The last key of each source range, before the shift (int64, read-only)."""
        return self._ends

    @property
    def deltas(self) -> Keys:
        """The number added to the keys of each range; never 0 (int64, read-only)."""
        return self._deltas

    @property
    def size(self) -> int:
        """The number of shifts."""
        return self._starts.size

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return 3 * self._starts.nbytes

    def __len__(self) -> int:
        return self._starts.size

    def __bool__(self) -> bool:
        return self._starts.size != 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no shift."""
        return self._starts.size == 0

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Iterate over the shifts as ``(start, end, delta)``."""
        return zip(self._starts.tolist(), self._ends.tolist(), self._deltas.tolist(), strict=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowSetShiftData):
            return NotImplemented
        return (
            np.array_equal(self._starts, other._starts)
            and np.array_equal(self._ends, other._ends)
            and np.array_equal(self._deltas, other._deltas)
        )

    def __hash__(self) -> int:
        return hash((self.size, self._starts[:8].tobytes(), self._ends[-8:].tobytes(), self._deltas[:8].tobytes()))

    def __repr__(self) -> str:
        shown = [f"{start}-{end}{delta:+d}" for (start, end, delta), _ in zip(self, range(6), strict=False)]
        if self.size > len(shown):
            shown.append(f"..; {self.size} shifts")
        return f"[{','.join(shown)}]"

    def sources(self) -> RowSet:
        """Return the keys of all sources."""
        return RowSet._of_ranges(*_ranges.join_adjacent(self._starts, self._ends))

    def destinations(self) -> RowSet:
        """Return the keys of all destinations."""
        return RowSet._of_ranges(*_ranges.join_adjacent(self._starts + self._deltas, self._ends + self._deltas))

    # -- moving rows --------------------------------------------------------------------------------------------------

    def _inverse(self) -> RowSetShiftData:
        return RowSetShiftData._of(self._starts + self._deltas, self._ends + self._deltas, -self._deltas)

    def apply(self, rows: RowSet) -> RowSet:
        """Return the keys after the shift of the rows with the keys ``rows`` before it.

        The cost follows the shifts and the rows that they move; that of rows without segments, all their ranges.

        Raises:
            RowSetError: two rows would get one key, or rows would change their order.

        """
        if not self.size or not rows.size:
            return rows
        if rows._segments() is not None:
            return self._apply_by_piece(rows) if self.size <= _BY_PIECE else self._apply_beside(rows)
        starts, ends, deltas = self._cut(rows)
        starts, ends = starts + deltas, ends + deltas
        if (starts[1:] <= ends[:-1]).any():
            raise RowSetError("these shifts would put two rows on one key, or change their order")
        return RowSet._of_ranges(*_ranges.join_adjacent(starts, ends))

    def _apply_by_piece(self, rows: RowSet) -> RowSet:
        resting = rows - self.sources()
        parts = [resting]
        for start, end, delta in self:
            part = rows.restrict(start, end)
            if part.size:
                first, last = min(part.first_key, part.first_key + delta), max(part.last_key, part.last_key + delta)
                if resting.restrict(first, last).size:
                    raise RowSetError("these shifts would put two rows on one key, or change their order")
                parts.append(part.shift(delta))
        return RowSet.union_all(parts)

    def _apply_beside(self, rows: RowSet) -> RowSet:
        """Shift what many shifts move, beside the rows that rest, which are not listed."""
        moved = rows & self.sources()
        if not moved.size:
            return rows
        starts, ends, _, shift = _ranges.overlaps(moved.ranges(), (self._starts, self._ends))
        first, last = starts + self._deltas[shift], ends + self._deltas[shift]
        low, high = np.minimum(starts, first), np.maximum(ends, last)
        passed = _count_within(rows, low, high) - _count_within(moved, low, high)
        if (first[1:] <= last[:-1]).any() or passed.any():
            raise RowSetError("these shifts would put two rows on one key, or change their order")
        return rows ^ (moved ^ RowSet._of_ranges(*_ranges.join_adjacent(first, last)))

    def _cut(self, rows: RowSet) -> tuple[Keys, Keys, Keys]:
        """Cut the ranges of rows where shifts begin and end, and add their deltas."""
        ranges = rows.ranges()
        starts, ends, _, shift = _ranges.overlaps(ranges, (self._starts, self._ends))
        rest_starts, rest_ends = _ranges.difference(ranges, (self._starts, self._ends))
        starts, ends = np.concatenate((starts, rest_starts)), np.concatenate((ends, rest_ends))
        deltas = np.concatenate((self._deltas[shift], np.zeros(rest_starts.size, np.int64)))
        order = np.argsort(starts, kind="stable")
        return starts[order], ends[order], deltas[order]

    def unapply(self, rows: RowSet) -> RowSet:
        """Return the keys before the shift of the rows with the keys ``rows`` after it.

        The rows must have existed before the shift. A key within a destination counts as shifted, so that rows at rest
        between shifted ones need clipped shift data, which ``then``, ``clip`` and ``between`` return.
        """
        return self._inverse().apply(rows)

    def apply_keys(self, keys: npt.ArrayLike) -> Keys:
        """Return the key after the shift for each key before it (int64, in any order).

        Collisions are not checked.
        """
        wanted = as_keys(keys)
        if not self.size:
            return wanted.copy()
        index = np.searchsorted(self._starts, wanted, "right") - 1
        return wanted + np.where((index >= 0) & (wanted <= self._ends[index]), self._deltas[index], 0)

    def unapply_keys(self, keys: npt.ArrayLike) -> Keys:
        """Return the key before the shift for each key after it (int64, in any order).

        See :meth:`unapply` for keys within a destination.
        """
        return self._inverse().apply_keys(keys)

    # -- composing ----------------------------------------------------------------------------------------------------

    def _pieces(self) -> tuple[Keys, Keys, Keys]:
        """Return the key space as ``(starts, ends, deltas)``: shifts, and gaps by 0."""
        gaps = _ranges.complement(self._starts, self._ends)
        starts, ends = np.concatenate((self._starts, gaps[0])), np.concatenate((self._ends, gaps[1]))
        deltas = np.concatenate((self._deltas, np.zeros(gaps[0].size, np.int64)))
        order = np.argsort(starts, kind="stable")
        return starts[order], ends[order], deltas[order]

    def clip(self, survivors: RowSet) -> RowSetShiftData:
        """Return the fewest and smallest shifts that move the survivors alike.

        Args:
            survivors: keys before the shift.

        Raises:
            RowSetError: two survivors would get one key.

        """
        if not self.size or not survivors.size:
            return RowSetShiftData.EMPTY
        return RowSetShiftData._joined(*self._clipped(survivors))

    def _clipped(self, survivors: RowSet) -> tuple[Keys, Keys, Keys]:
        """Return the survivors as ``(starts, ends, deltas)``: shifts, and gaps by 0.

        Pieces end at survivors, and those without survivors are left out.
        """
        first, end = survivors.rank(self._starts), _ranks_behind(survivors, self._ends)
        kept = first < end
        first, end, deltas = first[kept], end[kept], self._deltas[kept]
        gaps = np.concatenate(([0], end)), np.concatenate((first, [survivors.size]))
        some = gaps[0] < gaps[1]
        order = np.argsort(first := np.concatenate((first, gaps[0][some])), kind="stable")
        end = np.concatenate((end, gaps[1][some]))
        deltas = np.concatenate((deltas, np.zeros(order.size - deltas.size, np.int64)))
        keys = survivors.select(np.concatenate((first[order], end[order] - 1)))
        return keys[: order.size], keys[order.size :], deltas[order]

    def then(self, other: RowSetShiftData, survivors: RowSet) -> RowSetShiftData:
        """Return one step of shifts that equals this one and then ``other``.

        The result is minimal: ranges end at survivors, neighbours with equal deltas are joined, and survivors that
        return to their key are left out. The cost follows the number of shifts, not of rows.

        Args:
            other: the shifts after this one.
            survivors: the keys, before this shift, of the rows that survive both.

        Raises:
            RowSetError: two survivors would get one key, or would change their order.

        """
        if not self.size:
            return other.clip(survivors)
        if not other.size:
            return self.clip(survivors)
        if not survivors.size:
            return RowSetShiftData.EMPTY
        # Clipped to survivors, all pieces stay in order and disjoint after the first shift. Unclipped gaps would
        # overlap the destinations beside them.
        starts, ends, deltas = self._clipped(survivors)
        second_starts, second_ends, second_deltas = other._pieces()
        middle = (starts + deltas, ends + deltas)
        if (middle[0][1:] <= middle[1][:-1]).any():
            raise RowSetError("these shifts would put two rows on one key, or change their order")
        begin, stop, first, second = _ranges.overlaps(middle, (second_starts, second_ends))
        back = deltas[first]
        return RowSetShiftData._joined(*_clip(begin - back, stop - back, back + second_deltas[second], survivors))


def _runs(keys: Keys, deltas: Keys) -> tuple[Keys, Keys, Keys]:
    """Return ``(starts, ends, deltas)`` of runs of keys with equal deltas."""
    edges = np.flatnonzero(deltas[1:] != deltas[:-1])
    first, last = np.concatenate(([0], edges + 1)), np.concatenate((edges, [keys.size - 1]))
    return keys[first], keys[last], deltas[first]


def _clip(starts: Keys, ends: Keys, deltas: Keys, survivors: RowSet) -> tuple[Keys, Keys, Keys]:
    """Clip each piece to its first and last survivor; drop pieces without survivors."""
    first, end = survivors.rank(starts), _ranks_behind(survivors, ends)
    kept = first < end
    return survivors.select(first[kept]), survivors.select(end[kept] - 1), deltas[kept]


def _ranks_behind(rows: RowSet, keys: Keys) -> Keys:
    """Return for each key how many keys of ``rows`` are not above it."""
    ranks = rows.rank(np.minimum(keys, MAX_KEY - 1) + 1)
    ranks[keys == MAX_KEY] = rows.size
    return ranks


def _count_within(rows: RowSet, first: Keys, last: Keys) -> Keys:
    """Return how many keys of ``rows`` are within each range first..last."""
    return _ranks_behind(rows, last) - rows.rank(first)


RowSetShiftData.EMPTY = RowSetShiftData()
