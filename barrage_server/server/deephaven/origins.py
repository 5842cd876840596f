"""Which web pages may connect to a server that asks for no credentials.

A browser lets every page open websockets to every address that it can reach, this machine's own and those behind a
firewall, and says in the header ``Origin`` whose page it is. Where a token is asked for that does no harm: a browser
adds none by itself. Where none is, the page of a stranger could read and write all tables through the browser of
whoever visits it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

__all__ = ["is_welcome"]


def is_welcome(origin: str | None, host: str, allowed: Collection[str]) -> bool:
    """Whether a page of that origin may connect.

    Pages of this machine may, and those that come from the very IP address that they connect to; no name is taken for
    proof of an address, because whoever owns a name can let it mean any.

    Args:
        origin: the header ``Origin``; ``None`` from everything that is no browser.
        host: the header ``Host``.
        allowed: origins that may connect besides, such as ``https://dashboards.example.com``; ``*`` for all.

    """
    if origin is None or "*" in allowed:
        return True
    if origin.lower() in {entry.lower().rstrip("/") for entry in allowed}:
        return True
    page = _hostname(origin)
    if page == "localhost" or page.endswith(".localhost"):
        return True
    address = _address(page)
    return address is not None and (address.is_loopback or address == _address(_hostname(f"//{host}")))


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
