"""Figures, and files of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from benchmarks.names import OURS

__all__ = ["PERCENTILES", "Figure", "Outcome", "Results", "distribution", "find", "short"]

PERCENTILES: Final = (1, 5, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9)


@dataclass(slots=True)
class Figure:
    """One measured figure.

    Attributes:
        work: what was done.
        what: name of the figure.
        system: the measured system.
        value: the median over the repeats.
        unit: of ``value``.
        better: ``more`` or ``less``; empty for neither, such as a size.
        spread: lowest and highest of the repeats.
        repeats: number of repeats.
        distribution: values at :data:`PERCENTILES`, where single events were timed.
        points: pairs of size and value, where several sizes were measured.
    """

    work: str
    what: str
    system: str
    value: float
    unit: str
    better: str = "less"
    spread: tuple[float, float] | None = None
    repeats: int = 1
    distribution: list[float] | None = None
    points: list[tuple[float, float]] | None = None

    @classmethod
    def of(cls, work: str, what: str, system: str, values: Sequence[float], unit: str, better: str = "less") -> Self:
        """The median of repeats."""
        spread = (float(min(values)), float(max(values))) if len(values) > 1 else None
        return cls(work, what, system, float(np.median(values)), unit, better, spread, len(values))


def distribution(values: Sequence[float] | npt.NDArray[np.float64]) -> list[float]:
    """Values at :data:`PERCENTILES`."""
    return [float(value) for value in np.percentile(values, PERCENTILES)]


@dataclass(slots=True)
class Outcome:
    """The outcome of one benchmark.

    Attributes:
        figures: the measured figures.
        seconds: its total time.
        quick: whether its tables were small and its times short.
        error: why figures are missing; empty when all are there.
        notes: omitted measurements, with the reasons.
        versions: of the peers.
    """

    figures: list[Figure] = field(default_factory=list)
    seconds: float = 0.0
    quick: bool = False
    error: str = ""
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def after(self, before: Outcome, rows: Sequence[str]) -> Outcome:
        """What is known when some rows were measured after everything else, or once more."""
        measured = {(figure.work, figure.what) for figure in self.figures}
        kept = [note for note in before.notes if not any(f", {row}: " in note for row in rows)]
        return replace(
            self,
            figures=[*(old for old in before.figures if (old.work, old.what) not in measured), *self.figures],
            notes=kept + self.notes,
            versions=before.versions | self.versions,
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what :func:`dataclasses.asdict` wrote."""
        figures = [
            Figure(**{**entry, "spread": None if entry["spread"] is None else tuple(entry["spread"])})
            for entry in data["figures"]
        ]
        return cls(**{**data, "figures": figures})


@dataclass(slots=True)
class Results:
    """A results file: the last outcome of each benchmark, and the machine.

    Attributes:
        machine: the machine.
        outcomes: by the benchmark's name.
    """

    machine: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file; an empty one when there is none."""
        if not path.exists():
            return cls()
        data = json.loads(path.read_text())
        outcomes = {name: Outcome.from_json(entry) for name, entry in data["benchmarks"].items()}
        return cls(data["machine"], outcomes)

    def save(self, path: Path) -> None:
        """Write a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_json(), indent=1) + "\n")

    def as_json(self) -> dict[str, Any]:
        """What is in the file, with the ratio of each figure."""
        written: dict[str, Any] = {}
        for name, outcome in self.outcomes.items():
            entry = asdict(outcome)
            written[name] = entry
        return {"machine": self.machine, "benchmarks": written, "ratios": self._ratios()}

    @property
    def figures(self) -> list[Figure]:
        """All of them."""
        return [figure for outcome in self.outcomes.values() for figure in outcome.figures]

    def ratio(self, figure: Figure) -> float | None:
        """The ratio of this project to the figure's system; above 1 it is ahead.

        None for a figure of this project, and where it has none to compare.
        """
        mine = find(self.figures, figure.work, figure.what, OURS)
        if figure.system == OURS or mine is None or not figure.better or not figure.value or not mine.value:
            return None
        return mine.value / figure.value if figure.better == "more" else figure.value / mine.value

    def _ratios(self) -> list[dict[str, Any]]:
        found = ((figure, self.ratio(figure)) for figure in self.figures)
        return [
            {"work": figure.work, "what": figure.what, "beside": figure.system, "times_better": ratio}
            for figure, ratio in found
            if ratio is not None
        ]


def find(figures: Iterable[Figure], work: str, what: str, system: str) -> Figure | None:
    """One figure."""
    wanted = (work, what, system)
    return next((figure for figure in figures if (figure.work, figure.what, figure.system) == wanted), None)


def short(value: float) -> str:
    """Three significant digits, with separators."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
