"""The page's files over plain HTTP: what is sent with them, and what is refused."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import re
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from websockets.http11 import Request

import barrage_server as bs


@pytest.fixture(scope="module")
def server() -> Iterator[bs.Server]:
    with bs.Server(web_port=0, token="secret", web_hosts=["tables.example.com"]) as made:
        yield made


def get(server: bs.Server, path: str, *, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    address = urlsplit(server.web_uri or "")
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def test_the_page_needs_no_token_and_has_no_unsafe_policy(server: bs.Server) -> None:
    status, headers, body = get(server, "/")
    assert status == 200
    assert body.lower().startswith(b"<!doctype html>")
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert "set-cookie" not in headers


def test_the_page_comes_in_one_answer_and_may_run_nothing_else_in_it(server: bs.Server) -> None:
    """Its scripts and its styles are in it, named in its policy by their hashes."""
    _, headers, body = get(server, "/")
    _, of_file, script = get(server, "/static/page.js")
    _, _, early = get(server, "/static/early.js")
    _, _, style = get(server, "/static/page.css")
    sources = {name: places for name, *places in (line.split() for line in policy_of(headers))}
    for name, parts in (("script-src", (early, script)), ("style-src", (style,))):
        digests = [base64.b64encode(hashlib.sha256(part).digest()).decode() for part in parts]
        assert sources[name] == ["'self'", *(f"'sha256-{digest}'" for digest in digests)]
    rest = body
    for part in (script, style, early):
        assert rest.count(part) == 1
        rest = rest.replace(part, b"")
    assert re.findall(rb"<(script|style)[^>]*>", rest) == [b"script", b"style", b"script"]
    assert not re.search(rb"<link[^>]+static|<script[^>]+src=", body.replace(script, b""))
    assert "sha256" not in of_file["content-security-policy"]


def policy_of(headers: dict[str, str]) -> list[str]:
    return headers["content-security-policy"].split("; ")


def test_files_are_compressed_for_who_reads_that(server: bs.Server) -> None:
    _, plain_headers, plain = get(server, "/static/page.js")
    status, headers, body = get(server, "/static/page.js", Accept_Encoding="gzip, br")
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert gzip.decompress(body) == plain
    assert "content-encoding" not in plain_headers
    assert len(body) < 80 << 10


@pytest.mark.parametrize("path", ["/", "/static/plot.js"])
def test_what_is_unchanged_is_not_sent_again(server: bs.Server, path: str) -> None:
    _, headers, _ = get(server, path)
    status, again, body = get(server, path, If_None_Match=headers["etag"])
    assert (status, body) == (304, b"")
    assert policy_of(again) == policy_of(headers)
    assert again["vary"] == headers["vary"] == "Accept-Encoding"
    for known in (f"W/{headers['etag']}", f'"other", {headers["etag"]}'):
        assert get(server, path, If_None_Match=known)[0] == 304
    assert get(server, path, If_None_Match='"other"')[0] == 200


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [("br;q=0.5, GZIP;q=0.1", True), ("gzip;q=0, identity", False), ("gzip;q=0.00", False), ("x-gzip-not", False)],
)
def test_what_is_not_read_is_not_sent(server: bs.Server, accepted: str, is_compressed: bool) -> None:
    assert ("content-encoding" in get(server, "/", Accept_Encoding=accepted)[1]) is is_compressed


@pytest.mark.skipif(not hasattr(Request, "method"), reason="older versions of websockets refuse every method but GET")
def test_the_page_is_read_and_nothing_else_is_done_with_it(server: bs.Server) -> None:
    address = urlsplit(server.web_uri or "")
    with socket.create_connection((address.hostname, address.port), timeout=10) as raw:
        raw.sendall(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = b"".join(iter(lambda: raw.recv(1 << 16), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200") and not body
    assert f"Content-Length: {get(server, '/')[1]['content-length']}".encode() in head
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        status, headers, _ = get(server, "/", method=method)
        assert (status, headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/index.html",
        "/static/index.html",
        "/static/",
        "/static/../endpoint.py",
        "/static/%2e%2e/endpoint.py",
        "//",
        "/live",
    ],
)
def test_nothing_else_is_there(server: bs.Server, path: str) -> None:
    assert get(server, path)[0] == 404


@pytest.mark.parametrize("path", ["/?token=secret", "/static/page.js?v=1"])
def test_a_query_is_refused_so_that_no_token_gets_into_one(
    server: bs.Server, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, _, body = get(server, path)
    assert status == 400
    assert b"secret" not in body
    assert "with a query was refused" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(("host", "status"), [("evil.example", 421), ("tables.example.com:1", 200), ("localhost", 200)])
def test_a_foreign_name_is_refused(server: bs.Server, host: str, status: int) -> None:
    assert get(server, "/", Host=host)[0] == status
