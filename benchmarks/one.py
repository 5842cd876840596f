"""``python -m benchmarks.one NAME MODE``: one benchmark, in this process.

What it does now, and in the end what it measured, are lines of JSON on standard output.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict

from benchmarks.bench import Bench, say, tell_parent
from benchmarks.sizes import MODES
from benchmarks.works import WORKS


def main(name: str, mode: str) -> None:
    """Measure, and say it."""
    bench = Bench(MODES[mode], tell_parent)
    begin = time.monotonic()
    WORKS[name].run(bench)
    bench.outcome.seconds = time.monotonic() - begin
    bench.outcome.quick = mode != "full"
    say({"outcome": asdict(bench.outcome)})


if __name__ == "__main__":
    main(*sys.argv[1:3])
