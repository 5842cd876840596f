"""The operations that copy the rows of tables as they pass, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from barrage_server.arguments import integer
from barrage_server.plan.operation import Operation, PairOperation

__all__ = ["MOST_ROWS", "BlinkToAppendOnly", "Ring", "SnapshotWhen", "ring_capacity"]

MOST_ROWS: Final = 1 << 31
"""Rows that an empty table may have, and a ring of another table may keep."""


@dataclass(frozen=True, slots=True)
class SnapshotWhen(PairOperation):
    """The first table as of the last change of the second one, the trigger.

    Attributes:
        stamps: columns of the trigger, as ``"time"`` or ``"taken = time"``, whose values in its last row the rows get;
            none: all.
        initial: whether the first snapshot is taken at once.
        incremental: whether rows get the stamps of the snapshot that they came or changed with, and not of the last.
        history: whether each row that the trigger gets adds a snapshot, with its stamps, to those before.

    """

    verb = "snapshot_when"
    is_of_its_moment = True

    stamps: tuple[str, ...] = ()
    initial: bool = False
    incremental: bool = False
    history: bool = False


@dataclass(frozen=True, slots=True)
class BlinkToAppendOnly(Operation):
    """All rows that a blink table has now and will have."""

    verb = "blink_to_append_only"
    is_of_its_moment = True


@dataclass(frozen=True, slots=True)
class Ring(Operation):
    """The last rows that a table has got, whose rows are never modified.

    Attributes:
        capacity: how many rows, at most.
        initialize: whether it begins with the rows that are there.

    """

    verb = "ring_table"
    is_of_its_moment = True

    capacity: int
    initialize: bool = True


def ring_capacity(value: Any) -> int:
    """Check that ``value`` is a number of rows that a ring can keep, and return it.

    Raises:
        InvalidRequestError: it is not.

    """
    return integer(value, "capacity", least=1, most=MOST_ROWS)
