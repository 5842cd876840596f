"""What a principal may see and do: the one place where a call looks up a table.

Without roles every principal may do everything. With roles a right that no role of a principal grants is denied, and a
table on which it has no right at all is unknown to it: the same error as for a name that does not exist, decided by the
name alone, before the catalog is asked.

Roles may show a part of a table. A call then gets that part in place of the table, whatever it does with it: the rest
is not there. A table of which a principal's roles show nothing, because they do not fit it, is unknown to it, too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from barrage_server.arguments import text
from barrage_server.engine import Table
from barrage_server.engine.restricted import RestrictedTable, Restriction, source_of
from barrage_server.errors import (
    BarrageError,
    ForbiddenError,
    InvalidRequestError,
    UnavailableError,
    UnknownTableError,
)
from barrage_server.log import Throttle, note
from barrage_server.server.catalog import Catalog
from barrage_server.server.principal import Principal
from barrage_server.server.roles import Grant, Right, Role, checked_roles, combined, compiled, log_unknown_columns
from barrage_server.server.table_parts import TableParts

__all__ = ["AccessControl", "Right", "Role", "checked_roles"]

logger = logging.getLogger("barrage_server.server")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a principal sees of a table.

    Attributes:
        restriction: a part of it; ``None`` with ``is_unknown`` unset: everything.
        is_unknown: whether it sees nothing at all.

    """

    restriction: Restriction | None = None
    is_unknown: bool = False


_FAILURES: Final = Throttle(20, 0.2)
_LOGGED: Final = 1000  # characters of a name that a client asks for
_NONE: Final[frozenset[Right]] = frozenset()
_ALL: Final = _Seen()
_UNKNOWN: Final = _Seen(is_unknown=True)


class AccessControl:
    """Decides what principals may see and do. Methods may be called from any thread.

    Args:
        catalog: the tables.
        roles: the roles by name; none: every principal may do everything.

    """

    def __init__(self, catalog: Catalog, roles: Mapping[str, Role] | None = None) -> None:
        self._catalog = catalog
        self._grants = compiled(roles)
        self._restricts = any(grant.restriction is not None for grant in self._grants.values())
        self._roles = dict(roles or {})
        self._parts = TableParts()
        # whether the restriction of a role fits a table, by role
        self._fitting: WeakKeyDictionary[Table, dict[Grant, bool]] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._watchers: list[Callable[[], object]] = []

    @property
    def is_open(self) -> bool:
        """Whether there are no roles, so that every principal may do everything."""
        return not self._grants

    @property
    def roles(self) -> Mapping[str, Role]:
        """The roles by name."""
        return self._roles

    def replace(self, roles: Mapping[str, Role] | None) -> None:
        """Use other roles from now on. Streams that they no longer allow end with the next housekeeping.

        Raises:
            InvalidRequestError: there were roles, and would be none, which would allow everything.

        """
        grants = compiled(roles)
        if self._grants and not grants:
            raise InvalidRequestError("A server with roles keeps some: without any, every caller may do everything.")
        self._restricts = self._restricts or any(grant.restriction is not None for grant in grants.values())
        self._grants, self._roles = grants, dict(roles or {})
        with self._lock:
            self._fitting = WeakKeyDictionary()
        self.check_tables()
        with self._lock:
            watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher()

    @property
    def restricts(self) -> bool:
        """Whether there are roles that show parts of tables."""
        return self._restricts

    def rights(self, principal: Principal, name: str) -> frozenset[Right]:
        """What ``principal`` may do with a table of that name, whether or not there is one."""
        grants = self._grants
        if not grants:
            return _EVERY
        held = _NONE
        for role in principal.role_names:
            grant = grants.get(role)
            if grant is not None and grant.matches(name):
                held |= grant.rights
        return held

    def allows(self, principal: Principal, name: str, right: Right) -> bool:
        """Whether ``principal`` has the right on a table of that name."""
        return not self._grants or right in self.rights(principal, name)

    def check(self, principal: Principal, name: str, *rights: Right) -> None:
        """Raise unless ``principal`` has these rights, or any right when none is given.

        Raises:
            UnknownTableError: it has no right on a table of that name: it cannot know whether there is one.
            ForbiddenError: it lacks one of the rights.

        """
        if not self._grants:
            return
        held = self.rights(principal, text(name, "A table's name"))
        if not held:
            raise self.unknown(principal, name)
        for right in rights:
            if right not in held:
                raise ForbiddenError(
                    f"The right '{right}' on table '{name[:100]}' is missing: no role of '{principal.name}' has it."
                )

    def check_any(self, principal: Principal, right: Right) -> None:
        """Raise ForbiddenError unless ``principal`` has the right on some tables."""
        grants = self._grants
        if grants and not any(right in grants[role].rights for role in principal.role_names if role in grants):
            raise ForbiddenError(f"The right '{right}' is missing: no role of '{principal.name}' has it.")

    def allows_everything(self, principal: Principal) -> bool:
        """Whether ``principal`` has every right on every table, by one of its roles."""
        grants = self._grants
        return not grants or any(grants[role].is_everything for role in principal.role_names if role in grants)

    def check_everything(self, principal: Principal, doing: str) -> None:
        """Raise ForbiddenError unless :meth:`allows_everything`.

        Args:
            principal: the caller.
            doing: what it is about to do, for the text.

        """
        if not self.allows_everything(principal):
            raise ForbiddenError(
                f"'{principal.name}' may not {doing}: that takes a role with every right on all tables (tables = "
                f"['*'])."
            )

    def get(self, principal: Principal, name: str, *rights: Right) -> Table:
        """The table of that name, or the part of it that the principal sees.

        May take as long as it takes to read the table; see :meth:`takes_long`.

        Args:
            principal: the caller.
            name: the name of the table.
            rights: those that the principal must have on it; any one is enough when none is given.

        Raises:
            UnknownTableError: there is no such table, or the principal has no right on it, or sees nothing of it.
            ForbiddenError: it lacks one of the rights.

        """
        note(table=name[:_LOGGED])
        if not self._grants:
            return self._catalog.get(name)
        self.check(principal, name, *rights)
        table = self._catalog.find(name)
        seen = None if table is None else self.part(principal, table)
        if seen is None:
            raise self.unknown(principal, name)
        return seen

    def find(self, principal: Principal, name: str) -> Table | None:
        """The same; ``None`` when there is none, or the principal has no right on it, or sees nothing of it."""
        if self._grants and not self.rights(principal, name):
            return None
        table = self._catalog.find(name)
        return None if table is None else self.part(principal, table)

    def part(self, principal: Principal, table: Table) -> Table | None:
        """What the principal sees of a table on which it has a right: all of it, a part, or nothing."""
        seen = self._seen(principal, table)
        if seen.restriction is None:
            return None if seen.is_unknown else table
        try:
            return self._parts.get(table, seen.restriction)
        except Exception as error:  # a function of the operator's, which may raise anything: nothing is shown then
            if (held_back := _FAILURES.admit()) is not None:
                told = error if isinstance(error, BarrageError) else type(error).__name__
                more = f" (and {held_back:,} more, not shown)" if held_back else ""
                logger.error(
                    "table %s is not shown to %s: the condition of a role failed: %s%s",
                    table.name,
                    principal.name,
                    told,
                    more,
                    extra={"table": table.name},
                )
            return None

    def restriction(self, principal: Principal, table: Table) -> Restriction | None:
        """The part of a table that the principal sees, of one on which it has a right; ``None``: all of it."""
        return self._seen(principal, table).restriction

    def takes_long(self, principal: Principal, name: str) -> bool:
        """Whether :meth:`get` of that table has to read it, so that it should not be called on an event loop."""
        if not self._restricts or not self.rights(principal, name):
            return False
        table = self._catalog.find(name)
        if table is None:
            return False
        restriction = self._seen(principal, table).restriction
        return restriction is not None and self._parts.find(table, restriction) is None

    def check_shown(self, principal: Principal, name: str, restriction: Restriction | None) -> None:
        """Raise unless the principal still sees that part of a table, which it was given.

        Raises:
            UnavailableError: it sees another part of it, or nothing.

        """
        table = self._catalog.find(name) if self._restricts else None
        if table is not None:
            self._check_seen(principal, table, restriction)

    def check_table(self, principal: Principal, table: Table, *rights: Right) -> None:
        """Check a table that the principal was given, or a part of one, when it uses it again.

        Raises:
            UnknownTableError: it has no right on it any more.
            ForbiddenError: it lacks one of the rights.
            UnavailableError: it sees another part of it, or nothing.

        """
        self.check(principal, table.name, *rights)
        if self._restricts:  # the table itself, not one found by its name: it may have been dropped since
            restriction = table.restriction if isinstance(table, RestrictedTable) else None
            self._check_seen(principal, source_of(table), restriction)

    def tables(self, principal: Principal, right: Right = Right.LIST) -> tuple[Table, ...]:
        """The tables on which ``principal`` has that right, by name.

        Where it sees only a part of a table, the part, which may take as long as it takes to read the table.
        """
        tables = self._whole(principal, right)
        if not self._restricts:
            return tables
        return tuple(seen for table in tables if (seen := self.part(principal, table)) is not None)

    def named(self, principal: Principal, right: Right = Right.LIST) -> tuple[Table, ...]:
        """The tables of :meth:`tables`, whole: for their names alone.

        Quick. A table of which a function of a role shows a part is left out unless that part is there,
        because the function may fail; :meth:`call_functions` makes such parts.
        """
        tables = self._whole(principal, right)
        if not self._restricts:
            return tables
        return tuple(table for table in tables if self._has_name(principal, table))

    def call_functions(self, principal: Principal, right: Right = Right.LIST) -> None:
        """Make the parts of tables that functions of roles show, for :meth:`named`.

        May take as long as it takes to read these tables.
        """
        if self._restricts:
            for table in self._whole(principal, right):
                if not self._has_name(principal, table):
                    self.part(principal, table)

    def _has_name(self, principal: Principal, table: Table) -> bool:
        restriction = self._seen(principal, table).restriction
        return restriction is None or not restriction.has_functions or self._parts.find(table, restriction) is not None

    def _whole(self, principal: Principal, right: Right) -> tuple[Table, ...]:
        tables = self._catalog.tables()
        if not self._grants:
            return tables
        return tuple(
            table
            for table in tables
            if right in self.rights(principal, table.name) and not self._seen(principal, table).is_unknown
        )

    def check_publish(self, principal: Principal, name: str) -> None:
        """Raise unless ``principal`` may write rows to that table, and make it if there is none.

        Raises:
            UnknownTableError: it has no right on a table of that name.
            ForbiddenError: it lacks the right to publish, or there is no such table, and it lacks the right to make it.

        """
        if not self._grants:
            return
        self.check(principal, name, Right.PUBLISH)
        if self._catalog.find(name) is None:
            self.check_new(principal, name)

    def check_new(self, principal: Principal, name: str) -> None:
        """Raise ForbiddenError unless ``principal`` may make the table of that name, which is not there."""
        if not self.allows(principal, name, Right.CREATE):
            raise ForbiddenError(
                f"There is no table '{name[:100]}', and the right 'create' on it is missing: no role of "
                f"'{principal.name}' has it."
            )

    def unknown(self, principal: Principal, name: str) -> UnknownTableError:
        """The error for a name without a table, as far as ``principal`` knows; suggests tables that it may list."""
        # not the name itself: there may be such a table, of which nothing is shown
        names = (table.name for table in self.named(principal) if table.name != name)
        return self._catalog.unknown(name, names)

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed``, which must be quick, when :meth:`tables` may have another result; returns a remover."""
        stop = self._catalog.watch(changed)
        with self._lock:
            self._watchers.append(changed)

        def remove() -> None:
            stop()
            with self._lock:
                self._watchers.remove(changed)

        return remove

    def tidy(self, now: float) -> None:
        """Forget parts of tables that were not asked for lately. To be called about once a second."""
        if self._restricts:
            self._parts.tidy(now)

    def _check_seen(self, principal: Principal, table: Table, restriction: Restriction | None) -> None:
        if self._seen(principal, table) != _Seen(restriction):
            raise UnavailableError(f"What you may see of table '{table.name}' has changed. Ask for it again.")

    def _seen(self, principal: Principal, table: Table) -> _Seen:
        """What the principal sees of a table on which it has a right."""
        if not self._restricts:
            return _ALL
        grants = self._grants
        held = [grants[role] for role in sorted(principal.role_names) if role in grants]
        held = [grant for grant in held if grant.matches(table.name)]
        # the part that one may read is the one that is listed and described, even if another role shows more of that
        held = [grant for grant in held if Right.READ in grant.rights] or held
        if any(grant.restriction is None for grant in held):
            return _ALL
        fitting = [grant for grant in held if self._fits(grant, table)]
        if not fitting:
            return _UNKNOWN
        restriction = combined([grant.restriction for grant in fitting if grant.restriction is not None])
        columns = restriction.columns
        if columns is not None and columns.isdisjoint(table.schema.names):
            return _UNKNOWN
        return _Seen(restriction)

    def _fits(self, grant: Grant, table: Table) -> bool:
        """Whether what a role shows can be shown of this table; logs it once when it cannot."""
        with self._lock:
            known = self._fitting.setdefault(table, {})
            found = known.get(grant)
            if found is not None:
                return found
        reason = grant.misfit(table.schema)
        with self._lock:
            is_first = grant not in known
            known[grant] = not reason
        if reason and is_first:
            logger.error(
                "role %s shows nothing of table %s: %s", grant.role, table.name, reason, extra={"table": table.name}
            )
        return not reason

    def check_tables(self) -> None:
        """Say in the log which roles do not fit the tables that there are, and which of their columns none has.

        A role shows nothing of a table that it does not fit.
        """
        if not self._restricts:
            return
        tables = list(self._catalog.tables())
        for table in tables:
            for grant in self._grants.values():
                if grant.restriction is not None and grant.matches(table.name):
                    self._fits(grant, table)
        log_unknown_columns(self._roles, {table.name: table.schema for table in tables})


_EVERY: Final[frozenset[Right]] = frozenset(Right)
