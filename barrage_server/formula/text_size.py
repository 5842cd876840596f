"""Limits on the size of texts, which short formulas could make huge."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.errors import LimitError

__all__ = ["MOST_TEXT_BYTES", "check_text_bytes", "text_bytes"]

MOST_TEXT_BYTES: Final = 128 << 20
"""Bytes of text that a function may make for the rows of one evaluation."""


def text_bytes(texts: pa.Array | pa.Scalar, rows: int = 1) -> int:
    """The bytes of texts; of a scalar, ``rows`` times."""
    if isinstance(texts, pa.Scalar):
        return rows * (texts.as_buffer().size if texts.is_valid else 0)
    return int(pc.sum(pc.binary_length(texts)).as_py() or 0)


def check_text_bytes(count: int) -> None:
    """Check a number of bytes before they are made.

    Raises:
        LimitError: they are too many.

    """
    if count > MOST_TEXT_BYTES:
        raise LimitError(
            f"A formula's texts would take {count >> 20} MiB at once; at most {MOST_TEXT_BYTES >> 20} MiB are allowed."
        )
