"""The principal of a call: a name, roles, and an expiry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from barrage_server.arguments import listed_names, number, text
from barrage_server.public import public

__all__ = ["ANONYMOUS", "OPEN", "SHARED", "UNAUTHENTICATED", "Principal"]

ANONYMOUS: Final = "anonymous"
OPEN: Final = "open"
"""Kind of credentials on a server that accepts every caller."""
SHARED: Final = "shared"
"""Kind of a token that callers share."""
_NAMESPACES: Final = {
    "token": "file",
    "password": "file",
    "certificate": "file",
    "any certificate": "certificate",
    "key": "web",
}
"""Namespace of names, by kind of credentials: callers with the same name and namespace are one principal."""


@public
@dataclass(frozen=True, slots=True)
class Principal:
    """A caller with valid credentials.

    Attributes:
        name: its name, in logs and statistics.
        roles: names of its roles. Unknown ones grant nothing.
        expires: Unix time in seconds at which its credentials expire, and its streams and sessions end; ``None``:
            never.
        credential: identifies the caller's credentials, as ``kind:id``, so that their revocation ends its streams. Not
            secret; left empty by functions that are passed as ``token=``.

    >>> Principal("desk-7", roles=["trader"])

    """

    name: str
    roles: Iterable[str] = frozenset()
    expires: float | None = None
    credential: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        text(self.name, "name")
        object.__setattr__(self, "roles", frozenset(listed_names(self.roles, "roles")))
        if self.expires is not None:
            number(self.expires, "expires")

    @property
    def role_names(self) -> frozenset[str]:
        """The names of its roles, as a set."""
        assert isinstance(self.roles, frozenset)
        return self.roles

    @property
    def identity(self) -> str:
        """Distinguishes it from other principals, whatever its present credentials.

        Callers of an open server, and callers with a shared token, choose their names: all of them are one.
        """
        kind = self.credential.partition(":")[0]
        if kind in (OPEN, SHARED):
            return kind
        return f"{_NAMESPACES.get(kind, 'own')}:{self.name}"

    @property
    def owner(self) -> str:
        """:attr:`identity`; empty on an open server, where names belong to no caller."""
        return "" if self.identity == OPEN else self.identity

    def is_expired(self, now: float) -> bool:
        """Whether its credentials have expired at the Unix time ``now``."""
        return self.expires is not None and now >= self.expires


UNAUTHENTICATED: Final = Principal(ANONYMOUS)
"""The caller of a call before its credentials are checked. It has no rights."""
