"""The argument of each work: the sizes, the figures, and the progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.environments import MissingPeerError, version_of
from benchmarks.figures import Figure, Outcome, distribution
from benchmarks.names import DEEPHAVEN, PERSPECTIVE
from benchmarks.process import ProcessFailedError
from benchmarks.sizes import Sizes

__all__ = ["Bench"]

_PACKAGES: Final = {
    DEEPHAVEN: ("deephaven", "deephaven-server"),
    PERSPECTIVE: ("perspective", "perspective-python"),
}


class Bench:
    """One benchmark while it runs.

    Args:
        sizes: the sizes of this mode.
        tell: called with the progress, and with the figures so far.
        rows: the rows of it that are measured; empty for all.

    Attributes:
        outcome: figures so far.
    """

    def __init__(self, sizes: Sizes, tell: Callable[[dict[str, Any]], object], rows: Sequence[str] = ()) -> None:
        self.sizes = sizes
        self._rows = rows
        self.outcome = Outcome()
        self._tell = tell

    def wants(self, *rows: str) -> bool:
        """Whether any of these rows is to be measured."""
        return not self._rows or any(row in self._rows for row in rows)

    def asks_for(self, row: str) -> bool:
        """Whether a row is named, which is measured only then."""
        return row in self._rows

    def step(self, text: str) -> None:
        """Report the progress."""
        self._tell({"step": text})

    def keep(self) -> None:
        """Report the figures so far, so that a later failure does not lose them."""
        self._tell({"outcome": asdict(self.outcome)})

    def add(self, work: str, what: str, system: str, values: Sequence[float], unit: str, better: str = "less") -> None:
        """Keep the median of ``values``."""
        self.outcome.figures.append(Figure.of(work, what, system, values, unit, better))

    def timed(self, work: str, what: str, system: str, seconds: Sequence[float]) -> None:
        """Keep p50 and p99 of single events, in ms, and their distribution.

        ``what`` follows the percentile's name.
        """
        milliseconds = np.asarray(seconds) * 1e3
        for percentile in (50, 99):
            name = f"p{percentile}, {what}" if what else f"p{percentile}"
            figure = Figure(work, name, system, float(np.percentile(milliseconds, percentile)), "ms")
            figure.repeats = len(milliseconds)
            if percentile == 50:
                figure.distribution = distribution(milliseconds)
            self.outcome.figures.append(figure)

    def peer(self, name: str, measure: Callable[[], object], environment: str = "") -> None:
        """Measure a peer, if it is selected.

        A failure is noted, and does not affect the others.

        Its version is that of an environment: of its usual one, if none is named.
        """
        if name not in self.sizes.peers:
            return
        self.keep()
        self.step(name)
        try:
            measure()
            peer, package = _PACKAGES[name]
            label = f"{package} ({environment})" if environment else package
            self.outcome.versions[label] = version_of(environment or peer, package)
        except (MissingPeerError, ProcessFailedError, OSError, pa.ArrowException) as error:
            self.outcome.notes.append(f"{name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")

    def warm(self, action: Callable[[], object]) -> None:
        """Repeat an action until a JVM has compiled it."""
        self.step("warming up")
        end = time.monotonic() + self.sizes.warm
        while time.monotonic() < end:
            action()
