"""The range of values of a range join: ``"start <= time <= end"``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from barrage_server.errors import InvalidRequestError

__all__ = ["RangeMatch"]

_RELATION: Final = re.compile("(<=?)")


@dataclass(frozen=True, slots=True)
class RangeMatch:
    """A range of values.

    Attributes:
        first, last: the left columns with the bounds.
        value: the right column with the values.
        takes_first, takes_last: whether values that equal a bound are within.
        takes_preceding: whether the value before the range is, if none equals the first bound.
        takes_following: whether the value behind the range is, if none equals the last bound.

    """

    first: str
    value: str
    last: str
    takes_first: bool
    takes_last: bool
    takes_preceding: bool
    takes_following: bool

    @classmethod
    def of(cls, text: str) -> RangeMatch:
        """Parse a range.

        Raises:
            InvalidRequestError: it is written in another way.

        """
        rest = text.strip()
        preceding, following = rest.startswith("<-"), rest.endswith("->")
        rest = rest.removeprefix("<-").removesuffix("->")
        parts = [part.strip() for part in _RELATION.split(rest)]
        if len(parts) != 5 or not all(parts) or any(sign in part for part in parts[::2] for sign in "<>="):
            raise InvalidRequestError(
                f"The last entry of on is a range such as 'start <= time <= end' or '<- start <= time < end', not "
                f"{text[:100]!r}."
            )
        first, low, value, high, last = parts
        if (preceding and low == "<") or (following and high == "<"):
            raise InvalidRequestError(
                f"A range with '<-' has '<=' behind it, and one with '->' has '<=' before it, unlike {text[:100]!r}."
            )
        return cls(first, value, last, low == "<=", high == "<=", preceding, following)
