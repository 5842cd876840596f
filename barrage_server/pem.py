"""Certificates and keys in PEM, given as text or as the path of a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypeAlias

from barrage_server.errors import InvalidRequestError

__all__ = ["Pem", "read_pem"]

Pem: TypeAlias = bytes | str | os.PathLike[str]
"""PEM text, or the path of a PEM file."""

_MARK: Final = b"-----BEGIN "


def read_pem(given: Pem, what: str) -> bytes:
    """The PEM text of ``given``, or of the file at that path.

    Args:
        given: text with a ``-----BEGIN`` line, or the path of a file with one.
        what: the setting, for the text of an error.

    Raises:
        InvalidRequestError: the file does not exist, or has no PEM text.
    """
    text = given.encode() if isinstance(given, str) else given
    if isinstance(text, bytes) and _MARK in text:
        return text
    try:
        path = os.fsdecode(given)
    except TypeError:
        raise InvalidRequestError(f"{what} takes PEM text or the path of a PEM file, not {given!r}.") from None
    try:
        text = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no path"
        raise InvalidRequestError(
            f"{what} takes PEM text or the path of a PEM file; {path[:200]!r} cannot be read: {reason}."
        ) from None
    if _MARK not in text:
        raise InvalidRequestError(f"{what}: {path!r} has no PEM text; it must have a '-----BEGIN ...' line.")
    return text
