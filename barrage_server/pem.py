"""Certificates and keys in PEM, given as text or as the path of a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from barrage_server.arguments import class_with_article, shown
from barrage_server.errors import InvalidRequestError

if TYPE_CHECKING:
    import ssl

__all__ = ["Pem", "load_identity", "read_certificates", "read_identity", "read_pem"]

Pem: TypeAlias = bytes | str | os.PathLike[str]
"""PEM text, or the path of a PEM file."""

_MARK: Final = b"-----BEGIN "


def read_pem(given: Pem, what: str, *, is_secret: bool = False) -> bytes:
    """The PEM text of ``given``, or of the file at that path.

    Args:
        given: text with a ``-----BEGIN`` line, or the path of a file with one.
        what: the setting, for the text of an error.
        is_secret: whether texts of errors leave out what was given as text: it may be a damaged key.

    Raises:
        InvalidRequestError: the file does not exist, or has no PEM text.
    """
    text = given.encode("utf-8", "replace") if isinstance(given, str) else given
    if isinstance(text, bytes) and _MARK in text:
        return text
    try:
        path = os.fsdecode(given)
    except TypeError:
        found = class_with_article(given) if is_secret else shown(given)
        raise InvalidRequestError(f"{what} takes PEM text or the path of a PEM file, not {found}.") from None
    place = "what it was given" if is_secret and not isinstance(given, os.PathLike) else repr(path[:200])
    try:
        text = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no path"
        raise InvalidRequestError(
            f"{what} takes PEM text or the path of a PEM file; {place} cannot be read: {reason}."
        ) from None
    if _MARK not in text:
        raise InvalidRequestError(f"{what}: {place} has no PEM text; it must have a '-----BEGIN ...' line.")
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


def read_identity(
    certificate: Pem | None,
    key: Pem | None,
    what: tuple[str, str] = ("tls_certificate", "tls_key"),
) -> tuple[bytes, bytes] | None:
    """The PEM text of a client's certificate chain and of its private key.

    None without both.

    gRPC says of a pair that does not fit that the server cannot be reached.

    Args:
        certificate: the chain, as text or as the path of a file.
        key: the private key, likewise. No text of an error has it.
        what: the two settings, for the texts of errors.

    Raises:
        InvalidRequestError: one of the two is missing or cannot be read, or they do not fit.
    """
    import ssl

    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        given, missing = what if key is None else reversed(what)
        raise InvalidRequestError(f"{given} needs {missing}: a client certificate is shown with its private key.")
    chain, private = read_pem(certificate, what[0]), read_pem(key, what[1], is_secret=True)
    try:
        load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), chain, private)
    except InvalidRequestError:
        raise InvalidRequestError(
            f"{what[0]} and {what[1]} do not fit each other, or are no certificate and no key without a password."
        ) from None
    return chain, private


def load_identity(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    """Present a certificate to new connections of ``context``.

    Raises:
        InvalidRequestError: certificate and key do not fit, are no PEM, or the key has a password.
    """
    import ssl

    # The ssl module reads certificates from files only. The key's file is readable by its owner only, and deleted soon.
    with tempfile.TemporaryDirectory(prefix="barrage-tls-") as folder:
        chain_file, key_file = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain_file.write_bytes(chain)
        key_file.touch(mode=0o600)
        key_file.write_bytes(key)
        try:
            # with an empty password, because ssl would ask the terminal for one
            context.load_cert_chain(chain_file, key_file, password=b"")
        except (ssl.SSLError, ValueError) as error:
            raise InvalidRequestError(
                "The TLS certificate chain and its private key do not fit each other, or are no certificate and no key "
                "without a password."
            ) from error
