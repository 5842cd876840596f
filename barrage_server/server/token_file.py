"""A token in a file, which callers share."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from barrage_server.arguments import shown
from barrage_server.errors import InvalidRequestError
from barrage_server.public import public
from barrage_server.server.authentication import Credentials, SharedTokens
from barrage_server.server.file_stamp import file_stamp
from barrage_server.server.principal import Principal

__all__ = ["TokenFile", "read_token"]

logger = logging.getLogger("barrage_server.server")

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
        InvalidRequestError: the file cannot be read, or its first line is blank.

    >>> server = bs.Server(token=bs.TokenFile("/run/secrets/barrage"))

    """

    def __init__(self, path: str | os.PathLike[str], roles: Collection[str] = ()) -> None:
        try:
            self._path = Path(path)
        except TypeError:
            raise InvalidRequestError(f"path must be the path of a file, not {shown(path)}.") from None
        self._roles = frozenset(roles)
        self._lock = threading.Lock()
        self._seen = file_stamp(self._path)
        self._shared = self._read()

    def __repr__(self) -> str:
        return f"<TokenFile {str(self._path)!r}>"

    def __call__(self, credentials: Credentials) -> Principal:
        """The caller; AuthenticationError when the token is missing or wrong."""
        return self._shared(credentials)

    quick = __call__

    def holds(self, principal: Principal) -> bool:
        """Whether the file still has the token of ``principal``."""
        return self._shared.holds(principal)

    def refresh(self, *, force: bool = False) -> None:
        """Read the file again if it has changed, or in any case with ``force``.

        Called about once a second.
        """
        with self._lock:
            stamp = file_stamp(self._path)
            if stamp == self._seen and not force:
                return
            self._seen = stamp
            try:
                self._shared = self._read()
            except InvalidRequestError as error:
                logger.error("the token stays as it was: %s", error)
            else:
                logger.info("token read from %s", self._path)

    def reread(self) -> tuple[frozenset[str], Callable[[], None]]:
        """Read the file again, without applying it.

        Returns:
            The roles of its callers, and a function that applies its token.

        Raises:
            InvalidRequestError: the file cannot be read, or its first line is blank.

        """
        stamp, read = file_stamp(self._path), self._read()

        def apply() -> None:
            with self._lock:
                self._seen, self._shared = stamp, read

        return self._roles, apply

    def _read(self) -> SharedTokens:
        return SharedTokens([read_token(self._path)], self._roles)


def read_token(path: Path) -> str:
    """The token in the first line of a file.

    Raises:
        InvalidRequestError: the file cannot be read, or its first line is blank.

    """
    try:
        with path.open(encoding="utf-8") as file:
            token = file.readline(_MOST_CHARACTERS).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidRequestError(f"The token file {str(path)!r} cannot be read: {reason}.") from None
    if not token:
        raise InvalidRequestError(f"The token file {str(path)!r} has no token in its first line.")
    return token
