"""The web pages that may connect to a server without credentials.

A browser lets every page open websockets to every address that it can reach, including this machine and hosts behind a
firewall, and sends the origin of the page in the header ``Origin``. With a token that is harmless, because a browser
does not send the token by itself. Without one, any page could read and write all tables through its visitor's browser.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

__all__ = ["is_welcome"]


def is_welcome(origin: str | None, host: str, allowed: Collection[str]) -> bool:
    """Whether a page of that origin may connect.

    Pages of this machine may, and pages from the IP address that they connect to. A name does not prove an address,
    because its owner can make it resolve to any.

    Args:
        origin: the header ``Origin``; ``None`` from programs other than browsers.
        host: the header ``Host``.
        allowed: further origins that may connect, such as ``https://dashboards.example.com``; ``*`` for all.
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
