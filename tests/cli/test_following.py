"""``serve --follow``: tables of other servers, from flags, the environment and the file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
import trustme

import barrage_server as bs
from barrage_server.cli.following import FollowSettings, follow
from barrage_server.cli.settings import load_settings
from barrage_server.cli.usage import UsageError
from barrage_server.engine import KeyedTable

from .conftest import Command, Program
from .test_process import uri_of


def test_a_line_names_the_table_and_what_to_call_it() -> None:
    assert load_settings(None, {"follow": ["grpc://h:1/t=copy", "dh://h:2/scope/u"]}).follow == (
        FollowSettings(uri="grpc://h:1/t", name="copy"),
        FollowSettings(uri="dh://h:2/scope/u"),
    )
    assert load_settings(None, {"follow": ["grpc://h:1/a%3Db=a=b"]}).follow[0].name == "a=b"


def test_several_lines_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARRAGE_FOLLOW", "grpc://h:1/t=copy, grpc://h:1/u")
    monkeypatch.setenv("BARRAGE_FOLLOW_TOKEN", "the-secret")
    settings = load_settings(None, {})
    assert [(entry.uri, entry.name) for entry in settings.follow] == [("grpc://h:1/t", "copy"), ("grpc://h:1/u", None)]
    assert "the-secret" not in repr(settings)


def test_a_section_of_the_file(tmp_path: Path) -> None:
    config = tmp_path / "barrage.toml"
    config.write_text(
        """
        follow_token = "for-most"
        [[follow]]
        uri = "dh+plain://h:1/scope/t"
        name = "copy"
        token = "its-own"
        columns = ["a", "b"]
        interval_ms = 100
        [[follow]]
        uri = "grpc+tls://h:2/u"
        tls_root_certs = "ca.pem"
        """
    )
    first, second = load_settings(config, {}).follow
    assert (first.name, first.columns, first.interval_ms) == ("copy", ("a", "b"), 100)
    assert first.token is not None and first.token.get_secret_value() == "its-own"
    assert (second.token, second.tls_root_certs) == (None, "ca.pem")
    assert "its-own" not in repr(first)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[follow]]\nname = 'a'", "follow.0.uri: "),
        ("[[follow]]\nuri = 'grpc://h:1/t'\nas = 'b'", "follow.0: unknown setting 'as'"),
        ("[[follow]]\nuri = 'grpc://h:1/t'\ncolumns = []", "follow.0.columns: "),
        ("follow = ['grpc://h:1/t=']", "write URI=NAME"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "barrage.toml"
    config.write_text(text)
    with pytest.raises(bs.InvalidRequestError, match=message):
        load_settings(config, {})


def test_what_cannot_be_followed_is_told_with_its_uri(server: bs.Server, tmp_path: Path) -> None:
    with pytest.raises(bs.InvalidRequestError, match=r"Following 'grpc://h:1': .*grpc://host:port/table"):
        follow(server, FollowSettings(uri="grpc://h:1"), None)
    with pytest.raises(bs.InvalidRequestError, match="tls_root_certs takes PEM text or the path of a PEM file"):
        follow(server, FollowSettings(uri="grpc+tls://h:1/t", tls_root_certs=str(tmp_path / "none.pem")), None)
    server.append_table("t", pa.schema([("a", pa.int8())]))
    with pytest.raises(bs.InvalidRequestError, match="There is a table 't' already"):
        follow(server, FollowSettings(uri="grpc://h:1/t"), None)


def test_the_token_for_all_goes_to_those_without_one(server: bs.Server) -> None:
    """The one becomes live, and the other is refused for the token of its own."""
    with bs.Server(token="for-most") as upstream:
        upstream.append_table("t", pa.schema([("a", pa.int8())]))
        default = load_settings(None, {"follow_token": "for-most"}).follow_token
        shown = follow(server, FollowSettings(uri=f"{upstream.uri}/t"), default)
        other = FollowSettings.model_validate({"uri": f"{upstream.uri}/t", "name": "u", "token": "another"})
        refused = follow(server, other, default)
        shown.wait_live(30)
        refused.wait_for(bs.FollowedState.REFUSED, 30)


def test_a_relay_serves_before_its_upstream_does(
    program: Program, server: bs.Server, quotes: KeyedTable, command: Command
) -> None:
    server.drop("quotes")
    process = program("serve", "--port", 0, "--follow", f"{server.uri}/quotes=copy", "--follow", f"{server.uri}/later")
    uri = uri_of(process)
    with bs.connect(uri) as client:
        assert client.tables() == []
        assert {entry["name"] for entry in client.statistics()["followed"]} == {"copy", "later"}
    table = server.keyed_table("quotes", quotes.schema, key=["sym"])
    table.upsert({"sym": ["Z"], "price": [26.0], "size": [1]})
    code, out, err = command("watch", uri, "copy", "--once", "--wait", 60, "--plain")
    assert (code, err) == (0, "")
    assert "Z" in out
    code, out, _ = command("tables", uri, "--json")
    assert [json.loads(line)["name"] for line in out.splitlines()] == ["copy"]


def test_a_uri_that_cannot_be_right_ends_serve_with_one_line(program: Program) -> None:
    process = program("serve", "--port", 0, "--follow", "http://h/t")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert err.splitlines()[-1].startswith("barrage-server: Following 'http://h/t': ")


def test_the_certificates_for_all_are_trusted_of_those_without_some(server: bs.Server, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
    roots = tmp_path / "roots.pem"
    authority.cert_pem.write_to_path(str(roots))
    default = load_settings(None, {"follow_tls_root_certs": str(roots)}).follow_tls_root_certs
    schema = pa.schema([("a", pa.int8())])
    with bs.Server(tls_certificate=chain, tls_key=issued.private_key_pem.bytes()) as safe, bs.Server() as plain:
        for upstream, name in ((safe, "safe"), (plain, "plain")):
            upstream.append_table("t", schema).append({"a": [1, 2]})
            follow(server, FollowSettings(uri=f"{upstream.uri}/t", name=name), None, default).wait_live(60)
            assert server.table(name).size == 2
    with pytest.raises(UsageError, match="follow_tls_root_certs takes PEM text or the path of a PEM file"):
        follow(server, FollowSettings(uri="grpc+tls://h:1/t"), None, str(tmp_path / "none.pem"))


def test_headers_and_times_of_the_settings_are_those_of_follow(
    server: bs.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "barrage.toml"
    config.write_text(
        "[[follow]]\nuri = 'grpc://h:1/t'\ntimeout = 2.5\nmax_delay = 0.5\n"
        "headers = { x-tenant = 'a', Authorization = 'Bearer inner' }\n"
    )
    settings = load_settings(config, {"follow_token": "for all"})
    assert "inner" not in repr(settings)
    given: dict[str, object] = {}
    monkeypatch.setattr(server, "follow", lambda _uri, **options: given.update(options))
    follow(server, settings.follow[0], settings.follow_token)
    assert (given["timeout"], given["max_delay"], given["token"]) == (2.5, 0.5, None)
    assert given["headers"] == {"x-tenant": "a", "Authorization": "Bearer inner"}
    for wrong in ("timeout = 0", "max_delay = 'x'", "headers = ['a']", "headers = { x = 5 }"):
        config.write_text(f"[[follow]]\nuri = 'grpc://h:1/t'\n{wrong}\n")
        with pytest.raises(UsageError, match=rf"follow\.0\.{wrong.split()[0]}"):
            load_settings(config, {})
