"""Limits on the size of texts, which short formulas could make huge."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.byte_sizes import shown_apart
from barrage_server.errors import LimitError
from barrage_server.fixed_limits import FORMULA_TEXT_BYTES

__all__ = ["check_text_bytes", "text_bytes"]


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
    if count > FORMULA_TEXT_BYTES.most:
        taken, most = shown_apart(count, FORMULA_TEXT_BYTES.most)
        raise LimitError(
            f"A formula's texts would take {taken} at once, and {most} is the most ({FORMULA_TEXT_BYTES.name})."
        )
