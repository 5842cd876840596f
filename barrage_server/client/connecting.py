"""How a client is made: an address, credentials, and a server that answers."""

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
    wait: float = 0.0,
    graph: UpdateGraph | None = None,
) -> Client:
    """Connect to a server, this project's or Deephaven's, and make sure that it answers.

    Args:
        uri: ``grpc://host:port``, ``grpc+tls://host:port`` or ``host:port``, 8815 being the port when none is named;
            as Deephaven writes it ``dh+plain://host:port``, or ``dh://host:port`` for TLS.
        token: the server's secret: the bearer token of a server of this project, the pre-shared key of Deephaven's.
        user: user name, where the server knows users, with ``password``. Without token and user the log-in is
            anonymous.
        password: the user's password.
        timeout: seconds that a short call may take, and that a longer one may stand still.
        retry: how subscriptions come back after their connection is lost.
        headers: further headers of every call. ``authorization`` among them is a way to log in that is not known here,
            such as ``"some.company.Handler secret"``.
        tls_root_certs: PEM certificates to trust instead of the system's: their text, or a file's path.
        wait: keep trying for so many seconds when nobody answers yet.
        graph: the update graph that replicas are to live in; one of the client's own when None.

    Raises:
        UnavailableError: nothing answers there.
        InvalidRequestError: the address is none, or what answers there is no server of this kind: a web server, say.
        AuthenticationError: the credentials are missing or wrong.
    """
    patience = seconds(wait, "wait")
    client = Client(
        uri,
        token=token,
        user=user,
        password=password,
        timeout=timeout,
        retry=retry,
        headers=headers,
        tls_root_certs=tls_root_certs,
        graph=graph,
    )
    deadline = time.monotonic() + patience
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
