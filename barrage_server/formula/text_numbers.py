"""Numbers read from texts: by Arrow, and unusual forms one by one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.formula.kinds import Kind
from barrage_server.formula.vectors import Arrow

__all__ = ["BLANKS", "each_text", "floats_of", "integers_of"]

BLANKS: Final = "".join(map(chr, range(33)))
"""The characters that Java's ``trim`` removes at both ends of a text."""

# What Arrow's casts read as the rules here do: integers that fit into 64 bits, floats far from the ends of their range.
_SHORT_INTEGER: Final = r"^[+-]?[0-9]{1,18}$"
_LONG_INTEGER: Final = r"^[+-]?[0-9]{19,30}$"
_SHORT_FLOAT: Final = r"^[+-]?([0-9]{1,18}(\.[0-9]{0,18})?|\.[0-9]{1,18})([eE][+-]?[0-9]{1,2})?$"
_FLOAT: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(NaN|Infinity)$"


def integers_of(text: Arrow, kind: Kind) -> Arrow:
    """Parse integers of ``kind``; null for other texts, and out of range."""
    least, most = -(2 ** (kind.arrow.bit_width - 1)), 2 ** (kind.arrow.bit_width - 1) - 1

    def read(word: str) -> int | None:
        found = int(word) if re.fullmatch(r"[+-]?[0-9]{1,30}", word) else None
        return found if found is not None and least <= found <= most else None

    if isinstance(text, pa.Scalar):
        return each_text(text, kind.arrow, read)
    found = _short(text, _SHORT_INTEGER, pa.int64())
    if kind.arrow.bit_width < 64:
        in_range = pc.and_(pc.greater_equal(found, least), pc.less_equal(found, most))
        found = pc.if_else(in_range, found, pa.scalar(None, pa.int64()))
    return _with_others(found.cast(kind.arrow), text, _LONG_INTEGER, read)


def floats_of(text: Arrow, kind: Kind) -> Arrow:
    """Parse floats of ``kind``; null for other texts.

    Blanks around a number are ignored.
    """
    text = pc.utf8_trim(text, BLANKS)
    if isinstance(text, pa.Scalar):
        return each_text(text, kind.arrow, _float)
    found = _short(text, _SHORT_FLOAT, pa.float64())
    return _with_others(found.cast(kind.arrow, safe=False), text, _FLOAT, _float)


def each_text(text: Arrow, arrow: pa.DataType, read: Callable[[str], Any]) -> Arrow:
    """Read each different text once; null where ``read`` returns None."""
    if isinstance(text, pa.Scalar):
        return pa.scalar(read(text.as_py()) if text.is_valid else None, arrow)
    encoded = text.dictionary_encode()
    return pa.array([read(value) for value in encoded.dictionary.to_pylist()], arrow).take(encoded.indices)


def _float(word: str) -> float | None:
    return float(word) if re.search(_FLOAT.replace("$", r"\Z"), word) else None


def _short(text: pa.Array, pattern: str, arrow: pa.DataType) -> pa.Array:
    """Cast the texts that match ``pattern``; null for other texts."""
    is_short = pc.match_substring_regex(text, pattern)
    chosen = pc.if_else(is_short, text, pa.scalar(None, text.type))
    return pc.utf8_ltrim(chosen, "+").cast(arrow)


def _with_others(found: pa.Array, text: pa.Array, pattern: str, read: Callable[[str], Any]) -> pa.Array:
    """Fill nulls of ``found`` for the few texts that match ``pattern``."""
    others = pc.and_(pc.is_null(found), pc.fill_null(pc.match_substring_regex(text, pattern), False))
    if not pc.any(others).as_py():
        return found
    return pc.replace_with_mask(found, others, each_text(text.filter(others), found.type, read))
