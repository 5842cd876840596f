"""Column names that a Deephaven server accepts.

A Deephaven server makes received column names legal, and then looks them up in the received schema (42.7:
``BarrageUtil.convertArrowSchema``), so that it refuses a table with an illegal name. The rule here is the server's
(``NameValidator.legalizeColumnName``), which leaves the resulting names unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["java_names"]

_PREFIX: Final = "column_"
_BLANKS: Final = re.compile("[- ]")
_ILLEGAL: Final = re.compile("[^A-Za-z0-9_$]")
_FORMULAS: Final = "in not i ii k"
_KEYWORDS: Final = """
    abstract assert boolean break byte case catch char class const continue default do double else enum extends false
    final finally float for goto if implements import instanceof int interface long native new null package private
    protected public return short static strictfp super switch synchronized this throw throws transient true try void
    volatile while _
"""
_RESERVED: Final = frozenset(_FORMULAS.split() + _KEYWORDS.split())


def java_names(names: Sequence[str]) -> list[str]:
    """Convert distinct names to names that a Deephaven server accepts.

    Valid names are unchanged. Blanks and hyphens become underscores; other characters than ASCII letters, digits, ``_``
    and ``$`` are removed; a reserved word or a name that begins with a digit gets the prefix ``column_``; later
    duplicates get a number as suffix.
    """
    legal = [_legal(name) for name in names]
    # Valid names are kept, also after an invalid name that becomes the same.
    taken = {name for name, kept in zip(names, legal, strict=True) if name == kept}
    result = []
    numbers: dict[str, int] = {}  # the next suffix of each name: smaller ones are taken
    for name, wanted in zip(names, legal, strict=True):
        given, number = wanted, numbers.get(wanted, 2)
        while given != name and given in taken:
            given, number = f"{wanted}{number}", number + 1
        numbers[wanted] = number
        taken.add(given)
        result.append(given)
    return result


def _legal(name: str) -> str:
    name = _BLANKS.sub("_", name)
    if name in _RESERVED:
        name = _PREFIX + name
    name = _ILLEGAL.sub("", name)
    if not name or name in _RESERVED or name[0].isdigit():
        name = _PREFIX + name
    return name
