"""Roles: rights on tables by patterns of names, and what of these tables they show."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import translate
from typing import Final

import pyarrow as pa

from barrage_server.arguments import names, shown, text
from barrage_server.engine.condition import Condition
from barrage_server.engine.restricted import Restriction
from barrage_server.engine.where import Predicate
from barrage_server.errors import InvalidRequestError
from barrage_server.public import public

__all__ = ["Grant", "Right", "Role", "checked_roles", "combined", "compiled", "log_unknown_columns", "misfits"]

logger = logging.getLogger("barrage_server.server")


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


_SHOWING: Final = frozenset({Right.LIST, Right.READ})


@public
@dataclass(frozen=True, slots=True)
class Role:
    """Rights on tables.

    Attributes:
        tables: patterns that match whole names, upper and lower case as written: ``*`` is any text, ``?`` one
            character, ``[abc]`` one of these.
        rights: what is allowed on these tables, by name: ``list``, ``read``, ``publish``, ``create``, ``drop``,
            ``statistics``. A role that shows a part of its tables has ``list`` and ``read`` only.
        where: the rows that are shown: a condition such as ``"region == 'EU' and price < 100"``, or a function from
            record batches with all columns to one boolean per row, which must depend on the values alone. ``None``:
            all rows. A table that the condition does not fit is not shown at all.
        columns: the names of the columns that are shown, as far as a table has them; ``None``: all. A table that has
            none of them is not shown at all.

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
        role: its name.
        matches: whether a name is one of its tables.
        rights: what it allows.
        restriction: what it shows of them; ``None``: everything.
        is_everything: whether it allows all there is on every table.

    """

    __slots__ = ("is_everything", "matches", "restriction", "rights", "role")

    def __init__(self, name: str, role: Role) -> None:
        every = "|".join(translate(pattern) for pattern in role.tables)
        self.role: Final = name
        # a role without tables matches none
        self.matches: Final = re.compile(every or r"(?!)").fullmatch
        self.rights: Final = frozenset(_right(right) for right in role.rights)
        self.restriction: Final = _restriction(role)
        self.is_everything: Final = "*" in role.tables and self.rights == frozenset(Right) and not self.restriction

    def misfit(self, schema: pa.Schema) -> str:
        """Why nothing can be shown of a table with this schema; empty when something can."""
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
    """What several restrictions show together: no value that none of them shows.

    Rows that one of them shows, if they show the same columns; columns that one of them shows, if they show the same
    rows. Where they differ in both, rows of one and columns of another must not come together: the rows that one of
    them shows, of the columns that all of them show, which may be none.
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
    """``roles``, or none; InvalidRequestError when they are anything else than roles by name."""
    if roles is None:
        return {}
    if not isinstance(roles, Mapping):
        raise InvalidRequestError(f"roles must map names to bs.Role, not be a {type(roles).__name__}.")
    for name, role in roles.items():
        if not isinstance(name, str) or not isinstance(role, Role):
            raise InvalidRequestError(f"roles must map names to bs.Role; {shown(name)} has a {type(role).__name__}.")
    return dict(roles)


def compiled(roles: Mapping[str, Role] | None) -> dict[str, Grant]:
    """Roles, compiled, by name. Raises what :func:`checked_roles` does."""
    return {name: Grant(name, role) for name, role in checked_roles(roles).items()}


def misfits(roles: Mapping[str, Role], table: str, schema: pa.Schema) -> list[tuple[str, str]]:
    """The roles whose conditions or columns a table of that name and schema does not have, and why."""
    found = []
    for name, grant in compiled(roles).items():
        if grant.matches(table) and (reason := grant.misfit(schema)):
            found.append((name, reason))
    return found


def log_unknown_columns(roles: Mapping[str, Role], schemas: Mapping[str, pa.Schema]) -> None:
    """Warn of columns that a role shows and that none of its tables has: they may be misspelt.

    Args:
        roles: the roles by name.
        schemas: the tables that there are, by name. A role that matches none of them, or fits none, is left out.

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
