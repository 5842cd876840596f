"""A script in a process of its own, called by JSON lines.

The process may be of another environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

__all__ = ["Process", "ProcessFailedError"]

ROOT: Final = Path(__file__).resolve().parent.parent
_GOODBYE_SECONDS: Final = 15.0


class ProcessFailedError(Exception):
    """The script raised an error, or ended."""


class Process:
    """Runs ``python -m MODULE SETTINGS``, and calls its functions.

    They are functions of its :class:`benchmarks.loop.Loop`.

    Its output goes to this process's standard error.

    Args:
        module: such as ``benchmarks.servers.ours``.
        settings: the ``settings`` of its loop.
        python: the interpreter.
        environment: its environment variables; those of this process when None.
    """

    def __init__(
        self,
        module: str,
        settings: Mapping[str, Any] | None = None,
        *,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [python, "-m", module, json.dumps(dict(settings or {}))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=None if environment is None else dict(environment),
        )
        self.pid = self._process.pid
        try:
            self.hello: dict[str, Any] = self._read()
        except BaseException:
            self.close()
            raise

    def call(self, function: str, **arguments: Any) -> Any:
        """Call a function there, and wait for its result."""
        with self._lock:
            self._send({"call": function, "with": arguments})
            return self._read()

    @contextmanager
    def meanwhile(self, function: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        """Run a function in the process while the body runs here.

        Afterwards its result is ``value`` in the dictionary.
        """
        result: dict[str, Any] = {}
        with self._lock:
            self._send({"call": function, "with": arguments})
            try:
                yield result
            finally:
                result["value"] = self._read()

    def close(self) -> None:
        """End it and wait, with a time-out; then kill it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ProcessFailedError(f"{self._module} ended with {self._process.wait()}; its log says why")
        answer = json.loads(line)
        if "error" in answer:
            raise ProcessFailedError(f"{self._module}: {answer['error']}")
        return answer["value"]
