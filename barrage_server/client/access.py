"""The credentials of one connection, as given by the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barrage_server.address import ServerAddress
from barrage_server.client.login import Login
from barrage_server.flight.authorization import AUTHORIZATION
from barrage_server.flight.headers import check_header_value, check_headers, check_text
from barrage_server.pem import Pem, read_certificates, read_identity

__all__ = ["Access"]


@dataclass(frozen=True, slots=True)
class Access:
    """How to log in to a server: arguments of :func:`barrage_server.connect`.

    Attributes:
        token: bearer token of a server, or pre-shared key of a Deephaven server.
        user: user name, with ``password``.
        password: the user's password.
        headers: further headers of every call, for example for a proxy. ``authorization`` among them is the log-in.
        tls_root_certs: PEM certificates to trust instead of the system's: their text, or a file's path, which is read
            here.
        tls_certificate: the certificate that the client shows, with its chain: PEM, or a file's path, read here.
        tls_key: its private key, likewise.

    Raises:
        InvalidRequestError: an argument is wrong.
    """

    token: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    tls_root_certs: Pem | None = field(default=None, repr=False)
    tls_certificate: Pem | None = field(default=None, repr=False)
    tls_key: Pem | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for value, what in ((self.token, "token"), (self.user, "user"), (self.password, "password")):
            if value is not None:
                check_text(value, what)
        if self.token is not None:
            check_header_value(self.token, "token")
        check_headers(self.headers)
        if self.tls_root_certs is not None:
            object.__setattr__(self, "tls_root_certs", read_certificates(self.tls_root_certs, "tls_root_certs"))
        identity = read_identity(self.tls_certificate, self.tls_key)
        if identity is not None:
            object.__setattr__(self, "tls_certificate", identity[0])
            object.__setattr__(self, "tls_key", identity[1])

    def check(self, address: ServerAddress) -> None:
        """Check that ``address`` has what the credentials need.

        Raises:
            InvalidRequestError: there is a client certificate, and no TLS.
        """
        if self.tls_certificate is not None:
            address.need_tls("tls_certificate and tls_key")

    def login(self, *, is_deephaven: bool) -> Login:
        """Make the log-in of one connection.

        Args:
            is_deephaven: whether the server is probably Deephaven's.

        Raises:
            InvalidRequestError: there are several log-ins, or the log-in is incomplete.
        """
        return Login(
            token=self.token,
            user=self.user,
            password=self.password,
            authorization=self._lower().get(AUTHORIZATION),
            is_deephaven=is_deephaven,
            has_certificate=self.tls_certificate is not None,
        )

    def pem(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """The certificates to trust, the private key, and its certificate.

        Each is None without. That is the order of the arguments of ``grpc.ssl_channel_credentials``.
        """
        found = self.tls_root_certs, self.tls_key, self.tls_certificate
        roots, key, certificate = (text if isinstance(text, bytes) else None for text in found)  # all have been read
        return roots, key, certificate

    def other_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers beside the log-in, with names in lower case."""
        return [(name.encode(), value.encode()) for name, value in self._lower().items() if name != AUTHORIZATION]

    def _lower(self) -> dict[str, str]:
        return {name.lower(): value for name, value in (self.headers or {}).items()}
