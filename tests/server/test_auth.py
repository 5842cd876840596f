"""No call without valid credentials is accepted, by any call and any way of sending them."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.errors import AuthenticationError, InvalidRequestError, UnavailableError
from barrage_server.flight.errors import from_flight
from barrage_server.server import Credentials, Principal, Server
from barrage_server.server.auth import TokenSigner
from barrage_server.server.authentication import as_authenticator
from barrage_server.wire.metadata import SubscriptionRequest
from tests.server.conftest import SCHEMA, address, endpoints
from tests.server.follower import QUICK, Follower

TOKEN = "open sesame"
ME = Principal("me")
ADA = Principal("ada", ["reader"], expires=5000.0, credential="some")
BARE = fl.FlightDescriptor.for_path("quotes")


@pytest.fixture(params=["pyarrow", "grpc"])
def front(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def guarded(front: str) -> Iterator[Server]:
    with Server(token=TOKEN, front=front) as server:
        server.append_table("quotes", SCHEMA)
        yield server


def put(client: fl.FlightClient, options: fl.FlightCallOptions) -> None:
    writer, reader = client.do_put(BARE, SCHEMA, options)
    try:
        writer.done_writing()
        reader.read()
    finally:
        writer.close()


def exchange(client: fl.FlightClient, options: fl.FlightCallOptions) -> None:
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(b"dphn"), options)
    try:
        writer.write_metadata(SubscriptionRequest(b"s/quotes", options=QUICK).encode())
        reader.read_chunk()
        reader.cancel()
    finally:
        with suppress(fl.FlightCancelledError):
            writer.close()


Called = Callable[[fl.FlightClient, fl.FlightCallOptions], Any]
CALLS: dict[str, Called] = {
    "ListFlights": lambda client, options: list(client.list_flights(b"", options)),
    "GetFlightInfo": lambda client, options: client.get_flight_info(BARE, options),
    "GetSchema": lambda client, options: client.get_schema(BARE, options),
    "DoGet": lambda client, options: client.do_get(fl.Ticket(b"s/quotes"), options).read_all(),
    "DoPut": put,
    "DoExchange": exchange,
    "DoAction": lambda client, options: list(client.do_action("barrage.health", options)),
    "ListActions": lambda client, options: client.list_actions(options),
}


def options(*headers: tuple[bytes, bytes]) -> fl.FlightCallOptions:
    return fl.FlightCallOptions(headers=list(headers), timeout=20)


def basic(user: str, password: str) -> bytes:
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())


BAD = {
    "none": options(),
    "empty": options((b"authorization", b"")),
    "wrong token": options((b"authorization", b"Bearer open sesam")),
    "longer token": options((b"authorization", b"Bearer open sesame!")),
    "no scheme": options((b"authorization", b"opensesame")),
    "anonymous": options((b"authorization", b"Anonymous")),
    "wrong password": options((b"authorization", basic("me", "nope"))),
    "no base64": options((b"authorization", b"Basic ????")),
    "token as user": options((b"authorization", basic(TOKEN, ""))),
    "forged": options((b"authorization", b"Bearer " + TokenSigner().issue(ME).encode())),
    "forged, older way": options((b"auth-token-bin", TokenSigner().issue(ME).encode())),
    "other header": options((b"token", TOKEN.encode())),
}
GOOD = {
    "token": options((b"authorization", b"Bearer " + TOKEN.encode())),
    "scheme in capitals": options((b"authorization", b"BEARER " + TOKEN.encode())),
    "password": options((b"authorization", basic("me", TOKEN))),
    "older way": options((b"auth-token-bin", TOKEN.encode())),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("credentials", BAD)
def test_bad_credentials_are_refused(guarded: Server, call: str, credentials: str) -> None:
    # pyarrow's get_schema() raises the status as an OSError
    with fl.connect(guarded.uri) as client, pytest.raises((fl.FlightUnauthenticatedError, OSError)) as caught:
        CALLS[call](client, BAD[credentials])
    assert type(from_flight(caught.value)) is AuthenticationError
    assert TOKEN not in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("credentials", GOOD)
def test_valid_credentials_are_accepted(guarded: Server, call: str, credentials: str) -> None:
    """The call raises nothing."""
    with fl.connect(guarded.uri) as client:
        CALLS[call](client, GOOD[credentials])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("credentials", BAD)
def test_without_a_token_any_credentials_are_accepted(front: str, call: str, credentials: str) -> None:
    """The call raises nothing."""
    with Server(front=front) as server, fl.connect(server.uri) as client:
        server.append_table("quotes", SCHEMA)
        CALLS[call](client, BAD[credentials])


def test_basic_credentials_are_exchanged_for_a_bearer_token(guarded: Server) -> None:
    with fl.connect(guarded.uri) as client:
        header = client.authenticate_basic_token("me", TOKEN)
        assert header[0] == b"authorization"
        assert header[1].startswith(b"Bearer ")
        assert TOKEN.encode() not in header[1]
        with fl.connect(guarded.uri) as other:
            assert len(list(other.list_flights(b"", options(header)))) == 1
        with pytest.raises(fl.FlightUnauthenticatedError):
            client.authenticate_basic_token("me", "nope")


class Payload(fl.ClientAuthHandler):  # type: ignore[misc]  # pyarrow has no types
    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self.payload = payload
        self.token = b""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        outgoing.write(self.payload)
        self.token = incoming.read()

    def get_token(self) -> bytes:
        return self.token


@pytest.mark.parametrize("payload", [TOKEN.encode(), b"me:" + TOKEN.encode(), fl.BasicAuth("me", TOKEN).serialize()])
def test_the_handshake_takes_credentials_as_payload_too(guarded: Server, payload: bytes) -> None:
    with fl.connect(guarded.uri) as client:
        client.authenticate(Payload(payload))
        assert len(list(client.list_flights())) == 1


@pytest.mark.parametrize("payload", [b"nope", b"me:nope", b"\xff", fl.BasicAuth("me", "nope").serialize()])
def test_a_handshake_with_bad_credentials_is_refused(guarded: Server, payload: bytes) -> None:
    with fl.connect(guarded.uri) as client, pytest.raises(fl.FlightUnauthenticatedError) as caught:
        client.authenticate(Payload(payload))
    assert "Traceback" not in str(caught.value)


def test_without_a_token_a_handshake_succeeds(server: Server) -> None:
    with fl.connect(server.uri) as client:
        header = client.authenticate_basic_token("me", "anything")
        assert list(client.list_flights(b"", options(header))) == []


def test_an_authenticator_of_ones_own_decides_and_names_the_caller() -> None:
    def authenticate(credentials: Credentials) -> str:
        if (credentials.scheme, credentials.secret) == ("custom", "42"):
            return "ada"
        raise AuthenticationError("Say 42.")

    with Server(token=authenticate) as server, fl.connect(server.uri) as client:
        server.append_table("quotes", SCHEMA)
        with pytest.raises(fl.FlightUnauthenticatedError, match="Say 42"):
            list(client.list_flights())
        with Follower(client, "quotes", headers=[(b"authorization", b"Custom 42")]) as follower:
            follower.wait(lambda follower: follower.messages)
            assert server.statistics().subscriptions[0].user == "ada"


def test_a_fault_of_the_authenticator_refuses_the_call(caplog: pytest.LogCaptureFixture) -> None:
    def authenticate(credentials: Credentials) -> str:
        raise RuntimeError("database password hunter2")

    with Server(token=authenticate) as server, fl.connect(server.uri) as client:  # noqa: SIM117
        with pytest.raises(fl.FlightInternalError) as caught:
            list(client.list_flights())
    assert "hunter2" not in str(caught.value)
    assert "hunter2" in caplog.text


@pytest.mark.parametrize("found", [None, 7, b"ada"])
@pytest.mark.parametrize("beside", [(), ("shared",)], ids=["alone", "beside a token"])
def test_an_authenticator_that_returns_no_caller_refuses_it_and_the_log_says_what_it_returns(
    found: Any, beside: tuple[str, ...], endpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        Server(token=[lambda _: found, *beside], **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        with pytest.raises(fl.FlightUnauthenticatedError, match="The token is missing or wrong"):
            list(client.list_flights())
        header = (b"authorization", b"Bearer shared")
        for _ in beside:
            assert list(client.list_flights(b"", options(header))) == []
    told = f"has returned a value of the type {type(found).__name__}; it returns the caller's name or a bs.Principal"
    assert told in caplog.text
    assert "Traceback" not in caplog.text


def test_a_bearer_token_ends_and_cannot_be_changed() -> None:
    now = [1000.0]
    signer = TokenSigner(lifetime=60, clock=lambda: now[0])
    token = signer.issue(ADA)
    assert signer.principal_of(token) == ADA
    body, _, signature = token.partition(".")
    assert signer.principal_of(f"{body}x.{signature}") is None
    assert signer.principal_of(f"{body}.{signature[:-1]}0") in (None, ADA)
    assert signer.principal_of(body) is None
    assert signer.principal_of("") is None
    assert TokenSigner().principal_of(token) is None
    now[0] = 1060.0
    assert signer.principal_of(token) is None


def test_a_stream_goes_on_when_the_token_it_began_with_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(token=TOKEN) as server, fl.connect(server.uri) as client:
        table = server.append_table("quotes", SCHEMA)
        header = client.authenticate_basic_token("me", TOKEN)
        with Follower(client, "quotes", headers=[header]) as follower:
            follower.wait(lambda follower: follower.messages)
            monkeypatch.setattr(TokenSigner, "principal_of", lambda self, token: None)
            with pytest.raises(fl.FlightUnauthenticatedError):
                list(client.list_flights(b"", options(header)))
            table.append({"sym": ["A"], "price": [1.0]})
            follower.wait(lambda follower: follower.rows)


@pytest.mark.parametrize("host", ["127.0.0.1:0", "1.2.3.400", "two words", "[::1", "x" * 300])
@pytest.mark.parametrize("options", [{}, {"token": TOKEN}, {"insecure": True}], ids=str)
def test_what_is_no_address_is_said_to_be_none(host: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match=r"host is an address of this machine.* is none\. The port"):
        Server(host, **options)


@pytest.mark.parametrize("named", ["host", "http_host"])
@pytest.mark.parametrize("reason", [socket.EAI_NONAME, socket.EAI_AGAIN])
def test_a_name_that_cannot_be_resolved_is_not_a_wrong_argument(
    named: str, reason: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name service may be unreachable now, as while a machine starts."""
    resolved = socket.getaddrinfo

    def fails(host: str, *args: Any, **options: Any) -> Any:
        if host == "db.example.com":
            raise socket.gaierror(reason, "no answer")
        return resolved(host, *args, **options)

    monkeypatch.setattr("socket.getaddrinfo", fails)
    options: dict[str, Any] = {named: "db.example.com"}
    with pytest.raises(
        UnavailableError, match=rf"^The name 'db\.example\.com' cannot be resolved: no .* Set {named}= "
    ):
        Server(insecure=True, **options)


def test_a_name_that_leads_to_an_address_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda host, *_: [(2, 1, 6, "", ("192.0.2.1", 0))])
    with pytest.raises(InvalidRequestError, match=r"Listening on example\.org .*insecure=True"):
        Server("example.org")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_listening_beyond_this_machine_needs_a_token_and_tls(host: str) -> None:
    """What is missing is named, and the argument that does without it; nothing else is."""
    anonymous, plaintext = (
        r"allow_anonymous=True \(--allow-anonymous",
        r"--tls-certificate.* allow_plaintext=True \(--allow-plaintext",
    )
    with pytest.raises(InvalidRequestError, match=f"{anonymous}.*{plaintext}.*insecure=True"):
        Server(host)
    for options in ({"token": TOKEN}, {"allow_anonymous": True}):
        with pytest.raises(InvalidRequestError, match=plaintext) as caught:
            Server(host, **options)
        assert "allow_anonymous" not in str(caught.value)
    with pytest.raises(InvalidRequestError, match=anonymous) as caught:
        Server(host, allow_plaintext=True)
    assert "allow_plaintext" not in str(caught.value)


def test_listening_beyond_this_machine_is_allowed_with_a_token_or_on_purpose() -> None:
    for server in (
        Server("0.0.0.0", token=TOKEN, allow_plaintext=True),
        Server("0.0.0.0", allow_plaintext=True, allow_anonymous=True),
        Server("0.0.0.0", insecure=True),
    ):
        with server, fl.connect(server.uri) as client:
            assert server.uri.startswith("grpc://127.0.0.1:")
            server.append_table("quotes", SCHEMA)
            (info,) = client.list_flights(b"", GOOD["token"])
            assert info.endpoints[0].locations[0].uri.startswith(b"arrow-flight-reuse-connection:")


def test_secrets_do_not_show() -> None:
    assert "hunter2" not in repr(Credentials("basic", "me", "hunter2"))
    schema = pa.schema([("a", pa.int8())])
    with Server(token="hunter2") as server:
        server.append_table("t", schema)
        assert "hunter2" not in repr(server)
        assert "hunter2" not in repr(server.statistics())


@pytest.mark.parametrize("token", ["", " ", "\t\n"])
def test_an_empty_token_is_refused(token: str) -> None:
    """A caller that shows nothing would have it."""
    with pytest.raises(InvalidRequestError, match="empty token"):
        Server(token=token)
    with pytest.raises(InvalidRequestError, match="empty token"):
        as_authenticator(("good", token))


def test_any_of_several_tokens_lets_in() -> None:
    authenticate = as_authenticator(("one", "two"))
    assert authenticate is not None
    for token in ("one", "two"):
        assert authenticate(Credentials("bearer", "", token))
        named = authenticate(Credentials("basic", "ann", token))
        assert isinstance(named, Principal)
        assert named.name == "ann"
    with pytest.raises(AuthenticationError):
        authenticate(Credentials("bearer", "", "three"))
