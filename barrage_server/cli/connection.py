"""The connection of a command to its server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import barrage_server as bs
from barrage_server.address import ServerAddress
from barrage_server.cli.usage import UsageError, usage
from barrage_server.errors import AuthenticationError, UnavailableError
from barrage_server.pem import read_certificates

if TYPE_CHECKING:
    from barrage_server.client import Client

__all__ = ["Address"]

_CERTIFICATES: Final = "tls_root_certs="
"""The argument of :func:`barrage_server.connect`, as its errors name it."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server, and the credentials.

    Attributes:
        uri: ``grpc://host:port`` or ``grpc+tls://host:port``.
        token: bearer token, if the server requires one.
        tls_root_certs: file of PEM certificates to trust instead of the system's.
    """

    uri: str
    token: str | None = field(default=None, repr=False)
    tls_root_certs: Path | None = None

    def connect(self, wait: float = 0.0) -> Client:
        """Connect to the server, and retry for ``wait`` seconds while it does not answer.

        Raises:
            UsageError: the address is invalid, the token is blank, or the certificates cannot be read.
            InvalidRequestError: the address is that of another kind of server.
            UnavailableError: the server does not answer.
            AuthenticationError: the token is missing or wrong.
        """
        with usage():
            ServerAddress.parse(self.uri)
            if self.token is not None and not self.token.strip():
                raise UsageError("--token is empty: pass the server's token, or omit it if the server requires none.")
            roots = None if self.tls_root_certs is None else read_certificates(self.tls_root_certs, "--tls-root-certs")
        try:
            return bs.connect(self.uri, token=self.token, tls_root_certs=roots, wait=wait)
        except UnavailableError as error:
            text = str(error)
            if _CERTIFICATES not in text:
                raise
            raise UnavailableError(text.replace(_CERTIFICATES, "--tls-root-certs")) from error
        except AuthenticationError as error:
            wrong = "requires a token" if self.token is None else "does not accept this token"
            raise AuthenticationError(
                f"{self.uri} {wrong}: pass it with --token, or better as BARRAGE_TOKEN in the environment."
            ) from error
