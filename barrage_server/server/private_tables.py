"""Tables without a name in the catalog: those that sessions have uploaded, and those that are computed for clients.

Who uses one needs what it was made of: a caller may read the result of an operation as long as it may read, and sees
the same of, each table of the catalog that the operation began with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from barrage_server.engine import Table
from barrage_server.engine.restricted import RestrictedTable, Restriction
from barrage_server.server.access import AccessControl, Right
from barrage_server.server.principal import Principal

__all__ = ["Need", "PrivateTables"]


class Need(NamedTuple):
    """What a stream takes of the catalog.

    Attributes:
        name: of a table.
        right: on it.
        restriction: the part of it that is read; ``None``: all of it.

    """

    name: str
    right: Right
    restriction: Restriction | None = None


class PrivateTables:
    """The private tables of a server, and the tables of the catalog behind each. Methods may be called from any thread.

    Args:
        access: the rights on the tables of the catalog.

    Attributes:
        access: the same.

    """

    def __init__(self, access: AccessControl) -> None:
        self.access = access
        # As values only tables that their keys follow, or that keep nothing alive.
        self._origins: WeakKeyDictionary[Table, tuple[Table, ...]] = WeakKeyDictionary()

    def __contains__(self, table: Table) -> bool:
        return table in self._origins

    def add(self, table: Table, inputs: Iterable[Table] = ()) -> None:
        """Take in a table that is made of ``inputs``, which callers may know; without any it was uploaded."""
        origins = (origin for one in inputs for origin in self.origins(one))
        self._origins[table] = tuple(dict.fromkeys(origins))

    def discard(self, table: Table) -> None:
        """The table has a name in the catalog now."""
        self._origins.pop(table, None)

    def origins(self, table: Table) -> tuple[Table, ...]:
        """The tables of the catalog, or parts of them, that a table shows: itself, if it is one of these."""
        found = self._origins.get(table)
        return (table,) if found is None else found

    def check(self, principal: Principal, table: Table, *rights: Right) -> None:
        """Raise unless ``principal``, who was given this table, has these rights on all that it shows.

        Raises:
            UnknownTableError: it has no right on one of them any more.
            ForbiddenError: it lacks one of the rights.
            UnavailableError: it sees another part of one of them, or nothing.

        """
        for origin in self.origins(table):
            self.access.check_table(principal, origin, *rights)

    def needs(self, table: Table, right: Right = Right.READ) -> tuple[Need, ...]:
        """What a stream takes that is about a table."""
        return tuple(
            Need(origin.name, right, origin.restriction if isinstance(origin, RestrictedTable) else None)
            for origin in self.origins(table)
        )
