"""What an update graph tells a log of its cycles, so that they can be repeated."""

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
    """Something that happens with a cycle, or not at all: a table appears under its name, a batch is committed.

    A subclass says in :meth:`apply` what it does; a log knows the subclasses that it writes down.
    """

    def apply(self) -> None:
        """Do it: the cycle is visible. Runs within the cycle, must be quick, and must not raise."""

    @property
    def retires(self) -> Table | None:
        """A table that takes no operations of later commits, those of the same cycle included; ``None`` for none."""
        return None

    def tell(self) -> None:
        """Tell others that it has happened. Runs after the cycle, in the order of cycles, like a listener."""


@public
class CycleLog(ABC):
    """A record of cycles. The graph calls it from one thread at a time, but for :meth:`wait` and :meth:`check`."""

    @abstractmethod
    def check(self, table: Table) -> None:
        """Raise ReadOnlyError when changes of ``table`` have to be written down and cannot be."""

    @abstractmethod
    def concerns(self, tables: Collection[Table], notes: Sequence[CycleNote]) -> bool:
        """Whether changes of one of ``tables``, or one of ``notes``, are written down."""

    @abstractmethod
    def write(self, step: int, staged: Mapping[Table, Sequence[Any]], notes: Sequence[CycleNote]) -> int:
        """Write down what the cycle ``step`` is about to do; returns the position of the record, 0 for none.

        Raises:
            ReadOnlyError: it cannot be written. The cycle must not run.
        """

    @abstractmethod
    def ran(self) -> None:
        """The cycle of the last record runs: :meth:`void` says what it does not do."""

    @abstractmethod
    def take_back(self) -> None:
        """The program was interrupted before the cycle of the last record ran, if there is one: it does nothing."""

    @abstractmethod
    def void(self, position: int, tables: Collection[Table], notes: Collection[CycleNote]) -> int:
        """Write down that the cycle at ``position`` has not changed ``tables``, and not done ``notes``; returns the
        position of that record.
        """

    @abstractmethod
    def wait_for_all(self) -> None:
        """:meth:`wait` for the last record."""

    @abstractmethod
    def wait(self, position: int) -> None:
        """Return when the record at ``position`` is as durable as publishers are promised.

        Raises:
            ReadOnlyError: it will never be.
        """
