"""Lists as segments: the items of all lists in a row, and where each list begins."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.formula.kinds import NULL, Kind
from barrage_server.formula.vectors import AnyArray, Arrow, Cells, Flags, both, from_arrow

__all__ = ["Indices", "Numbers", "Segments", "item_kind", "numbers_of", "segments_of"]

Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
"""Places of items, or numbers of them: int64, one per list or item."""


class Segments(NamedTuple):
    """The concatenated items of lists, without null lists.

    Attributes:
        items: of all lists.
        starts: where each list begins in them.
        lengths: of each list.
        valid: which lists are not null; ``None`` if all are.

    """

    items: pa.Array
    starts: Indices
    lengths: Indices
    valid: Flags | None

    @property
    def owners(self) -> Indices:
        """The number of the list of each item."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


class Numbers(NamedTuple):
    """The items of lists that are not null, as numbers."""

    values: AnyArray
    starts: Indices
    lengths: Indices
    valid: Flags | None

    def reduce(self, ufunc: Any, values: AnyArray) -> AnyArray:
        """Reduce the values of each list by a ufunc; 0 for empty lists."""
        found: AnyArray = np.zeros(len(self.lengths), values.dtype)
        is_filled = self.lengths > 0
        if is_filled.any():
            found[is_filled] = ufunc.reduceat(values, self.starts[is_filled])
        return found

    def spread(self, values: AnyArray) -> AnyArray:
        """Repeat a value per list for each of its items."""
        found: AnyArray = np.repeat(values, self.lengths)
        return found

    def has_nan(self) -> Flags:
        """Which lists contain NaN."""
        if self.values.dtype.kind != "f":
            return np.zeros(len(self.lengths), np.bool_)
        return np.asarray(self.reduce(np.logical_or, np.isnan(self.values)))

    def ordered(self) -> AnyArray:
        """The values, ascending within each list, NaN last."""
        owners = np.repeat(np.arange(len(self.lengths)), self.lengths)
        found: AnyArray = self.values[np.lexsort((self.values, owners))]
        return found

    def answer(self, values: AnyArray, is_known: Flags | None = None) -> Cells:
        """Results with validity: null for null lists.

        Lists without numbers are null, too, unless ``is_known`` says otherwise.
        """
        return Cells(values, both(self.valid, self.lengths > 0 if is_known is None else is_known))


def segments_of(lists: Arrow) -> Segments:
    """The items of an array of lists of any layout."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    valid = None if not lists.null_count else lists.is_valid().to_numpy(zero_copy_only=False)
    return Segments(lists.flatten(), np.cumsum(lengths) - lengths, lengths, valid)


def numbers_of(lists: Arrow, kind: Kind) -> Numbers:
    """The numbers in an array of lists, without the nulls."""
    items, starts, lengths, valid = segments_of(lists)
    assert kind.item is not None
    cells = from_arrow(items, kind.item)
    assert isinstance(cells, Cells)
    if cells.valid is None:
        return Numbers(cells.values, starts, lengths, valid)
    before = np.concatenate(([0], np.cumsum(cells.valid)))
    kept = before[starts + lengths] - before[starts]
    return Numbers(cells.values[cells.valid], before[starts], kept, valid)


def item_kind(kinds: tuple[Kind, ...]) -> Kind:
    """The kind of the items of the first list; ``TypeError`` without a list."""
    found = next((kind.item for kind in kinds if kind.item is not None), None)
    if found is None or found is NULL:
        raise TypeError
    return found
