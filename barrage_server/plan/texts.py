"""Arguments that are one text or several: formulas, and names of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from barrage_server.arguments import shown
from barrage_server.errors import InvalidRequestError
from barrage_server.plan.expression import Expression

__all__ = ["Texts", "optional_texts", "texts"]

Texts: TypeAlias = str | Expression | Sequence[str | Expression]


def texts(value: Texts, what: str) -> tuple[str, ...]:
    """One or several formulas as a tuple of texts.

    Raises:
        InvalidRequestError: ``value`` has no formula, or something else.

    """
    listed: Sequence[Any] | None = value if isinstance(value, Sequence) else None
    if isinstance(value, str | Expression):
        listed = (value,)
    if listed is None or not all(isinstance(entry, str | Expression) for entry in listed):
        raise InvalidRequestError(f"{what} must be a string or a list of strings, not {shown(value)}.")
    if not listed:
        raise InvalidRequestError(f"{what} must not be empty.")
    return tuple(entry.text if isinstance(entry, Expression) else entry for entry in listed)


def optional_texts(value: Texts | None, what: str) -> tuple[str, ...]:
    """The same as :func:`texts`; an empty tuple for None."""
    return () if value is None else texts(value, what)
