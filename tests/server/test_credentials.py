"""Credentials from files: tokens, passwords, certificates; what changes is noticed, and what is revoked ends."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import argon2
import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from barrage_proto import deephaven_pb2 as proto

from barrage_server.errors import AuthenticationError, InvalidRequestError, LimitError
from barrage_server.server import CredentialFile, Credentials, Principal, Right, Role, Server
from barrage_server.server.authentication import CERTIFICATE, AnyOf, Authentication, SharedTokens, as_authenticator
from barrage_server.server.deephaven.sessions import Sessions
from barrage_server.server.passwords import Passwords
from barrage_server.server.principal import UNAUTHENTICATED
from tests.server.conftest import DEEPHAVEN, FLIGHT, address
from tests.server.follower import Follower
from tests.waiting import until

SCHEMA = pa.schema([("x", pa.int64())])
EVERY = {name: Role(["*"], list(Right)) for name in "abc"}
HASHER = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
HASH = HASHER.hash("open sesame")


def entry(kind: str, **fields: str) -> str:
    return "\n".join((f"[[{kind}]]", *(f"{name} = {value}" for name, value in fields.items()), ""))


def token(name: str, secret: str, **fields: str) -> str:
    return entry("tokens", name=f'"{name}"', sha256=f'"{hashlib.sha256(secret.encode()).hexdigest()}"', **fields)


def rewrite(path: Path, text: str) -> None:
    """As an editor does it: another file takes the name."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "credentials.toml"
    path.write_text(
        token("desk", "by digest", roles='["a", "b"]')
        + entry("tokens", name='"plain"', token='"in clear"')
        + token("late", "expired", expires="2020-01-01T00:00:00Z")
        + token("soon", "not yet", expires="2990-01-01T00:00:00+01:00")
        + entry("users", name='"anna"', password=f'"{HASH}"', roles='["a"]')
        + entry("users", name='"old"', password=f'"{HASH}"', expires="2020-01-01T00:00:00Z")
        + entry("certificates", identity='"feed.example.com"', name='"feed"', roles='["c"]')
    )
    return path


def bearer(secret: str) -> Credentials:
    return Credentials("bearer", "", secret)


def test_each_way_in_gives_its_principal(path: Path) -> None:
    check = Authentication(CredentialFile(path)).principal
    ways = {
        "desk": bearer("by digest"),
        "plain": Credentials("basic", "whoever", "in clear"),
        "soon": Credentials("psk", "", "not yet"),
        "anna": Credentials("basic", "anna", "open sesame"),
        "feed": Credentials(CERTIFICATE, "", "feed.example.com"),
    }
    for name, credentials in ways.items():
        assert check(credentials).name == name
    assert check(ways["desk"]).role_names == {"a", "b"}
    assert check(ways["anna"]).role_names == {"a"}
    assert check(ways["feed"]).role_names == {"c"}


WRONG = {
    "none": Credentials("anonymous", "", ""),
    "wrong token": bearer("by diges"),
    "digest instead of the token": bearer(hashlib.sha256(b"by digest").hexdigest()),
    "expired token": bearer("expired"),
    "wrong password": Credentials("basic", "anna", "open sesam"),
    "no user": Credentials("basic", "nobody", "open sesame"),
    "expired user": Credentials("basic", "old", "open sesame"),
    "no password": Credentials("basic", "anna", ""),
    "long password": Credentials("basic", "anna", "x" * 100_000),
    "hash instead of the password": Credentials("basic", "anna", HASH),
    "identity as a token": bearer("feed.example.com"),
    "other identity": Credentials(CERTIFICATE, "", "feed.example.org"),
    "token as an identity": Credentials(CERTIFICATE, "", "by digest"),
}


@pytest.mark.parametrize("credentials", WRONG.values(), ids=WRONG)
def test_missing_wrong_and_expired_credentials_have_one_text(path: Path, credentials: Credentials) -> None:
    texts = set()
    for authenticate in (CredentialFile(path), SharedTokens(["s"]), AnyOf([CredentialFile(path), SharedTokens(["s"])])):
        with pytest.raises(AuthenticationError) as caught:
            Authentication(authenticate).principal(credentials)
        texts.add(str(caught.value))
    assert len(texts) == 1
    assert next(iter(texts)).startswith("The token is missing or wrong.")


def test_every_password_is_compared_with_some_hash(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of users that do not exist or have expired too: the time does not tell which there are."""
    compared: list[str] = []
    fits = Passwords._fits

    def counted(self: Passwords, password: str, encoded: str) -> bool:
        compared.append(encoded)
        return fits(self, password, encoded)

    monkeypatch.setattr(Passwords, "_fits", counted)
    check = Authentication(CredentialFile(path)).principal
    for user in ("anna", "nobody", "old"):
        with pytest.raises(AuthenticationError):
            check(Credentials("basic", user, "wrong"))
    assert len(compared) == 3
    costs = {argon2.extract_parameters(encoded).memory_cost for encoded in compared}
    assert costs == {64}


def test_a_right_password_is_hashed_once_and_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    passwords = Passwords(clock=lambda: now[0])
    passwords.expect([HASH])
    assert not passwords.is_known("anna", "open sesame", HASH)
    assert passwords.verify("anna", "open sesame", HASH)
    assert passwords.is_known("anna", "open sesame", HASH)
    assert not passwords.is_known("anna", "open sesam", HASH)
    assert not passwords.is_known("bob", "open sesame", HASH)
    assert not passwords.is_known("anna", "open sesame", HASHER.hash("open sesame"))
    assert not passwords.verify("anna", "wrong", HASH)
    assert not passwords.is_known("anna", "wrong", HASH)
    now[0] = 1e6
    assert not passwords.is_known("anna", "open sesame", HASH)


def test_passwords_are_hashed_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers with wrong ones take neither all processors nor all memory."""
    passwords = Passwords()
    passwords.expect([HASH])
    go, lock = threading.Event(), threading.Lock()
    inside, most = [0], [0]

    def slow(self: Passwords, password: str, encoded: str) -> bool:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        go.wait(20)
        with lock:
            inside[0] -= 1
        return False

    monkeypatch.setattr(Passwords, "_fits", slow)
    threads = [threading.Thread(target=passwords.verify, args=("u", "p", HASH), daemon=True) for _ in range(64)]
    for thread in threads:
        thread.start()
    until(lambda: passwords._waiting == 64)
    with pytest.raises(LimitError, match="64 callers wait for this server to check their passwords"):
        passwords.verify("u", "p", HASH)
    go.set()
    for thread in threads:
        thread.join(20)
    assert most[0] == 2


def test_a_password_is_hashed_off_the_event_loop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other clients of the Deephaven port are served meanwhile."""
    go, begun = threading.Event(), threading.Event()
    fits = Passwords._fits

    def slow(self: Passwords, password: str, encoded: str) -> bool:
        begun.set()
        go.wait(20)
        return fits(self, password, encoded)

    monkeypatch.setattr(Passwords, "_fits", slow)
    header = b"Basic " + base64.b64encode(b"anna:open sesame")
    with Server(token=CredentialFile(path), roles=EVERY, deephaven_port=0) as server:
        server.append_table("t", SCHEMA)
        place = address(server, DEEPHAVEN)
        with fl.connect(place) as one, fl.connect(place) as other:
            found: list[Any] = []
            options = fl.FlightCallOptions(headers=[(b"authorization", header)], timeout=20)
            waiting = threading.Thread(target=lambda: found.extend(one.list_flights(b"", options)), daemon=True)
            waiting.start()
            assert begun.wait(20)
            quick = fl.FlightCallOptions(headers=[(b"authorization", b"Bearer by digest")], timeout=10)
            assert len(list(other.list_flights(b"", quick))) == 1
            assert not found
            go.set()
            waiting.join(20)
            assert len(found) == 1


def test_a_changed_file_is_read_again(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = CredentialFile(path)
    before = store(bearer("by digest"))
    assert store.holds(before)
    rewrite(path, token("desk", "by digest", roles='["a"]'))
    store.refresh()
    after = store(bearer("by digest"))
    assert after.role_names == {"a"}
    assert store.holds(after)
    assert not store.holds(before)  # it has another role: its streams must not go on
    rewrite(path, "[[tokens]]\nname = 'half'")
    store.refresh()
    assert store.holds(after)
    assert "stay as they were" in caplog.text
    path.unlink()
    store.refresh()
    assert store.holds(after)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("secret = [", r"are not TOML \(at end of document\)"),
        ("secret = " + "9" * 5000, r"are not TOML\.$"),
        ("secret = " + "[" * 5000, r"are not TOML\.$"),
        ("[[token]]\nname='a'", r"There is no 'token'; there are \[\[tokens\]\]"),
        ("tokens = 7", "is a list of tables"),
        ("[[tokens]]\nname='a'", "number 1 needs either token or sha256"),
        ("[[tokens]]\nname='a'\ntoken='s3'\nsha256='00'", "needs either"),
        ("[[tokens]]\nname='a'\nsha256='00'", "64 hexadecimal digits"),
        ("[[tokens]]\nname='a'\ntoken=' '", "token must be a string that is not empty"),
        ("[[tokens]]\ntoken='s3cret'", "name must be a string"),
        ("[[tokens]]\nname='a'\ntoken='s3cret'\nroles='b'", "roles must be a list"),
        ("[[tokens]]\nname='a'\ntoken='s3cret'\nrole=['b']", "unknown field 'role'"),
        ("[[tokens]]\nname='a'\ntoken='s3cret'\nexpires=2020-01-01", "with an offset"),
        ("[[tokens]]\nname='a'\ntoken='s3cret'\n[[tokens]]\nname='b'\ntoken='s3cret'", "number 2 has the token of an"),
        ("[[users]]\nname='a'\npassword='s3cret'", "not an Argon2 hash"),
        ("[[users]]\nname='a'\npassword='$argon2id$s3cret'", "no Argon2 hash"),
        ("[[certificates]]\nname='a'", "identity must be a string"),
    ],
)
def test_a_wrong_entry_is_named_and_secrets_are_not(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(InvalidRequestError, match=words) as caught:
        CredentialFile(path)
    assert "s3cret" not in str(caught.value)
    assert "secret" not in str(caught.value)


WRONG_HASHES = {
    "a short end": HASH.rsplit("$", 1)[0] + "$AAAA",
    "an empty end": HASH.rsplit("$", 1)[0] + "$",
    "no end": HASH.rsplit("$", 1)[0],
    "no base64": HASH[:-1] + "!",
    "an impossible length": HASH + "AA",
    "a short salt": HASH.replace(HASH.split("$")[4], "c2FsdA"),
    "nothing": "$argon2id$",
    "another kind": HASH.replace("argon2id", "argon2x"),
    "another version": HASH.replace("v=19", "v=99"),
    "version 0": HASH.replace("v=19", "v=0"),
    "a number with a sign": HASH.replace("t=1", "t=+1"),
    "little memory": HASH.replace("m=64", "m=4"),
    "no passes": HASH.replace("t=1", "t=0"),
    "no lanes": HASH.replace("p=1", "p=0"),
    "much memory": HASH.replace("m=64", "m=4294967295"),
    "more memory than may be": HASH.replace("m=64", "m=2097153"),
    "many passes": HASH.replace("t=1", "t=4294967295"),
    "many lanes": HASH.replace("m=64,t=1,p=1", "m=262144,t=1,p=16384"),
    "a long number": HASH.replace("m=64", "m=" + "9" * 5000),
}


@pytest.mark.parametrize("kind", WRONG_HASHES)
def test_a_damaged_or_costly_hash_is_refused_and_changes_nothing(
    path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = CredentialFile(path)
    before = store(bearer("by digest"))
    rewrite(path, entry("users", name='"anna"', password=f'"{WRONG_HASHES[kind]}"'))
    for read in (lambda: CredentialFile(path), store.reread):
        with pytest.raises(InvalidRequestError, match=r"\[\[users\]\] number 1: .* hash") as caught:
            read()
        assert HASH.split("$")[4] not in str(caught.value)
    store.refresh()
    assert store.holds(before)
    assert "the credentials stay as they were" in caplog.text


@pytest.mark.parametrize("kind", [argon2.Type.D, argon2.Type.I, argon2.Type.ID])
def test_every_kind_and_version_of_a_hash_is_accepted(tmp_path: Path, kind: argon2.Type) -> None:
    for version in (16, 19):
        encoded = argon2.low_level.hash_secret(b"hers", b"12345678", 1, 64, 1, 4, kind, version)
        path = tmp_path / f"{version}.toml"
        path.write_text(entry("users", name='"anna"', password=f'"{encoded.decode()}"'))
        assert CredentialFile(path)(Credentials("basic", "anna", "hers")).name == "anna"


def test_a_hash_that_cannot_be_computed_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The memory of the process may be bounded."""

    def full(*_: object) -> str:
        raise argon2.exceptions.HashingError("Memory allocation error")

    store = CredentialFile(path)
    before = store(bearer("by digest"))
    monkeypatch.setattr(argon2.PasswordHasher, "hash", full)
    store.refresh(force=True)
    assert store.holds(before)
    assert "the credentials stay as they were" in caplog.text
    with pytest.raises(InvalidRequestError, match="Memory allocation error"):
        CredentialFile(path)


def test_the_name_of_a_user_has_no_colon(tmp_path: Path) -> None:
    """Basic credentials end it at the first one."""
    path = tmp_path / "c.toml"
    path.write_text(entry("users", name='"an:na"', password=f'"{HASH}"'))
    with pytest.raises(InvalidRequestError, match="number 1: name has a colon"):
        CredentialFile(path)
    path.write_text(entry("tokens", name='"an:na"', token='"t"'))
    assert CredentialFile(path)(bearer("t")).name == "an:na"


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be read: No such file"):
        CredentialFile(tmp_path / "none.toml")


def test_several_may_accept_a_caller(path: Path) -> None:
    def own(credentials: Credentials) -> str:
        if credentials.secret != "mine":
            raise AuthenticationError("No.")
        return "own"

    authenticate = as_authenticator(["one", "two", CredentialFile(path), own], ["guest"])
    authentication = Authentication(authenticate, ["guest"])
    for credentials, name, roles in (
        (bearer("two"), "token", {"guest"}),
        (Credentials("basic", "ann", "one"), "ann", {"guest"}),
        (bearer("by digest"), "desk", {"a", "b"}),
        (bearer("mine"), "own", {"guest"}),
        (Credentials("basic", "anna", "open sesame"), "anna", {"a"}),
    ):
        principal = authentication.principal(credentials)
        assert principal.name == name
        assert principal.role_names == roles
        assert authentication.holds(principal)
        assert authentication.quick(credentials) == principal
    assert not authentication.holds(Principal("made up", credential="token:00"))


@pytest.mark.parametrize("wrong", [7, [], [7], ["", "a"], " "])
def test_what_is_no_token_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidRequestError):
        Server(token=wrong)


def headers(secret: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {secret}".encode())]


Change = Callable[[Path, Server], None]
ENDS: dict[str, Change] = {
    "removed": lambda path, server: rewrite(path, token("other", "other")),
    "other roles": lambda path, server: rewrite(
        path, token("desk", "by digest", roles='["b"]') + token("other", "other")
    ),
    "expired": lambda path, server: rewrite(
        path, token("desk", "by digest", expires="2020-01-01T00:00:00Z") + token("other", "other")
    ),
    "replaced": lambda path, server: server.reload(token=["other"]),
}


@pytest.mark.parametrize("endpoint", [FLIGHT, DEEPHAVEN])
@pytest.mark.parametrize("change", ENDS.values(), ids=ENDS)
def test_streams_and_sessions_end_with_their_credentials(tmp_path: Path, endpoint: str, change: Change) -> None:
    """Those of other callers go on; what a revoked one was handed out is worth nothing."""
    path = tmp_path / "c.toml"
    path.write_text(token("desk", "by digest") + token("other", "other"))
    with Server(token=[CredentialFile(path), "other"], deephaven_port=0) as server:
        table = server.append_table("t", SCHEMA)
        table.append({"x": [1]})
        with fl.connect(address(server, endpoint)) as client:
            handed_out = client.authenticate_basic_token("me", "by digest")
            lasting = Follower(client, "t", headers=headers("other")) if change is not ENDS["replaced"] else None
            ending = [Follower(client, "t", headers=each) for each in (headers("by digest"), [handed_out])]
            for follower in ending:
                follower.wait(lambda follower: follower.rows)
            change(path, server)
            until(lambda: all(follower.ended for follower in ending))
            for follower in ending:
                assert follower.error is None or type(follower.error) is AuthenticationError
            with pytest.raises(fl.FlightUnauthenticatedError):
                list(client.list_flights(b"", fl.FlightCallOptions(headers=[handed_out])))
            assert len(list(client.list_flights(b"", fl.FlightCallOptions(headers=headers("other"))))) == 1
            if lasting is not None:
                table.append({"x": [2]})
                lasting.wait(lambda follower: len(follower.rows) == 2)
                lasting.close()
            for follower in ending:
                follower.close()


def test_calls_without_a_session_end_with_their_credentials(tmp_path: Path) -> None:
    """Watching the list of tables is one that lasts."""
    path = tmp_path / "c.toml"
    path.write_text(token("desk", "by digest"))
    with Server(token=CredentialFile(path), deephaven_port=0) as server:
        server.append_table("t", SCHEMA)
        with grpc.insecure_channel(address(server, DEEPHAVEN).removeprefix("grpc://")) as channel:
            calls: Any = channel
            fields = calls.unary_stream("/io.deephaven.proto.backplane.grpc.ApplicationService/ListFields")(
                proto.ListFieldsRequest().SerializeToString(),
                timeout=20,
                metadata=(("authorization", "Bearer by digest"),),
            )
            assert next(iter(fields))
            rewrite(path, token("other", "other"))
            with pytest.raises(grpc.RpcError) as caught:
                next(fields)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_call_that_is_about_to_log_in_is_not_ended() -> None:
    """A handshake has shown nothing yet, and nothing of it can have been revoked."""
    sessions = Sessions(10.0, 10, 10, lambda: 0.0, lambda session: None, lambda principal: False)
    arriving, revoked = sessions.guest(UNAUTHENTICATED), sessions.guest(Principal("ada"))
    kept = sessions.guest(Principal("bob"))
    sessions.open(kept)
    sessions.end_invalid()
    assert not arriving.is_closed
    assert revoked.is_closed
    assert kept.is_closed
    assert not len(sessions)


def test_a_stream_ends_when_its_credentials_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("barrage_server.server.options.Authentication", partial(Authentication, clock=lambda: now[0]))
    secret = {"t": Principal("brief", expires=3600.0)}

    def authenticate(credentials: Credentials) -> Principal:
        return secret[credentials.secret]

    with Server(token=authenticate) as server:
        server.append_table("t", SCHEMA).append({"x": [1]})
        with fl.connect(server.uri) as client:
            handed_out = fl.FlightCallOptions(headers=headers("t"), timeout=10)
            assert len(list(client.list_flights(b"", handed_out))) == 1
            with Follower(client, "t", headers=headers("t")) as follower:
                follower.wait(lambda follower: follower.rows)
                now[0] = 3600.0
                until(lambda: follower.ended)
                assert type(follower.error) is AuthenticationError
            with pytest.raises(fl.FlightUnauthenticatedError):
                list(client.list_flights(b"", handed_out))


def test_a_server_that_accepts_everyone_stays_so(path: Path) -> None:
    with Server() as server:
        assert server.accepts_everyone
        with pytest.raises(InvalidRequestError, match="accepts every caller"):
            server.reload(token="secret")
        server.reload()


def test_an_identity_is_none_that_another_caller_can_take(path: Path) -> None:
    """New credentials of an entry keep it; a name that a caller chooses for itself is not taken for it."""

    def own(credentials: Credentials) -> str:
        if credentials.secret != "mine":
            raise AuthenticationError("No.")
        return "desk"

    authentication = Authentication(as_authenticator(["shared one", "shared two", CredentialFile(path), own]))
    desk = authentication.principal(bearer("by digest")).identity
    others = {
        authentication.principal(credentials).identity
        for credentials in (
            Credentials("basic", "desk", "shared one"),
            Credentials("basic", "other", "shared two"),
            bearer("mine"),
        )
    }
    assert len(others) == 2
    assert desk not in others
    rewrite(path, token("desk", "new one", roles='["other"]'))
    authentication.refresh()
    assert authentication.principal(bearer("new one")).identity == desk
    open_to_all = Authentication()
    assert open_to_all.principal(Credentials("basic", "desk", "")).identity == "open"


def test_what_a_replaced_function_accepted_is_no_longer_valid() -> None:
    authentication = Authentication(lambda credentials: "ada")
    before = authentication.principal(bearer("x"))
    assert authentication.holds(before)
    authentication.replace(AnyOf([lambda credentials: "ada", SharedTokens(["s"])]))
    assert not authentication.holds(before)
    assert authentication.holds(authentication.principal(bearer("x")))


@pytest.fixture(autouse=True)
def _no_secrets_in_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    for secret in ("by digest", "in clear", "open sesame"):
        assert secret not in caplog.text


def test_roles_in_the_file_must_be_defined(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the start and at a reload; a file that changes by itself is told of, and such a role allows nothing."""
    shown: list[tuple[Any, dict[str, Role] | None]] = [
        (CredentialFile(path), None),
        (["a token", CredentialFile(path)], {"a": EVERY["a"], "b": EVERY["b"]}),
    ]
    for accepted, roles in shown:
        with pytest.raises(InvalidRequestError, match=r"The credentials name the role '[ac]', which is"):
            Server(token=accepted, roles=roles)
    with Server(token=CredentialFile(path), roles=EVERY) as server:
        with pytest.raises(InvalidRequestError, match="'b', which is not defined"):
            server.reload(token=CredentialFile(path), roles={"a": EVERY["a"], "c": EVERY["c"]})
        rewrite(path, token("desk", "by digest", roles='["a", "typo", "other"]'))
        until(lambda: "roles that are not defined, and allow nothing: other, typo" in caplog.text)
        with fl.connect(server.uri) as client:
            server.append_table("t", SCHEMA)
            options = fl.FlightCallOptions(headers=headers("by digest"))
            assert len(list(client.list_flights(b"", options))) == 1


def damage_file(path: Path) -> None:
    rewrite(path, "broken [[")


def name_another_role(path: Path) -> None:
    rewrite(path, token("desk", "by digest", roles='["elsewhere"]'))


def forget(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("also", [(), ("a token",)])
@pytest.mark.parametrize("change", [damage_file, name_another_role, forget])
@pytest.mark.parametrize("narrowed", [False, True])
def test_a_reload_changes_everything_or_nothing(
    tmp_path: Path, change: Callable[[Path], None], also: tuple[str, ...], narrowed: bool
) -> None:
    """Neither roles nor credentials when the file that the server has is wrong, or names a role that is undefined."""
    path = tmp_path / "c.toml"
    path.write_text(token("desk", "by digest", roles='["a"]'))
    before = {"a": Role(["t"], ["list", "read"])}
    after = before | {"b": Role(["*"], ["list"])} if not narrowed else {"a": Role(["t"], ["list"])}
    with Server(token=[CredentialFile(path), *also], roles=before) as server:
        change(path)
        with pytest.raises(InvalidRequestError, match=r"credentials"):
            server.reload(roles=after)
        access: Any = server._server_state.access
        assert access.roles == before
        authentication: Any = server._server_state.authentication
        if change is not name_another_role:  # a file that changes by itself may be in force by now
            assert authentication.principal(bearer("by digest")).role_names == {"a"}
        rewrite(path, token("desk", "in clear", roles='["a"]'))
        server.reload(roles=after)
        assert access.roles == after
        assert authentication.principal(bearer("in clear")).role_names == {"a"}


def test_a_reload_of_roles_alone_keeps_those_that_credentials_name(tmp_path: Path) -> None:
    """In their file, and by default."""
    path = tmp_path / "c.toml"
    path.write_text(token("desk", "by digest", roles='["a"]'))
    other = {"other": Role(["t"], ["read"])}
    with Server(token=CredentialFile(path), roles=EVERY) as server:
        with pytest.raises(InvalidRequestError, match="The credentials name the role 'a', which is not defined"):
            server.reload(roles=other)
        assert server._server_state.access.roles == EVERY
    with Server(token="by digest", roles=EVERY, default_roles=["b"]) as server:
        with pytest.raises(InvalidRequestError, match="'b' is none"):
            server.reload(roles=other)
        assert server._server_state.access.roles == EVERY
