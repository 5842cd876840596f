"""A token in a file, which callers share."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from barrage_server.arguments import listed_names
from barrage_server.errors import InvalidRequestError
from barrage_server.public import public
from barrage_server.server.authentication import Credentials, SharedTokens
from barrage_server.server.principal import Principal
from barrage_server.server.watched_file import WatchedFile

__all__ = ["TokenFile", "read_token"]

_MOST_CHARACTERS: Final = 1 << 16


@public
class TokenFile:
    """An authenticator by the token in the first line of a file.

    The file is read again when it changes. Streams of callers with the former token end then. When it cannot be read,
    or has no token, the log says so, and the former token stays valid. Methods may be called from any thread.

    Args:
        path: the file.
        roles: the roles of the callers.

    Raises:
        InvalidRequestError: ``roles`` is no list of names, the file cannot be read, or its first line is blank.

    >>> server = bs.Server(token=bs.TokenFile("/run/secrets/barrage"))

    """

    def __init__(self, path: str | os.PathLike[str], roles: Collection[str] = ()) -> None:
        self._roles = frozenset(listed_names(roles, "roles"))
        self._file = WatchedFile(path, lambda file: SharedTokens([read_token(file)], self._roles), "tokens")

    def __repr__(self) -> str:
        return f"<TokenFile {str(self._file.path)!r}>"

    def __call__(self, credentials: Credentials) -> Principal:
        """The caller; AuthenticationError when the token is missing or wrong."""
        return self._file.content(credentials)

    quick = __call__

    def holds(self, principal: Principal) -> bool:
        """Whether the file still has the token of ``principal``."""
        return self._file.content.holds(principal)

    @property
    def named_roles(self) -> frozenset[str]:
        """The names of the roles of its callers."""
        return self._roles

    def refresh(self, *, force: bool = False) -> None:
        """Read the file again if it has changed, or in any case with ``force``.

        Called about once a second.
        """
        self._file.refresh(force=force)

    def reread(self) -> tuple[frozenset[str], Callable[[], None]]:
        """Read the file again, without applying it.

        Returns:
            The roles of its callers, and a function that applies its token.

        Raises:
            InvalidRequestError: the file cannot be read, or its first line is blank.

        """
        return self._roles, self._file.reread()[1]


def read_token(path: Path) -> str:
    """The token in the first line of a file.

    Raises:
        InvalidRequestError: the file cannot be read, or its first line is blank, or nothing that a header can carry.

    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            line = file.readline(_MOST_CHARACTERS)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidRequestError(f"The token file {str(path)!r} cannot be read: {reason}.") from None
    token = line.strip()
    if not token:
        raise InvalidRequestError(f"The token file {str(path)!r} has no token in its first line.")
    if not (token.isascii() and token.isprintable()) or len(line) == _MOST_CHARACTERS:
        raise InvalidRequestError(
            f"The first line of the token file {str(path)!r} is no token: these are ASCII letters, digits and signs, "
            f"fewer than {_MOST_CHARACTERS:,}."
        )
    return token
