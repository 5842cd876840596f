"""Names that clients give to tables, and may give again to others."""

from __future__ import annotations

import threading
import weakref

from barrage_server.engine import Table
from barrage_server.engine.alias import alias
from barrage_server.engine.restricted import source_of
from barrage_server.errors import AlreadyExistsError
from barrage_server.server.access import Right
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState

__all__ = ["BoundNames"]


class BoundNames:
    """Gives names to tables of clients.

    A client may give a bound name to another table, unlike the names of the server's own tables. Methods may be called
    from any thread, and may wait for a cycle to end.

    Args:
        state: the server's state.

    """

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._lock = threading.RLock()
        self._bound: weakref.WeakValueDictionary[str, Table] = weakref.WeakValueDictionary()

    def bind(self, principal: Principal, name: str, table: Table) -> None:
        """Give a name to an uploaded table or a result.

        Raises:
            AlreadyExistsError: the table has a name, or the name belongs to a table of the server.
            ForbiddenError: the principal may not create, or not drop, a table of that name.
            LimitError: there are too many tables.

        """
        state = self._state
        with self._lock:
            if state.catalog.find(name) is source_of(table):
                return
            # a restricted part of a table never gets a name, under which it would be shown as a whole table
            if table not in state.private:
                raise AlreadyExistsError(
                    f"This table is, or was, served as '{table.name}', and a table has one name. Name a result of it: "
                    f"table.view([...]), or table.where([])."
                )
            if table in state.results:
                table = alias(table, name)  # a result may have other users
            elif not table.is_refreshing:
                table.is_refreshing = True  # callers with the right to publish may append to an upload from now on
            self.serve(principal, name, table)
            state.private.discard(table)

    def serve(self, principal: Principal, name: str, table: Table) -> Table:
        """Serve a table under a name that is free or bound; return the served table.

        Raises what :meth:`bind` does.
        """
        state = self._state
        with self._lock, state.making(principal) as check_new:
            there = state.catalog.find(name)
            if there is not None:
                if self._bound.get(name) is not there:
                    raise AlreadyExistsError(f"There is a table '{name}' on the server; choose another name.")
                state.access.check(principal, name, Right.DROP)
            check_new({name: table.schema})
            if there is not None:
                state.drop(name)
            served = state.catalog.add(table, name)
            self._bound[name] = served
            return served

    def bound(self, name: str) -> Table | None:
        """The table to which a client gave that name; ``None`` if there is none."""
        with self._lock:
            there = self._state.catalog.find(name)
            return there if there is not None and self._bound.get(name) is there else None

    def take_back(self, name: str, served: Table) -> None:
        """Stop serving a table, if a client gave it that name and it still has it."""
        with self._lock:
            if self.bound(name) is served:
                self._state.drop(name)
