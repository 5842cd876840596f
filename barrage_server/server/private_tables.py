"""Tables without a name in the catalog: uploads of sessions, and results.

A caller may read a result as long as it may read each table of the catalog from which the result is computed, and sees
the same part of it.
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
    """A right on a table of the catalog that a stream needs.

    Attributes:
        name: the name of the table.
        right: the right.
        restriction: the part of the table that is read; ``None``: the whole table.

    """

    name: str
    right: Right
    restriction: Restriction | None = None


class PrivateTables:
    """The private tables of a server, each with the catalog's tables that it shows.

    Methods may be called from any thread.

    Args:
        access: the rights on the tables of the catalog.

    Attributes:
        access: the rights on the tables of the catalog.

    """

    def __init__(self, access: AccessControl) -> None:
        self.access = access
        # The values are tables that their keys keep alive anyway, or that keep nothing alive.
        self._origins: WeakKeyDictionary[Table, tuple[Table, ...]] = WeakKeyDictionary()

    def __contains__(self, table: Table) -> bool:
        return table in self._origins

    def add(self, table: Table, inputs: Iterable[Table] = ()) -> None:
        """Add a result computed from ``inputs``; without inputs, an uploaded table."""
        origins = (origin for one in inputs for origin in self.origins(one))
        self._origins[table] = tuple(dict.fromkeys(origins))

    def discard(self, table: Table) -> None:
        """Remove a table that has a name in the catalog now."""
        self._origins.pop(table, None)

    def origins(self, table: Table) -> tuple[Table, ...]:
        """The tables of the catalog that a table shows, or parts of them.

        For a table of the catalog, the table itself.
        """
        found = self._origins.get(table)
        return (table,) if found is None else found

    def check(self, principal: Principal, table: Table, *rights: Right) -> None:
        """Raise unless ``principal`` has these rights on all :meth:`origins` of a table.

        Raises:
            UnknownTableError: the principal has no right on one of them any more.
            ForbiddenError: the principal lacks one of the rights.
            UnavailableError: the principal now sees another part of one of them, or nothing.

        """
        for origin in self.origins(table):
            self.access.check_table(principal, origin, *rights)

    def needs(self, table: Table, right: Right = Right.READ) -> tuple[Need, ...]:
        """The rights that a stream of this table needs."""
        return tuple(
            Need(origin.name, right, origin.restriction if isinstance(origin, RestrictedTable) else None)
            for origin in self.origins(table)
        )
