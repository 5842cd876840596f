"""Small texts of the command line: parsed options, printed numbers."""

from __future__ import annotations

import re
from typing import Final

from barrage_server.cli.usage import UsageError
from barrage_server.log import count

__all__ = ["count", "names", "parse_viewport", "rate", "sentence"]

_VIEWPORT: Final = re.compile(r"(\d+):(\d+)")
_FIRST_WORD: Final = re.compile(r"[a-z]+(?=[ ,']|: )")


def parse_viewport(text: str) -> range:
    """Parse row positions such as ``0:50``, the end not included, to a range."""
    match = _VIEWPORT.fullmatch(text.strip())
    if match is None or int(match[1]) >= int(match[2]):
        raise UsageError(f"{text!r} is not a viewport: write START:STOP in row positions, as in 0:50.")
    return range(int(match[1]), int(match[2]))


def names(text: str | None) -> list[str] | None:
    """Parse column names separated by commas; None, for every column, stays None."""
    if text is None:
        return None
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise UsageError(f"{text!r} is not a list of column names: write them separated by commas, as in sym,price.")
    return found


def rate(rows: int, seconds: float) -> str:
    """Rows per second, to three digits."""
    return f"{float(f'{rows / max(seconds, 1e-9):.3g}'):,.0f} rows/s"


def sentence(text: str) -> str:
    """``text``, which may be a library's, with a capital and a full stop."""
    text = " ".join(text.split())
    if _FIRST_WORD.match(text):
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."
