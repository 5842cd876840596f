"""Rows of another table in any order, some of which may be missing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.byte_sizes import shown_apart
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.redirected import numbers_of
from barrage_server.engine.storage import from_storage, to_storage
from barrage_server.engine.values import take
from barrage_server.engine.view import ColumnView
from barrage_server.errors import LimitError
from barrage_server.fixed_limits import COPIED_BYTES
from barrage_server.operations.gathered import GatheredView

__all__ = ["MappedView", "RowPlaces"]


class RowPlaces(NamedTuple):
    """The positions of wanted rows among the rows read, shared by columns.

    Attributes:
        plan: the rows that are read, each once.
        places: for each row wanted its position among them; one behind the last for a row that is missing.
        is_complete: whether no row is missing.

    """

    plan: ReadPlan
    places: Int64Array
    is_complete: bool

    @classmethod
    def of(cls, keys: Int64Array) -> RowPlaces:
        """The positions of rows by row keys, which may repeat; -1 is a missing row."""
        there = keys >= 0
        found = np.unique(keys[there])
        places = np.full(len(keys), len(found), np.int64)
        places[there] = np.searchsorted(found, keys[there])
        return cls(ReadPlan.from_keys(found), places, bool(there.all()))

    def read(self, view: ColumnView) -> pa.Array:
        """The values of a column in these rows; null for missing rows."""
        values = view.read(self.plan)
        check_copies(values, self.places)
        if self.is_complete:
            return take(values, self.places)
        stored = to_storage(values)
        with_null = pa.concat_arrays([stored, pa.nulls(1, stored.type)])  # behind the last value
        return from_storage(take(with_null, self.places), view.type)


class MappedView(GatheredView):
    """A column of another table, whose rows a map chooses.

    Args:
        view: the column.
        rows: the map: for each row its key in the other table, or -1 for null. One object for all columns of a version,
            which share the look-up.

    """

    __slots__ = ("_rows",)

    def __init__(self, view: ColumnView, rows: ColumnView) -> None:
        super().__init__(view, rows)
        self._rows = rows

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the rows in the order of their table, and put values in their places."""
        known = plan.in_source
        if known is None or known[0] is not self._rows:
            known = plan.in_source = (self._rows, RowPlaces.of(numbers_of(self._rows.read(plan))))
        return known[1].read(self._view)


def check_copies(values: pa.Array, places: Int64Array) -> None:
    """Check the memory of copying values to some places.

    Raises:
        LimitError: it is too much: long lists or texts, many times.

    """
    if values.nbytes * len(places) <= COPIED_BYTES.most or pat.is_primitive(values.type):
        return
    sizes = np.full(len(values) + 1, -(-values.nbytes // max(1, len(values))), np.int64)
    sizes[-1] = 0
    stored = to_storage(values)
    if pat.is_list(stored.type) or pat.is_large_list(stored.type):
        lengths = pc.list_value_length(stored).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        items = int(lengths.sum())
        sizes[:-1] = lengths * (-(-stored.flatten().nbytes // items) if items else 0)
    elif pat.is_string(stored.type) or pat.is_large_string(stored.type):
        sizes[:-1] = pc.binary_length(stored).fill_null(0).to_numpy(zero_copy_only=False)
    taken = int(sizes[places].sum())
    if taken > COPIED_BYTES.most:
        shown, most = shown_apart(taken, COPIED_BYTES.most)
        raise LimitError(
            f"The values of {len(places):,} rows would take {shown} at once, and {most} is the most "
            f"({COPIED_BYTES.name}). Join shorter lists or texts."
        )
