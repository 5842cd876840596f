"""Checks of a server's arguments, before any part of the server is made."""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from barrage_server.arguments import flag, integer, listed_names, shown
from barrage_server.errors import InvalidRequestError, UnavailableError
from barrage_server.pem import Pem, read_pem
from barrage_server.server.access import Role, checked_roles
from barrage_server.server.authentication import AnyToken, Authentication, Certificates, as_authenticator, named_roles
from barrage_server.server.flight_endpoint import TlsIdentity
from barrage_server.server.front import Front, is_loopback
from barrage_server.server.web.tls import tls_context

__all__ = [
    "authentication_of",
    "check_console",
    "check_exposed",
    "check_host",
    "check_named_roles",
    "check_ports",
    "check_tls",
    "checked_client_roots",
    "chosen_front",
    "role_names",
    "tls_identity",
]


_NAME: Final = re.compile(r"([\w-]{1,63}\.)*(?=[\w-]*[^\W\d])[\w-]{1,63}\.?")
"""A host name: its last part has a letter."""


def role_names(names: Collection[str], roles: Mapping[str, Role]) -> tuple[str, ...]:
    """``names`` as a tuple; InvalidRequestError unless each names one of ``roles``."""
    found = listed_names(names, "default_roles")
    unknown = sorted(set(found) - set(roles))
    if unknown:
        raise InvalidRequestError(f"default_roles must be names of roles, and {shown(unknown[0])} is none.")
    return found


def check_console(console: bool, host: str, *, is_guarded: bool, has_port: bool, has_web: bool) -> None:
    """Raise InvalidRequestError if a console has no port, or a stranger could use it.

    Args:
        console: the argument of the server.
        host: the argument of the server.
        is_guarded: whether the server requires credentials.
        has_port: whether it has a port for Deephaven's clients.
        has_web: whether it has a port for Deephaven's JavaScript client.

    """
    if not flag(console, "console"):
        return
    if not has_port:
        raise InvalidRequestError(
            "The console needs a port for Deephaven's clients: deephaven_port=0 (--deephaven-port on the command "
            "line), or deephaven_web_port."
        )
    if is_guarded:
        return
    if not is_loopback(host):
        raise InvalidRequestError(
            f"The console lets every caller run Python in this process, and without credentials {host} lets other "
            f"machines call. Set a token, or listen on 127.0.0.1."
        )
    if has_web:
        raise InvalidRequestError(
            "The console without credentials would let pages of this machine, which may connect to deephaven_web_port, "
            "run Python in this process. Set a token, or leave deephaven_web_port out."
        )


def check_named_roles(named: Collection[str], roles: Mapping[str, Role]) -> None:
    """Raise InvalidRequestError if credentials name a role that is not in ``roles``.

    Without any role every caller may do everything, whatever its credentials name.
    """
    undefined = sorted(set(named) - roles.keys())
    if undefined:
        raise InvalidRequestError(
            f"The credentials name the role {shown(undefined[0])}, which is not defined. Define it ([roles] in the "
            f"settings, roles= in Python), or take it out of the credentials."
        )


def tls_identity(tls_certificate: Pem | None, tls_key: Pem | None) -> TlsIdentity | None:
    """Read certificate chain and private key; ``None`` without both.

    Raises:
        InvalidRequestError: one of the two is missing or cannot be read.

    """
    if tls_certificate is None and tls_key is None:
        return None
    if tls_certificate is None or tls_key is None:
        given, missing = ("tls_certificate", "tls_key") if tls_key is None else ("tls_key", "tls_certificate")
        raise InvalidRequestError(f"{given} needs {missing}: TLS is served with a certificate and its private key.")
    return read_pem(tls_certificate, "tls_certificate"), read_pem(tls_key, "tls_key", is_secret=True)


def check_ports(**ports: int | None) -> None:
    """Raise InvalidRequestError unless each is a port number or ``None``."""
    for what, port in ports.items():
        if port is not None:
            integer(port, what, most=65_535)


def checked_client_roots(tls_client_root_certs: Pem, *, is_encrypted: bool) -> bytes:
    """Read the certificates to trust for clients.

    Raises:
        InvalidRequestError: they cannot be read, or the server has no TLS.

    """
    roots = read_pem(tls_client_root_certs, "tls_client_root_certs")
    if not is_encrypted:
        raise InvalidRequestError(
            "tls_client_root_certs is for a server with tls_certificate and tls_key: certificates are shown in its "
            "handshake."
        )
    return roots


def check_tls(identity: TlsIdentity | None, client_roots: bytes | None) -> None:
    """Raise InvalidRequestError if certificates and key cannot serve.

    pyarrow would say of them that it cannot listen, and gRPC only log it.
    """
    if identity is not None:
        tls_context(*identity, client_roots)


def authentication_of(
    token: AnyToken | Sequence[AnyToken] | None,
    roles: Mapping[str, Role] | None,
    default_roles: Collection[str],
    *,
    shows_certificates: bool,
) -> Authentication:
    """The authentication of a server.

    Args:
        token: the argument of the server.
        roles: the argument of the server.
        default_roles: the argument of the server.
        shows_certificates: whether every client shows a certificate, which is enough without a token.

    Raises:
        InvalidRequestError: an argument is wrong, or credentials name an undefined role.

    """
    known = checked_roles(roles)
    authenticate = as_authenticator(token, role_names(default_roles, known))
    check_named_roles(named_roles(authenticate), known)
    if authenticate is None and shows_certificates:
        authenticate = Certificates(default_roles)
    return Authentication(authenticate, default_roles)


def check_host(host: str, what: str = "host") -> None:
    """Raise an error unless ``host`` is an address, or resolves to one.

    Raises:
        InvalidRequestError: it can be neither an address nor a name.
        UnavailableError: it is a name that cannot be resolved, now or ever.

    """
    try:
        socket.getaddrinfo(host[1:-1] if host[:1] + host[-1:] == "[]" else host, None)
    except (OSError, UnicodeError) as error:
        if isinstance(error, socket.gaierror) and _NAME.fullmatch(host):
            raise UnavailableError(
                f"The name {shown(host)} cannot be resolved: {error.strerror}. Set {what}= (--{what.replace('_', '-')} "
                "on the command line) to an address of this machine, such as 127.0.0.1, or check its name service."
            ) from None
        raise InvalidRequestError(
            f"{what} is an address of this machine, or a name of one, such as 127.0.0.1; {shown(host)} is none. "
            f"The port is an argument of its own: {what.replace('host', 'port')}=."
        ) from None


def check_exposed(host: str, *, is_guarded: bool, is_encrypted: bool) -> None:
    """Raise InvalidRequestError if other machines reach a server without protection.

    Args:
        host: the argument of the server.
        is_guarded: whether the server requires credentials, or may go without.
        is_encrypted: whether the server has TLS, or may go without.

    """
    if is_loopback(host):
        return
    missing = []
    if not is_guarded:
        missing.append(
            "Set a token (--token-file on the command line), or allow every caller with allow_anonymous=True "
            "(--allow-anonymous)."
        )
    if not is_encrypted:
        missing.append(
            "Set tls_certificate and tls_key (--tls-certificate and --tls-key), or allow that tokens and tables can be "
            "read in transit with allow_plaintext=True (--allow-plaintext)."
        )
    if missing:
        both = " Both together are insecure=True (--insecure)." if len(missing) > 1 else ""
        raise InvalidRequestError(f"Listening on {host} lets other machines in. {' '.join(missing)}{both}")


def chosen_front(front: Front | str) -> Front:
    """The front of that name; InvalidRequestError when there is none."""
    try:
        return Front(front)
    except ValueError:
        known = " or ".join(f"'{entry}'" for entry in Front)
        raise InvalidRequestError(f"front must be {known}, not {shown(front)}.") from None
