"""Roles: rights on tables by patterns of names, and parts of tables to show."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa

from barrage_server.arguments import class_with_article, names, shown, text, unbroken
from barrage_server.engine.condition import Condition
from barrage_server.engine.restricted import Restriction
from barrage_server.engine.where import Predicate
from barrage_server.errors import InvalidRequestError
from barrage_server.public import public
from barrage_server.server.patterns import matcher

__all__ = ["Grant", "Right", "Role", "checked_roles", "combined", "compiled", "log_unknown_columns", "misfits"]

logger = logging.getLogger("barrage_server.server")


@public
class Right(StrEnum):
    """A right of a role on its tables. Every right includes seeing columns and size."""

    LIST = "list"
    """See the table in listings and suggestions."""
    READ = "read"
    """Download, subscribe, take snapshots."""
    PUBLISH = "publish"
    """Write rows, stage rows, and ask for one's last batch."""
    CREATE = "create"
    """Make a table of that name."""
    DROP = "drop"
    """Take the table away."""
    STATISTICS = "statistics"
    """See figures of the table and its subscriptions, and the totals of the server."""


_SHOWING: Final = frozenset({Right.LIST, Right.READ})


@public
@dataclass(frozen=True, slots=True)
class Role:
    """Rights on tables.

    Attributes:
        tables: case-sensitive patterns that match whole names: ``*`` matches any text, ``?`` one character, ``[abc]``
            one of these characters.
        rights: the rights on these tables: ``list``, ``read``, ``publish``, ``create``, ``drop``, ``statistics``. A
            role that shows a part of its tables has ``list`` and ``read`` only.
        where: the rows that are shown: a condition such as ``"region == 'EU' and price < 100"``, or a function from
            record batches with all columns to one boolean per row, which must depend on the values alone. ``None``:
            all rows. A table that the condition does not fit is not shown at all.
        columns: the names of the columns that are shown, where a table has them; ``None``: all. A table that has none
            of them is not shown at all.

    >>> Role(tables=["fx_*"], rights=["list", "read"], where="desk == 7", columns=["pair", "price"])

    """

    tables: Iterable[str]
    rights: Iterable[Right | str]
    where: str | Predicate | None = None
    columns: Iterable[str] | None = None

    def __post_init__(self) -> None:
        for given, what in ((self.tables, "tables"), (self.rights, "rights")):
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise InvalidRequestError(f"{what} of a role must be a sequence of strings, not {shown(given)}.")
        object.__setattr__(self, "tables", tuple(text(pattern, "A pattern of tables") for pattern in self.tables))
        rights = frozenset(_right(name) for name in self.rights)
        object.__setattr__(self, "rights", rights)
        if isinstance(self.where, str):
            Condition(self.where)  # checks it
        elif self.where is not None and not callable(self.where):
            raise InvalidRequestError(f"where must be a condition or a function, not {shown(self.where)}.")
        if self.columns is not None:
            object.__setattr__(self, "columns", names(self.columns, "columns of a role"))
        if (self.where is not None or self.columns is not None) and not rights <= _SHOWING:
            excess = sorted(rights - _SHOWING)
            raise InvalidRequestError(
                f"A role with where or columns may have the rights list and read, and not {', '.join(excess)}: the "
                f"answers to other calls tell of all rows and columns. Give those to another role."
            )


def _right(name: object) -> Right:
    try:
        return Right(str(name))
    except ValueError:
        known = ", ".join(Right)
        raise InvalidRequestError(f"There is no right {shown(name)}; there are: {known}.") from None


class Grant:
    """A role, compiled.

    Attributes:
        role: the name of the role.
        matches: returns a match if a name is the name of one of its tables.
        rights: the rights on these tables.
        restriction: the part of them that it shows; ``None``: whole tables.
        is_everything: whether it grants every right on all tables.

    """

    __slots__ = ("is_everything", "matches", "restriction", "rights", "role")

    def __init__(self, name: str, role: Role) -> None:
        self.role: Final = name
        self.matches: Final = matcher(role.tables)
        self.rights: Final = frozenset(_right(right) for right in role.rights)
        self.restriction: Final = _restriction(role)
        self.is_everything: Final = "*" in role.tables and self.rights == frozenset(Right) and not self.restriction

    def misfit(self, schema: pa.Schema) -> str:
        """The reason why nothing of a table with this schema is shown; empty without one."""
        try:
            if self.restriction is not None:
                self.restriction.check(schema)
        except InvalidRequestError as error:
            return str(error)
        return ""


def _restriction(role: Role) -> Restriction | None:
    if role.where is None and role.columns is None:
        return None
    condition = Condition(role.where) if isinstance(role.where, str) else role.where
    conditions = frozenset(() if condition is None else (condition,))
    return Restriction(conditions, None if role.columns is None else frozenset(role.columns))


def combined(restrictions: Sequence[Restriction]) -> Restriction:
    """The union of several restrictions: it shows no value that none of them shows.

    Restrictions with the same columns: the rows that any of them shows. With the same rows: the columns that any of
    them shows. Otherwise the rows that any of them shows, but only the columns that all of them show, which may be
    none: rows of one restriction must not be shown with columns of another one.
    """
    conditions = [restriction.conditions for restriction in restrictions]
    columns = [restriction.columns for restriction in restrictions]
    if len(set(conditions)) == 1:
        return Restriction(conditions[0], _union(columns))
    rows = frozenset[Condition | Predicate]() if not all(conditions) else frozenset().union(*conditions)
    masks = [mask for mask in columns if mask is not None]
    return Restriction(rows, frozenset.intersection(*masks) if masks else None)


def _union(columns: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    found: frozenset[str] = frozenset()
    for mask in columns:
        if mask is None:
            return None
        found |= mask
    return found


def checked_roles(roles: Mapping[str, Role] | None) -> dict[str, Role]:
    """``roles`` as a dictionary; InvalidRequestError unless they are roles by name."""
    if roles is None:
        return {}
    if not isinstance(roles, Mapping):
        raise InvalidRequestError(f"roles must map names to bs.Role, not be {class_with_article(roles)}.")
    for name, role in roles.items():
        if not isinstance(name, str) or not isinstance(role, Role):
            raise InvalidRequestError(f"roles must map names to bs.Role; {shown(name)} has {class_with_article(role)}.")
        unbroken(name, f"The name {shown(name)} of a role")
    return dict(roles)


def compiled(roles: Mapping[str, Role] | None) -> dict[str, Grant]:
    """Roles, compiled, by name. Raises what :func:`checked_roles` does."""
    return {name: Grant(name, role) for name, role in checked_roles(roles).items()}


def misfits(roles: Mapping[str, Role], table: str, schema: pa.Schema) -> list[tuple[str, str]]:
    """The roles that match a table's name but do not fit its schema, with reasons."""
    found = []
    for name, grant in compiled(roles).items():
        if grant.matches(table) and (reason := grant.misfit(schema)):
            found.append((name, reason))
    return found


def log_unknown_columns(roles: Mapping[str, Role], schemas: Mapping[str, pa.Schema]) -> None:
    """Warn of columns of a role that none of its tables has: they may be misspelt.

    Args:
        roles: the roles by name.
        schemas: the schemas of all tables, by name. A role that matches no table, or fits none, is left out.

    """
    for name, grant in compiled(roles).items():
        if grant.restriction is None or grant.restriction.columns is None:
            continue
        fitting = [schema for table, schema in schemas.items() if grant.matches(table) and not grant.misfit(schema)]
        known = {field.name for schema in fitting for field in schema}
        missing = grant.restriction.columns - known
        if fitting and missing:
            told = ", ".join(map(repr, sorted(missing)))
            logger.warning("role %s shows columns that none of its tables has: %s", name, told)
