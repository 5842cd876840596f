"""TLS of the ports that Python itself serves."""

from __future__ import annotations

import ssl

from barrage_server.errors import InvalidRequestError
from barrage_server.pem import load_identity

__all__ = ["tls_context"]


def tls_context(chain: bytes, key: bytes, client_roots: bytes | None = None) -> ssl.SSLContext:
    """The context of a server with that certificate chain and private key (PEM).

    Args:
        chain: the certificate chain.
        key: the private key.
        client_roots: certificates to trust for clients, each of which must then present one.

    Raises:
        InvalidRequestError: certificate and key do not fit or cannot be read, or the certificates to trust.

    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if client_roots is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(cadata=client_roots.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError) as error:
            raise InvalidRequestError(
                "tls_client_root_certs takes PEM with '-----BEGIN CERTIFICATE-----' lines, and no key: there is no "
                "certificate that can be read."
            ) from error
    load_identity(context, chain, key)
    return context
