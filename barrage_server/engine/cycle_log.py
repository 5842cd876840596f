"""The interface between an update graph and a log of its cycles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barrage_server.public import public

if TYPE_CHECKING:
    from barrage_server.engine.table import Table

__all__ = ["CycleLog", "CycleNote"]


@public
class CycleNote:
    """An event that happens with a cycle or not at all.

    For example, a table appears under its name, or a batch is committed. A subclass implements the event in
    :meth:`apply`; a log knows the subclasses that it writes.
    """

    def apply(self) -> None:
        """Make the event happen, in the visible cycle: quickly, and without an error."""

    @property
    def retires(self) -> Table | None:
        """The table that takes no operations of later commits, if any.

        Later commits of the same cycle are included.
        """
        return None

    def tell(self) -> None:
        """Tell listeners of the event, after the cycle, in the order of cycles."""


@public
class CycleLog(ABC):
    """A record of cycles.

    The graph calls :meth:`wait` and :meth:`check` from any thread, and all other methods from one thread at a time.
    """

    @abstractmethod
    def check(self, table: Table) -> None:
        """Raise ReadOnlyError if changes of ``table`` must be logged and cannot be."""

    @abstractmethod
    def concerns(self, tables: Collection[Table], notes: Sequence[CycleNote]) -> bool:
        """Whether the log must record a change of one of ``tables`` or one of ``notes``."""

    @abstractmethod
    def write(self, step: int, staged: Mapping[Table, Sequence[Any]], notes: Sequence[CycleNote]) -> int:
        """Write a record of the cycle ``step``, which is about to run.

        Returns:
            The position of the record; 0 for none.

        Raises:
            ReadOnlyError: it cannot be written. The cycle must not run.
        """

    @abstractmethod
    def ran(self) -> None:
        """Take note that the cycle of the last record has begun to run."""

    @abstractmethod
    def take_back(self) -> None:
        """After an interrupt, make the last record void if its cycle has not begun."""

    @abstractmethod
    def void(self, position: int, tables: Collection[Table], notes: Collection[CycleNote]) -> int:
        """Record that a cycle neither changed ``tables`` nor did ``notes``.

        Args:
            position: the position of the cycle's record.
            tables: the tables that kept their rows.
            notes: the events that did not happen.

        Returns:
            The position of the new record.
        """

    @abstractmethod
    def wait_for_all(self) -> None:
        """Call :meth:`wait` for the last record."""

    @abstractmethod
    def wait(self, position: int) -> None:
        """Wait until the record at ``position`` is as durable as promised.

        Raises:
            ReadOnlyError: it will never be.
        """
