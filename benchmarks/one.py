"""``python -m benchmarks.one NAME MODE [ROW...]``: one benchmark in this process.

With rows, only these are measured.

What it does now, and what it has measured so far, are lines of JSON on standard output.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from benchmarks.bench import Bench
from benchmarks.sizes import MODES
from benchmarks.works import WORKS


def main(name: str, mode: str, *rows: str) -> None:
    """Measure, and say it."""
    bench = Bench(MODES[mode], _tell, rows)
    bench.outcome.quick = mode != "full"
    begin = time.monotonic()
    WORKS[name].run(bench)
    bench.outcome.seconds = time.monotonic() - begin
    bench.keep()


def _tell(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
