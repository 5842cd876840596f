"""The list of tables on pages, updated once a second for all pages.

Pages get the changes of the list.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from barrage_server.engine import Table
from barrage_server.engine.kinds import kind_name
from barrage_server.engine.update import TableUpdate
from barrage_server.server.access import AccessControl
from barrage_server.server.principal import Principal
from barrage_server.wire.json_message import json_text

__all__ = ["ListedTables"]

_MANY_TABLES: Final = 500
"""Tables above which the whole list takes long to write."""
_MOST_COLUMNS: Final = 100
"""Most columns of a table that the list names."""


@dataclass(frozen=True, slots=True)
class _View:
    """The list for callers with the same rights.

    Attributes:
        entries: entries by the table's name.
        edition: number of this version of the list.
        change: the message with the changes of this edition; empty for none.
    """

    entries: dict[str, dict[str, Any]]
    edition: int = 1
    change: str = ""


class ListedTables:
    """Tables as pages list them: names, kinds, rows, rows changed a second, columns.

    One thread updates the lists at a time; any may read them.

    Args:
        access: the rights of callers.
        clock: seconds, monotonic.
    """

    def __init__(self, access: AccessControl, clock: Callable[[], float]) -> None:
        self._access = access
        self._clock = clock
        self._views: dict[object, _View] = {}
        self._rates = _Rates(clock)

    def key(self, principal: Principal) -> object:
        """A key that callers with the same list of tables share."""
        return None if self._access.is_open else principal.role_names

    def refresh(self, principals: Iterable[Principal]) -> None:
        """Update the lists of these callers, and forget all others."""
        wanted = {self.key(principal): principal for principal in principals}
        tables = {key: self._access.named(principal) for key, principal in wanted.items()}
        self._rates.measure({table for listed in tables.values() for table in listed})
        self._views = {key: self._renewed(key, principal, tables[key]) for key, principal in wanted.items()}

    def news(self, principal: Principal, edition: int) -> tuple[int, str]:
        """The message with the changes since ``edition``, and the present edition.

        Edition 0 is the empty list. The message is empty without changes.
        """
        view = self._views.get(self.key(principal))
        if view is None or view.edition == edition:
            return edition, ""
        if view.edition == edition + 1 and edition:
            return view.edition, view.change
        return view.edition, _message(view.entries.values(), (), is_all=True)

    def is_large(self, principal: Principal) -> bool:
        """Whether the message with all tables takes long to write."""
        view = self._views.get(self.key(principal))
        return view is not None and len(view.entries) > _MANY_TABLES

    def close(self) -> None:
        """Stop counting the rows of all tables."""
        self._rates.measure(set())

    def _renewed(self, key: object, principal: Principal, tables: Iterable[Table]) -> _View:
        view = self._views.get(key)
        entries = {table.name: self._entry(principal, table) for table in tables}
        if view is None:
            return _View(entries)
        changed = []
        dropped = [name for name in view.entries if name not in entries]
        for name, entry in entries.items():
            before = view.entries.get(name)
            if before is not None and before["columns"] is not entry["columns"]:
                dropped.append(name)  # another table has the name now
            elif before == entry:
                continue
            elif before is not None:
                entry = {key: value for key, value in entry.items() if key != "columns"}
            changed.append(entry)
        return _View(entries, view.edition + 1, _message(changed, dropped) if changed or dropped else "")

    def _entry(self, principal: Principal, table: Table) -> dict[str, Any]:
        restriction = self._access.restriction(principal, table)
        shown = None if restriction is None else restriction.columns
        entry: dict[str, Any] = {"name": table.name, "kind": kind_name(table)}
        if restriction is None or not restriction.conditions:
            entry["rows"] = table.size
            entry["rate"] = self._rates.of(table)
        entry["columns"] = self._rates.columns(table, shown)
        if len(table.schema) > _MOST_COLUMNS and shown is None:
            entry["width"] = len(table.schema)
        return entry


class _Rates:
    """Rows changed a second of the tables that pages list."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: weakref.WeakKeyDictionary[Table, _Count] = weakref.WeakKeyDictionary()
        self._columns: weakref.WeakKeyDictionary[Table, dict[object, list[list[str]]]] = weakref.WeakKeyDictionary()
        self._since = clock()

    def measure(self, tables: set[Table]) -> None:
        """Compute the rates since the last call; count for ``tables`` from now on."""
        now = self._clock()
        seconds, self._since = max(now - self._since, 1e-3), now
        for table, count in tuple(self._counts.items()):
            if table in tables:
                count.rate = count.taken() / seconds
            else:
                count.stop()
                del self._counts[table]
        for table in tables:
            if table not in self._counts:
                self._counts[table] = _Count(table)

    def of(self, table: Table) -> float:
        """Rows a second, to three digits."""
        count = self._counts.get(table)
        return 0.0 if count is None else float(f"{count.rate:.3g}")

    def columns(self, table: Table, shown: frozenset[str] | None) -> list[list[str]]:
        """Names and types of columns; the same list each time."""
        known = self._columns.setdefault(table, {})
        found = known.get(shown)
        if found is None:
            pairs = zip(table.schema.names, table.schema.types, strict=True)
            named = [[name, str(kind)] for name, kind in pairs if shown is None or name in shown]
            found = known[shown] = named[:_MOST_COLUMNS]
        return found


class _Count:
    """Counts the changed rows of one table."""

    def __init__(self, table: Table) -> None:
        self.rate = 0.0
        self._lock = threading.Lock()
        self._rows = 0
        self.stop = table.add_listener(partial(_count, weakref.ref(self)))

    def add(self, rows: int) -> None:
        """Add the number of rows that an update has changed."""
        with self._lock:
            self._rows += rows

    def taken(self) -> int:
        """The rows since the last call."""
        with self._lock:
            rows, self._rows = self._rows, 0
            return rows


def _count(count: weakref.ref[_Count], update: TableUpdate, *_: object) -> None:
    held = count()
    if held is not None:
        modified = {id(rows): rows.size for rows in update.modified}  # columns mostly share one row set
        held.add(update.added.size + update.removed.size + max(modified.values(), default=0))


def _message(entries: Iterable[dict[str, Any]], dropped: Iterable[str], *, is_all: bool = False) -> str:
    told: dict[str, Any] = {"type": "tables", "tables": list(entries)}
    if is_all:
        told["all"] = True
    else:
        told["dropped"] = list(dropped)
    return json_text(told)
