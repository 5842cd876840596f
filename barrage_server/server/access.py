"""Access control: rights of principals on tables, and the parts that they see.

Every call looks its tables up here. Without roles every principal may do everything. With roles, a right that no role
of a principal grants is denied. A table on which a principal has no right is unknown to it: the error is the same as
for a name that does not exist, and is decided by the name alone, before the catalog is asked.

A role may show a part of a table. All calls of its principals then get that part in place of the table. A table is
also unknown to a principal when the restrictions of its roles do not fit the table's schema.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from barrage_server.arguments import shown, text
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
    """The part of a table that a principal sees.

    Attributes:
        restriction: the part; ``None`` with ``is_unknown`` unset: the whole table.
        is_unknown: whether the principal sees nothing of the table.

    """

    restriction: Restriction | None = None
    is_unknown: bool = False


_FAILURES: Final = Throttle(20, 0.2)
_LOGGED: Final = 1000  # most characters of a requested name in the log
_MOST_UNDEFINED: Final = 100  # undefined roles that the log names
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
        self._undefined: set[str] = set()  # roles of callers that are in the log

    @property
    def is_open(self) -> bool:
        """Whether there are no roles, so that every principal may do everything."""
        return not self._grants

    @property
    def roles(self) -> Mapping[str, Role]:
        """The roles by name."""
        return self._roles

    def replace(self, roles: Mapping[str, Role] | None) -> None:
        """Replace the roles. Streams that they forbid end with the next housekeeping.

        Raises:
            InvalidRequestError: there are roles now, and ``roles`` has none, which would allow everything.

        """
        grants = compiled(roles)
        if self._grants and not grants:
            raise InvalidRequestError("A server with roles keeps some: without any, every caller may do everything.")
        self._restricts = self._restricts or any(grant.restriction is not None for grant in grants.values())
        self._grants, self._roles = grants, dict(roles or {})
        with self._lock:
            self._fitting = WeakKeyDictionary()
            self._undefined = set()
        self.check_tables()
        with self._lock:
            watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher()

    @property
    def restricts(self) -> bool:
        """Whether any role, present or former, shows a part of tables."""
        return self._restricts

    def rights(self, principal: Principal, name: str) -> frozenset[Right]:
        """The rights of ``principal`` on a table of that name, which need not exist."""
        grants = self._grants
        if not grants:
            return _EVERY
        held = _NONE
        for role in principal.role_names:
            grant = grants.get(role)
            if grant is None:
                self._tell_undefined(role)
            elif grant.matches(name):
                held |= grant.rights
        return held

    def _tell_undefined(self, role: str) -> None:
        """Log an undefined role once, for a bounded number of roles: tokens name them."""
        undefined = self._undefined
        if role in undefined or len(undefined) > _MOST_UNDEFINED:
            return
        with self._lock:
            if role in undefined or len(undefined) > _MOST_UNDEFINED:
                return
            undefined.add(role)
        if len(undefined) > _MOST_UNDEFINED:
            logger.warning("callers name further roles that are not defined")
            return
        logger.warning("a caller has the role %s, which is not defined, and allows nothing", shown(role))

    def allows(self, principal: Principal, name: str, right: Right) -> bool:
        """Whether ``principal`` has the right on a table of that name."""
        return not self._grants or right in self.rights(principal, name)

    def check(self, principal: Principal, name: str, *rights: Right) -> None:
        """Raise unless ``principal`` has these rights, or any right when none is given.

        Raises:
            UnknownTableError: the principal has no right on a table of that name, so that it cannot learn whether
                there is one.
            ForbiddenError: the principal lacks one of the rights.

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
        """Raise ForbiddenError unless ``principal`` has the right on some table."""
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
            doing: the action that the text of the error names.

        """
        if not self.allows_everything(principal):
            raise ForbiddenError(
                f"'{principal.name}' may not {doing}: that takes a role with every right on all tables (tables = "
                f"['*'])."
            )

    def get(self, principal: Principal, name: str, *rights: Right) -> Table:
        """The table of that name, or the part of it that the principal sees.

        May have to read the whole table; see :meth:`takes_long`.

        Args:
            principal: the caller.
            name: the name of the table.
            rights: the rights that the principal must have on the table; without any, one right of any kind is enough.

        Raises:
            UnknownTableError: there is no such table, or the principal has no right on it, or sees nothing of it.
            ForbiddenError: the principal lacks one of the rights.

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
        """The table as :meth:`get` returns it; ``None`` when it is unknown to the caller."""
        if self._grants and not self.rights(principal, name):
            return None
        table = self._catalog.find(name)
        return None if table is None else self.part(principal, table)

    def part(self, principal: Principal, table: Table) -> Table | None:
        """The table, or the part that the principal sees; ``None`` when it sees nothing.

        The principal must have a right on the table.
        """
        seen = self._seen(principal, table)
        if seen.restriction is None:
            return None if seen.is_unknown else table
        try:
            return self._parts.get(table, seen.restriction)
        except Exception as error:  # a function of a role may raise anything: nothing is shown then
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
        """The restriction of a table for the principal; ``None`` for the whole table.

        The principal must have a right on the table.
        """
        return self._seen(principal, table).restriction

    def takes_long(self, principal: Principal, name: str) -> bool:
        """Whether :meth:`get` has to read that table: too slow for an event loop."""
        if not self._restricts or not self.rights(principal, name):
            return False
        table = self._catalog.find(name)
        if table is None:
            return False
        restriction = self._seen(principal, table).restriction
        return restriction is not None and self._parts.find(table, restriction) is None

    def check_shown(self, principal: Principal, name: str, restriction: Restriction | None) -> None:
        """Raise unless the principal still sees that part of a table.

        Raises:
            UnavailableError: the principal now sees another part of the table, or nothing.

        """
        table = self._catalog.find(name) if self._restricts else None
        if table is not None:
            self._check_seen(principal, table, restriction)

    def check_table(self, principal: Principal, table: Table, *rights: Right) -> None:
        """Check again a table, or a part of one, that the principal holds.

        Raises:
            UnknownTableError: the principal has no right on the table any more.
            ForbiddenError: the principal lacks one of the rights.
            UnavailableError: the principal now sees another part of the table, or nothing.

        """
        self.check(principal, table.name, *rights)
        if self._restricts:  # not a table found by its name: this one may have been dropped since
            restriction = table.restriction if isinstance(table, RestrictedTable) else None
            self._check_seen(principal, source_of(table), restriction)

    def tables(self, principal: Principal, right: Right = Right.LIST) -> tuple[Table, ...]:
        """The tables on which ``principal`` has that right, in order of their names.

        A table of which the principal sees a part is replaced by that part, for which it may have to be read.
        """
        tables = self._whole(principal, right)
        if not self._restricts:
            return tables
        return tuple(seen for table in tables if (seen := self.part(principal, table)) is not None)

    def named(self, principal: Principal, right: Right = Right.LIST) -> tuple[Table, ...]:
        """The tables of :meth:`tables`, whole and without reading: for their names.

        A table of which a role's function chooses the part is left out until the part has been made, because the
        function may fail; :meth:`call_functions` makes such parts.
        """
        tables = self._whole(principal, right)
        if not self._restricts:
            return tables
        return tuple(table for table in tables if self._has_name(principal, table))

    def call_functions(self, principal: Principal, right: Right = Right.LIST) -> None:
        """Make the parts of tables that functions of roles choose, for :meth:`named`.

        Reads these tables.
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
        """Raise unless ``principal`` may publish to that table, or make and publish it.

        Raises:
            UnknownTableError: the principal has no right on a table of that name.
            ForbiddenError: the principal lacks the right to publish, or the table does not exist and the principal
                lacks the right to create it.

        """
        if not self._grants:
            return
        self.check(principal, name, Right.PUBLISH)
        if self._catalog.find(name) is None:
            self.check_new(principal, name)

    def check_new(self, principal: Principal, name: str) -> None:
        """Raise ForbiddenError unless ``principal`` may create a table of that name."""
        if not self.allows(principal, name, Right.CREATE):
            raise ForbiddenError(
                f"There is no table '{name[:100]}', and the right 'create' on it is missing: no role of "
                f"'{principal.name}' has it."
            )

    def unknown(self, principal: Principal, name: str) -> UnknownTableError:
        """The error for a table unknown to ``principal``; suggests tables it may list."""
        # not the name itself: there may be such a table, of which nothing is shown
        names = (table.name for table in self.named(principal) if table.name != name)
        return self._catalog.unknown(name, names)

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed`` when :meth:`tables` may have changed; return a remover.

        ``changed`` must be quick.
        """
        stop = self._catalog.watch(changed)
        with self._lock:
            self._watchers.append(changed)

        def remove() -> None:
            stop()
            with self._lock:
                self._watchers.remove(changed)

        return remove

    def tidy(self, now: float) -> None:
        """Forget parts of tables not used lately. To be called about once a second."""
        if self._restricts:
            self._parts.tidy(now)

    def _check_seen(self, principal: Principal, table: Table, restriction: Restriction | None) -> None:
        if self._seen(principal, table) != _Seen(restriction):
            raise UnavailableError(f"What you may see of table '{table.name}' has changed. Ask for it again.")

    def _seen(self, principal: Principal, table: Table) -> _Seen:
        """The part that the principal sees of a table on which it has a right."""
        if not self._restricts:
            return _ALL
        grants = self._grants
        held = [grants[role] for role in sorted(principal.role_names) if role in grants]
        held = [grant for grant in held if grant.matches(table.name)]
        # listed and described is the part that may be read, even if a role without that right shows more
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
        """Whether the restriction of a role fits this table; logs a misfit once."""
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
        """Log the roles that do not fit a table, and their columns that no table has.

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
