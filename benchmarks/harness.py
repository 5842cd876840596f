"""Starting servers, repeating work, and keeping the figures."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np


@dataclass(slots=True)
class Figure:
    """One measured figure, with what it compares to.

    Attributes:
        work: what was done.
        what: which figure of it.
        value: the median over the repeats.
        unit: of ``value``.
        spread: lowest and highest of the repeats.
        ratio: of ``value`` to ``against``; above 1 is better for rates, below 1 for times.
        against: what it is compared with.
    """

    work: str
    what: str
    value: float
    unit: str
    spread: tuple[float, float] | None = None
    ratio: float | None = None
    against: str = ""


@dataclass(slots=True)
class Run:
    """All figures of a run, and how large its tables are."""

    large: int
    small: int
    repeats: int
    figures: list[Figure] = field(default_factory=list)

    def add(
        self, work: str, what: str, values: list[float], unit: str, *, ratio: float | None = None, against: str = ""
    ) -> float:
        """Keep the median of ``values``, and return it."""
        middle = float(np.median(values))
        self.figures.append(Figure(work, what, middle, unit, (min(values), max(values)), ratio, against))
        return middle

    def as_json(self) -> dict[str, Any]:
        return {
            "rows_large": self.large,
            "rows_small": self.small,
            "figures": [asdict(figure) for figure in self.figures],
        }


class Host:
    """A server process, and a way to tell it what to do."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid
        self.uri = self._answer()["uri"]

    def tell(self, do: str, **arguments: Any) -> Any:
        """Have a command of :mod:`benchmarks.host` done, and wait for its result."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    @contextmanager
    def meanwhile(self, do: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        """Have a command done while the body runs; its result is in the dictionary afterwards."""
        result: dict[str, Any] = {}
        thread = threading.Thread(target=lambda: result.update(self.tell(do, **arguments) or {}))
        thread.start()
        try:
            yield result
        finally:
            thread.join()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server process ended with {self._process.wait()}")
        return json.loads(line)


@contextmanager
def host(kind: str) -> Iterator[Host]:
    """A server in a process of its own: ``ours`` or ``bare``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.host", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Host(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
