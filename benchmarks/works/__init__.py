"""The works: each module measures one kind of work on all capable systems.

A work is registered with the time limit of its full run, in seconds; beyond it, the work is ended and the others
continue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks.bench import Bench
from benchmarks.works import (
    append,
    doget,
    durable,
    fanout,
    filters,
    fronts,
    growth,
    latency,
    many,
    memory,
    operations,
    queries,
    relay,
    replace,
    resume,
    roles,
    snapshot,
    spark,
    stalled,
    starts,
    startup,
    strangers,
    ticking,
    upsert,
    viewers,
    viewport,
    web,
)

__all__ = ["WORKS", "Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """One benchmark.

    Attributes:
        run: the function that measures it.
        seconds: time limit of a full run.
    """

    run: Callable[[Bench], None]
    seconds: float


WORKS: Final = {
    "doget": Work(doget.run, 120),
    "fronts": Work(fronts.run, 180),
    "durable": Work(durable.run, 420),
    "roles": Work(roles.run, 120),
    "filters": Work(filters.run, 240),
    "snapshot": Work(snapshot.run, 180),
    "append": Work(append.run, 240),
    "upsert": Work(upsert.run, 300),
    "replace": Work(replace.run, 60),
    "resume": Work(resume.run, 120),
    "viewport": Work(viewport.run, 300),
    "latency": Work(latency.run, 150),
    "fanout": Work(fanout.run, 240),
    "viewers": Work(viewers.run, 180),
    "stalled": Work(stalled.run, 600),
    "strangers": Work(strangers.run, 120),
    "relay": Work(relay.run, 120),
    "memory": Work(memory.run, 240),
    "startup": Work(startup.run, 120),
    "spark": Work(spark.run, 600),
    "growth": Work(growth.run, 240),
    "operations": Work(operations.run, 900),
    "many": Work(many.run, 120),
    "starts": Work(starts.run, 300),
    "queries": Work(queries.run, 900),
    "ticking": Work(ticking.run, 900),
    "web": Work(web.run, 2400),
}
