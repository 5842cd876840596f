"""The variables of scripts, whose tables the server serves under their names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, cast
from weakref import WeakValueDictionary

from barrage_server.engine import StandaloneGraph, Table
from barrage_server.engine.alias import alias
from barrage_server.errors import BarrageError
from barrage_server.server.bound_names import BoundNames
from barrage_server.server.catalog import Catalog
from barrage_server.server.console.script_table import ScriptTable
from barrage_server.server.principal import Principal

__all__ = ["Changes", "Scope", "ServedBuiltins"]


@dataclass(slots=True)
class Changes:
    """The changes that a command has made to the tables of the server.

    Attributes:
        created: names of new tables.
        updated: names that other tables have now.
        removed: names of tables that were dropped.
        problems: sentences that say why the table of a variable is not served.

    """

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Variable:
    """A variable whose table is served.

    Attributes:
        table: the value of the variable.
        served: the table that the server has under its name.

    """

    table: Table
    served: Table


class ServedBuiltins(dict[str, Any]):
    """The built-in names of scripts, followed by the server's tables by name.

    Python looks names up here that are no variables. It holds no table.

    Args:
        names: the built-in names.
        found: returns the table of a name; ``None`` when there is none.

    """

    def __init__(self, names: dict[str, Any], found: Callable[[str], Any]) -> None:
        super().__init__(names)
        self._found = found

    def __missing__(self, name: str) -> Any:
        found = self._found(name)
        if found is None:
            raise KeyError(name)
        return found


class Scope:
    """Serves the table of each variable under the name of the variable.

    Variables whose names begin with two underscores are not served. Methods may be called from any thread.

    Args:
        catalog: the tables of the server.
        names: gives names to tables.
        namespace: the variables.
        wrap: wraps a table of the server for scripts.
        words: the built-in names; a table that a client binds to one of them becomes no variable.

    """

    def __init__(
        self,
        catalog: Catalog,
        names: BoundNames,
        namespace: dict[str, Any],
        wrap: Callable[[Table], ScriptTable],
        words: Container[str] = (),
    ) -> None:
        self._catalog = catalog
        self._names = names
        self._namespace = namespace
        self._wrap = wrap
        self._words = words
        self._lock = threading.RLock()
        self._served: dict[str, _Variable] = {}
        self._refused: WeakValueDictionary[str, Table] = WeakValueDictionary()  # reported to the caller already
        self._names_before: set[str] = set()  # names of variables at the end of the last command
        self._is_stale = False
        self._stop = catalog.watch(self._changed)

    def find(self, name: str) -> ScriptTable | None:
        """The server's table of that name, wrapped for a script; ``None`` without one."""
        table = self._catalog.find(name)
        return None if table is None else self._wrap(table)

    def bound(self, name: str) -> None:
        """Make a table that a client has bound to a name the variable of that name.

        Without effect for the server's own tables, for names that are no names of variables, and for built-in names.
        """
        if not _is_shared(name) or name in self._words:
            return
        table = self._names.bound(name)
        if table is not None:
            with self._lock:
                self._served[name] = _Variable(table, table)
                self._namespace[name] = self._wrap(table)

    def tidy(self) -> None:
        """Forget variables whose tables were dropped without a script."""
        if not self._is_stale or not self._lock.acquire(blocking=False):
            return  # another thread serves variables, which may wait for a cycle
        try:
            self._is_stale = False
            for name, variable in tuple(self._served.items()):
                if self._catalog.find(name) is not variable.served:
                    del self._served[name]
                    if _table_of(self._namespace.get(name)) is variable.table:
                        del self._namespace[name]
        finally:
            self._lock.release()

    def serve(self, principal: Principal) -> Changes:
        """Serve the present variables, after a command of ``principal``."""
        changes = Changes()
        with self._lock:
            found = {
                name: table
                for name, value in tuple(self._namespace.items())
                if _is_shared(name) and (table := _table_of(value)) is not None
            }
            for name, variable in tuple(self._served.items()):
                if name not in found:
                    del self._served[name]
                    self._take_back(name, variable, changes)
            for name, table in found.items():
                before = self._served.get(name)
                if (before is not None and before.table is table) or self._refused.get(name) is table:
                    continue
                if self._catalog.find(name) is table:  # a script has assigned a served table to a variable of its name
                    continue
                self._serve(principal, name, table, before, changes)
            self._tell_hidden(changes)
        return changes

    def _tell_hidden(self, changes: Changes) -> None:
        """Report the server's tables that new variables hide from scripts."""
        for name, value in tuple(self._namespace.items()):
            if _is_shared(name) and name not in self._names_before and name not in self._served:
                there = self._catalog.find(name)
                if there is not None and _table_of(value) is not there:
                    changes.problems.append(
                        f"The variable '{name}' hides the table of that name from all scripts until 'del {name}'."
                    )
        self._names_before = set(self._namespace)

    def close(self) -> None:
        """Forget all variables."""
        self._stop()
        with self._lock:
            self._served.clear()
            self._namespace.clear()

    def _serve(self, principal: Principal, name: str, table: Table, before: _Variable | None, changes: Changes) -> None:
        try:
            is_own = table.traits.is_input or isinstance(table.graph, StandaloneGraph)
            given = table if is_own else alias(table, name)  # the table may have other users
            served = self._names.serve(principal, name, given)
        except BarrageError as error:
            self._refused[name] = table
            changes.problems.append(f"The variable '{name}' is not served: {error}")
            if before is not None:  # no variable has the table that was served before
                del self._served[name]
                self._take_back(name, before, changes)
            return
        self._served[name] = _Variable(table, served)
        (changes.created if before is None else changes.updated).append(name)

    def _take_back(self, name: str, variable: _Variable, changes: Changes) -> None:
        try:
            self._names.take_back(name, variable.served)
        except BarrageError as error:
            changes.problems.append(f"The table '{name}' was not dropped: {error}")
        changes.removed.append(name)

    def _changed(self) -> None:
        self._is_stale = True


def _is_shared(name: object) -> bool:
    """Whether a variable of that name is served; ``globals()`` may have any name."""
    return isinstance(name, str) and name.isidentifier() and not name.startswith("__") and not iskeyword(name)


def _table_of(value: object) -> Table | None:
    kind = type(value)  # isinstance() would ask the value, which may raise
    if issubclass(kind, ScriptTable):
        return cast("ScriptTable", value).table
    return cast("Table", value) if issubclass(kind, Table) else None
