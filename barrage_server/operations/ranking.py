"""The rows of each group in an order, for aggregations by position."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.engine import TableVersion
from barrage_server.engine.order_fences import Codes, OrderCodes
from barrage_server.engine.order_index import Moves, OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import numbers_of, pick
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.undo import Undo
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.accumulators import Accumulator, is_number
from barrage_server.operations.group_totals import GroupArray, GroupTotals
from barrage_server.operations.members import Members
from barrage_server.operations.ordering import Key, comes_before, is_sortable, order_of, rough_codes
from barrage_server.rowset import RowSet
from barrage_server.wire.buffers import is_valid

__all__ = ["RANKED", "Ranked", "Ranking", "RowGroups", "ranked_of"]

_COUNTED: Final = 256
"""Groups per requested group up to which the rows of all groups are counted, instead of a search."""
_GROUP: Final = pa.schema([("group", pa.int64())])


class RowGroups:
    """The group of each row of the input.

    Args:
        versioned: whether versions are made with :meth:`view`, so that what is overwritten must be kept for them.

    """

    def __init__(self, *, versioned: bool = False) -> None:
        self._versioned = versioned
        self._store = ColumnStore(_GROUP)
        (self._column,) = self._store.columns

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return self._column.nbytes

    def write(self, rows: RowSet, groups: Int64Array) -> None:
        """Set the groups of rows."""
        self._column.write(rows, pa.array(groups), self._undo)

    def of(self, keys: Int64Array) -> Int64Array:
        """The groups of rows, by their keys in any order."""
        return numbers_of(self._column.read_current(keys))

    def shift(self, before: Int64Array, after: Int64Array) -> None:
        """Give rows other keys, in the same order."""
        self._column.move(before, after, self._undo)

    def view(self) -> ColumnView:
        """The present groups, for a version."""
        return self._store.views()[0]

    @property
    def _undo(self) -> Undo | None:
        return self._store.undo if self._versioned else None

    def drop_before(self, key: int) -> None:
        """Forget rows below ``key``."""
        self._column.drop_before(key)


class Ranking:
    """The rows of the input by group, then by columns, then by row key.

    Args:
        keys: the columns that they are ordered by within a group.
        groups: the group of each row.
        versioned: whether versions are made with :meth:`members`.

    Attributes:
        version: the present version of the input.

    """

    def __init__(self, keys: Sequence[Key], groups: RowGroups, *, versioned: bool = False) -> None:
        self.keys = tuple(keys)
        self.columns = tuple(key.number for key in keys)
        self._groups = groups
        self._order = OrderIndex(versioned=versioned)
        self.version: TableVersion

    @property
    def nbytes(self) -> int:
        """Bytes of the order."""
        return self._order.nbytes

    def start(self, version: TableVersion) -> None:
        """Add all rows."""
        self.version = version
        keys = version.row_set.keys()
        self._order.fill(version.row_set, self._sorted(version.row_set, self._groups.of(keys))[0])

    def slots_of(self, rows: RowSet) -> Int64Array:
        """The slots of rows."""
        return self._order.slots_of(rows.keys())

    def shift(self, before: Int64Array, after: Int64Array) -> None:
        """Give rows other keys, in the same order."""
        self._order.shift(before, after)

    def drop_before(self, key: int) -> None:
        """Forget rows below ``key``."""
        self._order.drop_before(key)

    def change(self, version: TableVersion, gone: Int64Array, new: RowSet, moved: RowSet, was: Int64Array) -> Moves:
        """Remove rows, and add rows.

        Args:
            version: the version with the new rows.
            gone: the slots of removed rows, ascending.
            new: the added rows, whose groups are known.
            moved: the rows among them that were there before.
            was: the former slots of ``moved``.

        Returns:
            The changes of slots.

        """
        self.version = version
        groups = self._groups.of(new.keys())
        order, columns = self._sorted(new, groups)
        keys, groups = new.keys()[order], groups[order]
        former = np.full(new.size, -1, np.int64)
        if moved:
            former[new.find(moved.keys())] = was
        columns = [column.take(pa.array(order)) for column in columns]
        views = [version.views[number] for number in self.columns]

        def before(items: Int64Array, others: Int64Array) -> npt.NDArray[np.bool_]:
            mine, theirs = groups[items], self._groups.of(others)
            answer: npt.NDArray[np.bool_] = mine < theirs
            same = np.flatnonzero(mine == theirs)
            if len(same):
                ties = keys[items[same]] < others[same]
                values = [column.take(pa.array(items[same])) for column in columns]
                answer[same] = comes_before(values, pick(views, others[same]) if views else [], self.keys, ties)
            return answer

        codes = OrderCodes((groups, *rough_codes(columns, self.keys)), self._codes_of)
        return self._order.change(gone, keys, former[order], before, codes)

    def firsts(self, groups: Int64Array) -> Int64Array:
        """The position of the first row of each group, or of the row behind it."""
        codes = OrderCodes((groups,), self._codes_of)
        return self._order.rank(len(groups), lambda items, others: groups[items] <= self._groups.of(others), codes)

    def values(self, positions: Int64Array, column: int) -> pa.Array:
        """The values of a column in the rows at these positions."""
        return pick([self.version.views[column]], self.keys_at(positions))[0]

    def keys_at(self, positions: Int64Array) -> Int64Array:
        """The keys of the rows at these positions."""
        return self._order.keys_at(self._order.slots_at(positions))

    def members(self) -> Members:
        """The rows of each group, for a version.

        Rows must be in the order of their keys within a group.
        """
        return Members(self._order.rows, self._order.view(), self._groups.view())

    @property
    def size(self) -> int:
        """The number of rows."""
        return self._order.size

    def view(self) -> ColumnView:
        """The row key in each slot, for a version."""
        return self._order.view()

    def forget_groups(self) -> None:
        """Adapt to new numbers of groups, in the same order."""
        self._order.forget_codes()

    def _codes_of(self, keys: Int64Array) -> Codes:
        values = pick([self.version.views[number] for number in self.columns], keys) if self.columns else []
        return (self._groups.of(keys), *rough_codes(values, self.keys))

    def _sorted(self, rows: RowSet, groups: Int64Array) -> tuple[Int64Array, list[pa.Array]]:
        parts = [self.version.read(part, self.columns) for part in self.version.pieces(rows, self.columns)]
        columns = (
            [pa.concat_arrays(list(column)) for column in zip(*parts, strict=True)]
            if parts
            else [pa.array([], self.version.schema.field(number).type) for number in self.columns]
        )
        by_group = [pa.array(groups), *columns]
        return order_of(by_group, (Key(0), *self.keys), rows.size), columns


class Ranked(Accumulator):
    """An aggregation by the position of rows in the order of their group.

    It counts nulls and NaN, which are at the ends.

    Args:
        types: the types of the column, and of those that rows are ordered by.
        share: which of the rows, from 0 to 1; of percentiles.

    Attributes:
        column: the number of the column in the input; set by the operator, as :attr:`ranking` is.
        ranking: the rows in order.

    """

    by_value: ClassVar[bool] = True
    """Whether rows are ordered by the column itself."""

    column: int
    ranking: Ranking

    def __init__(self, types: Sequence[pa.DataType], share: float = 0.5) -> None:
        super().__init__(types)
        self.share = share
        self._numbers = GroupArray(np.int64)
        self._nulls = GroupArray(np.int64)
        self._nans = GroupArray(np.int64)

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """The type of the column."""
        if not all(map(is_sortable, types if cls.by_value else types[1:])):
            raise TypeError
        return types[0]

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """The numbers of rows, of nulls and of NaN."""
        return self._numbers, self._nulls, self._nans

    def change(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Count rows, nulls and NaN."""
        self._count(self._numbers, groups, places, sign)
        if columns[0].null_count:
            self._count(self._nulls, groups, places[~is_valid(columns[0])], sign)
        if pat.is_floating(columns[0].type):
            nans = pc.is_nan(columns[0]).fill_null(False).to_numpy(zero_copy_only=False)
            if nans.any():
                self._count(self._nans, groups, places[nans], sign)

    def results(self, groups: Int64Array) -> pa.Array:
        """The values at the positions of :meth:`place`.

        They are null for groups of nulls alone.
        """
        if not len(groups):
            return pa.array([], self.type)
        first = self.firsts(groups)
        nulls, nans = self._nulls.array[groups], self._nans.array[groups]
        numbers = self._numbers.array[groups] - nulls - nans
        return self.shown(first + nulls, numbers, nans)

    def firsts(self, groups: Int64Array) -> Int64Array:
        """The position of the first row of each group, behind all earlier groups."""
        numbers = self._numbers.array
        if len(groups) * _COUNTED < len(numbers):
            return self.ranking.firsts(groups)
        ends = np.cumsum(numbers)
        if int(ends[-1]) != self.ranking.size:  # it has others
            return self.ranking.firsts(groups)
        found: Int64Array = (ends - numbers)[groups]
        return found

    def shown(self, first: Int64Array, numbers: Int64Array, nans: Int64Array) -> pa.Array:
        """The results of groups whose values begin at the positions ``first``.

        Groups with NaN give NaN, which is behind their values.

        Args:
            first: the positions.
            numbers: the number of values of each group.
            nans: the number of NaN of each group.

        """
        places = np.where(nans > 0, first + numbers, first + np.minimum(self.place(numbers), numbers - 1))
        there = (numbers > 0) | (nans > 0)
        return self._at(places, there)

    @abstractmethod
    def place(self, numbers: Int64Array) -> Int64Array:
        """The index of the result among ``numbers`` values."""

    def _at(self, places: Int64Array, there: npt.NDArray[np.bool_]) -> pa.Array:
        values = self.ranking.values(places[there], self.column)
        if there.all():
            return values
        order = np.full(len(places), -1, np.int64)
        order[there] = np.arange(len(values))
        return values.take(pa.array(order, mask=~there))

    @staticmethod
    def _count(numbers: GroupArray, groups: Int64Array, places: Int64Array, sign: int) -> None:
        numbers.array[groups] += sign * np.bincount(places, minlength=len(groups))


class _Smallest(Ranked):
    def place(self, numbers: Int64Array) -> Int64Array:
        """The first one."""
        return np.zeros(len(numbers), np.int64)


class _Largest(Ranked):
    def place(self, numbers: Int64Array) -> Int64Array:
        """The last one."""
        return numbers - 1


class _Percentile(Ranked):
    def place(self, numbers: Int64Array) -> Int64Array:
        """The index nearest to a share of the values; the later one of two."""
        found: Int64Array = np.floor(self.share * (numbers - 1) + 0.5).astype(np.int64)
        return found


class _Averaged(_Percentile):
    """The mean of the two middle values, or the last value up to the share.

    The mean is taken for numbers that the share splits into halves. Values of other types give the percentile.
    """

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """A float for narrow floats, a double for other numbers, else the column's type."""
        found = super().result_type(types)
        if pat.is_float16(found) or pat.is_float32(found):
            return pa.float32()
        return pa.float64() if is_number(found) and not pat.is_boolean(found) else found

    def shown(self, first: Int64Array, numbers: Int64Array, nans: Int64Array) -> pa.Array:
        """The averages of numbers; other types give the percentile."""
        if not pat.is_floating(self.type):
            return super().shown(first, numbers, nans)
        there = (numbers > 0) | (nans > 0)
        behind = first + numbers
        last = np.floor(self.share * np.maximum(numbers - 1, 0)).astype(np.int64)
        low = np.where(nans > 0, behind, first + last)
        high = np.where(nans > 0, behind, first + np.where(2 * (last + 1) == numbers, last + 1, last))
        left, right = (self._at(places, there).cast(pa.float64(), safe=False) for places in (low, high))
        # halves first, so that the sum of two large numbers stays within the range
        found = pc.if_else(pc.equal(left, right), left, pc.add(pc.multiply(left, 0.5), pc.multiply(right, 0.5)))
        return found.cast(self.type)


class _First(Ranked):
    """The value of the first row, null or not."""

    by_value = False

    def results(self, groups: Int64Array) -> pa.Array:
        """The values of the chosen rows."""
        if not len(groups):
            return pa.array([], self.type)
        first, numbers = self.firsts(groups), self._numbers.array[groups]
        return self._at(self.chosen(first, first + numbers), numbers > 0)

    def chosen(self, first: Int64Array, end: Int64Array) -> Int64Array:  # noqa: ARG002  (of the other one)
        """The position of the chosen row of each group."""
        return first

    def place(self, numbers: Int64Array) -> Int64Array:
        """The first one."""
        return np.zeros(len(numbers), np.int64)


class _Last(_First):
    """The value of the last row, null or not."""

    def chosen(self, first: Int64Array, end: Int64Array) -> Int64Array:  # noqa: ARG002
        """The position of the chosen row of each group."""
        return end - 1


RANKED: Final[dict[str, Any]] = {
    "min": _Smallest,
    "max": _Largest,
    "median": _Averaged,
    "pct": _Percentile,
    "first": _First,
    "last": _Last,
    "sorted_first": _First,
    "sorted_last": _Last,
}
"""The accumulators of functions that need the rows of a group in an order."""


def ranked_of(function: str, with_mean: bool | None) -> Any:
    """The class of a function in :data:`RANKED`, with a mean or without.

    Args:
        function: its name.
        with_mean: whether it takes the mean of two values in the middle; None: as it does by itself.

    Raises:
        InvalidRequestError: it is neither a median nor a percentile.

    """
    if with_mean is None:
        return RANKED[function]
    if function not in ("median", "pct"):
        raise InvalidRequestError(f"with_mean is for medians and percentiles, and not for {function!r}.")
    return _Averaged if with_mean else _Percentile
