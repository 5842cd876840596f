"""How a script is stopped: between two steps of its own, and never within the engine."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ScriptStop", "StopSwitch"]


class ScriptStop(BaseException):
    """Raised in a script that has to stop. It is no error: ``except Exception`` does not catch it."""


class StopSwitch:
    """Stops the code that one thread runs. :meth:`stop` may be called from any thread.

    Python raises what it is given from outside at the next step of the thread's own code: a call into C, such as
    ``time.sleep``, ends first. Code within :meth:`shielded` is not interrupted; what it calls asks :meth:`is_stopped`.

    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._depth = 0
        self._reason = ""
        self._is_sent = False

    @property
    def reason(self) -> str:
        """Why it was stopped; empty when it was not."""
        return self._reason

    def is_stopped(self) -> bool:
        """Whether :meth:`stop` was called."""
        return bool(self._reason)

    def begin(self) -> None:
        """The code of the calling thread may be interrupted from now on.

        Raises:
            ScriptStop: it was stopped before.

        """
        with self._lock:
            self._check()
            self._thread = threading.get_ident()

    def end(self) -> None:
        """It may not any more. On its thread; to be called again when ScriptStop was raised within the call."""
        with self._lock:
            self._thread = None
        if self._is_sent:
            self._take()

    def stop(self, reason: str) -> None:
        """Raise ScriptStop in the code, or right away in what begins later. The first reason counts."""
        with self._lock:
            if self._reason:
                return
            self._reason = reason
            self._send()

    def insist(self) -> None:
        """Raise it again in code that was stopped and still runs: what ran when it was raised has caught it."""
        with self._lock:
            if self._reason:
                self._send()

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Run the ``with`` body, and stop before or behind it. Without effect on other threads."""
        if threading.get_ident() != self._thread:
            yield
            return
        with self._lock:
            self._check()
            self._depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
                if not self._depth:
                    self._check()

    def _send(self) -> None:
        if self._thread is not None and not self._depth:
            self._is_sent = True
            _raise_in(self._thread)

    def _take(self) -> None:
        """Take what was sent and perhaps not raised yet, by raising it here: once more when it was.

        To send nothing instead makes Python 3.11 look for it without end, and profilers and debuggers hang.
        """
        try:
            _raise_in(threading.get_ident())
            while True:
                pass
        except ScriptStop:
            self._is_sent = False

    def _check(self) -> None:
        if self._reason:
            raise ScriptStop


def _raise_in(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(ScriptStop))
