"""Every call of the descriptors, and pages, by credentials, at every port, by TLS, client certificates, and without."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import argon2
import grpc
import jwt
import pytest
import trustme
from barrage_proto import flight_pb2
from cryptography.hazmat.primitives.asymmetric import ec

import barrage_server as bs
from barrage_server.server import Limits
from barrage_server.server.authentication import REFUSED
from barrage_server.wire.page_messages import PAGE_COMMAND
from tests.server.access_calls import DESCRIBED, FLIGHT_SERVICE, PACKAGE, SCHEMA, VISIBLE
from tests.server.deephaven.web_client import PATIENCE, WebClient
from tests.server.web.page_client import page

OPEN = {f"{FLIGHT_SERVICE}/Handshake", f"{PACKAGE}.ConfigService/GetAuthenticationConstants"}
"""Calls without credentials: one that brings them, and one that says which there may be."""
ISSUER, AUDIENCE = "https://login.example.com", "barrage"
KEY, OTHER_KEY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def web_token(key: ec.EllipticCurvePrivateKey = KEY, **other: Any) -> dict[str, str]:
    claims = {"sub": "anna", "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 3600, **other}
    return bearer(jwt.encode(claims, key, "ES256", {"kid": "k"}))


SHOWN = {
    "nothing": {},
    "an empty header": {"authorization": ""},
    "a wrong token": bearer("open sesam"),
    "an expired token": bearer("open until yesterday"),
    "a wrong password": basic("anna", "open sesam"),
    "an unknown user": basic("nemo", "a password of hers"),
    "a web token of another key": web_token(OTHER_KEY),
    "an expired web token": web_token(exp=1_600_000_000),
    "a web token for another audience": web_token(aud="elsewhere"),
    "a certificate in words": {"authorization": "client certificate me"},
}
GOOD = {
    "a token": bearer("open sesame"),
    "a shared token": bearer("shared"),
    "a shared token as a password": basic("me", "shared"),
    "a password": basic("anna", "a password of hers"),
    "a web token": web_token(),
}
PAGES = f"{FLIGHT_SERVICE}/DoExchange barrage.page"
"""The call that is a page's: a method, and what tells it from other calls of that method."""
WAITING = {
    f"{PACKAGE}.SessionService/ExportNotifications",
    f"{PACKAGE}.SessionService/TerminationNotification",
    f"{PACKAGE}.TableService/ExportedTableUpdates",
}
"""Calls that answer when something happens."""
_DESCRIPTOR = flight_pb2.FlightDescriptor(type="PATH", path=["scope", VISIBLE])
NAMED = _DESCRIPTOR.SerializeToString()
UPLOAD = flight_pb2.FlightData(flight_descriptor=_DESCRIPTOR).SerializeToString()
PAGE = flight_pb2.FlightData(
    flight_descriptor=flight_pb2.FlightDescriptor(type="CMD", cmd=PAGE_COMMAND)
).SerializeToString()
UNAUTHENTICATED, UNKNOWN = grpc.StatusCode.UNAUTHENTICATED.value[0], grpc.StatusCode.UNKNOWN.value[0]


@dataclass
class Wire:
    """How clients reach a server.

    Attributes:
        authority: of the server's certificate; ``None`` without TLS.
        known: a client's certificate that the server's credentials name; ``None``: the server asks for none.
        other: one that they do not name.

    """

    authority: trustme.CA | None = None
    known: trustme.LeafCert | None = None
    other: trustme.LeafCert | None = None

    def channel(self, place: str, own: trustme.LeafCert | None) -> Any:
        if self.authority is None:
            return grpc.insecure_channel(place)
        roots = self.authority.cert_pem.bytes()
        if own is None:
            return grpc.secure_channel(place, grpc.ssl_channel_credentials(roots))
        chain = b"".join(part.bytes() for part in own.cert_chain_pems)
        return grpc.secure_channel(place, grpc.ssl_channel_credentials(roots, own.private_key_pem.bytes(), chain))

    def context(self, own: trustme.LeafCert | None) -> ssl.SSLContext | None:
        if self.authority is None:
            return None
        context = ssl.create_default_context(cadata=self.authority.cert_pem.bytes().decode())
        if own is not None:
            own.configure_cert(context)
        return context


@pytest.fixture(scope="module", params=["plain", "TLS", "client certificates"])
def wire(request: pytest.FixtureRequest) -> Wire:
    if request.param == "plain":
        return Wire()
    authority = trustme.CA()
    if request.param == "TLS":
        return Wire(authority)
    return Wire(authority, authority.issue_cert("feed.example.com"), authority.issue_cert("other.example.com"))


@pytest.fixture(scope="module", params=["grpc"])
def guarded(
    request: pytest.FixtureRequest, wire: Wire, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[bs.Server]:
    options: dict[str, Any] = {"deephaven_port": 0, "deephaven_web_port": 0, "web_port": 0, "front": request.param}
    if wire.authority is not None:
        issued = wire.authority.issue_cert("localhost", "127.0.0.1")
        chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
        options |= {"tls_certificate": chain, "tls_key": issued.private_key_pem.bytes()}
        if wire.known is not None:
            options["tls_client_root_certs"] = wire.authority.cert_pem.bytes()
    # every refusal here is one of a caller without credentials, and all come from one address
    options["limits"] = Limits(failed_log_ins=1_000_000, stranger_calls_per_second=1_000_000)
    with bs.Server(token=credentials(tmp_path_factory.mktemp("credentials")), **options) as server:
        server.append_table(VISIBLE, SCHEMA)
        yield server


def credentials(folder: Path) -> list[Any]:
    good, old = (hashlib.sha256(token).hexdigest() for token in (b"open sesame", b"open until yesterday"))
    password = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash("a password of hers")
    path, keys = folder / "credentials.toml", folder / "keys.json"
    path.write_text(
        f'[[tokens]]\nname = "a"\nsha256 = "{good}"\n'
        f'[[tokens]]\nname = "b"\nsha256 = "{old}"\nexpires = 2020-01-01T00:00:00Z\n'
        f'[[users]]\nname = "anna"\npassword = "{password}"\n'
        f'[[certificates]]\nname = "feed"\nidentity = "feed.example.com"\n'
    )
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key()))
    keys.write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))
    return ["shared", bs.CredentialFile(path), bs.WebTokens(keys, audience=AUDIENCE, issuer=ISSUER)]


def request_of(method: str) -> bytes:
    """What a call begins with; Flight reads a descriptor before it asks for credentials."""
    if method == PAGES:
        return PAGE
    if method.endswith(("/DoPut", "/DoExchange")):
        return UPLOAD
    return NAMED if method.endswith(("/GetFlightInfo", "/GetSchema", "/PollFlightInfo")) else b""


def over_grpc(uri: str | None, wire: Wire, own: trustme.LeafCert | None, methods: set[str], shown: Any) -> Any:
    """Status and text of each call."""
    found = {}
    with wire.channel((uri or "").partition("://")[2], own) as channel:
        for method in sorted(methods):
            call = channel.stream_stream(method.partition(" ")[0])
            stream = call(iter([request_of(method)]), timeout=20, metadata=tuple(shown.items()))
            try:
                next(iter(stream), None)
                found[method] = 0, ""
            except grpc.RpcError as error:
                found[method] = error.code().value[0], str(error.details())
            finally:
                stream.cancel()
    return found


def over_websocket(uri: str | None, wire: Wire, own: trustme.LeafCert | None, methods: set[str], shown: Any) -> Any:
    """Status and text of each call; a call that goes on once it has answered is cut off."""
    context = wire.context(own)
    place = (uri or "").partition("://")[2]
    found = {}

    async def run() -> None:
        async with (
            asyncio.timeout(3 * PATIENCE),
            WebClient.at(f"{'ws' if context is None else 'wss'}://{place}", tls=context) as client,
        ):
            for method in sorted(methods):
                stream = await client.open(method.partition(" ")[0], **shown)
                await client.send(stream, request_of(method))
                await client.finish(stream)
                answer = client.answers[stream]
                await answer.until(lambda answer: answer.trailers is not None or bool(answer.messages))
                trailers = answer.trailers or {"grpc-status": "0"}
                found[method] = int(trailers["grpc-status"]), unquote(trailers.get("grpc-message", ""))

    asyncio.run(run())
    return found


ENDPOINTS: dict[str, tuple[Callable[[bs.Server], str | None], Any, bool]] = {
    "flight": (lambda server: server.uri, over_grpc, True),
    "deephaven": (lambda server: server.deephaven_uri, over_grpc, False),
    "web": (lambda server: server.deephaven_web_uri, over_websocket, False),
}


AT_EVERY_ENDPOINT = pytest.mark.parametrize(
    ("guarded", "endpoint"),
    [("pyarrow", "flight"), *(("grpc", endpoint) for endpoint in ENDPOINTS)],
    indirect=["guarded"],
)
"""Flight at both of its fronts, on which the other ports do not depend."""


def outcomes(
    server: bs.Server,
    wire: Wire,
    endpoint: str,
    shown: dict[str, str],
    but: set[str] = OPEN,
    own: trustme.LeafCert | None = None,
) -> Any:
    """Status and text of every call of an endpoint, but of some; with an unknown certificate where one is asked for."""
    uri, call, flight_only = ENDPOINTS[endpoint]
    methods = {method for method in DESCRIBED if not flight_only or method.startswith(FLIGHT_SERVICE)} - but
    methods.add(PAGES)
    found = call(uri(server), wire, own or wire.other, methods, shown)
    assert found.keys() == methods
    return found


def text_of(message: str) -> str:
    """The words of an error; the web port sends no colon, at which its client would cut them."""
    return message.split(" [AuthenticationError]")[0].replace("authorization - ", "authorization: ")


def is_refusal(method: str, status: int, message: str) -> bool:
    """Whether the caller is told that its credentials are missing or wrong."""
    # pyarrow makes UNKNOWN of what that handler raises, which asks by itself where clients have certificates
    statuses = (UNAUTHENTICATED, UNKNOWN) if method.endswith("/GetSchema") else (UNAUTHENTICATED,)
    return status in statuses and text_of(message) == REFUSED


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
@AT_EVERY_ENDPOINT
def test_no_call_is_answered_without_credentials(
    guarded: bs.Server, wire: Wire, endpoint: str, shown: dict[str, str]
) -> None:
    """One status, and one text, whatever is wrong with them."""
    found = outcomes(guarded, wire, endpoint, shown)
    assert {method: said for method, said in found.items() if not is_refusal(method, *said)} == {}


@pytest.mark.parametrize("shown", GOOD.values(), ids=GOOD)
@AT_EVERY_ENDPOINT
def test_good_credentials_are_accepted_by_every_call(
    guarded: bs.Server, wire: Wire, endpoint: str, shown: dict[str, str]
) -> None:
    """Otherwise the refusals above would tell nothing."""
    found = outcomes(guarded, wire, endpoint, shown, OPEN | WAITING)
    assert UNAUTHENTICATED not in {status for status, _ in found.values()}, found


@AT_EVERY_ENDPOINT
def test_a_certificate_alone_is_a_credential_where_calls_know_it(guarded: bs.Server, wire: Wire, endpoint: str) -> None:
    """At the web port it is required, and is none: calls there need credentials of their own."""
    if wire.known is None:
        pytest.skip("without certificates of clients")
    found = outcomes(guarded, wire, endpoint, {}, OPEN | WAITING, wire.known)
    statuses = {status for status, _ in found.values()}
    assert (statuses == {UNAUTHENTICATED}) if endpoint == "web" else (UNAUTHENTICATED not in statuses), found


def said_by_a_page(shown: dict[str, str]) -> dict[str, str]:
    """The fields of a page's ``hello`` for that header."""
    scheme, _, value = shown.get("authorization", "").partition(" ")
    if scheme == "Basic":
        user, _, password = base64.b64decode(value).decode().partition(":")
        return {"user": user, "token": password}
    return {"token": value} if scheme == "Bearer" else {}


@pytest.mark.parametrize("shown", [*SHOWN.values(), *GOOD.values()], ids=[*SHOWN, *GOOD])
def test_a_page_is_let_in_by_good_credentials_alone(guarded: bs.Server, wire: Wire, shown: dict[str, str]) -> None:
    """At its own port, where ``hello`` has them, and the certificate of the connection is none."""
    with page(guarded, ssl=wire.context(wire.known)) as client:
        answer = client.greet(**said_by_a_page(shown))
        if shown in GOOD.values():
            assert answer["type"] == "welcome"
        else:
            assert (answer["type"], answer["error"], answer["text"]) == ("refused", "AuthenticationError", REFUSED)
