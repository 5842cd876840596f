"""The different values of each group: their number, the only one, or all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.arguments import shown
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.order_index import OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.ranges import ranges_of
from barrage_server.engine.redirected import numbers_of
from barrage_server.engine.storage import from_storage, to_storage
from barrage_server.engine.values import take
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.accumulators import Accumulator
from barrage_server.operations.group_totals import GroupArray, GroupTotals
from barrage_server.operations.ordering import Key, comes_before, is_sortable, order_of
from barrage_server.wire.buffers import is_valid

__all__ = ["DISTINCT", "CountDistinct", "Distinct", "OfDistinct", "Unique"]

_BLOCK: Final = 1 << 16
_FEW_DEAD: Final = 1024
_KEYS: Final = (Key(0), Key(1))


class OfDistinct(Accumulator):
    """Numbers each pair of a group and a value, and counts its rows.

    Values are equal as keys are. A change costs the rows that come and go. The state is one entry for each pair.

    A change costs the rows that come and go; the state is one entry for each pair.

    Args:
        types: the type of the column.
        with_nulls: whether null and NaN are values.

    Raises:
        UnsupportedTypeError: values of the type cannot be told apart.

    """

    def __init__(self, types: Sequence[pa.DataType], *, with_nulls: bool = False) -> None:
        super().__init__(types)
        self._with_nulls = with_nulls
        self._schema = pa.schema([("group", pa.int64()), ("value", types[0])])
        self.pairs = GroupIndex(self._schema)
        self._counts = GroupArray(np.int64)  # rows of each pair
        self._alive = 0  # pairs that have rows
        self.numbers = GroupArray(np.int64)  # of pairs with rows, by group

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """The state by group."""
        return (self.numbers,)

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return super().nbytes + self.pairs.nbytes + self._counts.nbytes

    @property
    def size(self) -> int:
        """The number of entries of the state that are not by group."""
        return self.pairs.count

    def change(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Count the rows of each pair."""
        owners, values = groups[places], columns[0]
        if not self._with_nulls:
            there = _counted(values)
            if not there.all():
                owners, values = owners[there], take(values, np.flatnonzero(there))
        if not len(owners):
            return
        keys = [pa.array(owners), values]
        found = self.pairs.add(keys, len(owners)) if sign > 0 else self.pairs.find(keys, len(owners))
        self._counts.reserve(self.pairs.count)
        pairs, numbers = np.unique(found, return_counts=True)
        before = self._counts.array[pairs]
        after = self._counts.array[pairs] = before + sign * numbers
        turned = pairs[(before == 0) != (after == 0)]
        if len(turned):
            owners = self.owners(turned)
            np.add.at(self.numbers.array, owners, sign)
            self._alive += sign * len(turned)
            self.turn(turned, owners, sign)
            if self.pairs.count - self._alive > max(_FEW_DEAD, self._alive):
                self._renumber(None)

    def pack(self, living: Int64Array) -> None:
        """Keep only the groups ``living``; the others have no rows."""
        super().pack(living)
        self._renumber(living)

    @abstractmethod
    def turn(self, pairs: Int64Array, owners: Int64Array, sign: int) -> None:
        """Handle pairs that got their first row, or lost their last one.

        Args:
            pairs: the pairs.
            owners: their groups.
            sign: 1: the pairs have rows; -1: they have none any more.

        """

    def settle(self) -> None:
        """Finish work that depends on the present numbers of pairs."""

    @abstractmethod
    def renumber(self, before: Int64Array, after: Int64Array) -> None:
        """Apply new numbers of all pairs that are left, in ascending order."""

    def owners(self, pairs: Int64Array) -> Int64Array:
        """The groups of pairs."""
        return numbers_of(self.pairs.store.columns[0].read_current(pairs))

    def values(self, pairs: Int64Array) -> pa.Array:
        """The values of pairs."""
        return self.pairs.store.columns[1].read_current(pairs)

    def has_rows(self, pairs: Int64Array) -> npt.NDArray[np.bool_]:
        """Which pairs have rows."""
        there: npt.NDArray[np.bool_] = self._counts.array[pairs] > 0
        return there

    def _renumber(self, living: Int64Array | None) -> None:
        """Forget pairs without rows; groups become their positions in ``living``."""
        self.settle()
        alive, former = np.flatnonzero(self._counts.array[: self.pairs.count] > 0), self.pairs
        self.pairs = GroupIndex(self._schema)
        for start in range(0, len(alive), _BLOCK):
            part = alive[start : start + _BLOCK]
            owners, values = (column.read_current(part) for column in former.store.columns)
            if living is not None:
                owners = pa.array(np.searchsorted(living, numbers_of(owners)))
            self.pairs.add([owners, values], len(part))
        self._counts.pack(alive)
        self.renumber(alive, np.arange(len(alive)))


def _counted(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are neither null nor NaN."""
    if pat.is_floating(values.type):
        none: npt.NDArray[np.bool_] = pc.is_nan(values).fill_null(True).to_numpy(zero_copy_only=False)
        return ~none
    return is_valid(values) if values.null_count else np.ones(len(values), np.bool_)


class CountDistinct(OfDistinct):
    """The number of different values."""

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:  # noqa: ARG003
        """A 64-bit integer."""
        return pa.int64()

    def turn(self, pairs: Int64Array, owners: Int64Array, sign: int) -> None:
        """Do nothing: pairs are counted in any case."""

    def renumber(self, before: Int64Array, after: Int64Array) -> None:
        """Do nothing: no pair is named."""

    def results(self, groups: Int64Array) -> pa.Array:
        """The numbers of pairs."""
        return pa.array(self.numbers.array[groups])


class Unique(OfDistinct):
    """The only value of a group, found as the sum of the group's pairs.

    Args:
        types: the type of the column.
        with_nulls: whether null and NaN are values.
        sentinel: the result where there are several values.

    Raises:
        InvalidRequestError: ``sentinel`` is no value of the column.

    """

    def __init__(self, types: Sequence[pa.DataType], *, with_nulls: bool = False, sentinel: Any = None) -> None:
        super().__init__(types, with_nulls=with_nulls)
        self._sums = GroupArray(np.int64)
        self._others = pa.nulls(1, types[0])
        if pat.is_uint16(types[0]) and isinstance(sentinel, str) and len(sentinel) == 1:  # such columns hold characters
            sentinel = ord(sentinel)
        if sentinel is not None:
            try:
                self._others = pa.array([sentinel], types[0])
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                raise InvalidRequestError(
                    f"non_unique_sentinel must be a value of type {types[0]}, as the column is, not {shown(sentinel)}."
                ) from None

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """The type of the column."""
        return types[0]

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """Numbers and sums of pairs."""
        return self.numbers, self._sums

    def turn(self, pairs: Int64Array, owners: Int64Array, sign: int) -> None:
        """Change the sums of pairs."""
        np.add.at(self._sums.array, owners, sign * pairs)

    def renumber(self, before: Int64Array, after: Int64Array) -> None:  # noqa: ARG002
        """Add up the new numbers."""
        self._sums.array[:] = 0
        if len(after):
            np.add.at(self._sums.array, self.owners(after), after)

    def results(self, groups: Int64Array) -> pa.Array:
        """The values; null without a value, and the sentinel for several."""
        numbers = self.numbers.array[groups]
        single = np.flatnonzero(numbers == 1)
        values = to_storage(self.values(self._sums.array[groups[single]]))
        with_others = pa.concat_arrays([values, to_storage(self._others)])
        places = np.full(len(groups), len(single), np.int64)
        places[single] = np.arange(len(single))
        return from_storage(with_others.take(pa.array(places, mask=numbers == 0)), self.type)


class Distinct(OfDistinct):
    """All different values in order, as a list; null without values.

    The state includes the order of the pairs.
    """

    def __init__(self, types: Sequence[pa.DataType], *, with_nulls: bool = False) -> None:
        super().__init__(types, with_nulls=with_nulls)
        self._order = OrderIndex(versioned=False)
        self._is_in_order = GroupArray(np.bool_)  # by pair
        self._turned: list[Int64Array] = []

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """Lists of values that have an order."""
        if not is_sortable(types[0]):
            raise TypeError
        return pa.list_(types[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return super().nbytes + self._order.nbytes + self._is_in_order.nbytes

    def turn(self, pairs: Int64Array, owners: Int64Array, sign: int) -> None:  # noqa: ARG002
        """Defer the change of the order, as pairs may turn back."""
        self._turned.append(pairs)

    def renumber(self, before: Int64Array, after: Int64Array) -> None:
        """Renumber the order, which has all pairs."""
        self._is_in_order.pack(before)
        moved = int(np.searchsorted(before - after, 1))
        self._order.shift(before[moved:], after[moved:])

    def settle(self) -> None:
        """Put pairs that have turned into the order, or remove them."""
        if not self._turned:
            return
        pairs = np.unique(np.concatenate(self._turned))
        self._turned = []
        self._is_in_order.reserve(self.pairs.count)
        there, wanted = self._is_in_order.array[pairs], self.has_rows(pairs)
        self._is_in_order.array[pairs] = wanted
        gone, new = pairs[there & ~wanted], pairs[wanted & ~there]
        owners, values = pa.array(self.owners(new)), self.values(new)
        order = pa.array(order_of([owners, values], _KEYS, len(new)))
        columns = [owners.take(order), values.take(order)]
        new = new[order.to_numpy()]

        def before(items: Int64Array, others: Int64Array) -> npt.NDArray[np.bool_]:
            mine = [column.take(pa.array(items)) for column in columns]
            theirs = [column.read_current(others) for column in self.pairs.store.columns]
            return comes_before(mine, theirs, _KEYS, np.zeros(len(items), np.bool_))

        self._order.change(np.sort(self._order.slots_of(gone)), new, np.full(len(new), -1, np.int64), before)

    def results(self, groups: Int64Array) -> pa.Array:
        """The lists."""
        self.settle()
        numbers = self.numbers.array[groups]
        if not numbers.any():
            return pa.nulls(len(groups), self.type)
        first = self._order.rank(len(groups), lambda items, others: groups[items] <= self.owners(others))
        positions = ranges_of(first, numbers)
        values = self.values(self._order.keys_at(self._order.slots_at(positions)))
        offsets = np.concatenate(([0], np.cumsum(numbers))).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, values, type=self.type, mask=pa.array(numbers == 0))


DISTINCT: Final = ("count_distinct", "unique", "distinct")
"""The functions of the different values of a group."""
