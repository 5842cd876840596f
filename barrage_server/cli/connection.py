"""The connection of a command to its server."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import barrage_server as bs
from barrage_server.address import ServerAddress
from barrage_server.cli.usage import UsageError, usage
from barrage_server.errors import AuthenticationError, UnavailableError
from barrage_server.pem import read_certificates, read_identity

if TYPE_CHECKING:
    from barrage_server.client import Client

__all__ = ["Address"]

_OPTIONS: Final = {
    "tls_root_certs=": "--tls-root-certs",
    "tls_certificate=": "--tls-certificate",
    "tls_key=": "--tls-key",
}
"""The options for the arguments of :func:`barrage_server.connect` that its errors name."""
_TOKEN: Final = "BARRAGE_TOKEN"
_PASSWORD: Final = "BARRAGE_PASSWORD"
_MOST_CHARACTERS: Final = 1 << 16
"""Characters of a password, less one."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server, and the credentials.

    Attributes:
        uri: ``grpc://host:port`` or ``grpc+tls://host:port``.
        token: bearer token, if the server requires one.
        tls_root_certs: file of PEM certificates to trust instead of the system's.
        user: name of a user, instead of a token.
        password: the user's password.
        tls_certificate: file of a PEM certificate to show to the server.
        tls_key: file of its private key.
    """

    uri: str
    token: str | None = field(default=None, repr=False)
    tls_root_certs: Path | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_certificate: Path | None = None
    tls_key: Path | None = field(default=None, repr=False)

    @classmethod
    def given(
        cls,
        uri: str,
        *,
        token: str | None = None,
        user: str | None = None,
        password_file: Path | None = None,
        tls_root_certs: Path | None = None,
        tls_certificate: Path | None = None,
        tls_key: Path | None = None,
    ) -> Address:
        """The address for options of a command line.

        The environment has what they leave to it.

        Raises:
            UsageError: ``password_file`` has no password that can be read, or is there without ``user``.
        """
        password = None if user is None else os.environ.get(_PASSWORD)
        if password_file is not None:
            if user is None:
                raise UsageError("--password-file has the password of a user: pass --user as well.")
            password = _read_password(password_file)
        if token is None and user is None:
            token = os.environ.get(_TOKEN) or None
        return cls(uri, token, tls_root_certs, user, password, tls_certificate, tls_key)

    def connect(self, wait: float = 0.0) -> Client:
        """Connect to the server, and retry for ``wait`` seconds while it does not answer.

        Raises:
            UsageError: the address is invalid, the credentials are incomplete or of two kinds, or a certificate cannot
                be read.
            InvalidRequestError: the address is that of another kind of server.
            UnavailableError: the server does not answer.
            AuthenticationError: the credentials are missing or wrong.
        """
        with usage():
            place = ServerAddress.parse(self.uri)
            self._check_log_in()
            roots = None if self.tls_root_certs is None else read_certificates(self.tls_root_certs, "--tls-root-certs")
            identity = read_identity(self.tls_certificate, self.tls_key, ("--tls-certificate", "--tls-key"))
            if identity is not None:
                place.need_tls("--tls-certificate and --tls-key")
        certificate, key = identity or (None, None)
        try:
            return bs.connect(
                self.uri,
                token=self.token,
                user=self.user,
                password=self.password,
                tls_root_certs=roots,
                tls_certificate=certificate,
                tls_key=key,
                wait=wait,
            )
        except UnavailableError as error:
            text = str(error)
            for argument, option in _OPTIONS.items():
                text = text.replace(argument, option)
            if text == str(error):
                raise
            raise UnavailableError(text) from error
        except AuthenticationError as error:
            raise AuthenticationError(f"{self.uri} {self._refusal()}") from error

    def _check_log_in(self) -> None:
        """Raise UsageError unless there is one complete log-in, or none."""
        if self.token is not None and not self.token.strip():
            raise UsageError("--token is empty: pass the server's token, or omit it if the server requires none.")
        if self.user is None:
            return
        if self.token is not None:
            raise UsageError("--token and --user are two ways to log in: pass one of them.")
        if not self.user.strip():
            raise UsageError("--user is empty: pass the user's name, or omit it.")
        if self.password is None:
            raise UsageError(
                f"--user needs the user's password: pass --password-file, or {_PASSWORD} in the environment."
            )

    def _refusal(self) -> str:
        """What a server that refuses the credentials does, and what to pass."""
        if self.user is not None:
            return (
                f"does not accept this user with this password: pass --user, and --password-file or {_PASSWORD} in the "
                f"environment."
            )
        if self.token is not None:
            wrong = "does not accept this token"
        elif self.tls_certificate is not None:
            wrong = "does not accept this certificate alone, and requires a token"
        else:
            wrong = "requires a token"
        return (
            f"{wrong}: pass it with --token, or better as {_TOKEN} in the environment; a user passes --user, and "
            f"--password-file or {_PASSWORD} in the environment."
        )


def _read_password(path: Path) -> str:
    """The password in the first line of a file.

    Spaces around it belong to it, the end of the line does not.

    Raises:
        UsageError: the file cannot be read, or its first line is empty or longer than any password.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            line = file.readline(_MOST_CHARACTERS)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(f"The password file {str(path)!r} cannot be read: {reason}.") from None
    password = line.removesuffix("\n")
    if not password or len(line) == _MOST_CHARACTERS:
        raise UsageError(f"The password file {str(path)!r} has no password in its first line.")
    return password
