"""The path of a micro-batch: through the driver, or from the executors.

Either path costs one Spark job. Through the driver a batch is one Flight stream, and its rows pass through the driver's
memory in sequence. From the executors it is a task in a Python worker and a Flight stream per partition, in parallel,
and no row passes the driver. So small batches go through the driver, and batches of large or unknown size do not.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from barrage_server.spark.settings import Ship

__all__ = ["Receipt", "Shipped", "choose", "expected_size"]


@dataclass(frozen=True, slots=True)
class Shipped:
    """The size of a published batch.

    Attributes:
        plan_size: Spark's estimate in bytes; None without one.
        nbytes: bytes in Arrow's form.
    """

    plan_size: int | None
    nbytes: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The size of the rows that the executors staged.

    The committing process reports it to the sink in a small file. Only the estimate for the next batch depends on it,
    so a missing or unreadable receipt is harmless.
    """

    rows: int
    nbytes: int

    def write(self, path: Path) -> None:
        """Write the receipt to ``path``."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Receipt | None:
        """Read the receipt at ``path``; None without a readable one."""
        try:
            found = json.loads(path.read_text())
            return cls(int(found["rows"]), int(found["nbytes"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def expected_size(plan_size: int | None, last: Shipped | None) -> int | None:
    """The expected bytes of Arrow data of the next batch; None when unknown.

    Spark's estimate of a plan is off by a factor that stays about the same from batch to batch (too low for compressed
    files, too high for aggregations), so it is scaled by its last error. For sources without an estimate, such as
    Kafka, the last size is used.
    """
    if last is None or last.nbytes == 0:
        return plan_size
    if plan_size is None or not last.plan_size:
        return last.nbytes
    return plan_size * last.nbytes // last.plan_size


def choose(ship: Ship, threshold: int, expected: int | None) -> Ship:
    """The path: the user's choice, or for ``auto`` one by the expected size.

    Up to ``threshold`` expected bytes it is the driver, otherwise, and when the size is unknown, the executors.
    """
    if ship is not Ship.AUTO:
        return ship
    return Ship.DRIVER if expected is not None and expected <= threshold else Ship.EXECUTORS
