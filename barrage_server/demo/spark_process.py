"""Spark in a process of its own.

It cannot disturb the terminal, and can be ended at once.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import barrage_server
from barrage_server.errors import PublishError

__all__ = ["SparkProcess"]

_SECONDS_TO_END: Final = 0.3
"""Seconds for killed processes to disappear. Without a process that reaps orphans they stay listed."""


class SparkProcess:
    """The process of :mod:`barrage_server.demo.job`.

    Orders go in, reports come out, and Spark's own output goes to a file.
    """

    def __init__(self, orders: dict[str, object], log: Path) -> None:
        self.log = log
        self._reports: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        reading, writing = os.pipe()
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "barrage_server.demo.job", json.dumps(orders | {"reports": writing})],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(writing,),
                    env=_environment(log.parent),
                    cwd=log.parent,
                    # A session of its own: Ctrl-C in the terminal reaches this process only, which ends the other.
                    start_new_session=True,
                )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._reader = threading.Thread(target=self._read, args=(reading,), name="spark-reports", daemon=True)
        self._reader.start()

    def reports(self, timeout: float) -> Iterator[dict[str, Any]]:
        """Yield the reports since the last call.

        ``timeout``: seconds to wait for the first one.

        Raises:
            PublishError: Spark failed, or ended unexpectedly.
        """
        with contextlib.suppress(queue.Empty):
            report = self._reports.get(timeout=timeout)
            while True:
                if report["event"] == "failed":
                    raise PublishError(f"Spark failed: {report['text'].rstrip('. ')} (its log: {self.log}).")
                if report["event"] == "ended":
                    code = self._process.wait()
                    raise PublishError(f"Spark ended unexpectedly, with exit code {code} (its log: {self.log}).")
                yield report
                report = self._reports.get_nowait()

    def finish(self) -> None:
        """Let Spark process the remaining files, and compute the tables as a batch."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"finish\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """Kill the process, with its Java and its workers.

        Nothing is lost by that: all its files, temporary ones included, are in the folder of the demo.
        """
        group = self._process.pid
        deadline = time.monotonic() + _SECONDS_TO_END
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
            self._process.wait()
            while time.monotonic() < deadline:
                os.killpg(group, signal.SIGKILL)
                time.sleep(_SECONDS_TO_END / 20)
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._reader.join(_SECONDS_TO_END)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor) as lines:
            for line in lines:
                self._reports.put(json.loads(line))
        self._reports.put({"event": "ended"})


def _environment(folder: Path) -> dict[str, str]:
    """The environment of the process, in which this package is always found."""
    env = os.environ | {"TMPDIR": str(folder)}
    try:
        importlib.metadata.distribution("barrage-server")
    except importlib.metadata.PackageNotFoundError:
        root = Path(barrage_server.__file__).parents[1]
        folders = [str(root), str(root / "generated"), env.get("PYTHONPATH", "")]
        env["PYTHONPATH"] = os.pathsep.join(folder for folder in folders if folder)
    return env
