"""What happens with a cycle beside changes of rows: tables that come and go, and batches that are committed."""

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
    """A change that ``happen()`` makes, quickly and without fail; ``told()`` is called after the cycle."""

    table: Table
    happen: Callable[[], object]
    told: Callable[[], object] = field(default=lambda: None, kw_only=True)

    def apply(self) -> None:
        """Make the change."""
        self.happen()

    def tell(self) -> None:
        """Tell others."""
        self.told()


@dataclass(frozen=True, slots=True, eq=False)
class TableMade(_Change):
    """``table`` is served from now on.

    Attributes:
        spec: its kind, and what that needs.
        is_durable: whether it is written down.

    """

    spec: TableSpec
    is_durable: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class TableDropped(_Change):
    """``table`` is not served any more."""


@dataclass(frozen=True, slots=True, eq=False)
class TableExchanged(_Change):
    """``table`` is served in the place of another one; batches committed to that count for it.

    Attributes:
        before: the other one.
        spec: the kind of ``table``, and what that needs.
        is_durable: whether it is written down.

    """

    before: Table
    spec: TableSpec
    is_durable: bool = field(default=False, kw_only=True)

    @property
    def retires(self) -> Table | None:
        """The other one: rows that are published to it from then on would be lost."""
        return self.before


@dataclass(frozen=True, slots=True, eq=False)
class BatchCommitted(_Change):
    """A batch of a publisher is committed to ``table``.

    Attributes:
        entry: the ledger's entry, in JSON.

    """

    entry: Mapping[str, Any]
