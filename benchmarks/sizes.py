"""Sizes of tables and times of measurements.

There are full ones, quick ones, and tiny ones for tests of the benchmarks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.names import DEEPHAVEN, PERSPECTIVE

__all__ = ["FULL", "MODES", "QUICK", "TINY", "PageSizes", "Sizes"]


@dataclass(frozen=True, slots=True)
class PageSizes:
    """Sizes of what is shown in a browser.

    Attributes:
        rows: rows of the large table.
        peers_rows: rows of the large table of Perspective, whose tables take more memory.
        many_rows: rows of a narrow table that is compared with one of ``rows``; ten times as many.
        navigations: of each kind, to the first rows and to the first picture.
        jumps: jumps to random rows.
        seconds: of cells that change in view, of the wheel, and of the thumb.
        stamps: changes that are timed from being published to being painted.
        updates: updates after which the memory of scripts is read: at first, and at the end.
        viewers: browsers at a time.
        points: rows that are plotted.
        ticks: of a plot, in a round.
        starts: pairs of starts with and without the page.
    """

    rows: int
    peers_rows: int
    many_rows: int
    navigations: int
    jumps: int
    seconds: float
    stamps: int
    updates: tuple[int, int]
    viewers: int
    points: int
    ticks: int
    starts: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """One mode.

    Attributes:
        rows: rows of the large table.
        keyed: rows of the replaced table.
        repeats: repetitions of a fixed amount of work.
        settle: seconds of a steady state before it is measured.
        measure: seconds of a measurement.
        warm: seconds of the same work to warm up a JVM.
        moves: moves of a viewport.
        single: rows written singly, for latency.
        viewers: subscribers with a viewport each.
        fans: numbers of full subscribers.
        rates: rows per second of appends to try, from low to high.
        upsert_rates: the same for upserts.
        updates: rows changed while memory is observed.
        peers_kinds: kinds of tables whose memory is measured in the peers.
        attempts: attempts at a rate before it counts as not sustained.
        search: seconds after which no further rate is tried on a system.
        spark_rows: rows of a Spark query.
        micro_batches: micro-batches of a Spark query.
        spark_rounds: rounds of each sink and of each way of shipping, alternating, so that a slow phase of the machine
            affects all; the first round warms up.
        spark_batches: rows per micro-batch for comparing the two ways.
        growth: sizes of tables whose costs are compared.
        peers: peers to measure besides this project, the bare server and Spark.
        heap: heap size of the JVM.
        pages: sizes of what is shown in a browser.
    """

    rows: int
    keyed: int
    repeats: int
    settle: float
    measure: float
    warm: float
    moves: int
    single: int
    viewers: int
    fans: tuple[int, ...]
    rates: tuple[float, ...]
    upsert_rates: tuple[float, ...]
    updates: int
    peers_kinds: tuple[str, ...]
    attempts: int
    search: float
    spark_rows: int
    micro_batches: int
    spark_rounds: int
    spark_batches: tuple[int, ...]
    growth: tuple[int, ...]
    peers: tuple[str, ...]
    heap: str
    pages: PageSizes


FULL: Final = Sizes(
    rows=10_000_000,
    keyed=1_000_000,
    repeats=5,
    settle=1.0,
    measure=3.0,
    warm=15.0,
    moves=3000,
    single=2000,
    viewers=1000,
    fans=(1, 10, 50),
    rates=(1e6, 2e6, 5e6, 10e6, 12.5e6, 20e6, 25e6),
    upsert_rates=(0.5e6, 1e6, 2e6, 2.5e6, 4e6, 5e6),
    updates=1_000_000,
    peers_kinds=("append", "keyed"),
    attempts=2,
    search=60.0,
    spark_rows=10_000_000,
    micro_batches=10,
    spark_rounds=5,
    spark_batches=(10_000, 100_000, 1_000_000, 4_000_000),
    growth=(100_000, 1_000_000, 10_000_000),
    peers=(DEEPHAVEN, PERSPECTIVE),
    heap="6g",
    pages=PageSizes(
        rows=100_000_000,
        peers_rows=10_000_000,
        many_rows=1_000_000_000,
        navigations=7,
        jumps=200,
        seconds=5.0,
        stamps=300,
        updates=(1_000, 36_000),
        viewers=100,
        points=10_000_000,
        ticks=200,
        starts=15,
    ),
)
QUICK: Final = Sizes(
    rows=1_000_000,
    keyed=100_000,
    repeats=2,
    settle=0.3,
    measure=0.6,
    warm=0.3,
    moves=200,
    single=60,
    viewers=50,
    fans=(10,),
    rates=(0.5e6, 10e6),
    upsert_rates=(0.2e6, 2e6),
    updates=100_000,
    peers_kinds=(),
    attempts=1,
    search=1.0,
    spark_rows=300_000,
    micro_batches=2,
    spark_rounds=2,
    spark_batches=(100_000,),
    growth=(10_000, 100_000, 1_000_000),
    peers=(DEEPHAVEN,),
    heap="3g",
    pages=PageSizes(
        rows=1_000_000,
        peers_rows=100_000,
        many_rows=10_000_000,
        navigations=2,
        jumps=15,
        seconds=1.0,
        stamps=15,
        updates=(50, 500),
        viewers=20,
        points=100_000,
        ticks=20,
        starts=2,
    ),
)
TINY: Final = Sizes(
    rows=20_000,
    keyed=2_000,
    repeats=1,
    settle=0.1,
    measure=0.2,
    warm=0.0,
    moves=20,
    single=20,
    viewers=5,
    fans=(1, 3),
    rates=(1e5,),
    upsert_rates=(1e4,),
    updates=2_000,
    peers_kinds=(),
    attempts=1,
    search=10.0,
    spark_rows=4_000,
    micro_batches=2,
    spark_rounds=2,
    spark_batches=(1_000,),
    growth=(1_000, 10_000),
    peers=(),
    heap="1g",
    pages=PageSizes(
        rows=20_000,
        peers_rows=20_000,
        many_rows=200_000,
        navigations=1,
        jumps=3,
        seconds=0.3,
        stamps=3,
        updates=(5, 20),
        viewers=3,
        points=20_000,
        ticks=3,
        starts=1,
    ),
)
MODES: Final = {"full": FULL, "quick": QUICK, "tiny": TINY}
