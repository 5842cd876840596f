"""The header ``authorization``, with which clients log in."""

from __future__ import annotations

import base64
from typing import Final

__all__ = ["AUTHORIZATION", "BEARER", "basic", "bearer"]

AUTHORIZATION: Final = "authorization"
"""The name of the header."""
BEARER: Final = "Bearer "
"""The beginning of a value with a token."""


def basic(user: str, password: str | None) -> str:
    """The value for a user and a password; ``None`` is an empty one."""
    return "Basic " + base64.b64encode(f"{user}:{password or ''}".encode()).decode()


def bearer(token: str) -> str:
    """The value for a token."""
    return BEARER + token
