"""Connecting a client to a server that answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from barrage_server.arguments import seconds
from barrage_server.client.client import DEFAULT_TIMEOUT, Client
from barrage_server.engine import UpdateGraph
from barrage_server.errors import UnavailableError
from barrage_server.flight.errors import other_protocol
from barrage_server.flight.retry import RetryPolicy
from barrage_server.pem import Pem

__all__ = ["connect"]


def connect(
    uri: str,
    *,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    retry: RetryPolicy | None = None,
    headers: Mapping[str, str] | None = None,
    tls_root_certs: Pem | None = None,
    tls_certificate: Pem | None = None,
    tls_key: Pem | None = None,
    wait: float = 0.0,
    graph: UpdateGraph | None = None,
) -> Client:
    """Connect to a server of this project or of Deephaven, and check that it answers.

    Args:
        uri: ``grpc://host:port``, ``grpc+tls://host:port`` or ``host:port``; the default port is 8815. For a Deephaven
            server ``dh+plain://host:port``, or ``dh://host:port`` with TLS.
        token: the server's secret: the bearer token of a server of this project, the pre-shared key of Deephaven's.
        user: user name, with ``password``. Without token and user the log-in is anonymous.
        password: the user's password.
        timeout: most seconds of a short call, and most seconds without progress of a longer one.
        retry: how subscriptions reconnect after a lost connection.
        headers: further headers of every call. ``authorization`` is a log-in of another kind, such as
            ``"some.company.Handler secret"``.
        tls_root_certs: PEM certificates to trust instead of the system's: their text, or a file's path.
        tls_certificate: a certificate of this client, for servers that require one: PEM, or a file's path.
        tls_key: its private key, likewise.
        wait: seconds to retry while the server does not answer yet.
        graph: the update graph of the replicas; one of the client's own when None.

    Raises:
        UnavailableError: the server does not answer.
        InvalidRequestError: the address is invalid, or another kind of server answers, such as a web server.
        AuthenticationError: the credentials are missing or wrong.
    """
    wait = seconds(wait, "wait")
    client = Client(
        uri,
        token=token,
        user=user,
        password=password,
        timeout=timeout,
        retry=retry,
        headers=headers,
        tls_root_certs=tls_root_certs,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        graph=graph,
    )
    deadline = time.monotonic() + wait
    delays = RetryPolicy(max_delay=1.0, deadline=None).delays()
    try:
        while True:
            try:
                client.ping()
            except UnavailableError as error:
                wrong = other_protocol(error, client.uri)
                if wrong is not None:
                    raise wrong from None
                rest = deadline - time.monotonic()
                if rest <= 0:
                    raise
                threading.Event().wait(min(rest, next(delays)))
            else:
                client.check_address()
                return client
    except BaseException:
        client.close()
        raise
