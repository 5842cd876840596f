"""What a principal may see and do: the one place where a call looks up a table.

Without roles every principal may do everything. With roles a right that no role of a principal grants is denied, and a
table on which it has no right at all is unknown to it: the same error as for a name that does not exist, decided by the
name alone, before the catalog is asked.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import translate
from typing import Final

from barrage_server.arguments import shown, text
from barrage_server.engine import Table
from barrage_server.errors import ForbiddenError, InvalidRequestError, UnknownTableError
from barrage_server.public import public
from barrage_server.server.catalog import Catalog
from barrage_server.server.principal import Principal

__all__ = ["AccessControl", "Right", "Role", "checked_roles"]


@public
class Right(StrEnum):
    """What a role may allow on the tables that it names. Any of them lets one see columns and size of a table."""

    LIST = "list"
    """See the table in listings and suggestions."""
    READ = "read"
    """Download, subscribe, take snapshots."""
    PUBLISH = "publish"
    """Write rows, staged ones too, and ask for one's last batch."""
    CREATE = "create"
    """Make a table of that name."""
    DROP = "drop"
    """Take the table away."""
    STATISTICS = "statistics"
    """See its figures, those of its subscriptions, and the totals of the server."""


_NONE: Final[frozenset[Right]] = frozenset()


@public
@dataclass(frozen=True, slots=True)
class Role:
    """Rights on tables.

    Attributes:
        tables: patterns that match whole names, upper and lower case as written: ``*`` is any text, ``?`` one
            character, ``[abc]`` one of these.
        rights: what is allowed on these tables, by name: ``list``, ``read``, ``publish``, ``create``, ``drop``,
            ``statistics``.

    >>> Role(tables=["fx_*"], rights=["list", "read"])

    """

    tables: Iterable[str]
    rights: Iterable[Right | str]

    def __post_init__(self) -> None:
        for given, what in ((self.tables, "tables"), (self.rights, "rights")):
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise InvalidRequestError(f"{what} of a role must be a sequence of strings, not {shown(given)}.")
        object.__setattr__(self, "tables", tuple(text(pattern, "A pattern of tables") for pattern in self.tables))
        object.__setattr__(self, "rights", frozenset(_right(name) for name in self.rights))


def _right(name: object) -> Right:
    try:
        return Right(str(name))
    except ValueError:
        known = ", ".join(Right)
        raise InvalidRequestError(f"There is no right {shown(name)}; there are: {known}.") from None


class _Grant:
    """A role, compiled."""

    __slots__ = ("matches", "rights")

    def __init__(self, role: Role) -> None:
        every = "|".join(translate(pattern) for pattern in role.tables)
        # a role without tables matches none
        self.matches: Final = re.compile(every or r"(?!)").fullmatch
        self.rights: Final = frozenset(_right(name) for name in role.rights)


class AccessControl:
    """Decides what principals may see and do. Methods may be called from any thread.

    Args:
        catalog: the tables.
        roles: the roles by name; none: every principal may do everything.

    """

    def __init__(self, catalog: Catalog, roles: Mapping[str, Role] | None = None) -> None:
        self._catalog = catalog
        self._grants = _compiled(roles)
        self._roles = dict(roles or {})
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
        grants = _compiled(roles)
        if self._grants and not grants:
            raise InvalidRequestError("A server with roles keeps some: without any, every caller may do everything.")
        self._grants, self._roles = grants, dict(roles or {})
        with self._lock:
            watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher()

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

    def get(self, principal: Principal, name: str, *rights: Right) -> Table:
        """The table of that name, for what needs these rights, or any right when none is given.

        Raises:
            UnknownTableError: there is no such table, or the principal has no right on it.
            ForbiddenError: it lacks one of the rights.

        """
        if not self._grants:
            return self._catalog.get(name)
        self.check(principal, name, *rights)
        table = self._catalog.find(name)
        if table is None:
            raise self.unknown(principal, name)
        return table

    def find(self, principal: Principal, name: str) -> Table | None:
        """The table of that name; ``None`` when there is none, or the principal has no right on it."""
        if self._grants and not self.rights(principal, name):
            return None
        return self._catalog.find(name)

    def tables(self, principal: Principal, right: Right = Right.LIST) -> tuple[Table, ...]:
        """The tables on which ``principal`` has that right, by name."""
        tables = self._catalog.tables()
        if not self._grants:
            return tables
        return tuple(table for table in tables if right in self.rights(principal, table.name))

    def check_publish(self, principal: Principal, name: str) -> None:
        """Raise unless ``principal`` may write rows to that table, and make it if there is none.

        Raises:
            UnknownTableError: it has no right on a table of that name.
            ForbiddenError: it lacks the right to publish, or there is no such table, and it lacks the right to make it.

        """
        if not self._grants:
            return
        self.check(principal, name, Right.PUBLISH)
        if self._catalog.find(name) is None and not self.allows(principal, name, Right.CREATE):
            raise ForbiddenError(
                f"There is no table '{name[:100]}', and the right 'create' on it is missing: no role of "
                f"'{principal.name}' has it."
            )

    def unknown(self, principal: Principal, name: str) -> UnknownTableError:
        """The error for a name without a table, as far as ``principal`` knows; suggests tables that it may list."""
        names = (table.name for table in self.tables(principal))
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


_EVERY: Final[frozenset[Right]] = frozenset(Right)


def checked_roles(roles: Mapping[str, Role] | None) -> dict[str, Role]:
    """``roles``, or none; InvalidRequestError when they are anything else than roles by name."""
    if roles is None:
        return {}
    if not isinstance(roles, Mapping):
        raise InvalidRequestError(f"roles must map names to bs.Role, not be a {type(roles).__name__}.")
    for name, role in roles.items():
        if not isinstance(name, str) or not isinstance(role, Role):
            raise InvalidRequestError(f"roles must map names to bs.Role; {shown(name)} has a {type(role).__name__}.")
    return dict(roles)


def _compiled(roles: Mapping[str, Role] | None) -> dict[str, _Grant]:
    return {name: _Grant(role) for name, role in checked_roles(roles).items()}
