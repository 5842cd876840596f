"""The methods that copy the rows of a table as they pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from barrage_server.arguments import flag
from barrage_server.plan.copies import BlinkToAppendOnly, Ring, SnapshotWhen, ring_capacity
from barrage_server.plan.operation import Operation
from barrage_server.plan.texts import Texts, optional_texts

__all__ = ["Copyable", "Result"]

Result = TypeVar("Result")


class Copyable(ABC, Generic[Result]):
    """A table to apply operations to: ``operate``, and operations that copy rows."""

    @abstractmethod
    def operate(self, operation: Operation, *others: Result) -> Result:
        """The result of ``operation`` on this table, and on ``others``."""

    def snapshot_when(
        self,
        trigger_table: Result,
        stamp_cols: Texts | None = None,
        initial: bool = False,
        incremental: bool = False,
        history: bool = False,
    ) -> Result:
        """This table as it was when ``trigger_table`` last changed.

        The result also has *stamps*: columns of the last row of ``trigger_table``.

        >>> each_minute = trades.snapshot_when(bs.time_table("PT1m", graph=server.graph), "taken = Timestamp")

        Args:
            trigger_table: each cycle that changes it takes a snapshot.
            stamp_cols: its columns that the result has: ``"time"``, or ``"taken = time"``; all without. They are null
                where it has no rows.
            initial: whether the first snapshot is taken at once; otherwise there are no rows until then.
            incremental: whether rows keep the stamps of the snapshot that they came or were modified with; otherwise
                all get the last ones.
            history: whether snapshots are appended to those before, one for each row that ``trigger_table`` has and
                gets, with its stamps in front. It excludes the other two.

        """
        for name, value in (("initial", initial), ("incremental", incremental), ("history", history)):
            flag(value, name)
        stamps = optional_texts(stamp_cols, "stamp_cols")
        return self.operate(SnapshotWhen(stamps, initial, incremental, history), trigger_table)

    def blink_to_append_only(self) -> Result:
        """All rows that this blink table has now and will have.

        The result grows as long as it is referenced.
        """
        return self.operate(BlinkToAppendOnly())

    def ring_table(self, capacity: int, initialize: bool = True) -> Result:
        """The last ``capacity`` rows added to this table, removed ones included.

        >>> recent = ticks.ring_table(10_000)

        Args:
            capacity: how many rows, from 1 to 2³¹.
            initialize: whether it begins with the rows that are there.

        """
        return self.operate(Ring(ring_capacity(capacity), flag(initialize, "initialize")))
