"""The server under test: the command line's, in a process of its own, with a data directory."""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path

from tests.live.figures import faults_of
from tests.live.process import ADDRESS_SPACE, ROOT, ChildProcess, environment
from tests.waiting import until

_EXPECTED = re.compile(r"disk|read only|No space left|File too large|journal", re.IGNORECASE)
"""Errors in the log of a server whose disk is full."""


class Serving(ChildProcess):
    """``barrage-server serve`` with ``options``.

    Its log comes through a pipe, since the quota that makes its disk full holds for every file that it writes.

    Args:
        log: the file that its log is copied to.
        checkpoint: bytes of the journal that cause a checkpoint.
        options: of the command.
    """

    def __init__(self, log: Path, checkpoint: int, *options: str) -> None:
        self.log_path = log
        process = subprocess.Popen(
            [
                sys.executable,
                "-X",
                "faulthandler",
                "-m",
                "tests.faults.serving",
                str(checkpoint),
                "--web-port",
                "0",
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(),
        )
        super().__init__(process)
        with suppress(ProcessLookupError):
            resource.prlimit(self._process.pid, resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        self._last: deque[str] = deque(maxlen=200)
        self._lines: list[str] = []
        self._ready = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._copy, self._read)]
        for thread in self._threads:
            thread.start()

    @property
    def uri(self) -> str:
        return self._lines[0]

    @property
    def log(self) -> str:
        """The last lines of its log."""
        return "".join(self._last)

    def wait_ready(self) -> None:
        """Return when clients can connect. RuntimeError when it ends before."""
        until(lambda: self._lines or not self.is_alive, 120, what=f"the server starts, see {self.log_path}")
        if not self._lines:
            self._join()
            raise RuntimeError(f"a server ended with {self._process.returncode}: {self.log[-3000:]}")

    def fails(self) -> str:
        """Wait until it has refused to start; its log. AssertionError when it starts, or dies of something else."""
        until(lambda: self._lines or not self.is_alive, 120, what="the server starts or refuses to")
        assert not self._lines, "the server has started"
        self._join()
        assert self._process.returncode > 0, f"the server ended with {self._process.returncode}"
        return self.log

    def fill_disk(self, room: int) -> None:
        """Let no file of it grow beyond ``room`` bytes more than the last segment of its journal has."""
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._join()

    def terminate(self) -> None:
        """End it by SIGTERM; it must end by itself, with status 0."""
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(60)
        finally:
            self.kill()
        assert status == 0, f"SIGTERM ended the server with {status}: {self.log[-2000:]}"

    def faults(self, *, full: bool) -> list[str]:
        """Lines of its log that tell of a fault of its own. ``full``: its disk was."""
        with suppress(FileNotFoundError):
            found = faults_of(self.log_path.read_text(errors="replace"))
            return [line for line in found if not (full and _EXPECTED.search(line))]
        return []

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(10)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _copy(self) -> None:
        assert self._process.stderr is not None
        with self.log_path.open("a") as log, suppress(ValueError):
            for line in self._process.stderr:
                self._last.append(line)
                log.write(line)
                log.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):
            for line in self._process.stdout:
                self._lines.append(line.strip())
