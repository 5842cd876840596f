"""The targets, as data.

The benchmarks measure and assert nothing; :mod:`benchmarks.check` compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.names import BARE, DEEPHAVEN, PERSPECTIVE, SPARK_NOOP, SPARK_TO_ARROW
from benchmarks.works.operations import OPERATIONS
from benchmarks.works.starts import OPERATIONS as STARTS

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """One bound of one figure of this project.

    Attributes:
        benchmark: which one measures it.
        work: that of the figure.
        what: that of the figure.
        at_least: a lower bound; of the figure, or of the ratio to ``beside``.
        at_most: an upper bound.
        beside: a system. The bounds are then of the ratio of this project to it.
    """

    benchmark: str
    work: str
    what: str
    at_least: float | None = None
    at_most: float | None = None
    beside: str = ""

    @property
    def text(self) -> str:
        """The bound as text."""
        bounds = [f"at least {self.at_least:,.12g}"] if self.at_least is not None else []
        bounds += [f"at most {self.at_most:,.12g}"] if self.at_most is not None else []
        times = f" times as good as {self.beside}" if self.beside else ""
        return " and ".join(bounds) + times


_VIEWPORTS: Final = tuple(
    Target("viewport", f"viewport of 100 rows moved, {table}, {state}", f"{percentile}, raw", at_most=bound)
    for table in ("append table", "keyed table", "ring of ten times the rows")
    for state in ("still", "ticking")
    for percentile, bound in (("p50", 0.4), ("p99", 3.0))
)

_ENTERING: Final = "keyed, half of the changed rows enter or leave"
_FIRST: Final = "page, navigation to first rows, 100,000,000 rows"
_JUMP: Final = "page, jump to a random row, 100,000,000 rows"
_PAINTED: Final = "page, published to painted, 50 ms interval"
_MEMORY: Final = "page, script memory, 1,000 and 36,000 updates"
_CELLS: Final = "page, 10,000 cell changes/s in view"
_PAGES: Final = (
    Target("web", "page, bytes to the first rows", "compressed", at_most=80),
    Target("web", "page, bytes to the first rows", "compressed", at_least=25, beside=DEEPHAVEN),
    Target("web", "page, bytes to the first rows", "compressed", at_least=20, beside=PERSPECTIVE),
    Target("web", _FIRST, "cold", at_least=8, beside=DEEPHAVEN),
    Target("web", _FIRST, "cached", at_least=4, beside=DEEPHAVEN),
    Target("web", _JUMP, "p50", at_least=6, beside=DEEPHAVEN),
    Target("web", _JUMP, "p99", at_least=3, beside=DEEPHAVEN),
    Target("web", "page, jump to a random row, 1,000,000,000 rows", "p50, of that of a tenth of the rows", at_most=1.2),
    Target("web", _CELLS, "frames in time", at_least=99),
    *(
        Target("web", work, "frames in time", at_least=1, beside=peer)
        for work in (_CELLS, "page, the wheel, 100,000,000 rows", "page, the thumb, 100,000,000 rows")
        for peer in (DEEPHAVEN, PERSPECTIVE)
    ),
    Target("web", _PAINTED, "p50", at_least=2, beside=DEEPHAVEN),
    Target("web", _PAINTED, "p99", at_least=2, beside=DEEPHAVEN),
    Target("web", _MEMORY, "growth", at_most=2),
    Target("web", _MEMORY, "after the first", at_least=4, beside=DEEPHAVEN),
    Target("web", "page, 100 browsers at 10 Hz", "server cores", at_most=0.25),
    Target("web", "page, 100 browsers at 10 Hz", "server cores", at_least=1, beside=DEEPHAVEN),
    Target("web", "page, plot of 10,000,000 rows", "first picture", at_least=3, beside=DEEPHAVEN),
    Target("web", "page, a plot's tick", "of that with 1/100 of the rows", at_most=1.2),
    Target("web", "page, import and start of a server", "time, of that without the page", at_most=1.05),
)

TARGETS: Final = (
    Target("doget", "DoGet", "time", at_least=0.95, beside=BARE),
    Target("doget", "DoGet", "time", at_least=5, beside=DEEPHAVEN),
    Target("fronts", "DoGet, by front", "rate of the front grpc, turn by turn", at_least=0.95),
    Target("fronts", "DoPut, by front", "rate of the front grpc, turn by turn", at_least=0.8),
    Target(
        "fronts", "appends as fast as they are received, by front", "rate of the front grpc, turn by turn", at_least=0.8
    ),
    Target("durable", "puts of 50,000 rows, in memory or durable", "rate when durable, turn by turn", at_least=0.6),
    Target("durable", "puts of 100 rows, in memory or durable", "rate when durable, turn by turn", at_least=0.7),
    Target("durable", "a put of 100 rows that waits for the disk", "median beyond memory", at_most=2.0),
    Target("durable", "memory of a durable table", "of that in memory", at_most=1.05),
    *(
        Target("durable", "restart of a durable table", f"of the time of pq.read_table, {kind} table", at_most=2.0)
        for kind in ("append", "keyed")
    ),
    *(
        Target("roles", "a call, by whether there are roles", f"{call}, of the time without roles", at_most=1.05)
        for call in ("GetFlightInfo", "DoGet of 100 rows", "DoPut of 100 rows")
    ),
    *(
        Target(
            "filters",
            "subscribers of a part of a table that ticks",
            f"{rows}, {readers}, processor time, of that for the whole table",
            at_most=1.3,
        )
        for rows in ("append, half of the rows", "keyed, half of the rows", _ENTERING)
        for readers in ("1 reader", "10 readers")
    ),
    Target("snapshot", "first snapshot", "received raw", at_least=4, beside=DEEPHAVEN),
    Target("snapshot", "first snapshot", "applied to a replica", at_least=5, beside=DEEPHAVEN),
    Target("append", "append to one full subscriber", "sustained", at_least=10e6),
    Target("append", "append to one full subscriber", "sustained", at_least=2, beside=DEEPHAVEN),
    Target("upsert", "upserts of existing keys to one subscriber", "sustained", at_least=2e6),
    Target(
        "upsert", "upserts of existing keys to one subscriber", "cores per million rows/s", at_least=1, beside=DEEPHAVEN
    ),
    Target("replace", "replace of a keyed table, 1 % changed", "time", at_most=0.25),
    Target("replace", "replace of a keyed table, 1 % changed", "rows on the wire", at_most=1.0),
    Target("resume", "coming back after 1 % changed", "bytes, raw", at_most=0.05),
    Target("resume", "coming back after 1 % changed", "time, raw", at_most=0.05),
    Target("resume", "coming back after 1 % changed", "time, applied", at_most=0.05),
    *_VIEWPORTS,
    Target("viewport", "viewport of 100 rows moved, append table, still", "p50, raw", at_least=0.5, beside=BARE),
    Target("viewport", "viewport of 100 rows moved, append table, still", "p99, raw", at_least=1, beside=DEEPHAVEN),
    Target("viewport", "viewport of 100 rows moved, append table, still", "p50, applied", at_most=0.35),
    Target("latency", "row written to row received, 1 ms interval", "p50", at_most=0.7),
    Target("latency", "row written to row received, 1 ms interval", "p99", at_most=4.0),
    Target("latency", "row written to row received, 1 ms interval", "server cores", at_least=1, beside=DEEPHAVEN),
    Target("fanout", "100 k rows/s to 50 subscribers", "server cores", at_least=2, beside=DEEPHAVEN),
    Target("fanout", "100 k rows/s to 50 subscribers", "served on time", at_least=99.0),
    Target("viewers", "1,000 viewport subscribers at 10 Hz", "server cores", at_least=0.83, beside=DEEPHAVEN),
    Target("viewers", "1,000 viewport subscribers at 10 Hz", "served on time", at_least=99.0),
    Target("stalled", "20 subscribers that take nothing, ring", "memory for each of them", at_most=5.0),
    Target(
        "stalled",
        "20 subscribers that take nothing, keyed table",
        "memory for all of them, by the table's",
        at_most=1.5,
    ),
    *(
        Target("stalled", f"20 subscribers that take nothing, {kind}", "p99 of another one", at_most=2.0)
        for kind in ("ring", "keyed table")
    ),
    Target("strangers", "a client beside callers without credentials, front grpc", "p99", at_most=2.0),
    Target("strangers", "a client beside callers without credentials, front grpc", "memory", at_most=64.0),
    Target("memory", "memory, append table", "of what is allowed", at_most=1.0),
    Target("memory", "memory, keyed table", "of what is allowed", at_most=1.0),
    Target("memory", "memory over a million updates", "growth", at_most=10.0),
    Target("memory", "memory after a burst", "left over", at_most=50.0),
    Target("startup", "start-up", "to first byte", at_most=1.0),
    Target("spark", "Spark, micro-batches to a subscriber", "rate", at_least=0.7, beside=SPARK_NOOP),
    Target("spark", "Spark, micro-batches to a subscriber", "rate", at_least=0.9, beside=SPARK_TO_ARROW),
    Target("spark", "Spark, executors beside driver", "largest batches", at_least=1.0),
    Target("spark", "Spark, auto beside the better way", "worst of all batch sizes", at_least=0.9),
    *(
        Target("growth", f"growth of {work}", "exponent", at_most=0.1)
        for work in (
            "moving a viewport",
            "row written to row received",
            "an append of 1,000 rows to a subscriber",
            "an upsert of 1,000 rows to a subscriber",
            "an upsert of 1,000 rows",
        )
    ),
    *(Target("operations", f"growth of {name}", "exponent", at_most=0.2) for name in OPERATIONS),
    *(
        Target("many", "1,000 tables computed from one, 10 rows changed", f"{name}, each", at_most=0.06)
        for name in ("where", "update_view", "update", "sum")
    ),
    *(
        Target(
            "starts",
            "publishing while a table of 10,000,000 rows starts",
            f"p99 beyond that alone, {name}",
            at_most=20.0,
        )
        for name in STARTS
    ),
    *(
        Target("queries", "queries on 10,000,000 rows", what, at_least=times, beside=DEEPHAVEN)
        for what, times in (
            ("where, two conditions", 1.2),
            ("update", 2),
            ("sort by doubles", 1.5),
            ("agg_by many groups, five aggregations", 1.3),
            ("agg_by 1,000 strings, sum and count", 1),
            ("natural_join", 1.2),
            ("aj by symbol and time", 1.2),
        )
    ),
    *(
        Target("ticking", "ticking queries, 10,000 changes a cycle", what, at_least=times, beside=DEEPHAVEN)
        for what, times in (
            ("where, with its source", 1.2),
            ("sum, count, with its source", 1.5),
            ("natural_join, with its source", 1.2),
            ("sort", 1.5),
            ("min, max, median", 1),
            ("aj", 1.5),
            ("ema", 5),
        )
    ),
    *_PAGES,
)
"""All targets, in the order of the works."""
