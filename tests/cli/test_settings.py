"""Settings of ``serve``: which source wins, and how mistakes are told."""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import jwt
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import SecretStr

import barrage_server as bs
from barrage_server.address import DEFAULT_PORT
from barrage_server.cli import serve
from barrage_server.cli.serve import check_declarations, declare, open_server, page_link, web_port
from barrage_server.cli.settings import TableSettings, load_settings
from barrage_server.cli.usage import UsageError
from barrage_server.engine.kinds import spec_of
from barrage_server.errors import InvalidRequestError
from barrage_server.server.front import Front
from barrage_server.server.listening import listening_socket
from barrage_server.wire.protocol import TableKind
from tests.cli.conftest import Program


def test_defaults_listen_on_this_machine_only() -> None:
    settings = load_settings(None, {})
    assert (settings.host, settings.port, settings.accepted_tokens, settings.insecure) == (
        "127.0.0.1",
        DEFAULT_PORT,
        (),
        False,
    )


def test_the_front_is_chosen_by_address_unless_it_is_named(tmp_path: Path) -> None:
    assert load_settings(None, {}).front is Front.AUTO
    config = tmp_path / "barrage.toml"
    config.write_text('front = "pyarrow"\n')
    assert load_settings(config, {}).front is Front.PYARROW
    assert load_settings(config, {"front": "grpc"}).front is Front.GRPC
    with pytest.raises(UsageError, match=r"^--front: .*'auto', 'pyarrow' or 'grpc'"):
        load_settings(config, {"front": "http"})


def test_flags_win_over_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "barrage.toml"
    config.write_text('host = "file"\nport = 1\nlog_level = "error"\n')
    monkeypatch.setenv("BARRAGE_HOST", "environment")
    monkeypatch.setenv("BARRAGE_PORT", "2")
    settings = load_settings(config, {"port": 3})
    assert (settings.host, settings.port, settings.log_level) == ("environment", 3, "error")


def test_limits_can_be_set_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "barrage.toml"
    config.write_text("[limits]\nuploads = 7\n[limits.staging]\nentries = 3\n[subscriptions]\nmin_interval_ms = 5\n")
    monkeypatch.setenv("BARRAGE_LIMITS__SUBSCRIPTIONS", "9")
    settings = load_settings(config, {})
    assert (settings.limits.uploads, settings.limits.subscriptions) == (7, 9)
    assert settings.limits.staging.entries == 3
    assert settings.subscriptions.min_interval_ms == 5


def test_tokens_are_collected_and_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARRAGE_TOKEN", "first-secret")
    monkeypatch.setenv("BARRAGE_TOKENS", "second-secret, third-secret,first-secret")
    settings = load_settings(None, {})
    assert settings.accepted_tokens == ("first-secret", "second-secret", "third-secret")
    assert not any(token in repr(settings) for token in settings.accepted_tokens)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BARRAGE_TOKEN", ""),
        ("BARRAGE_TOKEN", " \t"),
        ("BARRAGE_TOKENS", ""),
        ("BARRAGE_TOKENS", ","),
        ("BARRAGE_TOKENS", "good,"),
        ("BARRAGE_TOKENS", "good, ,other"),
        ("BARRAGE_FOLLOW_TOKEN", ""),
    ],
)
def test_an_empty_token_is_refused_beside_others_too(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It would let in callers that show nothing."""
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="an empty token protects nothing"):
        load_settings(None, {})
    monkeypatch.delenv(name)
    with pytest.raises(UsageError, match="an empty token protects nothing"):
        load_settings(None, {"tokens": ["good", " "]})
    config = tmp_path / "barrage.toml"
    config.write_text('tokens = ["good", ""]\n')
    with pytest.raises(UsageError, match="an empty token protects nothing"):
        load_settings(config, {})


def test_the_configuration_of_the_image_needs_a_token() -> None:
    config = Path(bs.__file__).parents[1] / "docker" / "barrage.toml"
    settings = load_settings(config, {"port": 0})
    with pytest.raises(InvalidRequestError, match="Set a token"):
        bs.Server(settings.host, settings.port, token=settings.accepted_tokens or None, insecure=settings.insecure)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    config = tmp_path / "barrage.toml"
    config.write_bytes(b"token = '\xff'")
    with pytest.raises(UsageError, match=r"barrage.toml' is not TOML, which is UTF-8 text\."):
        load_settings(config, {})


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a file: --config takes a TOML file"):
        load_settings(tmp_path, {})


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "barrage.toml"
    config.write_text("port = 1")

    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise PermissionError(13, "Permission denied", str(config))

    monkeypatch.setattr(Path, "open", refuse)  # root may read every file
    with pytest.raises(UsageError, match=r"barrage.toml' cannot be read: Permission denied\."):
        load_settings(config, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hots = 'x'", "barrage.toml: unknown setting 'hots'; did you mean 'host'\\?$"),
        ("zzz = 'x'", "barrage.toml: unknown setting 'zzz'; there are .*host, .*port"),
        ("port = 'many'", "barrage.toml: port: "),
        ("port = 70000", "barrage.toml: port: "),
        (
            "[limits]\nsubscription = 1",
            "barrage.toml: limits: unknown setting 'subscription'; did you mean 'subscr",
        ),
        (
            "[limits.staging]\nentris = 1",
            "barrage.toml: limits.staging: unknown setting 'entris'; did you mean 'entr",
        ),
        ("[limits]\nsubscriptions = -1", "subscriptions must be at least 0"),
        ("[[tables]]\nname = 'a'\ncolumns = {}", "barrage.toml: tables.0.columns: "),
        (
            "[[tables]]\nname = 'a'\ncolumns = {a = 'int64'}\nkey = 5",
            "barrage.toml: tables.0.key: must be the name of a column or a list of names, not 5",
        ),
        (
            "[[tables]]\nname = 'a'\ncolumns = {a = 'int64'}\nkey = ['a', 5]",
            r"barrage.toml: tables.0.key: must be the name of a column or a list of names, not \['a', 5\]",
        ),
        (
            "[[tables]]\nname = 'a'\ncolumns = {a = 'int64'}\nkeys = ['a']",
            "barrage.toml: tables.0: unknown setting 'keys'; did you mean 'key'",
        ),
        (
            "[[tables]]\nname = 'a'\ncolums = {a = 'int64'}",
            r"barrage.toml: tables.0: unknown setting 'colums'; did you mean 'columns'\?$",
        ),
        (
            "port = 'many'\n[roles.r]\ntable = ['t']\nrights = []",
            r"barrage.toml: roles.r: unknown setting 'table'; did you mean 'tables'\? .*toml: port: Input .*\.$",
        ),
        (
            "[roles.r]\nzzz = 1\nrights = []",
            r"unknown setting 'zzz'; there are columns, .*\. .*barrage.toml: roles.r.tables: Field required\.$",
        ),
        (
            "[roles.x]\ntables = 'a'\nrights = 'read'",
            r"barrage.toml: roles.x.tables: Input should be a list\. .*: roles.x.rights: Input should be a list\.$",
        ),
        (
            "".join(
                f"{name} = 'a'\n" for name in ("port", "fsync", "http_port", "web", "web_port", "writers", "console")
            ),
            r"toml: port: Input.*: console: Input.*: http_port: Input.* \(and 2 more\)\.$",
        ),
        (
            "[roles.a]\ntables = ['t']\nright = ['read']",
            r"barrage.toml: roles.a: unknown setting 'right'; did you mean 'rights'\?$",
        ),
        (
            "[web_tokens]\nkeys = 'k'\nissuer = 'i'\naudince = 'a'",
            r"barrage.toml: web_tokens: unknown setting 'audince'; did you mean 'audience'\?$",
        ),
        ("[[follow]]\nurl = 'grpc://h/t'", r"barrage.toml: follow.0: unknown setting 'url'; did you mean 'uri'\?$"),
        ("token_file = '~no-such-user/x'", r"token_file: there is no home directory '~no-such-user'; .* \./~no-such-"),
        ("data_dir = ''", "data_dir: is empty; name a folder"),
        ("port = ", "is not TOML"),
        ("port = " + "9" * 5000, "cannot be read: a number is too long"),
        ("port = " + "[" * 5000, "cannot be read: .*nested too deeply"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "barrage.toml"
    config.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_settings(config, {})


def test_paths_may_begin_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the file, in the environment and in flags: a shell expands ``--data-dir ~/x``, and not ``--data-dir=~/x``."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("BARRAGE_TOKEN_FILE", "~/token")
    config = tmp_path / "barrage.toml"
    config.write_text(
        """
        credentials = "~/credentials.toml"
        tls_certificate = "~/cert.pem"
        tls_key = "~/key.pem"
        tls_client_root_certs = "~/roots.pem"
        follow_tls_root_certs = "~/up/roots.pem"
        follow_tls_certificate = "~/up/cert.pem"
        follow_tls_key = "~/up/key.pem"
        [web_tokens]
        keys = "~/keys.json"
        audience = "a"
        issuer = "i"
        [[follow]]
        uri = "grpc+tls://h/t"
        tls_root_certs = "~/its/roots.pem"
        tls_certificate = "~/its/cert.pem"
        tls_key = "~/its/key.pem"
        """
    )
    settings = load_settings(config, {"data_dir": "~/data"})
    (follow,) = settings.follow
    assert settings.web_tokens is not None
    found = [
        *(settings.data_dir, settings.token_file, settings.credentials, settings.web_tokens.keys),
        *(settings.tls_certificate, settings.tls_key, settings.tls_client_root_certs),
        *(settings.follow_tls_root_certs, settings.follow_tls_certificate, settings.follow_tls_key),
        *(follow.tls_root_certs, follow.tls_certificate, follow.tls_key),
    ]
    shown = [one.get_secret_value() if isinstance(one, SecretStr) else str(one) for one in found]
    assert len(shown) == 13
    assert all(path.startswith("/home/me/") for path in shown)
    assert load_settings(None, {"data_dir": "./~"}).data_dir == Path("~")


@pytest.mark.parametrize("name", [".", "./"])
def test_the_current_directory_may_keep_the_tables(
    name: str, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by a flag as well as by the environment; an empty name is none."""
    process = program("serve", "--port", 0, "--no-web", "--data-dir", name)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("grpc://")
    assert (tmp_path / "barrage.json").is_file()
    process.terminate()
    assert process.wait(30) == 0
    monkeypatch.setenv("BARRAGE_DATA_DIR", name)
    assert load_settings(None, {}).data_dir == Path()
    with pytest.raises(UsageError, match="--data-dir: is empty"):
        load_settings(None, {"data_dir": ""})


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("BARRAGE_TOKNE", "Environment: unknown setting 'BARRAGE_TOKNE'; did you mean 'BARRAGE_TOKEN'"),
        ("BARRAGE_PORT", "Environment: BARRAGE_PORT: "),
        ("BARRAGE_LIMITS__SUBSCRIPTION", "Environment: BARRAGE_LIMITS__SUBSCRIPTION: unknown setting 'subscription'"),
        ("BARRAGE_TABLES", "Environment: BARRAGE_TABLES must be JSON"),
    ],
)
def test_a_mistake_in_the_environment_is_named(variable: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt token would leave the server open."""
    monkeypatch.setenv(variable, "x")
    with pytest.raises(UsageError, match=message):
        load_settings(None, {})


@pytest.mark.parametrize("variable", ["BARRAGE_DEBUG", "BARRAGE_SERVICE_HOST", "BARRAGE_PORT_8815_TCP"])
def test_variables_that_others_set_are_left_alone(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform of a container makes variables of the names of services."""
    monkeypatch.setenv(variable, "tcp://10.0.0.1:8815")
    assert load_settings(None, {}).port == DEFAULT_PORT


def test_a_wrong_flag_is_a_wrong_use() -> None:
    with pytest.raises(UsageError, match=r"--log-level: .*'debug'"):
        load_settings(None, {"log_level": "loud"})


def test_half_of_a_tls_identity_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="TLS needs both"):
        load_settings(None, {"tls_key": str(tmp_path / "key.pem")}).tls_identity()
    both = {"tls_key": str(tmp_path / "key.pem"), "tls_certificate": str(tmp_path / "cert.pem")}
    with pytest.raises(UsageError, match=r"tls_certificate .*cannot be read"):
        load_settings(None, both).tls_identity()


def test_a_tls_identity_is_pem_or_paths(tmp_path: Path) -> None:
    pem = "-----BEGIN SECRET-----\n"
    (tmp_path / "key.pem").write_text(pem)
    settings = load_settings(None, {"tls_key": str(tmp_path / "key.pem"), "tls_certificate": pem})
    assert settings.tls_identity() == (pem.encode(), pem.encode())
    assert pem not in repr(load_settings(None, {"tls_key": pem}))


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, TableKind.APPEND),
        ({"key": ("a",)}, TableKind.KEYED),
        ({"capacity": 5}, TableKind.RING),
        ({"kind": "blink"}, TableKind.BLINK),
        ({"kind": "replaced"}, TableKind.REPLACED),
    ],
)
def test_a_declared_table_is_there_with_its_kind(fields: dict[str, object], kind: TableKind) -> None:
    table = TableSettings.model_validate({"name": "t", "columns": {"a": "int64", "b": "list<string>"}, **fields})
    with bs.Server() as server:
        declare(server, table)
        spec = spec_of(server.table("t"))
        assert spec is not None
        assert spec.kind is kind
        assert server.table("t").schema == pa.schema([("a", pa.int64()), ("b", pa.list_(pa.string()))])


@pytest.mark.parametrize(
    "fields",
    [
        {"columns": {"a": "int65"}},
        {"key": ("b",)},
        {"kind": "append", "key": ("a",)},
        {"kind": "append", "capacity": 5},
        {"kind": "ring"},
        {"name": ""},
    ],
)
def test_a_declaration_that_contradicts_itself_names_its_table(fields: dict[str, object]) -> None:
    table = TableSettings.model_validate({"name": "mine", "columns": {"a": "int64"}, **fields})
    with (
        bs.Server() as server,
        pytest.raises(UsageError, match=f"Table '{table.name}' of the configuration: "),
    ):
        declare(server, table)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("", "cannot be durable without a data directory"),
        ("kind = 'blink'", "its rows live for one cycle"),
        ("key = ['b']", "b"),
    ],
)
def test_declarations_are_checked_before_a_port_is_open_or_a_folder_is_made(
    tmp_path: Path, fields: str, reason: str
) -> None:
    config, folder = tmp_path / "barrage.toml", tmp_path / "data"
    kept = f"data_dir = '{folder}'\n" if fields else ""
    config.write_text(f"{kept}[[tables]]\nname = 'mine'\ndurable = true\ncolumns = {{a = 'int64'}}\n{fields}\n")
    with pytest.raises(UsageError, match=f"Table 'mine' of the configuration: .*{reason}"):
        check_declarations(load_settings(config, {}))
    assert not folder.exists()


def test_a_table_that_is_declared_twice_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "barrage.toml"
    config.write_text("[[tables]]\nname = 'mine'\ncolumns = {a = 'int64'}\n" * 2)
    with pytest.raises(UsageError, match="declared twice"):
        check_declarations(load_settings(config, {}))


def test_a_variable_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARRAGE_ROLES", "x")
    with pytest.raises(UsageError, match="Environment: BARRAGE_ROLES must be JSON"):
        load_settings(None, {})


def test_roles_and_credentials_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\nnot this\n")
    (tmp_path / "credentials.toml").write_text("[[tokens]]\nname = 'desk'\ntoken = 'desk token'\nroles = ['reader']\n")
    config = tmp_path / "barrage.toml"
    config.write_text(
        f"""
        token_file = "{tmp_path / "token"}"
        credentials = "{tmp_path / "credentials.toml"}"
        default_roles = ["guest"]
        [roles.reader]
        tables = ["fx_*", "rates"]
        rights = ["list", "read"]
        [roles.guest]
        tables = []
        rights = []
        """
    )
    settings = load_settings(config, {})
    assert settings.accepted_tokens == ("from a file",)
    assert settings.access_roles()["reader"] == bs.Role(["fx_*", "rates"], ["list", "read"])
    with bs.Server(
        token=settings.authenticators(), roles=settings.access_roles(), default_roles=settings.default_roles
    ) as server:
        for name in ("fx_eur", "rates", "other"):
            server.append_table(name, {"n": "int64"})
        with bs.connect(server.uri, token="desk token") as client:
            assert [table.name for table in client.tables()] == ["fx_eur", "rates"]
            with pytest.raises(bs.ForbiddenError, match="The right 'publish' on table 'rates' is missing"):
                client.append("rates", {"n": [1]})
            with pytest.raises(bs.UnknownTableError):
                client.snapshot("other")
        with bs.connect(server.uri, token="from a file") as client:
            assert client.tables() == []


def test_the_example_of_roles_with_rows_and_columns(tmp_path: Path) -> None:
    """That of the documentation."""
    text = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    (example,) = [part for part in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "where =" in part]
    config = tmp_path / "barrage.toml"
    config.write_text(example)
    settings = load_settings(config, {})
    (table,) = settings.tables
    with bs.Server(token=lambda shown: bs.Principal("caller", [shown.secret]), roles=settings.access_roles()) as server:
        declare(server, table)
        trades: Any = server.table("fx_trades")
        pairs = ["EURUSD", "GBPUSD", "EURUSD"]
        trades.append({"desk": [7, 7, 8], "pair": pairs, "price": [1.0, 2.0, 3.0], "client": ["a", "b", "c"]})
        seen = {"desk_7": [{"pair": "EURUSD", "price": 1.0}], "compliance": trades.to_arrow().to_pylist()}
        for role, rows in seen.items():
            with bs.connect(server.uri, token=role) as client:
                assert client.snapshot("fx_trades").to_pylist() == rows


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("where = \"regoin == 'EU'\"", "Role 'a' shows nothing of table 'fx': .*'regoin', which is no column"),
        ("where = 'price == 1.5'", "Role 'a' shows nothing of table 'fx': .*1.5 is no such value"),
        ("columns = ['a', 'b']", "Role 'a' shows nothing of table 'fx': .*none of the columns a, b"),
        ("where = 'price >'", "Role 'a': .*is no condition.* It is written with =="),
        ("where = 'open(1)'", "Role 'a': .*does not have calls"),
        ("columns = []", "Role 'a': .*at least one name"),
    ],
)
def test_a_role_that_does_not_fit_a_declared_table_is_refused(tmp_path: Path, role: str, words: str) -> None:
    config = tmp_path / "barrage.toml"
    config.write_text(
        f"[[tables]]\nname = 'fx'\ncolumns = {{region = 'string', price = 'int64'}}\n"
        f"[roles.a]\ntables = ['f*']\nrights = ['read']\n{role}\n"
    )
    with pytest.raises(UsageError, match=words):
        load_settings(config, {}).access_roles()


def test_web_tokens_of_the_settings_are_accepted(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": "k", "use": "sig"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public]}))
    config = tmp_path / "barrage.toml"
    config.write_text(
        f"[web_tokens]\nkeys = '{tmp_path / 'keys.json'}'\naudience = 'barrage'\nissuer = 'here'\n"
        f"name_claim = 'email'\nalgorithms = ['ES256']\n"
    )
    claims = {"email": "anna", "aud": "barrage", "iss": "here", "exp": time.time() + 600}
    with bs.Server(token=load_settings(config, {}).authenticators()) as server:
        with bs.connect(server.uri, token=jwt.encode(claims, key, "ES256", {"kid": "k"})) as client:
            assert client.tables() == []
        with pytest.raises(bs.AuthenticationError):
            bs.connect(server.uri, token=jwt.encode(claims | {"aud": "other"}, key, "ES256", {"kid": "k"}))


def test_the_example_of_the_settings_makes_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the documentation, but for what it takes from elsewhere: its certificates and its folder."""
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    (example,) = [part for part in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[web_tokens]" in part]
    lines = [line for line in example.splitlines() if not re.match(r"(tls_|data_dir|port |token |.*_port )", line)]
    (tmp_path / "barrage.toml").write_text("\n".join(lines))
    (tmp_path / "token").write_text("shared\n")
    (tmp_path / "creds.toml").write_text("[[tokens]]\nname = 'a'\ntoken = 'own'\nroles = ['reader']\n")
    monkeypatch.chdir(tmp_path)
    settings = load_settings(tmp_path / "barrage.toml", {"port": 0})
    accepted = settings.authenticators()
    assert [type(each).__name__ for each in accepted] == ["TokenFile", "CredentialFile", "WebTokens"]
    with open_server(settings, accepted) as server, bs.connect(server.uri, token="own") as client:
        assert client.tables() == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[roles.a]\ntables = ['t']\nrights = ['reed']", "roles.a.rights"),
        ("[roles.a]\ntables = ['t']\nrights = []\nright = ['read']", "did you mean 'rights'"),
        ("[roles.a]\nrights = ['read']", "roles.a.tables"),
        ("[roles.a]\ntables = ['t']\nrights = ['read']\nwhere = 5", "roles.a.where"),
        ("[web_tokens]\nkeys = 'k'\nissuer = 'i'", "web_tokens.audience"),
        ("[web_tokens]\nkeys = 'k'\nissuer = 'i'\naudiense = 'a'", "audience"),
    ],
)
def test_wrong_roles_and_web_tokens_are_named(tmp_path: Path, text: str, words: str) -> None:
    config = tmp_path / "barrage.toml"
    config.write_text(text)
    with pytest.raises(UsageError, match=words):
        load_settings(config, {})


class TestThePageOfBrowsers:
    def test_its_port_follows_the_choices_of_the_user(self) -> None:
        assert web_port(load_settings(None, {"port": 0})) == 0
        assert web_port(load_settings(None, {"port": 0, "web_port": 7})) == 7
        assert web_port(load_settings(None, {"web": False})) is None
        with pytest.raises(UsageError, match="--no-web"):
            web_port(load_settings(None, {"web": False, "web_port": 7}))

    def test_a_taken_port_that_nobody_chose_costs_the_page_only(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            monkeypatch.setattr(serve, "DEFAULT_WEB_PORT", taken.getsockname()[1])
            assert web_port(load_settings(None, {})) is None
        assert "--web-port" in caplog.text

    def test_there_is_no_page_if_another_server_takes_its_default_port_meanwhile(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            own = other.getsockname()[1]  # free, once this is closed
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            monkeypatch.setattr(serve, "DEFAULT_WEB_PORT", port)
            looks: Iterator[Callable[[], socket.socket]] = iter(
                [taken.dup, partial(listening_socket, "127.0.0.1", port, "web_port")]  # free, then taken
            )
            monkeypatch.setattr(serve, "listening_socket", lambda *_: next(looks)())
            settings = load_settings(None, {"port": own, "allow_anonymous": True})
            with open_server(settings, ()) as server:
                assert server.web_uri is None
                server.create_table("t", {"n": "int64"})
            assert "--web-port" in caplog.text
            settings = load_settings(None, {"port": own, "web_port": port, "allow_anonymous": True})
            with pytest.raises(bs.UnavailableError, match="web_port"):  # a port that the user chose
                open_server(settings, ())

    def test_the_link_has_the_token_in_a_terminal_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = load_settings(None, {"port": 0, "token": "a b#c"})
        with bs.Server(token="a b#c", web_port=0) as server:
            assert page_link(server, settings) == server.web_uri
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
            assert page_link(server, settings) == f"{server.web_uri}/#token=a%20b%23c"


def test_the_key_of_a_table_is_a_column_or_a_list_of_columns(tmp_path: Path) -> None:
    config = tmp_path / "barrage.toml"
    for key, found in (("'a'", ("a",)), ("['a', 'b']", ("a", "b")), ("[]", ())):
        config.write_text(f"[[tables]]\nname = 't'\ncolumns = {{a = 'int64', b = 'int64'}}\nkey = {key}")
        assert load_settings(config, {}).tables[0].key == found


def test_the_writers_of_the_settings_are_those_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARRAGE_WRITERS", "5")
    given: dict[str, object] = {}
    monkeypatch.setattr(bs, "Server", lambda *_, **options: given.update(options))
    open_server(load_settings(None, {"port": 0, "web": False}), [])
    assert given["writers"] == 5
    monkeypatch.setenv("BARRAGE_WRITERS", "0")
    with pytest.raises(UsageError, match="BARRAGE_WRITERS"):
        load_settings(None, {})
