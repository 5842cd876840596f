"""Patterns of names, as roles and settings have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate

__all__ = ["matcher"]


def matcher(patterns: Iterable[str]) -> Callable[[str], re.Match[str] | None]:
    """A function that returns a match if a name is one of those of ``patterns``.

    Patterns are case-sensitive and match whole names: ``*`` matches any text, ``?`` one character, ``[abc]`` one of
    these characters. Without patterns no name matches.
    """
    every = "|".join(map(translate, patterns))
    return re.compile(every or r"(?!)").fullmatch
