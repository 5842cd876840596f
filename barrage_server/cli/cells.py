"""Values as texts for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa

__all__ = ["NULL", "cell_text", "change_text", "is_numeric", "row_texts"]

NULL: Final = "∅"
_LONGEST: Final = 40
_COMMON: Final = 10
"""Characters shown of the common prefix of two long values."""


def cell_text(value: object) -> str:
    """The text of one value, with all digits of a number, cut if it is long."""
    return _cut(_whole_text(value))


def change_text(before: pa.Scalar, after: pa.Scalar) -> str:
    """``old->new``, where two different values have different texts."""
    old, new = _plain(before), _plain(after)
    texts = _whole_text(old), _whole_text(new)
    if texts[0] == texts[1]:  # they differ in unprintable characters, or not at all
        texts = _escaped(old), _escaped(new)
    first, second = (_cut(text) for text in texts)
    if first == second:
        start = max(0, _first_difference(*texts) - _COMMON)
        first, second = (f"…{_cut(text[start:], _LONGEST - 1)}" if start else _cut(text) for text in texts)
    return f"{first}->{second}"


def _whole_text(value: object) -> str:
    match value:
        case None:
            return NULL
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case np.floating():
            return str(value).removesuffix(".0")  # the fewest digits that identify the float
        case float():
            return repr(value).removesuffix(".0")
        case str():
            text = value
        case bytes():
            text = value.hex()
        case datetime():
            # ISO 8601 with a space; whole seconds without their fraction, and no offset for UTC.
            text = value.isoformat(sep=" ").removesuffix("+00:00")
        case _:
            text = str(value)
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _escaped(value: object) -> str:
    return NULL if value is None else ascii(value)


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _first_difference(before: str, after: str) -> int:
    shorter = min(len(before), len(after))
    return next((place for place in range(shorter) if before[place] != after[place]), shorter)


def row_texts(arrays: Sequence[pa.Array]) -> list[tuple[str, ...]]:
    """The rows of some columns as texts. Values are converted one by one."""
    return list(zip(*([cell_text(_plain(cell)) for cell in array] for array in arrays), strict=True))


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this type is aligned to the right."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _plain(cell: pa.Scalar) -> object:
    kind = cell.type
    try:
        value = cell.as_py()
    except (ValueError, OverflowError):
        # Times finer than microseconds, or beyond the year 9999, have no Python value; Arrow can print them.
        if pa.types.is_temporal(kind):
            return cell.cast(pa.string()).as_py()
        return " ".join(pa.array([cell], kind).to_string(window=_LONGEST, container_window=_LONGEST).split())
    return np.float32(value) if pa.types.is_float32(kind) and value is not None else value
