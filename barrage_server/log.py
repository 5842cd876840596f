"""Logs and terminals, protected from foreign texts: one line per record, unprintable characters escaped."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

__all__ = ["LOGGERS", "Throttle", "count", "one_line", "printable"]

LOGGERS: Final = tuple(
    f"barrage_server{room}" for room in ("", ".engine", ".server", ".client", ".relay", ".spark", ".cli", ".demo")
)
"""The names of all loggers of this package."""

_MOST_CHARACTERS: Final = 4_000
_MOST_OF_TRACEBACK: Final = 40_000


def count(number: int, noun: str = "") -> str:
    """``1,234 rows``; the noun is given in the plural."""
    if not noun:
        return f"{number:,}"
    return f"{number:,} {noun.removesuffix('s') if number == 1 else noun}"


def one_line(text: str, most: int = _MOST_CHARACTERS) -> str:
    r"""``text`` as one line: unprintable characters are escaped as in Python, such as ``\n`` and ``\x1b``; a long text
    is cut.

    Args:
        text: any text.
        most: characters to keep.

    """
    if len(text) > most:
        text = f"{text[:most]}... ({len(text) - most:,} more characters)"
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable(text: str) -> str:
    """``text`` with its line breaks, and all other unprintable characters escaped."""
    return "\n".join("\t".join(map(one_line, line.split("\t"))) for line in text.split("\n"))


class Throttle:
    """Admits ``burst`` messages at once and ``per_second`` after that; counts the others.

    Args:
        burst: messages at once.
        per_second: messages per second after those.
        clock: a monotonic clock, in seconds.

    """

    def __init__(self, burst: int, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._credit = float(burst)
        self._at = clock()
        self._held_back = 0

    def admit(self) -> int | None:
        """Whether one more message is admitted: ``None`` if not, else the number suppressed since the last one."""
        with self._lock:
            now = self._clock()
            self._credit = min(float(self._burst), self._credit + (now - self._at) * self._per_second)
            self._at = now
            if self._credit < 1.0:
                self._held_back += 1
                return None
            self._credit -= 1.0
            held_back, self._held_back = self._held_back, 0
            return held_back


class _OneLine(logging.Filter):
    """Escapes records before any handler sees them, also those of the program that embeds this package."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
            escaped = one_line(text)
            if escaped is not text:
                record.msg, record.args = escaped, None
            if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
                trace = "".join(traceback.format_exception(record.exc_info[1]))[-_MOST_OF_TRACEBACK:]
                # indented, so that no line of an error's text looks like a record
                record.exc_text = "\n".join("  " + one_line(line) for line in trace.splitlines())
        except Exception:  # a record that cannot be formatted: its handler reports it
            return True
        return True


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


_FILTER: Final = _OneLine()
for _name in LOGGERS:
    logging.getLogger(_name).addFilter(_FILTER)
