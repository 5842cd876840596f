"""Values as texts for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa

__all__ = ["NULL", "cell_text", "is_numeric", "row_texts"]

NULL: Final = "∅"
_LONGEST: Final = 40


def cell_text(value: object) -> str:
    """One value: numbers with six significant digits, times without what is zero, long texts and lists cut short."""
    match value:
        case None:
            return NULL
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return f"{value:.6g}"
        case str():
            text = value
        case bytes():
            text = value.hex()
        case datetime():
            # An iso text with a space; whole seconds without their fraction, and no offset for UTC.
            text = value.isoformat(sep=" ").removesuffix("+00:00")
        case _:
            text = str(value)
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def row_texts(arrays: Sequence[pa.Array]) -> list[tuple[str, ...]]:
    """The rows of some columns as texts. For the few rows that a person looks at."""
    return list(zip(*([cell_text(_plain(cell)) for cell in array] for array in arrays), strict=True))


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this type is aligned to the right."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _plain(cell: pa.Scalar) -> object:
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        # Times finer than microseconds, or beyond the year 9999, have no Python value; Arrow can print them alone.
        kind = cell.type
        return cell.cast(pa.string()).as_py() if pa.types.is_temporal(kind) else f"<{kind}>"
