"""The other side of ``tests/interop/peer.py``: functions that are called by JSON lines.

A script says what can be called, and runs::

    loop = Loop()

    @loop.function
    def add(a: int, b: int) -> int:
        return a + b

    loop.run(version="42.7")      # says that it is ready, then serves until it is told to end

Nothing but messages goes to standard output: what anything else prints, a Java machine too, goes to standard error.
On ``SIGUSR1`` the stacks of all threads go there.
This module runs in the peers' environments, so it imports nothing but the standard library.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Loop"]

F = TypeVar("F", bound=Callable[..., Any])


class Loop:
    """Serves calls, one at a time, on the thread that calls :meth:`run`.

    Attributes:
        settings: what the test gave at the start.
    """

    def __init__(self) -> None:
        self.settings: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._lock = threading.Lock()
        self._output = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        faulthandler.register(signal.SIGUSR1, all_threads=True)

    def function(self, function: F) -> F:
        """Decorator: the test may call this by its name. Arguments and result are what JSON can say."""
        self._functions[function.__name__] = function
        return function

    def say(self, event: str, **fields: Any) -> None:
        """Tell the test something unasked; from any thread."""
        self._write({"event": event, **fields})

    def run(self, **hello: Any) -> None:
        """Say that the peer is ready, and serve until the test wants no more."""
        self.say("ready", **hello)
        for line in sys.stdin:
            message = json.loads(line)
            if message["call"] == "end":
                return
            self._write({"id": message["id"], **self._answer(message)})

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            value = self._functions[message["call"]](**message["with"])
            json.dumps(value)
        except Exception as error:  # it belongs to the test, which is told
            return {"error": type(error).__name__, "text": str(error), "trace": traceback.format_exc()}
        return {"value": value}

    def _write(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._output.write(json.dumps(message) + "\n")
            self._output.flush()
