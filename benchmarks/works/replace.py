"""A keyed table replaced by a content of which one row in a hundred differs.

No peer computes the difference by itself.
"""

from __future__ import annotations

import time
from typing import Final

from benchmarks import data, systems
from benchmarks.bench import Bench
from benchmarks.names import OURS

WORK: Final = "replace of a keyed table, 1 % changed"
SHARE: Final = 0.01


def run(bench: Bench) -> None:
    """A subscriber counts the rows and bytes sent."""
    rows, times = bench.sizes.keyed, bench.sizes.repeats
    with systems.ours() as ours:
        bench.step("loading")
        ours.make("t", "keyed", rows)
        with ours.receiving("t", 20) as receiver:
            while sum(receiver.received.rows) < rows:
                time.sleep(0.01)
            begin = time.time()
            bench.step("replacing")
            seconds = ours.process.call("replace", name="t", share=SHARE, times=times)
            time.sleep(0.2)
            window = receiver.between(begin, time.time())
    bench.add(WORK, "time", OURS, seconds, "s")
    bench.add(WORK, "rows on the wire", OURS, [100 * float(window.rows.sum()) / times / rows], "% of the table")
    share = 100 * float(window.nbytes.sum()) / times / (rows * data.BYTES_PER_ROW)
    bench.add(WORK, "bytes on the wire", OURS, [share], "% of the table")
