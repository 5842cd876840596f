"""Every call of the descriptors, by credentials, at every port, with TLS and without."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from barrage_proto import flight_pb2

import barrage_server as bs
from barrage_server.server import Limits, Server
from tests.server.deephaven.web_client import PATIENCE, WebClient
from tests.server.test_access import DESCRIBED, FLIGHT_SERVICE, PACKAGE, SCHEMA, VISIBLE

OPEN = {f"{FLIGHT_SERVICE}/Handshake", f"{PACKAGE}.ConfigService/GetAuthenticationConstants"}
"""Calls without credentials: one that brings them, and one that says which there may be."""
SHOWN = {
    "nothing": {},
    "an empty header": {"authorization": ""},
    "a wrong token": {"authorization": "Bearer open sesam"},
    "an expired token": {"authorization": "Bearer open until yesterday"},
    "a wrong password": {"authorization": "Basic bWU6b3BlbiBzZXNhbQ=="},
    "a certificate in words": {"authorization": "client certificate me"},
}
GOOD = {"authorization": "Bearer open sesame"}
WAITING = {
    f"{PACKAGE}.SessionService/ExportNotifications",
    f"{PACKAGE}.SessionService/TerminationNotification",
    f"{PACKAGE}.TableService/ExportedTableUpdates",
}
"""Calls that answer when something happens."""
NAMED = flight_pb2.FlightDescriptor(type="PATH", path=["scope", VISIBLE]).SerializeToString()
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED.value[0]

Calling = Callable[[Server, set[str], dict[str, str]], dict[str, tuple[int, str]]]


@pytest.fixture(scope="module", params=["plain", "TLS"])
def authority(request: pytest.FixtureRequest) -> trustme.CA | None:
    return trustme.CA() if request.param == "TLS" else None


@pytest.fixture(scope="module", params=["pyarrow", "grpc"])
def guarded(
    request: pytest.FixtureRequest, authority: trustme.CA | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    tls = None
    if authority is not None:
        issued = authority.issue_cert("localhost", "127.0.0.1")
        tls = b"".join(part.bytes() for part in issued.cert_chain_pems), issued.private_key_pem.bytes()
    # every refusal here is one, and all come from one address
    limits = Limits(failed_log_ins=1_000_000, stranger_calls_per_second=1_000_000)
    accepted = credentials(tmp_path_factory.mktemp("credentials") / "credentials.toml")
    ports: dict[str, Any] = {"deephaven_port": 0, "deephaven_web_port": 0}
    with Server(token=accepted, tls=tls, front=request.param, limits=limits, **ports) as server:
        server.append_table(VISIBLE, SCHEMA)
        yield server


def credentials(path: Path) -> bs.CredentialFile:
    good, old = (hashlib.sha256(token).hexdigest() for token in (b"open sesame", b"open until yesterday"))
    path.write_text(
        f'[[tokens]]\nname = "a"\nsha256 = "{good}"\n'
        f'[[tokens]]\nname = "b"\nsha256 = "{old}"\nexpires = 2020-01-01T00:00:00Z\n'
    )
    return bs.CredentialFile(path)


def over_grpc(uri: str | None, authority: trustme.CA | None, methods: set[str], shown: dict[str, str]) -> Any:
    """Status and text of each call."""
    place = (uri or "").partition("://")[2]
    if authority is None:
        channel: Any = grpc.insecure_channel(place)
    else:
        channel = grpc.secure_channel(place, grpc.ssl_channel_credentials(authority.cert_pem.bytes()))
    found = {}
    with channel:
        for method in sorted(methods):
            # Flight reads a descriptor before it asks anyone
            request = NAMED if method.endswith(("/GetFlightInfo", "/GetSchema")) else b""
            stream = channel.stream_stream(method)(iter([request]), timeout=20, metadata=tuple(shown.items()))
            try:
                next(iter(stream), None)
                found[method] = 0, ""
            except grpc.RpcError as error:
                found[method] = error.code().value[0], str(error.details())
            finally:
                stream.cancel()
    return found


def over_websocket(uri: str | None, authority: trustme.CA | None, methods: set[str], shown: dict[str, str]) -> Any:
    """Status and text of each call; a call that goes on once it has answered is cut off."""
    context = None
    if authority is not None:
        context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    place = (uri or "").partition("://")[2]
    found = {}

    async def run() -> None:
        async with (
            asyncio.timeout(3 * PATIENCE),
            WebClient.at(f"{'ws' if context is None else 'wss'}://{place}", tls=context) as client,
        ):
            for method in sorted(methods):
                stream = await client.open(method, **shown)
                await client.send(stream, NAMED if method.endswith(("/GetFlightInfo", "/GetSchema")) else b"")
                await client.finish(stream)
                answer = client.answers[stream]
                await answer.until(lambda answer: answer.trailers is not None or bool(answer.messages))
                trailers = answer.trailers or {"grpc-status": "0"}
                found[method] = int(trailers["grpc-status"]), trailers.get("grpc-message", "")

    asyncio.run(run())
    return found


DOORS: dict[str, tuple[Callable[[Server], str | None], Any, bool]] = {
    "flight": (lambda server: server.uri, over_grpc, True),
    "deephaven": (lambda server: server.deephaven_uri, over_grpc, False),
    "web": (lambda server: server.deephaven_web_uri, over_websocket, False),
}


def outcomes(
    server: Server, authority: trustme.CA | None, door: str, shown: dict[str, str], but: set[str] = OPEN
) -> Any:
    """Status and text of every call of a door, but of some."""
    uri, call, flight_only = DOORS[door]
    methods = {method for method in DESCRIBED if not flight_only or method.startswith(FLIGHT_SERVICE)} - but
    found = call(uri(server), authority, methods, shown)
    assert found.keys() == methods
    return found


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
@pytest.mark.parametrize("door", DOORS)
def test_no_call_is_answered_without_credentials(
    guarded: Server, authority: trustme.CA | None, door: str, shown: dict[str, str]
) -> None:
    """One status, and one text, whatever is wrong with them."""
    found = outcomes(guarded, authority, door, shown)
    assert {status for status, _ in found.values()} == {UNAUTHENTICATED}, found
    texts = {text.split(" [AuthenticationError]")[0] for _, text in found.values()}
    nothing = outcomes(guarded, authority, door, {})
    assert texts == {text.split(" [AuthenticationError]")[0] for _, text in nothing.values()}
    assert len(texts) == 1, texts


@pytest.mark.parametrize("door", DOORS)
def test_good_credentials_are_accepted_by_every_call(guarded: Server, authority: trustme.CA | None, door: str) -> None:
    """Otherwise the refusals above would tell nothing."""
    found = outcomes(guarded, authority, door, GOOD, OPEN | WAITING)
    assert UNAUTHENTICATED not in {status for status, _ in found.values()}, found
