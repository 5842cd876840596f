"""Certificates and keys in PEM, given as text or as the path of a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypeAlias

from barrage_server.errors import InvalidRequestError

__all__ = ["Pem", "read_certificates", "read_pem"]

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


def read_certificates(given: Pem, what: str) -> bytes:
    """The PEM text of certificates to trust, read as by :func:`read_pem`.

    gRPC says of text without any that there is no address to connect to.

    Args:
        given: text with certificates, or the path of a file with them.
        what: the setting, for the text of an error.

    Raises:
        InvalidRequestError: the file does not exist, or has no certificate that can be read.
    """
    import ssl

    text = read_pem(given, what)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        raise InvalidRequestError(
            f"{what} has no certificate that can be read: it takes PEM with '-----BEGIN CERTIFICATE-----' lines, of "
            "the server or of its authority, and no key."
        ) from None
    return text
