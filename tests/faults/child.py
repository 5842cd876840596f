"""Processes that take commands as lines of JSON, and answer each with one: both ends."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.live.process import ROOT, ChildProcess, environment

PATIENCE = 120.0
"""Seconds after which something that must happen counts as hanging, on a machine that does much else."""


class Child(ChildProcess):
    """A Python module in a process of its own.

    Args:
        module: what to run.
        log: a file for its stderr.
        arguments: of the program.
        told: called with each line that is no answer, on a thread.
    """

    def __init__(
        self, module: str, log: Path, *arguments: str, told: Callable[[dict[str, Any]], object] = lambda _: None
    ) -> None:
        self.log_path = log
        self._told = told
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        with log.open("a") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=ROOT,
                env=environment(),
            )
        super().__init__(process)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, **command: Any) -> None:
        """Give a command that has no answer yet."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it was killed; asking for the answer says so
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()

    def answer(self, timeout: float = PATIENCE) -> dict[str, Any]:
        """The next answer. RuntimeError when the process has ended, or does not answer."""
        try:
            answer = self._answers.get(timeout=timeout)
        except queue.Empty:
            if self.is_alive:
                self._process.send_signal(signal.SIGABRT)  # the stacks of its threads, in its log
                self._process.wait(10)
            raise RuntimeError(f"no answer within {timeout:g} s; see {self.log_path}") from None
        if answer is None:
            self._process.wait()
            raise RuntimeError(f"a process ended with {self._process.returncode}; see {self.log_path}")
        if "error" in answer:
            raise RuntimeError(f"{answer['error']}; see {self.log_path}")
        return answer

    def ask(self, timeout: float = PATIENCE, **command: Any) -> dict[str, Any]:
        """Give a command, and wait for its answer."""
        self.send(**command)
        return self.answer(timeout)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):  # torn by its end
                told = json.loads(line)
                if "told" in told:
                    self._told(told)
                else:
                    self._answers.put(told)
        self._answers.put(None)


_saying = threading.Lock()


def say(**what: Any) -> None:
    """Tell the parent, from any thread of a child."""
    with _saying:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def serve(commands: dict[str, Callable[..., dict[str, Any] | None]]) -> None:
    """Run commands until stdin ends; what is raised is the answer."""
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = commands[command.pop("do")](**command) or {}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        say(**answer)


def descendants(pid: int) -> dict[int, str]:
    """The processes that ``pid`` has started, and those of these, with their command lines."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), ()):
            with suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                waiting.append(child)
    return found


def end(pid: int) -> bool:
    """Kill a process, which may have ended by itself."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
