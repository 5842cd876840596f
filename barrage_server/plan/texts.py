"""Arguments of methods that are one text or several: formulas, and names of columns with their renames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from barrage_server.arguments import shown
from barrage_server.errors import InvalidRequestError

__all__ = ["Texts", "optional_texts", "texts"]

Texts: TypeAlias = str | Sequence[str]


def texts(value: Texts, what: str) -> tuple[str, ...]:
    """Formulas as a tuple; InvalidRequestError unless they are strings, at least one."""
    listed = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else None
    if listed is None or not all(isinstance(entry, str) for entry in listed):
        raise InvalidRequestError(f"{what} must be a string or a list of strings, not {shown(value)}.")
    if not listed:
        raise InvalidRequestError(f"{what} must not be empty.")
    return listed


def optional_texts(value: Texts | None, what: str) -> tuple[str, ...]:
    """The same, or nothing for None."""
    return () if value is None else texts(value, what)
