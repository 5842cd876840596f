"""The printed lines of scripts, for subscribers and the log."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["STDERR", "STDOUT", "Line", "Output", "Signal", "encodable"]

logger = logging.getLogger("barrage_server.server")

_MOST_LINES: Final = 1_000
_MOST_CHARACTERS: Final = 4_000
"""Most characters of one line; the rest becomes the next line."""
_ALLOWANCE: Final = 256 << 10
"""Most characters that one command may print."""
STDOUT: Final = "STDOUT"
STDERR: Final = "STDERR"


class Line(NamedTuple):
    """One line.

    Attributes:
        micros: time of printing, in microseconds since 1970; strictly increasing.
        level: ``STDOUT`` or ``STDERR``.
        text: the line without its line end.

    """

    micros: int
    level: str
    text: str


class Output:
    """The last lines that scripts have printed.

    Methods may be called from any thread.

    Args:
        clock: the time of day, in nanoseconds since 1970.

    """

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: deque[Line] = deque(maxlen=_MOST_LINES)
        self._unfinished: dict[str, str] = {}
        self._left = _ALLOWANCE
        self._last = 0
        self._listeners: set[Callable[[], object]] = set()

    def begin(self) -> None:
        """Begin the output of a command, with a new allowance."""
        with self._lock:
            self._left = _ALLOWANCE

    def end(self) -> None:
        """End the output of a command: unfinished lines are complete."""
        with self._lock:
            for level, text in self._unfinished.items():
                self._add(level, text)
            self._unfinished = {}
            listeners = tuple(self._listeners)
        _call(listeners)

    def write(self, text: str, level: str = STDOUT) -> None:
        """Print a text; beyond the allowance, a last line says that output is left out."""
        with self._lock:
            if self._left <= 0:
                return
            is_over = len(text) > self._left
            shown = text[: self._left]
            self._left -= len(shown) or 1
            *lines, rest = (self._unfinished.pop(level, "") + shown).split("\n")
            while len(rest) > _MOST_CHARACTERS:
                lines.append(rest[:_MOST_CHARACTERS])
                rest = rest[_MOST_CHARACTERS:]
            for line in lines:
                self._add(level, line)
            if rest:
                self._unfinished[level] = rest
            if is_over or self._left <= 0:
                self._left = 0
                self._add(level, self._unfinished.pop(level, ""))
                self._add(STDERR, f"The output beyond {_ALLOWANCE:,} characters of this command is not shown.")
            listeners = tuple(self._listeners)
        _call(listeners)

    def after(self, micros: int) -> tuple[Line, ...]:
        """The kept lines later than a time, in microseconds since 1970."""
        with self._lock:
            return tuple(line for line in self._lines if line.micros > micros)

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed``, which must be quick, at new output; return a remover."""
        with self._lock:
            self._listeners.add(changed)

        def stop() -> None:
            with self._lock:
                self._listeners.discard(changed)

        return stop

    def _add(self, level: str, text: str) -> None:
        text = encodable(text)
        for begin in range(0, max(1, len(text)), _MOST_CHARACTERS):
            part = text[begin : begin + _MOST_CHARACTERS]
            self._last = max(self._last + 1, self._clock() // 1_000)
            self._lines.append(Line(self._last, level, part))
            logger.info("console: %s", part)


class Signal:
    """Calls a function once for any number of calls, until it is rearmed.

    Methods may be called from any thread.

    Args:
        send: the function.

    """

    def __init__(self, send: Callable[[], object]) -> None:
        self._send = send
        self._is_sent = False

    def __call__(self) -> None:
        """Call the function, unless it was called since :meth:`rearm`."""
        if not self._is_sent:
            self._is_sent = True
            self._send()

    def rearm(self) -> None:
        """Allow the next call. To be used by the receiver before it reads the output."""
        self._is_sent = False


def encodable(text: str) -> str:
    """The text with characters that UTF-8 cannot encode as escapes of Python."""
    return text.encode("utf-8", "backslashreplace").decode()


def _call(listeners: tuple[Callable[[], object], ...]) -> None:
    for listener in listeners:
        listener()
