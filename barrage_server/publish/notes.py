"""Events of a cycle other than changes of rows.

Tables are made, dropped or exchanged, and batches are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from barrage_server.engine import Table
from barrage_server.engine.cycle_log import CycleNote
from barrage_server.wire.table_spec import TableSpec

__all__ = ["BatchCommitted", "TableDropped", "TableExchanged", "TableMade"]


@dataclass(frozen=True, slots=True, eq=False)
class _Change(CycleNote):
    """A change of the catalog or the ledger with a cycle.

    Attributes:
        table: the table.
        happen: makes the change, quickly and without fail.
        told: called after the cycle.
    """

    table: Table
    happen: Callable[[], object]
    told: Callable[[], object] = field(default=lambda: None, kw_only=True)

    def apply(self) -> None:
        """Make the change."""
        self.happen()

    def tell(self) -> None:
        """Call ``told``."""
        self.told()


@dataclass(frozen=True, slots=True, eq=False)
class TableMade(_Change):
    """``table`` is served from now on.

    Attributes:
        spec: its kind, key and capacity.
        is_durable: whether the journal has it.
    """

    spec: TableSpec
    is_durable: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class TableDropped(_Change):
    """``table`` is no longer served."""


@dataclass(frozen=True, slots=True, eq=False)
class TableExchanged(_Change):
    """``table`` is served in place of another one, and takes over its commits.

    Attributes:
        before: the other table.
        spec: the kind, key and capacity of ``table``.
        is_durable: whether the journal has it.
    """

    before: Table
    spec: TableSpec
    is_durable: bool = field(default=False, kw_only=True)

    @property
    def retires(self) -> Table | None:
        """The replaced table: later rows for it would be lost."""
        return self.before


@dataclass(frozen=True, slots=True, eq=False)
class BatchCommitted(_Change):
    """A batch of a publisher is committed to ``table``.

    Attributes:
        entry: the ledger's entry, in JSON.
    """

    entry: Mapping[str, Any]
