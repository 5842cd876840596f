"""A live server in a process of its own: its addresses, its figures, its log, and whether it is alive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parent.parent.parent
ADDRESS_SPACE = 10 << 30
PATIENCE = 60.0
"""Seconds after which something that must happen counts as hanging, on a machine that does much else."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a process holds: resident anonymous memory in bytes, threads, and file descriptors."""

    memory: int
    threads: int
    descriptors: int

    @classmethod
    def of(cls, pid: int) -> Figures:
        facts = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
        threads, descriptors = int(facts["Threads"]), len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
        return cls(int(facts["RssAnon"].split()[0]) << 10, threads, descriptors)

    def __str__(self) -> str:
        return f"{self.memory >> 20} MiB, {self.threads} threads, {self.descriptors} descriptors"


class ChildProcess:
    """A process that a test has started.

    Args:
        process: what was started.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()


def environment() -> dict[str, str]:
    """The variables of a process that imports the modules of this repository."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "generated")])
    return {**os.environ, "MALLOC_ARENA_MAX": "2", "PYTHONPATH": path}


class ServerProcess(ChildProcess):
    """A server with its three endpoints.

    Args:
        folder: for its log.
        limits: fields of the server's ``Limits``.
        ports: of Flight, of Deephaven's gRPC and of Deephaven's websockets; 0 takes a free one.
        data_dir: the folder of durable tables; None for none.
        front: what serves Flight.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limits: dict[str, Any] | None = None,
        ports: tuple[int, int, int] = (0, 0, 0),
        data_dir: Path | None = None,
        front: str = "pyarrow",
    ) -> None:
        self.log_path = folder / f"server-{time.monotonic_ns()}.log"
        options = {
            "address_space": ADDRESS_SPACE,
            "limits": limits or {},
            "ports": ports,
            "data_dir": None if data_dir is None else str(data_dir),
            "front": front,
        }
        with self.log_path.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.live.child", json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=environment(),
            )
        super().__init__(process)
        try:
            self.flight, self.deephaven, self.web = self._read()["uris"]
        except BaseException:
            self.kill()
            raise

    @property
    def addresses(self) -> tuple[str, str, str]:
        """Host and port of each endpoint: Flight, Deephaven's gRPC, Deephaven's websockets."""
        flight, deephaven, web = (uri.partition("://")[2] for uri in (self.flight, self.deephaven, self.web))
        return flight, deephaven, web

    @property
    def ports(self) -> tuple[int, int, int]:
        flight, deephaven, web = (int(address.rpartition(":")[2]) for address in self.addresses)
        return flight, deephaven, web

    def figures(self) -> Figures:
        return Figures.of(self.pid)

    def settled(self) -> Figures:
        """The figures after the process gave back what nothing refers to."""
        self.command(do="settle")
        return self.figures()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def command(self, **command: Any) -> None:
        """Have the server do something that no client can ask for; RuntimeError says what went wrong."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        error = self._read().get("error")
        if error is not None:
            raise RuntimeError(error)

    def close(self) -> None:
        """End it as Ctrl-C does; it must end by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        finally:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise RuntimeError(f"the server ended with {self._process.returncode}:\n{self.log()[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer
