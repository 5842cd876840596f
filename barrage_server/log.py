"""Log records and terminal output that are safe from foreign texts.

A record takes one line, and unprintable characters are escaped. Each record has the attributes of :data:`FACTS`, as far
as the call that it is about is known.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

__all__ = [
    "FACTS",
    "LOGGERS",
    "CallFacts",
    "JsonFormatter",
    "TextFormatter",
    "Throttle",
    "about",
    "call_facts",
    "count",
    "note",
    "one_line",
    "printable",
    "serving_call",
]

FACTS: Final = ("request_id", "principal", "peer", "table", "step")
"""Attributes of a record about its call: an id, the caller's name and address, a table, and a step of that table.

All records of this package have them, ``None`` where unknown. ``extra=`` sets them for one record.
"""

CallFacts = dict[str, Any]
"""The known facts of one call, by the names of :data:`FACTS`."""

LOGGERS: Final = tuple(
    f"barrage_server{room}"
    for room in ("", ".engine", ".journal", ".publish", ".server", ".client", ".relay", ".spark", ".cli", ".demo")
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
    r"""Escape the unprintable characters of ``text``, and cut a long text.

    Escapes are those of Python, such as ``\n`` and ``\x1b``.

    Args:
        text: any text.
        most: characters to keep.
    """
    if len(text) > most:
        text = f"{text[:most]}... ({len(text) - most:,} more characters)"
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable(text: str) -> str:
    """Escape the unprintable characters of ``text``, except line breaks and tabs."""
    return "\n".join("\t".join(map(one_line, line.split("\t"))) for line in text.split("\n"))


def encodable(text: str) -> str:
    """``text`` with halves of surrogate pairs escaped, so that it can be sent."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class Throttle:
    """A limit on the rate of messages, which counts those it suppresses.

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

    def renewed(self) -> Throttle:
        """A throttle with the same limit that has admitted nothing."""
        return Throttle(self._burst, self._per_second, self._clock)

    def admit(self) -> int | None:
        """Ask for one more message.

        Returns:
            The number of messages suppressed since the last admitted one; ``None`` when this one is not admitted.
        """
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

    def log(self, logger: logging.Logger, level: int, text: str, *args: object) -> None:
        """Log a message if it is admitted, with the number suppressed since the last one."""
        if logger.isEnabledFor(level) and (held_back := self.admit()) is not None:
            logger.log(level, text + (f" (and {held_back:,} more, not shown)" if held_back else ""), *args)


_call: ContextVar[CallFacts | None] = ContextVar("barrage_call", default=None)


def call_facts() -> CallFacts:
    """The facts of the call that this thread or task serves; empty outside of calls."""
    facts = _call.get()
    return {} if facts is None else facts


@contextmanager
def about(facts: CallFacts | None) -> Iterator[None]:
    """Attach ``facts`` to the log records of the ``with`` body. Not for generators."""
    before = _call.get()
    _call.set(facts)
    try:
        yield
    finally:
        _call.set(before)


@contextmanager
def serving_call(peer: str | None) -> Iterator[CallFacts]:
    """Attach a new request id and the caller's address to the records of the body.

    Yields:
        The facts, to which :func:`note` adds.
    """
    facts: CallFacts = {"request_id": secrets.token_hex(8), "peer": peer}
    with about(facts):
        yield facts


def note(**facts: object) -> None:
    """Add to the facts of the call that this thread or task serves, if any."""
    known = _call.get()
    if known is not None:
        known.update(facts)


class JsonFormatter(logging.Formatter):
    """One JSON object per record, on one line of ASCII.

    Its fields are ``time`` (UTC, ISO 8601), ``level``, ``logger``, ``message``, the known ones of :data:`FACTS`, and
    ``traceback``. Texts are escaped as in :func:`one_line`, so that they are printable after decoding, too.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, object] = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": one_line(record.name),
            "message": _message(record),
        }
        for name in FACTS:
            value = getattr(record, name, None)
            if value is not None:
                entry[name] = value if isinstance(value, int) else one_line(str(value))
        trace = _trace(record)
        if trace:
            entry["traceback"] = trace
        return json.dumps(entry, separators=(",", ":"))


class TextFormatter(logging.Formatter):
    """One line per record, its request id at the end, and its traceback indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line, and the lines of its traceback."""
        request_id = getattr(record, "request_id", None)
        behind = "" if request_id is None else f" [{one_line(str(request_id))}]"
        head = f"{self.formatTime(record)} {record.levelname} {one_line(record.name)}: {_message(record)}{behind}"
        trace = _trace(record)
        return f"{head}\n{trace}" if trace else head


def _message(record: logging.LogRecord) -> str:
    try:
        return one_line(record.getMessage())
    except Exception:  # arguments that do not fit the text
        return one_line(f"{record.msg!r} {record.args!r}")


def _trace(record: logging.LogRecord) -> str:
    """The indented lines of a record's traceback, so that none looks like a record."""
    if record.exc_text:
        text = record.exc_text
    elif record.exc_info and record.exc_info[1] is not None:
        text = "".join(traceback.format_exception(record.exc_info[1]))
    else:
        text = record.stack_info or ""
    return _indented(text)


def _indented(text: str) -> str:
    lines = text[-_MOST_OF_TRACEBACK:].splitlines()
    return "\n".join(line if line.startswith("  ") and line.isprintable() else "  " + one_line(line) for line in lines)


class _OneLine(logging.Filter):
    """Escapes records, and adds their facts, before any handler sees them."""

    def filter(self, record: logging.LogRecord) -> bool:
        facts = call_facts()
        for name in FACTS:
            value = getattr(record, name, None)
            if value is None:
                value = facts.get(name)
            setattr(record, name, one_line(value) if isinstance(value, str) else value)
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
