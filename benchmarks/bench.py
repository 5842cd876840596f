"""What each work is given: the sizes, a place for its figures, and a way to say where it is."""

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
        sizes: of this mode.
        tell: is told what is done now, and what has been measured so far.

    Attributes:
        outcome: figures so far.
    """

    def __init__(self, sizes: Sizes, tell: Callable[[dict[str, Any]], object]) -> None:
        self.sizes = sizes
        self.outcome = Outcome()
        self._tell = tell

    def step(self, text: str) -> None:
        """Say what is done now."""
        self._tell({"step": text})

    def keep(self) -> None:
        """Say what has been measured so far, so that it is not lost with what comes next."""
        self._tell({"outcome": asdict(self.outcome)})

    def add(self, work: str, what: str, system: str, values: Sequence[float], unit: str, better: str = "less") -> None:
        """Keep the median of ``values``."""
        self.outcome.figures.append(Figure.of(work, what, system, values, unit, better))

    def timed(self, work: str, what: str, system: str, seconds: Sequence[float]) -> None:
        """Keep p50 and p99 of single events, in ms, and their distribution. ``what`` follows the percentile's name."""
        milliseconds = np.asarray(seconds) * 1e3
        for percentile in (50, 99):
            name = f"p{percentile}, {what}" if what else f"p{percentile}"
            figure = Figure(work, name, system, float(np.percentile(milliseconds, percentile)), "ms")
            figure.repeats = len(milliseconds)
            if percentile == 50:
                figure.distribution = distribution(milliseconds)
            self.outcome.figures.append(figure)

    def peer(self, name: str, measure: Callable[[], object]) -> None:
        """Measure a peer, if it is wanted. One that fails is noted, and leaves the others."""
        if name not in self.sizes.peers:
            return
        self.keep()
        self.step(name)
        try:
            measure()
            peer, package = _PACKAGES[name]
            self.outcome.versions[package] = version_of(peer, package)
        except (MissingPeerError, ProcessFailedError, OSError, pa.ArrowException) as error:
            self.outcome.notes.append(f"{name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")

    def warm(self, action: Callable[[], object]) -> None:
        """Repeat an action for as long as a Java machine needs until it is as fast as it gets."""
        self.step("warming up")
        end = time.monotonic() + self.sizes.warm
        while time.monotonic() < end:
            action()
