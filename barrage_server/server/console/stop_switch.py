"""The stop of scripts: between two steps of their own code, never in the engine."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ScriptStop", "StopSwitch"]


class ScriptStop(BaseException):
    """Raised in a script to stop it; ``except Exception`` does not catch it."""


class StopSwitch:
    """Stops the code of one thread from any thread.

    Python raises an asynchronous exception at the next step of the thread's Python code: a call into C, such as
    ``time.sleep``, ends first. Code within :meth:`shielded` is not interrupted; it may ask :meth:`is_stopped`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._depth = 0
        self._reason = ""
        self._is_sent = False

    @property
    def reason(self) -> str:
        """The reason of the stop; empty without one."""
        return self._reason

    def is_stopped(self) -> bool:
        """Whether :meth:`stop` was called."""
        return bool(self._reason)

    def begin(self) -> None:
        """Allow interruption of the calling thread from now on.

        Raises:
            ScriptStop: the code was stopped before.

        """
        with self._lock:
            self._check()
            self._thread = threading.get_ident()

    def end(self) -> None:
        """Allow interruption no more.

        To be called on the thread of the code, and again when ScriptStop was raised within the call.
        """
        with self._lock:
            self._thread = None
        if self._is_sent:
            self._take()

    def stop(self, reason: str) -> None:
        """Raise ScriptStop in the code, or when it begins. The first reason counts."""
        with self._lock:
            if self._reason:
                return
            self._reason = reason
            self._send()

    def insist(self) -> None:
        """Raise ScriptStop again in code that was stopped and has caught it."""
        with self._lock:
            if self._reason:
                self._send()

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Run the ``with`` body without interruption; a stop is raised before or after.

        Without effect on other threads.
        """
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
        """Consume an exception that was sent and may not have been raised yet.

        It is sent once more, and caught here. To send none instead makes Python 3.11 look for it without end, and hangs
        profilers and debuggers.
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
