"""The far side of :mod:`benchmarks.process`: functions called by JSON lines.

A script says what can be called, and runs::

    loop = Loop()

    @loop.function
    def add(a: int, b: int) -> int:
        return a + b

    loop.run(port=8815)      # reports that it is ready, then serves until its input ends

It runs in the peers' environments, so it imports the standard library only. Standard output has messages only: all
other output, of a JVM too, goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Loop"]

F = TypeVar("F", bound=Callable[..., Any])


class Loop:
    """Serves calls, one at a time, on the thread that calls :meth:`run`.

    Attributes:
        settings: the arguments of the benchmark at the start.
    """

    def __init__(self) -> None:
        self.settings: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._output = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def function(self, function: F) -> F:
        """Decorate a function that the benchmark may call by its name.

        Arguments and result are JSON values.
        """
        self._functions[function.__name__] = function
        return function

    def run(self, **hello: Any) -> None:
        """Report that it is ready, and serve until standard input ends."""
        self._write({"value": hello})
        for line in sys.stdin:
            self._write(self._answer(json.loads(line)))

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            value = self._functions[message["call"]](**message["with"])
            json.dumps(value)
        except Exception as error:  # reported to the benchmark
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}"}
        return {"value": value}

    def _write(self, message: dict[str, Any]) -> None:
        self._output.write(json.dumps(message) + "\n")
        self._output.flush()
