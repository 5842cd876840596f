"""Arguments that are one text or several: formulas, and names of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from barrage_server.arguments import shown, text
from barrage_server.errors import InvalidRequestError
from barrage_server.plan.expression import Expression

__all__ = ["Renames", "Texts", "optional_texts", "renames", "texts"]

Texts: TypeAlias = str | Expression | Sequence[str | Expression]
Renames: TypeAlias = Texts | Mapping[str, str]


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


def renames(value: Renames, what: str) -> tuple[str, ...]:
    """Renamings of columns as texts ``"New = Old"``.

    Args:
        value: such texts, or a mapping of old names to new ones.
        what: the name of the argument.

    Raises:
        InvalidRequestError: ``value`` is something else, is empty, or has a name that the text cannot have.

    """
    if not isinstance(value, Mapping):
        return texts(value, what)
    if not value:
        raise InvalidRequestError(f"{what} must not be empty.")
    return tuple(f"{_name(new, what)} = {_name(old, what)}" for old, new in value.items())


def _name(value: object, what: str) -> str:
    found = text(value, f"Each name in {what}")
    if "=" in found or found != found.strip():
        raise InvalidRequestError(f"{what} takes no names with '=' or with spaces around them, such as {shown(found)}.")
    return found
