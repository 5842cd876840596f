"""Web tokens: only those of the issuer, for this audience, by a public key and allowed algorithm, before their end."""

from __future__ import annotations

import base64
import hmac
import io
import json
import os
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pyarrow.flight as fl
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from barrage_server.engine import UpdateGraph
from barrage_server.errors import AuthenticationError, InvalidRequestError
from barrage_server.server import Credentials, Principal, Right, Role, Server, WebTokens, web_tokens
from barrage_server.server.access import AccessControl
from barrage_server.server.authentication import Authentication
from barrage_server.server.catalog import Catalog
from tests.server.conftest import address, endpoints
from tests.waiting import until

ISSUER, AUDIENCE = "https://login.example.com", "barrage"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def public_key(key: Any, key_id: str | None, **fields: Any) -> dict[str, Any]:
    kinds: dict[type, Any] = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
        ed25519.Ed25519PrivateKey: jwt.algorithms.OKPAlgorithm,
    }
    kind = next(algorithm for private, algorithm in kinds.items() if isinstance(key, private))
    data: dict[str, Any] = json.loads(kind.to_jwk(key.public_key()))
    data.pop("key_ops", None)
    return data | ({} if key_id is None else {"kid": key_id}) | fields


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    write(path, public_key(RSA, "r"), public_key(EC, "e"), public_key(ED, "d"))
    return path


def write(path: Path, *keys: dict[str, Any]) -> None:
    other = path.with_suffix(".new")
    other.write_text(json.dumps({"keys": keys}))
    other.replace(path)


def made(path: Path, **options: Any) -> WebTokens:
    return WebTokens(path, audience=AUDIENCE, issuer=ISSUER, **options)


def claims(**fields: Any) -> dict[str, Any]:
    every = {"sub": "anna", "roles": ["a", "b"], "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 600} | fields
    return {name: value for name, value in every.items() if value is not None}


def signed(
    key: Any = RSA, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **fields: Any
) -> Credentials:
    return Credentials(
        "bearer", "", jwt.encode(claims(**fields), key, algorithm, {"kid": "r"} if headers is None else headers)
    )


def test_a_pipe_in_place_of_the_keys_is_not_waited_for(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    held = made(path)
    path.unlink()
    os.mkfifo(path)
    held.refresh()
    assert "is no regular file" in caplog.text
    with pytest.raises(InvalidRequestError, match="no regular file"):
        held.reread()
    assert held(signed()).name == "anna"


def test_a_valid_token_gives_name_roles_and_end(path: Path) -> None:
    ends = int(time.time()) + 600
    principal = made(path, leeway=10)(signed(exp=ends))
    assert principal.name == "anna"
    assert principal.role_names == {"a", "b"}
    assert principal.expires == ends + 10


@pytest.mark.parametrize(
    ("key", "algorithm", "key_id"), [(RSA, "RS256", "r"), (RSA, "PS384", "r"), (EC, "ES256", "e"), (ED, "EdDSA", "d")]
)
def test_allowed_algorithms_are_accepted_and_others_are_not(path: Path, key: Any, algorithm: str, key_id: str) -> None:
    token = signed(key, algorithm, {"kid": key_id})
    assert made(path, algorithms=[algorithm])(token).name == "anna"
    with pytest.raises(AuthenticationError):
        made(path, algorithms=["ES512"])(token)


def test_other_claims_can_have_name_and_roles(path: Path) -> None:
    check = made(path, name_claim="email", roles_claim="scope")
    principal = check(signed(email="anna@example.com", scope="a b  c"))
    assert principal.name == "anna@example.com"
    assert principal.role_names == {"a", "b", "c"}
    assert check(signed(email="anna@example.com")).role_names == frozenset()


def unsigned() -> Credentials:
    return Credentials("bearer", "", jwt.encode(claims(), None, "none", {"kid": "r"}))


def confused() -> Credentials:
    """Signed with the public key, which is known to all, as if it were a shared secret."""
    public = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    parts = (json.dumps(part).encode() for part in ({"alg": "HS256", "kid": "r"}, claims()))
    text = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = base64.urlsafe_b64encode(hmac.digest(public, text, "sha256")).rstrip(b"=")
    return Credentials("bearer", "", (text + b"." + signature).decode())


def changed(part: int) -> Credentials:
    parts = signed().secret.split(".")
    parts[part] = parts[part][:-4] + ("AAAA" if not parts[part].endswith("AAAA") else "BBBB")
    return Credentials("bearer", "", ".".join(parts))


REFUSED: dict[str, Callable[[], Credentials]] = {
    "nothing": lambda: Credentials("anonymous", "", ""),
    "no token": lambda: Credentials("bearer", "", "a.b.c"),
    "two parts": lambda: Credentials("bearer", "", "a.b"),
    "as a password": lambda: Credentials("basic", "anna", signed().secret),
    "no signature": unsigned,
    "public key as a secret": confused,
    "header changed": lambda: changed(0),
    "claims changed": lambda: changed(1),
    "signature changed": lambda: changed(2),
    "another key": lambda: signed(OTHER),
    "unknown key": lambda: signed(OTHER, headers={"kid": "x"}),
    "key of another kind": lambda: signed(EC, "ES256", {"kid": "r"}),
    "expired": lambda: signed(exp=time.time() - 31),
    "no expiry": lambda: signed(exp=None),
    "not yet": lambda: signed(nbf=time.time() + 600),
    "another audience": lambda: signed(aud="other"),
    "no audience": lambda: signed(aud=None),
    "another issuer": lambda: signed(iss="https://login.example.org"),
    "no issuer": lambda: signed(iss=None),
    "no name": lambda: signed(sub=None),
    "name that is no text": lambda: signed(sub=""),
    "roles that are none": lambda: signed(roles={"a": 1}),
    "roles that are no text": lambda: signed(roles=[1]),
    "too long": lambda: signed(filler="x" * 20_000),
    "deep": lambda: Credentials("bearer", "", "W1tbW1tb" * 1000 + ".e30.AA"),
}


@pytest.mark.parametrize("token", REFUSED.values(), ids=REFUSED)
def test_other_tokens_are_refused_with_one_text(path: Path, token: Any) -> None:
    with pytest.raises(AuthenticationError, match=r"^The token is missing or wrong\."):
        Authentication(made(path)).principal(token())


REASONS = {
    "nothing": "",
    "two parts": "",
    "no token": "the web token is damaged, or has claims of the wrong type",
    "no signature": "the algorithm 'none' of the web token is not among those allowed: RS256, ES256",
    "public key as a secret": "the algorithm 'HS256' of the web token is not among those allowed: RS256, ES256",
    "another key": "no key of the set has signed the web token",
    "unknown key": "no key of the set is for web tokens with the key id 'x' and RS256",
    "expired": "the web token has expired",
    "no expiry": "the web token has no claim 'exp'",
    "not yet": "the web token is not valid yet, by its claim 'nbf' or 'iat'",
    "another audience": "the audience of the web token is not 'barrage'",
    "another issuer": "the issuer of the web token is not 'https://login.example.com'",
    "name that is no text": "the claim 'sub' of the web token is no text, or an empty one",
    "roles that are none": "the claim 'roles' of the web token is no list of strings",
    "too long": "the web token has more than 16,384 characters",
}


@pytest.mark.parametrize(("case", "reason"), REASONS.items(), ids=REASONS)
def test_the_error_has_the_reason_beside_its_text(path: Path, case: str, reason: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        made(path)(REFUSED[case]())
    assert caught.value.reason == reason
    assert not reason or reason not in str(caught.value)


@pytest.mark.parametrize("beside", [(), ("shared",)], ids=["alone", "beside a token"])
def test_the_log_has_the_reason_in_one_line_without_the_token_and_the_caller_does_not_learn_it(
    path: Path, beside: tuple[str, ...], endpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = (json.dumps(part).encode() for part in ({"alg": "a\n" * 500, "kid": "r"}, claims()))
    forged = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts).decode() + ".AA"
    other = signed(aud="other").secret
    with (
        Server(token=[made(path), *beside], **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        for token in (other, forged):
            header = (b"authorization", f"Bearer {token}".encode())
            with pytest.raises(fl.FlightUnauthenticatedError, match="The token is missing or wrong") as caught:
                list(client.list_flights(b"", fl.FlightCallOptions(headers=[header])))
            assert "audience" not in str(caught.value)
    lines = [record.getMessage() for record in caplog.records if "authentication of" in record.getMessage()]
    assert any("(the audience of the web token is not 'barrage')" in line for line in lines)
    assert any("of the web token is not among those allowed: RS256, ES256)" in line for line in lines)
    assert all(line.isprintable() and len(line) < 1000 for line in lines)
    assert not any(part in line for token in (other, forged) for part in token.split(".")[:2] for line in lines)


def test_an_undefined_role_of_tokens_is_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    access = AccessControl(Catalog(UpdateGraph()), {"known": Role(["*"], ["read"])})
    for _ in range(3):
        assert access.rights(Principal("anna", ["known", "unknown\n"]), "t") == {Right.READ}
    told = [record.getMessage() for record in caplog.records]
    assert told == ["a caller has the role 'unknown\\n', which is not defined, and allows nothing"]


def test_the_log_names_a_bounded_number_of_undefined_roles(caplog: pytest.LogCaptureFixture) -> None:
    access = AccessControl(Catalog(UpdateGraph()), {"known": Role(["*"], ["read"])})
    for number in range(1000):
        access.rights(Principal("anna", [f"role {number}"]), "t")
    assert len(caplog.records) == 101
    assert "further roles" in caplog.records[-1].getMessage()
    access.replace({"known": Role(["*"], ["list"])})
    access.rights(Principal("anna", ["role 5"]), "t")
    assert "'role 5'" in caplog.records[-1].getMessage()


def test_within_the_leeway_a_token_is_valid(path: Path) -> None:
    assert made(path, leeway=60)(signed(exp=time.time() - 30)).name == "anna"


def test_a_token_without_a_key_id_is_compared_with_every_key_that_fits(path: Path) -> None:
    write(path, public_key(OTHER, "o"), public_key(RSA, None))
    assert made(path)(signed(headers={})).name == "anna"


def test_a_changed_key_set_is_read_again_and_a_removed_key_revokes(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check = made(path)
    principal = check(signed())
    assert check.holds(principal)
    write(path, public_key(OTHER, "o"))
    check.refresh()
    assert not check.holds(principal)
    with pytest.raises(AuthenticationError):
        check(signed())
    assert check(signed(OTHER, headers={"kid": "o"})).name == "anna"
    path.write_text("{")
    check.refresh()
    assert check(signed(OTHER, headers={"kid": "o"})).name == "anna"
    assert "stay as they were" in caplog.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON web key set"),
        ("[]", "no JSON web key set"),
        ('{"keys": [7]}', "no JSON web key set"),
        ('{"keys": []}', "no public key"),
        ('{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "r"}]}', "no public key"),
        ('{"keys": [{"kty": "RSA", "n": "AQAB", "kid": "r"}]}', "no public key"),
    ],
)
def test_a_key_set_without_public_keys_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(InvalidRequestError, match=words):
        made(path)


def test_shared_secrets_and_private_keys_of_a_set_are_left_out(path: Path) -> None:
    private = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(OTHER)) | {"kid": "p"}
    write(path, {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}, private, public_key(RSA, "r"))
    check = made(path)
    assert check(signed()).name == "anna"
    with pytest.raises(AuthenticationError):
        check(signed(OTHER, headers={"kid": "p"}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithms": ["HS256"]},
        {"algorithms": ["none"]},
        {"algorithms": []},
        {"algorithms": "RS256"},
        {"audience": ""},
        {"issuer": None},
        {"leeway": -1},
        {"keys": "http://login.example.com/keys"},
        {"keys": 7},
        {"keys": "none.json"},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(path: Path, wrong: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"keys": path, "audience": AUDIENCE, "issuer": ISSUER} | wrong
    with pytest.raises(InvalidRequestError):
        WebTokens(arguments.pop("keys"), **arguments)


class Provider:
    """A key set at a URL; how often it was fetched."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] | None = [public_key(RSA, "r")]
        self.fetched = 0

    def open(self, request: Any, timeout: float) -> Any:
        assert request.full_url == "https://login.example.com/keys"
        self.fetched += 1
        if self.keys is None:
            raise OSError("it does not answer")
        return io.BytesIO(json.dumps({"keys": self.keys}).encode())


def test_keys_at_a_url_are_fetched_now_and_then_and_for_unknown_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Off the calling thread, and at a bounded rate, whatever callers show; what was fetched outlives a failure."""
    provider, now = Provider(), [1000.0]
    monkeypatch.setattr(urllib.request.OpenerDirector, "open", provider.open)
    check = WebTokens("https://login.example.com/keys", audience=AUDIENCE, issuer=ISSUER, clock=lambda: now[0])
    principal = check(signed())
    provider.keys = [public_key(OTHER, "o")]
    for _ in range(10):
        with pytest.raises(AuthenticationError):
            check(signed(OTHER, headers={"kid": "o"}))
        check.refresh()
    assert provider.fetched == 1
    now[0] += 11
    check.refresh()
    until(lambda: not check.holds(principal))
    assert check(signed(OTHER, headers={"kid": "o"})).name == "anna"
    until(lambda: not check.is_fetching)
    provider.keys = None
    now[0] += 301
    check.refresh()
    until(lambda: provider.fetched == 3 and not check.is_fetching)
    assert check(signed(OTHER, headers={"kid": "o"})).name == "anna"


def test_a_provider_that_does_not_answer_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    provider, now = Provider(), [1000.0]
    monkeypatch.setattr(urllib.request.OpenerDirector, "open", provider.open)
    keys, provider.keys = provider.keys, None
    check = WebTokens("https://login.example.com/keys", audience=AUDIENCE, issuer=ISSUER, clock=lambda: now[0])
    with pytest.raises(AuthenticationError):
        check(signed())
    provider.keys = keys
    now[0] += 11
    check.refresh()
    until(lambda: not check.is_fetching and provider.fetched == 2)
    assert check(signed()).name == "anna"


def test_a_redirection_leads_to_https_only() -> None:
    handler = web_tokens._NoPlainRedirect()
    request = urllib.request.Request("https://login.example.com/keys")
    with pytest.raises(OSError, match="without https"):
        handler.redirect_request(request, None, 302, "", {}, "http://login.example.com/keys")
