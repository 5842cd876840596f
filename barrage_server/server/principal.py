"""Who makes a call: a name, roles, and an end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from barrage_server.arguments import text
from barrage_server.errors import InvalidRequestError
from barrage_server.public import public

__all__ = ["ANONYMOUS", "OPEN", "SHARED", "UNAUTHENTICATED", "Principal"]

ANONYMOUS: Final = "anonymous"
OPEN: Final = "open"
"""Kind of the credentials of callers that are accepted with any."""
SHARED: Final = "shared"
"""Kind of a token that many callers have."""
_NAMESPACES: Final = {
    "token": "file",
    "password": "file",
    "certificate": "file",
    "any certificate": "certificate",
    "key": "web",
}
"""Where names come from, by the kind of credentials: two callers of one name and namespace are one principal."""


@public
@dataclass(frozen=True, slots=True)
class Principal:
    """A caller with valid credentials.

    Attributes:
        name: its name, in logs and statistics.
        roles: names of its roles. Unknown ones grant nothing.
        expires: Unix time in seconds from which its credentials are invalid; ``None``: no end. Its streams and sessions
            end then.
        credential: identifies the credentials it came with, as ``kind:id``, so that their revocation ends its streams.
            Not secret; left empty by functions that are passed as ``token=``.

    >>> Principal("desk-7", roles=["trader"])

    """

    name: str
    roles: Iterable[str] = frozenset()
    expires: float | None = None
    credential: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        text(self.name, "name")
        if isinstance(self.roles, str):
            raise InvalidRequestError(f"roles must be a sequence of names; write roles=[{self.roles!r}].")
        object.__setattr__(self, "roles", frozenset(self.roles))

    @property
    def role_names(self) -> frozenset[str]:
        """Its roles, as a set."""
        assert isinstance(self.roles, frozenset)
        return self.roles

    @property
    def identity(self) -> str:
        """What distinguishes it from other principals, also after it was given new credentials.

        Callers of an open server, and those with a shared token, choose their names: all of them are one.
        """
        kind = self.credential.partition(":")[0]
        if kind in (OPEN, SHARED):
            return kind
        return f"{_NAMESPACES.get(kind, 'own')}:{self.name}"

    @property
    def owner(self) -> str:
        """:attr:`identity`; empty on an open server, where the names of publishers belong to no caller."""
        return "" if self.identity == OPEN else self.identity

    def is_expired(self, now: float) -> bool:
        """Whether it has ended at the Unix time ``now``."""
        return self.expires is not None and now >= self.expires


UNAUTHENTICATED: Final = Principal(ANONYMOUS)
"""The caller of a call before its credentials are checked. It has no rights."""
