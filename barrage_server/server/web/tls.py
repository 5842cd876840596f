"""TLS of the ports that Python itself serves."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from barrage_server.errors import InvalidRequestError

__all__ = ["load_identity", "tls_context"]


def tls_context(chain: bytes, key: bytes, client_roots: bytes | None = None) -> ssl.SSLContext:
    """The context of a server with that certificate chain and private key (PEM).

    Args:
        chain: the certificate chain.
        key: the private key.
        client_roots: certificates to trust for clients, each of which must then present one.

    Raises:
        InvalidRequestError: certificate and key do not fit, or are no PEM.

    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if client_roots is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(cadata=client_roots.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise InvalidRequestError("The certificates to trust for clients are no PEM.") from error
    load_identity(context, chain, key)
    return context


def load_identity(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    """Present a certificate to new connections of ``context``.

    Raises the errors of :func:`tls_context`.
    """
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
                "The TLS certificate chain and its private key do not fit, or are no PEM."
            ) from error
