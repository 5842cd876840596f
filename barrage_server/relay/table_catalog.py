"""The interface of the server's catalog that following needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barrage_server.engine import Table, UpdateGraph

__all__ = ["TableCatalog"]


class TableCatalog(Protocol):
    """The part of a server's catalog that followed tables use."""

    @property
    def graph(self) -> UpdateGraph:
        """The update graph of all tables in the catalog."""

    def find(self, name: str) -> Table | None:
        """The table of that name, if there is one."""

    def reserve(self, name: str, reason: str) -> Callable[[], None]:
        """Reserve a name for a table to add later; returns a function that releases it."""

    def add(self, table: Table, name: str | None = None, *, reserved: bool = False) -> Table:
        """Serve a table."""

    def replace(self, before: Table, table: Table) -> None:
        """Serve ``table`` in place of ``before``, whose subscribers get an error."""

    def drop(self, name: str) -> None:
        """Stop serving a table."""
