"""Who makes a call: a name, roles, and an end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from barrage_server.arguments import text
from barrage_server.errors import InvalidRequestError
from barrage_server.public import public

__all__ = ["ANONYMOUS", "Principal"]

ANONYMOUS: Final = "anonymous"


@public
@dataclass(frozen=True, slots=True)
class Principal:
    """A caller with valid credentials.

    Attributes:
        name: its name, in logs and statistics.
        roles: names of its roles. Unknown ones grant nothing.
        expires: Unix time in seconds from which its credentials are invalid; ``None``: no end. Its streams and sessions
            end then.
        credential: identifies the credentials it came with, so that their revocation ends its streams. Not secret.

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

    def is_expired(self, now: float) -> bool:
        """Whether it has ended at the Unix time ``now``."""
        return self.expires is not None and now >= self.expires
