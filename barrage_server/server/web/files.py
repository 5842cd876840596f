"""The files of the page, sent compressed, and cached by browsers.

They come with the package.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
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
_METHODS: Final = ("GET", "HEAD")
_NO_WEIGHT: Final = re.compile(r"[qQ]=0(\.0*)?")
_INDEX: Final = "index.html"
_EARLY_LINK: Final = b'<script src="static/early.js"></script>'
_STYLE_LINK: Final = b'<link rel="stylesheet" href="static/page.css">'
_SCRIPT_LINK: Final = b'<script type="module" src="static/page.js"></script>'
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'{script}",
        "style-src 'self'{style}",
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
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file, ready to send.

    Attributes:
        content_type: its media type.
        plain: its bytes.
        compressed: its bytes by gzip.
        tag: a tag for caches, which changes with the bytes.
        policy: its content security policy.
    """

    content_type: str
    plain: bytes
    compressed: bytes
    tag: str
    policy: str


@cache
def _files() -> dict[str, PageFile]:
    """All files by their path in a URL; the page itself is at the root alone."""
    entries = resources.files("barrage_server.server.web").joinpath("static").iterdir()
    files = {entry.name: entry.read_bytes() for entry in entries}
    index, policy = _whole_page(files)
    found = {
        f"/static/{name}": _file(name, plain, _policy())
        for name, plain in files.items()
        if _ending(name) in _TYPES and name != _INDEX
    }
    found["/"] = _file(_INDEX, index, policy)
    return found


def _file(name: str, plain: bytes, policy: str) -> PageFile:
    tag = f'"{hashlib.blake2b(plain, digest_size=12).hexdigest()}"'
    # without a time, so that the bytes are the same in every process
    return PageFile(_TYPES[_ending(name)], plain, gzip.compress(plain, 9, mtime=0), tag, policy)


def _ending(name: str) -> str:
    return "." + name.rpartition(".")[2]


def _whole_page(files: Mapping[str, bytes]) -> tuple[bytes, str]:
    """The page with styles and scripts inside, and its policy with their hashes.

    Separate files would each take a connection and a round trip before the first rows.
    """
    page, style, early, script = (files[name] for name in (_INDEX, "page.css", "early.js", "page.js"))
    for link, begin, content, end in (
        (_EARLY_LINK, b"<script>", early, b"</script>"),
        (_STYLE_LINK, b"<style>", style, b"</style>"),
        (_SCRIPT_LINK, b'<script type="module">', script, b"</script>"),
    ):
        if page.count(link) != 1 or end.rstrip(b">") in content.lower():
            raise RuntimeError("The page cannot be put together from its parts; build it anew.")
        page = page.replace(link, begin + content + end)
    return page, _policy((early, script), (style,))


def _policy(scripts: Iterable[bytes] = (), styles: Iterable[bytes] = ()) -> str:
    """The policy of a file, with the hashes of its scripts and styles."""
    return _POLICY.format(script=_sources(scripts), style=_sources(styles))


def _sources(parts: Iterable[bytes]) -> str:
    return "".join(f" 'sha256-{b64encode(sha256(part).digest()).decode()}'" for part in parts)


def page_file(path: str) -> PageFile | None:
    """The file at a path of the page; ``None`` if there is none."""
    return _files().get(path)


def response(request: Request, file: PageFile) -> Response:
    """The answer to a request for a file: its bytes, or that they are unchanged.

    They are compressed for clients that accept it.
    """
    method = getattr(request, "method", "GET")  # versions of the library before 16 take no other
    if method not in _METHODS:
        refused = text_response(HTTPStatus.METHOD_NOT_ALLOWED, "The page is read, with GET or HEAD.")
        refused.headers["Allow"] = ", ".join(_METHODS)
        return refused
    headers = Headers(_HEADERS)
    headers["Content-Security-Policy"] = file.policy
    headers["ETag"] = file.tag
    headers["Cache-Control"] = "no-cache"  # ask each time: unchanged files are not sent again
    headers["Vary"] = "Accept-Encoding"
    known = ",".join(request.headers.get_all("If-None-Match")).split(",")
    if file.tag in (tag.strip().removeprefix("W/") for tag in known):  # proxies that compress make the tag weak
        return _answer(HTTPStatus.NOT_MODIFIED, headers, b"")
    body = file.plain
    headers["Content-Type"] = file.content_type
    if _reads_gzip(request):
        body = file.compressed
        headers["Content-Encoding"] = "gzip"
    answer = _answer(HTTPStatus.OK, headers, body)
    if method == "HEAD":
        answer.body = b""
    return answer


def _reads_gzip(request: Request) -> bool:
    """Whether the request accepts gzip, with a weight that is not 0."""
    for named in ",".join(request.headers.get_all("Accept-Encoding")).split(","):
        coding, _, weight = named.partition(";")
        if coding.strip().lower() == "gzip":
            return not _NO_WEIGHT.fullmatch(weight.strip())
    return False


def text_response(status: HTTPStatus, text: str) -> Response:
    """An answer with a line of text."""
    headers = Headers(_HEADERS)
    headers["Content-Security-Policy"] = _policy()
    headers["Content-Type"] = _TYPES[".txt"]
    headers["Cache-Control"] = "no-store"
    return _answer(status, headers, f"{text}\n".encode())


def _answer(status: HTTPStatus, headers: Headers, body: bytes) -> Response:
    headers["Content-Length"] = str(len(body))
    headers["Connection"] = "close"
    return Response(status.value, status.phrase, headers, body)
