"""A versioned map from sparse row keys to dense slots.

Cells lie in pages of the key space. Row keys that are far apart, as cross joins and merges make them, would each take a
page of memory. Such rows have *slots* instead, which are numbered without gaps; the cells of slot ``s`` lie at the
place of row key ``s``. A shift then moves no cells: the slots get other keys.

A :class:`RowSlots` is an immutable value, so a version holds the mapping of its moment. It is a list of sorted runs;
newer runs override older ones. A change adds a run, and runs of similar size are merged: each entry is merged a
logarithmic number of times, and the cost of a change is proportional to its rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.sorting import last_of_each
from barrage_server.errors import RowSetError
from barrage_server.rowset import RowSet

__all__ = ["NO_SLOT", "RowSlots"]

NO_SLOT: Final = -1
_Run = tuple[Int64Array, Int64Array]  # row keys, strictly increasing, and the slot of each


class RowSlots:
    """An immutable mapping of row keys to slots."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        """Make an empty mapping."""
        self._runs: tuple[_Run, ...] = ()  # oldest first

    @property
    def nbytes(self) -> int:
        """Bytes of the mapping."""
        return sum(keys.nbytes + slots.nbytes for keys, slots in self._runs)

    def find(self, keys: Int64Array) -> Int64Array:
        """The slot of each row key, in any order; ``NO_SLOT`` for unknown keys."""
        found = np.full(len(keys), NO_SLOT, np.int64)
        places: Int64Array | None = None  # of the keys that no run has named yet; None: all
        for run_keys, run_slots in reversed(self._runs):
            wanted = keys if places is None else keys[places]
            at = run_keys.searchsorted(wanted)
            at[at == len(run_keys)] = 0
            hit = run_keys[at] == wanted
            if places is None:
                found[hit] = run_slots[at[hit]]
                places = np.flatnonzero(~hit)
            else:
                found[places[hit]] = run_slots[at[hit]]
                places = places[~hit]
            if len(places) == 0:
                break
        return found

    def changed(self, keys: Int64Array, slots: Int64Array) -> RowSlots:
        """This mapping with other slots for some row keys.

        Args:
            keys: row keys, in any order; of a repeated key the last entry counts.
            slots: the slot of each; ``NO_SLOT`` to remove the key.
        """
        if len(keys) == 0:
            return self
        keys, last = last_of_each(keys)
        runs = [*self._runs, (keys, slots[last])]
        while len(runs) > 1 and len(runs[-2][0]) <= 2 * len(runs[-1][0]):
            newer, older = runs.pop(), runs.pop()
            runs.append(_merged(older, newer))
        if len(runs) == 1:  # there is nothing below that an entry without a slot could hide
            run_keys, run_slots = runs[0]
            there = run_slots != NO_SLOT
            runs = [(run_keys[there], run_slots[there])] if not there.all() else runs
        made = RowSlots()
        made._runs = tuple(runs) if len(runs[0][0]) else ()
        return made

    def plan(self, rows: RowSet) -> tuple[ReadPlan, Int64Array | None]:
        """The slots of ``rows``, and the position in ``rows`` of each ascending slot.

        The positions are ``None`` if the slots ascend with the row keys.

        Raises:
            RowSetError: a row has no slot.
        """
        slots = self.find(rows.keys())
        if len(slots) and int(slots.min()) == NO_SLOT:
            raise RowSetError(
                f"Some row keys from {rows.first_key} to {rows.last_key} have no cells: they are not rows of this "
                f"version."
            )
        if bool((slots[1:] > slots[:-1]).all()):
            return ReadPlan.from_keys(slots), None
        order = np.argsort(slots)
        return ReadPlan.from_keys(slots[order]), order


def _merged(older: _Run, newer: _Run) -> _Run:
    keys, last = last_of_each(np.concatenate((older[0], newer[0])), runs=2)
    return keys, np.concatenate((older[1], newer[1]))[last]
