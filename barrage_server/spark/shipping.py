"""Which way a micro-batch takes: through the driver, or from the executors straight to the server.

Either way costs one Spark job. Through the driver a batch is one Flight stream, and its rows pass through the driver's
memory one after the other; from the executors it is a task in a Python worker and a Flight stream per partition, side
by side, and no row passes the driver. So small batches go through the driver, and large ones, and those of unknown
size, do not.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from barrage_server.spark.settings import Ship

__all__ = ["Receipt", "Shipped", "choose", "expected_size"]


@dataclass(frozen=True, slots=True)
class Shipped:
    """One batch that was published: Spark's estimate of its bytes, and what it had in Arrow's form."""

    plan_size: int | None
    nbytes: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The size of the data that the executors staged, which the committing process reports to the sink in a small file.

    Only the estimate of the next batch depends on it, so a missing or unreadable one is harmless.
    """

    rows: int
    nbytes: int

    def write(self, path: Path) -> None:
        """Leave it at ``path``."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Receipt | None:
        """The receipt at ``path``; None when there is none."""
        try:
            found = json.loads(path.read_text())
            return cls(int(found["rows"]), int(found["nbytes"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def expected_size(plan_size: int | None, last: Shipped | None) -> int | None:
    """Expected bytes of Arrow data of the next batch; None when unknown.

    Spark's estimate of a plan is off by a factor that stays much the same from batch to batch (compressed files one
    way, aggregations the other), so it is scaled by its last error. For sources without an estimate, such as Kafka, the
    last size is used.
    """
    if last is None or last.nbytes == 0:
        return plan_size
    if plan_size is None or not last.plan_size:
        return last.nbytes
    return plan_size * last.nbytes // last.plan_size


def choose(ship: Ship, threshold: int, expected: int | None) -> Ship:
    """The way to take: what the user said; for ``auto`` the driver up to ``threshold`` expected bytes."""
    if ship is not Ship.AUTO:
        return ship
    return Ship.DRIVER if expected is not None and expected <= threshold else Ship.EXECUTORS
