"""The files of the page, which come with the package: sent compressed, kept by browsers until they change."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Final

from websockets.datastructures import Headers
from websockets.http11 import Request, Response

__all__ = ["PageFile", "page_file", "response", "text_response"]

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_INDEX: Final = "index.html"
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file: its type, its bytes plain and compressed, and a tag that changes with them."""

    content_type: str
    plain: bytes
    compressed: bytes
    tag: str


@cache
def _files() -> dict[str, PageFile]:
    """All files by their path in a URL. Nothing else can be asked for."""
    found = {}
    for entry in resources.files("barrage_server.server.web").joinpath("static").iterdir():
        ending = "." + entry.name.rpartition(".")[2]
        if ending in _TYPES:
            plain = entry.read_bytes()
            tag = f'"{hashlib.blake2b(plain, digest_size=12).hexdigest()}"'
            # without a time in it, so that it is the same in every process
            found[f"/static/{entry.name}"] = PageFile(_TYPES[ending], plain, gzip.compress(plain, 9, mtime=0), tag)
    found["/"] = found[f"/static/{_INDEX}"]
    return found


def page_file(path: str) -> PageFile | None:
    """The file at a path of the page; ``None`` when there is none."""
    return _files().get(path)


def response(request: Request, file: PageFile) -> Response:
    """The answer to a request for a file: nothing new, or its bytes, compressed for who reads that."""
    headers = Headers(_HEADERS)
    headers["ETag"] = file.tag
    headers["Cache-Control"] = "no-cache"  # ask each time: what is unchanged is not sent again
    if file.tag in request.headers.get_all("If-None-Match"):
        return _answer(HTTPStatus.NOT_MODIFIED, headers, b"")
    body = file.plain
    headers["Content-Type"] = file.content_type
    headers["Vary"] = "Accept-Encoding"
    if any("gzip" in accepted for accepted in request.headers.get_all("Accept-Encoding")):
        body = file.compressed
        headers["Content-Encoding"] = "gzip"
    return _answer(HTTPStatus.OK, headers, body)


def text_response(status: HTTPStatus, text: str) -> Response:
    """A line of text."""
    headers = Headers(_HEADERS)
    headers["Content-Type"] = _TYPES[".txt"]
    headers["Cache-Control"] = "no-store"
    return _answer(status, headers, f"{text}\n".encode())


def _answer(status: HTTPStatus, headers: Headers, body: bytes) -> Response:
    headers["Content-Length"] = str(len(body))
    headers["Connection"] = "close"
    return Response(status.value, status.phrase, headers, body)
