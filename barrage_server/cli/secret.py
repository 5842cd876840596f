"""Tokens in settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr

__all__ = ["Secret"]


def _not_blank(token: SecretStr) -> SecretStr:
    if not token.get_secret_value().strip():
        raise ValueError("an empty token protects nothing: choose one, or omit the setting")
    return token


Secret = Annotated[SecretStr, AfterValidator(_not_blank)]
"""A token that is not empty."""
