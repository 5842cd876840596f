"""The fields of aggregations and functions along rows that only some have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from typing import Any

from barrage_server.arguments import shown
from barrage_server.errors import InvalidRequestError

__all__ = ["check_fields"]


def check_fields(entry: Any, functions: Mapping[str, Collection[str]]) -> None:
    """Check that a function has only fields of its own.

    A client that sends others means another function, or takes them for something else.

    Args:
        entry: a dataclass with the field ``function``.
        functions: the functions of each other field. Fields that are not listed are those of all.

    Raises:
        InvalidRequestError: a field of other functions has another value than its default.

    """
    for field in fields(entry):
        known = functions.get(field.name)
        if known is None or entry.function in known:
            continue
        value, default = getattr(entry, field.name), field.default
        assert default is not MISSING
        if value != default:
            others = ", ".join(known)
            raise InvalidRequestError(
                f"{shown(entry.function)} has no field '{field.name}' ({shown(value)}): it is one of {others}."
            )
