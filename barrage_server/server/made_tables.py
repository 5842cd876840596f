"""How many tables clients may make."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Final

from barrage_server.errors import LimitError
from barrage_server.log import count
from barrage_server.server.catalog import Catalog
from barrage_server.server.principal import Principal

__all__ = ["MadeTables"]

_MOST_CALLERS: Final = 1_000
"""Callers beyond which those without tables are forgotten."""


class MadeTables:
    """The tables that callers have made since the start of the server. Thread-safe.

    Callers of a server that accepts every caller have no bound of their own: their names distinguish nothing.

    Args:
        catalog: the tables.
        most: tables of the server at which clients make no further one.
        most_per_caller: tables that one caller has made and that are still there, at which it makes no further one.

    """

    def __init__(self, catalog: Catalog, most: int, most_per_caller: int) -> None:
        self._catalog = catalog
        self._most = most
        self._most_per_caller = most_per_caller
        self._lock = threading.Lock()
        self._names: dict[str, set[str]] = {}  # by caller: what it was allowed to make

    def admit(self, principal: Principal, names: Collection[str]) -> None:
        """Count the tables ``names``, which are not there, and which ``principal`` is about to make; LimitError when
        there are too many.
        """
        if self._catalog.count + len(names) > self._most:
            raise LimitError(
                f"This server has {count(self._catalog.count, 'tables')}, and clients make no more than "
                f"{self._most:,} (tables). Drop some, or use one that is there."
            )
        owner = principal.owner
        if not owner:
            return
        with self._lock:
            own = self._names.setdefault(owner, set())
            if len(own.union(names)) > self._most_per_caller:
                # others were dropped, or never made
                own.intersection_update([name for name in own if self._catalog.find(name) is not None])
                if len(own.union(names)) > self._most_per_caller:
                    raise LimitError(
                        f"'{principal.name}' may have {count(self._most_per_caller, 'tables')} that it has made "
                        "(tables_per_caller), and makes no more until it drops one."
                    )
            for others in self._names.values():
                others.difference_update(names)
            own.update(names)
            if len(self._names) > _MOST_CALLERS:
                self._forget(owner)

    def _forget(self, present: str) -> None:
        there = self._catalog.names()
        self._names = {
            owner: left
            for owner, names in self._names.items()
            if (left := names if owner == present else names & there)
        }
