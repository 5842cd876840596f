"""The check that a request is for this server, and from its own page.

A browser sends the host name of a request in the header ``Host``, and the origin of the page that opens a websocket in
``Origin``. An attacker can make a name of theirs resolve to this machine; for the browser the attacker's page then has
the same origin as this server. So only known names of this server are accepted. An address cannot be forged that way.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from typing import Final

__all__ = ["is_known_host", "is_own_page"]

_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z._-]+))(?::[0-9]{1,5})?", re.ASCII)
"""An address of IPv6 in brackets, or a name or another address, with or without a port."""


def is_known_host(host: str, names: Collection[str]) -> bool:
    """Whether ``host`` is an address, ``localhost``, or one of ``names``.

    Args:
        host: the header ``Host``, with or without a port.
        names: names of this server, such as ``tables.example.com``.
    """
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return False
    name = found[1] or found[2]
    if name == "localhost" or name.endswith(".localhost") or name in {entry.lower() for entry in names}:
        return True
    try:
        return ipaddress.ip_address(name).version == (6 if found[1] else 4)
    except ValueError:
        return False


def is_own_page(origin: str, host: str, *, is_encrypted: bool) -> bool:
    """Whether a page of that origin came from this server.

    Args:
        origin: the header ``Origin``.
        host: the header ``Host`` of the same request.
        is_encrypted: whether this port has TLS.
    """
    scheme, default = ("https", ":443") if is_encrypted else ("http", ":80")
    return origin.lower().removesuffix(default) == f"{scheme}://{host.lower()}".removesuffix(default)
