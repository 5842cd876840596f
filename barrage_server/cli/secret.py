"""Tokens in settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, SecretStr

from barrage_server.cli.usage import UsageError

__all__ = ["Secret", "read_token"]


def _not_blank(token: SecretStr) -> SecretStr:
    if not token.get_secret_value().strip():
        raise ValueError("an empty token protects nothing: choose one, or omit the setting")
    return token


Secret = Annotated[SecretStr, AfterValidator(_not_blank)]
"""A token that is not empty."""


def read_token(path: Path, setting: str) -> str:
    """The token in the first line of a file.

    Args:
        path: the file.
        setting: the setting that names the file, for the text of an error.

    Raises:
        UsageError: the file cannot be read, or its first line is blank.
    """
    try:
        with path.open(encoding="utf-8") as file:
            token = file.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(f"{setting}: {str(path)!r} cannot be read: {reason}.") from None
    if not token:
        raise UsageError(f"{setting}: {str(path)!r} has no token in its first line.")
    return token
