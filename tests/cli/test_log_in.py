"""How the commands show who calls: a user's password, and a client certificate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import argon2
import pyarrow as pa
import pytest
import trustme

import barrage_server as bs
from barrage_server.cli.boundary import EXIT_FAILURE, EXIT_USAGE
from barrage_server.cli.following import FollowSettings, follow
from barrage_server.cli.settings import load_settings
from barrage_server.cli.usage import UsageError

from .conftest import Command, Program
from .test_process import uri_of

SECRET = "hunter2-of-all-things"


class Issued:
    """The files of an authority, and of one certificate of it."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.roots, self.certificate, self.key = (folder / f"{name}.pem" for name in ("roots", "chain", "key"))
        self.authority.cert_pem.write_to_path(str(self.roots))
        mine = self.authority.issue_cert("desk.example.com")
        self.certificate.write_bytes(b"".join(part.bytes() for part in mine.cert_chain_pems))
        self.key.write_bytes(mine.private_key_pem.bytes())

    def options(self) -> tuple[object, ...]:
        return "--tls-root-certs", self.roots, "--tls-certificate", self.certificate, "--tls-key", self.key


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return Issued(tmp_path)


@pytest.fixture(params=["pyarrow", "grpc"])
def guarded(issued: Issued, request: pytest.FixtureRequest) -> Iterator[bs.Server]:
    """A server that requires client certificates, with a table of two rows."""
    its = issued.authority.issue_cert("127.0.0.1")
    tls = its.cert_chain_pems[0].bytes(), its.private_key_pem.bytes()
    with bs.Server(
        tls_certificate=tls[0], tls_key=tls[1], tls_client_root_certs=issued.roots, front=request.param
    ) as server:
        server.append_table("t", {"n": "int64"}).append({"n": [1, 2]})
        yield server


@pytest.fixture
def users(tmp_path: Path) -> Iterator[bs.Server]:
    """A server with one user."""
    hashed = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(SECRET)
    path = tmp_path / "credentials.toml"
    path.write_text(f"[[users]]\nname = 'anna'\npassword = '{hashed}'\n")
    with bs.Server(token=bs.CredentialFile(path)) as server:
        server.append_table("t", {"n": "int64"}).append({"n": [1, 2]})
        yield server


def every_command(uri: str, out: Path) -> Iterator[tuple[str | Path, ...]]:
    """Each command that logs in. One publishes what another one has written to ``out``."""
    yield "tables", uri
    yield "watch", uri, "t", "--once", "--plain"
    yield "snapshot", uri, "t", "-o", out
    yield "publish", uri, "u", out
    yield "create", uri, "v", "n:int64"
    yield "drop", uri, "v"
    yield "stats", uri


def test_every_command_takes_a_certificate(
    guarded: bs.Server, issued: Issued, command: Command, tmp_path: Path
) -> None:
    for args in every_command(guarded.uri, tmp_path / "rows.csv"):
        assert command(*args, *issued.options())[0] == 0, args
    assert guarded.table("u").size == 2


def test_a_certificate_that_is_missing_is_told_in_the_words_of_the_command_line(
    guarded: bs.Server, issued: Issued, command: Command
) -> None:
    code, _, err = command("tables", guarded.uri, "--tls-root-certs", issued.roots)
    assert code == EXIT_FAILURE
    assert "does it want a client certificate (--tls-certificate, --tls-key)" in err
    assert "tls_" not in err


def test_a_pair_is_complete_and_for_tls(issued: Issued, command: Command, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pem"
    damaged.write_text(SECRET)
    tls = "grpc+tls://127.0.0.1:1"
    for uri, options, told in (
        (tls, ("--tls-key", issued.key), "--tls-key needs --tls-certificate"),
        (tls, ("--tls-certificate", issued.certificate), "--tls-certificate needs --tls-key"),
        (tls, ("--tls-certificate", issued.certificate, "--tls-key", "none.pem"), "'none.pem' cannot be read"),
        (tls, ("--tls-certificate", issued.certificate, "--tls-key", damaged), "has no PEM text"),
        (tls, ("--tls-certificate", issued.certificate, "--tls-key", issued.roots), "do not fit each other"),
        ("grpc://127.0.0.1:1", issued.options(), "--tls-certificate and --tls-key are for connections with TLS"),
    ):
        code, out, err = command("tables", uri, *options)
        assert (code, out) == (EXIT_USAGE, "")
        assert told in err
        assert SECRET not in err and err.count("\n") == 1


def test_an_unknown_certificate_is_told_from_a_missing_token(issued: Issued, command: Command) -> None:
    its = issued.authority.issue_cert("127.0.0.1")
    tls = its.cert_chain_pems[0].bytes(), its.private_key_pem.bytes()
    with bs.Server(tls_certificate=tls[0], tls_key=tls[1], token="right") as server:
        code, _, err = command("tables", server.uri, *issued.options())
        assert code == EXIT_FAILURE
        assert "does not accept this certificate alone, and requires a token: pass it with --token" in err
        assert command("tables", server.uri, *issued.options(), "--token", "right")[0] == 0


def test_a_user_logs_in_with_the_password_of_the_environment(
    users: bs.Server, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARRAGE_PASSWORD", SECRET)
    code, out, err = command("tables", users.uri, "--user", "anna", "--json")
    assert (code, err) == (0, "")
    assert '"t"' in out
    monkeypatch.setenv("BARRAGE_TOKEN", "of the environment, which an option overrides")
    assert command("snapshot", users.uri, "t", "-o", "-", "--format", "csv", "--user", "anna")[0] == 0
    assert command("tables", users.uri)[0] == EXIT_FAILURE


def test_every_command_takes_a_password_from_a_file(
    users: bs.Server, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\r\nand a line that is not read\n", encoding="utf-8-sig", newline="")
    monkeypatch.setenv("BARRAGE_PASSWORD", "of the environment, which an option overrides")
    for args in every_command(users.uri, tmp_path / "rows.csv"):
        assert command(*args, "--user", "anna", "--password-file", secret)[0] == 0, args
    assert users.table("u").size == 2


def test_a_password_file_without_a_password_is_told(users: bs.Server, command: Command, tmp_path: Path) -> None:
    empty, binary, long, wrong = (tmp_path / name for name in ("empty", "binary", "long", "wrong"))
    empty.write_text(f"\n{SECRET}\n")
    binary.write_bytes(b"\xff\xfe" + SECRET.encode())
    long.write_text(SECRET * 10_000)
    wrong.write_text(f" {SECRET}")
    user = ("--user", "anna")
    for path, options, told in (
        (tmp_path / "none", user, "'{}' cannot be read: No such file or directory."),
        (tmp_path, user, "'{}' cannot be read: Is a directory."),
        (binary, user, "'{}' cannot be read: it is not text."),
        (empty, user, "'{}' has no password in its first line."),
        (long, user, "'{}' has no password in its first line."),
        (empty, (), "--password-file has the password of a user: pass --user as well."),
    ):
        code, out, err = command("tables", users.uri, *options, "--password-file", path)
        assert (code, out) == (EXIT_USAGE, "")
        assert told.format(path) in err
        assert SECRET not in err and err.count("\n") == 1
    code, _, err = command("tables", users.uri, *user, "--password-file", wrong)
    assert (code, "does not accept this user with this password" in err) == (EXIT_FAILURE, True)


def test_a_log_in_that_is_wrong_is_told(users: bs.Server, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = command("tables", users.uri, "--user", "anna")
    needed = "--user needs the user's password: pass --password-file, or BARRAGE_PASSWORD in the environment."
    assert (code, needed in err) == (EXIT_USAGE, True)
    monkeypatch.setenv("BARRAGE_PASSWORD", SECRET + "x")
    code, _, err = command("tables", users.uri, "--user", "anna")
    assert (code, "does not accept this user with this password" in err) == (EXIT_FAILURE, True)
    assert SECRET not in err
    code, _, err = command("tables", users.uri, "--user", "anna", "--token", "x")
    assert (code, "--token and --user are two ways to log in" in err) == (EXIT_USAGE, True)
    code, _, err = command("tables", users.uri, "--user", " ")
    assert (code, "--user is empty" in err) == (EXIT_USAGE, True)
    assert "a user passes --user, and --password-file or BARRAGE_PASSWORD" in command("tables", users.uri)[2]


def test_serve_shows_a_certificate_to_the_servers_that_it_follows(
    guarded: bs.Server, issued: Issued, program: Program, command: Command
) -> None:
    process = program(
        "serve", "--port", 0, "--follow", f"{guarded.uri}/t=copy", "--follow-tls-root-certs", issued.roots,
        "--follow-tls-certificate", issued.certificate, BARRAGE_FOLLOW_TLS_KEY=str(issued.key),
    )  # fmt: skip
    code, out, err = command("watch", uri_of(process), "copy", "--once", "--wait", 60, "--plain")
    assert (code, err) == (0, "")
    assert "2 rows" in out


def test_an_entry_has_a_certificate_of_its_own_or_that_of_all(
    guarded: bs.Server, issued: Issued, server: bs.Server, tmp_path: Path
) -> None:
    """The default is shown over TLS only, and goes to entries without any."""
    config = tmp_path / "barrage.toml"
    config.write_text(
        f"follow_tls_certificate = '{issued.certificate}'\nfollow_tls_key = '''{issued.key.read_text()}'''\n"
        f"[[follow]]\nuri = '{guarded.uri}/t'\nname = 'own'\ntls_certificate = '{issued.certificate}'\n"
        f"tls_key = '{issued.key}'\n[[follow]]\nuri = '{guarded.uri}/t'\nname = 'default'\n"
    )
    settings = load_settings(config, {})
    assert "PRIVATE" not in repr(settings)
    own, other = settings.follow
    follow(server, own, None, str(issued.roots)).wait_live(60)
    identity = settings.follow_identity()
    follow(server, other, None, str(issued.roots), identity).wait_live(60)
    with bs.Server() as plain:
        plain.append_table("t", pa.schema([("a", pa.int8())]))
        follow(server, FollowSettings(uri=f"{plain.uri}/t", name="plain"), None, None, identity).wait_live(60)


def test_an_incomplete_pair_of_serve_is_named(issued: Issued, server: bs.Server) -> None:
    with pytest.raises(UsageError, match=r"^follow_tls_key needs follow_tls_certificate: "):
        load_settings(None, {"follow_tls_key": str(issued.key)}).follow_identity()
    half = FollowSettings(uri="grpc+tls://h:1/t", tls_certificate=str(issued.certificate))
    with pytest.raises(UsageError, match=r"Following 'grpc\+tls://h:1/t': tls_certificate needs tls_key"):
        follow(server, half, None)
    pair = {"tls_certificate": str(issued.certificate), "tls_key": str(issued.key)}
    with pytest.raises(UsageError, match="tls_certificate and tls_key are for connections with TLS"):
        follow(server, FollowSettings.model_validate({"uri": "grpc://h:1/t", **pair}), None)
    damaged = FollowSettings.model_validate({"uri": "grpc+tls://h:1/t", **pair, "tls_key": SECRET})
    with pytest.raises(UsageError, match="tls_key takes PEM text or the path of a PEM file") as told:
        follow(server, damaged, None)
    assert SECRET not in str(told.value)
