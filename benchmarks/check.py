"""``python -m benchmarks.check``: compare a results file with the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.figures import Results, find, short
from benchmarks.names import OURS
from benchmarks.targets import TARGETS, Target

__all__ = ["Verdict", "judge"]

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target, and the measured value.

    Attributes:
        target: the target.
        value: the measured figure or ratio; None if it was not measured.
        why: the reason why it was not measured.
    """

    target: Target
    value: float | None
    why: str = ""

    @property
    def is_met(self) -> bool:
        """Whether it was measured, and is within the bounds."""
        if self.value is None:
            return False
        low, high = self.target.at_least, self.target.at_most
        return (low is None or self.value >= low) and (high is None or self.value <= high)

    @property
    def text(self) -> str:
        """The verdict as text, with the relative distance of a missed target."""
        if self.value is None:
            return f"not measured: {self.why}"
        if self.is_met:
            return "met"
        low, high = self.target.at_least, self.target.at_most
        bound = low if low is not None and self.value < low else high
        return f"falls short by {abs(self.value - bound) / bound:.0%}" if bound else "falls short"


def judge(results: Results, targets: Sequence[Target] = TARGETS) -> list[Verdict]:
    """All targets, in order."""
    return [_verdict(results, target) for target in targets]


def _verdict(results: Results, target: Target) -> Verdict:
    outcome = results.outcomes.get(target.benchmark)
    if outcome is None:
        return Verdict(target, None, f"run make bench ONLY={target.benchmark}")
    figure = find(results.figures, target.work, target.what, target.beside or OURS)
    if figure is None:
        notes = [note for note in outcome.notes if target.beside and note.startswith(target.beside)]
        small = "quick runs do not do this" if outcome.quick else "its benchmark has no such figure"
        return Verdict(target, None, outcome.error or "; ".join(notes) or small)
    if not target.beside:
        return Verdict(target, figure.value)
    ratio = results.ratio(figure)
    return Verdict(target, ratio, "" if ratio is not None else f"{OURS} has no figure to compare")


def main(
    results: Annotated[Path, typer.Option(help="A results file of make bench.")] = HERE / "results.json",
    only: Annotated[list[str] | None, typer.Option(help="Only the targets of this benchmark. May be repeated.")] = None,
) -> None:
    """Compare with the targets, and list the missed ones.

    The exit code is 1 when a target is missed or was not measured.
    """
    if not results.exists():
        raise typer.BadParameter(f"{results} is not there: run make bench")
    chosen = [target for target in TARGETS if not only or target.benchmark in only]
    loaded = Results.load(results)
    verdicts = judge(loaded, chosen)
    console = Console()
    table = Table("benchmark", "work", "figure", "target", "measured", "")
    for verdict in verdicts:
        target = verdict.target
        measured = "" if verdict.value is None else short(verdict.value)
        style = "green" if verdict.is_met else "red" if verdict.value is not None else "yellow"
        table.add_row(target.benchmark, target.work, target.what, target.text, measured, verdict.text, style=style)
    console.print(table)
    if any(outcome.quick for outcome in loaded.outcomes.values()):
        console.print("Some of it is quick: small tables, short times. Take it as a hint.")
    short_of = sum(1 for verdict in verdicts if verdict.value is not None and not verdict.is_met)
    unknown = sum(1 for verdict in verdicts if verdict.value is None)
    met = len(verdicts) - short_of - unknown
    console.print(f"{met} of {len(verdicts)} targets are met, {short_of} fall short, {unknown} were not measured.")
    if met < len(verdicts):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
