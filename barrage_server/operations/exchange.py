"""Rows whose values have changed and whose groups have not."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine.key_values import KeyValues
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.formula.inputs import SharedValues

__all__ = ["Exchange", "ExchangedRows", "GroupChanges"]

GroupChanges: TypeAlias = tuple[npt.NDArray[Any], ...]
"""Arrays with an entry for each group."""

_MOST_BYTES: Final = 1 << 16
"""Bytes of the changes that are kept of some rows. A version holds them for life."""


class ExchangedRows:
    """The groups of some rows, for all aggregations of one table by the same columns.

    It keeps what does not depend on the state of an aggregation. Each of them has numbers of its own for the groups,
    so groups have places here.

    Args:
        places: for each row, the place of its group.
        groups: the groups' numbers in the first of these aggregations, ascending.
        keys: the key values of each group; ``None`` without key columns.

    Attributes:
        counts: the number of rows of each group.
        plan: the rows of the groups in the result of the first aggregation.
        changes: what :meth:`Exchange.changes` has computed, up to 64 KiB.

    """

    __slots__ = ("_bytes", "changes", "counts", "keys", "places", "plan")

    def __init__(self, places: Int64Array, groups: Int64Array, keys: KeyValues | None) -> None:
        self.places = places
        self.counts = np.bincount(places, minlength=len(groups))
        self.plan = ReadPlan.from_keys(groups)
        self.keys = keys
        self.changes: dict[Hashable, GroupChanges | None] = {}
        self._bytes = 0

    def keep(self, key: Hashable, changes: GroupChanges | None) -> None:
        """Keep changes for the other aggregations, unless these are too many bytes."""
        nbytes = sum([each.nbytes for each in changes or ()])
        if self._bytes + nbytes <= _MOST_BYTES:
            self._bytes += nbytes
            self.changes[key] = changes


class Exchange(NamedTuple):
    """Rows with their old and new values, for one aggregation.

    Attributes:
        groups: the groups concerned, ascending and different from each other.
        places: for each row, the position of its group in ``groups``.
        counts: the number of rows of each group.
        old: the old values.
        new: the new values.
        rows: what is shared with other aggregations.
        plan: the rows of ``groups`` in the result.
        order: the place in ``rows`` of each of ``groups``; ``None`` if that is its position.
        read: the old and the new values of the columns that have been read.

    """

    groups: Int64Array
    places: Int64Array
    counts: Int64Array
    old: SharedValues
    new: SharedValues
    rows: ExchangedRows
    plan: ReadPlan
    order: Int64Array | None
    read: dict[int, tuple[pa.Array, pa.Array]]

    @classmethod
    def of(cls, rows: ExchangedRows, groups: Int64Array, old: SharedValues, new: SharedValues) -> Exchange:
        """The exchange of ``rows`` whose groups have the numbers ``groups``, by place."""
        plan = rows.plan
        if np.count_nonzero(groups == plan.keys) == len(groups):
            return cls(plan.keys, rows.places, rows.counts, old, new, rows, plan, None, {})
        order = groups.argsort()
        positions = np.empty_like(order)
        positions[order] = np.arange(len(order))
        plan = ReadPlan.from_keys(groups[order])
        return cls(plan.keys, positions[rows.places], rows.counts[order], old, new, rows, plan, order, {})

    def columns(self, inputs: Sequence[int]) -> tuple[list[pa.Array], list[pa.Array]]:
        """The old and the new values of columns, each read once."""
        for number in inputs:
            if number not in self.read:
                self.read[number] = self.old.array(number), self.new.array(number)
        pairs = [self.read[number] for number in inputs]
        return [old for old, _ in pairs], [new for _, new in pairs]

    def changes(
        self, compute: Callable[..., GroupChanges | None], inputs: tuple[int, ...], *more: Hashable
    ) -> GroupChanges | None:
        """What changes in each group, which those that share the rows compute once.

        Args:
            compute: a function of the rows' places, the number of groups, the old and the new values, and ``more``.
                ``None`` as its result: the values do not allow it.
            inputs: the columns.
            more: further arguments.

        Returns:
            Arrays with an entry for each of :attr:`groups`, or ``None``. They must not be written to.

        """
        known, key = self.rows.changes, (compute, inputs, more)
        if key in known:
            found = known[key]
        else:
            found = compute(self.rows.places, len(self.groups), *self.columns(inputs), *more)
            self.rows.keep(key, found)
        if found is None or self.order is None:
            return found
        return tuple([each[self.order] for each in found])
