"""Bounds of the tables and columns that clients make."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from barrage_server.errors import LimitError
from barrage_server.log import count
from barrage_server.publish.delta import CheckNew
from barrage_server.server.catalog import Catalog
from barrage_server.server.limits import Limits
from barrage_server.server.principal import Principal
from barrage_server.server.table_schema import count_columns

__all__ = ["MadeTables"]

_MOST_CALLERS: Final = 1_000
"""Number of callers beyond which callers without tables are forgotten."""
_COUNTED: Final = "counting the fields within their types, and each KiB of a schema as one at least"
_FEW_ADMISSIONS: Final = 64
"""Least number of admissions between two searches for dropped tables."""


class MadeTables:
    """The tables that callers have made since the server's start, and their columns.

    On a server that accepts every caller, names distinguish nothing: callers have no bounds of their own there, only
    the common ones. Methods may be called from any thread.

    Args:
        catalog: the tables.
        limits: the limits of the server. Columns are counted by :func:`count_columns`.

    """

    def __init__(self, catalog: Catalog, limits: Limits) -> None:
        self._catalog = catalog
        self._limits = limits
        self._lock = threading.Lock()
        self._made: dict[str, dict[str, int]] = {}  # by caller: admitted tables with their number of columns
        self._columns: dict[str, int] = {}  # by caller: the sum of these numbers
        self._admissions = 0  # since the last search for dropped tables
        self._in_making: Counter[str] = Counter()  # by name: number of calls that make such a table now

    @contextmanager
    def making(self, principal: Principal) -> Iterator[CheckNew]:
        """Let ``principal`` make tables during the ``with`` body.

        Yields:
            A function to call right before, with the schemas of the new tables by name. It raises LimitError for too
            many tables or columns. Its tables count until the body ends; after that, only those that then exist.

        """
        names: Counter[str] = Counter()

        def admit(tables: Mapping[str, pa.Schema]) -> None:
            self._admit(principal, tables, names)

        try:
            yield admit
        finally:
            with self._lock:
                self._in_making -= names  # drops counts of zero

    def _admit(self, principal: Principal, tables: Mapping[str, pa.Schema], names: Counter[str]) -> None:
        limits = self._limits
        if self._catalog.count + sum(self._catalog.find(name) is None for name in tables) > limits.tables:
            raise LimitError(
                f"This server has {count(self._catalog.count, 'tables')}, and clients make no more than "
                f"{limits.tables:,} (tables). Drop some, or use one that is there."
            )
        wanted = {name: count_columns(schema, limits.columns) for name, schema in tables.items()}
        owner = principal.owner
        with self._lock:
            if self._refusal(principal, wanted) is not None:
                self._forget_gone()
                if (refusal := self._refusal(principal, wanted)) is not None:
                    raise LimitError(refusal)
            self._in_making.update(wanted.keys())
            names.update(wanted.keys())
            for other, made in self._made.items():
                for name in made.keys() & wanted.keys():
                    self._columns[other] -= made.pop(name)
            own = self._made.setdefault(owner, {})
            own.update(wanted)
            self._columns[owner] = self._columns.get(owner, 0) + sum(wanted.values())
            if len(self._made) > _MOST_CALLERS or len(own) > limits.tables:
                self._forget_gone()
            self._admissions += 1
            if self._admissions >= max(_FEW_ADMISSIONS, self._catalog.count):
                self._admissions = 0
                self._forget_gone()

    def _refusal(self, principal: Principal, wanted: Mapping[str, int]) -> str | None:
        """The reason to refuse new tables; ``None`` within all limits.

        Args:
            principal: the caller.
            wanted: the number of columns of each table, by name.

        """
        limits, owner = self._limits, principal.owner
        own = self._made.get(owner, {})
        columns = sum(wanted.values()) - sum(own.get(name, 0) for name in wanted)  # a name counts once
        if owner and len(own.keys() | wanted.keys()) > limits.tables_per_caller:
            return (
                f"'{principal.name}' may have {count(limits.tables_per_caller, 'tables')} that it has made "
                f"(tables_per_caller), and makes no more until it drops one."
            )
        if owner and self._columns.get(owner, 0) + columns > limits.columns_per_caller:
            return (
                f"'{principal.name}' may have {count(limits.columns_per_caller, 'columns')} in tables that it has made "
                f"(columns_per_caller), {_COUNTED}. Drop some, or make narrower ones."
            )
        if sum(self._columns.values()) + columns > limits.total_columns:
            return (
                f"The tables that clients have made may have {count(limits.total_columns, 'columns')} (total_columns), "
                f"{_COUNTED}, and would have more. Drop some, or make narrower ones."
            )
        return None

    def _forget_gone(self) -> None:
        """Forget tables that neither exist nor are being made, and callers without any."""
        there = self._catalog.names() | self._in_making.keys()
        found = {
            owner: {name: columns for name, columns in made.items() if name in there}
            for owner, made in self._made.items()
        }
        self._made = {owner: made for owner, made in found.items() if made}
        self._columns = {owner: sum(made.values()) for owner, made in self._made.items()}
