"""Results as a page of Markdown and as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.table import Table

from benchmarks.figures import Figure, Results, short
from benchmarks.names import OURS

__all__ = ["about", "as_markdown", "as_table"]

NOTE: Final = (
    "Row: int64 + float64 + int32 + a short string of 1,000 distinct values, 27.9 bytes. Servers and clients are "
    "processes of one machine and share its cores; systems take turns. Compare ratios, which come from one run; "
    "absolute figures are those of a machine. A ratio says how many times better this project does the same: above 1 "
    "it is ahead."
)
HEADS: Final = ("work", "figure", "system", "value", "lowest - highest", "ratio")


def about(results: Results) -> str:
    """The machine and the versions."""
    versions = {name: text for outcome in results.outcomes.values() for name, text in outcome.versions.items()}
    return ", ".join(f"{name} {text}" for name, text in (results.machine | versions).items())


def as_markdown(results: Results) -> str:
    """``RESULTS.md``."""
    lines = ["# Results", "", "Written by `make bench`.", "", NOTE, "", about(results) + ".", ""]
    for name, outcome in results.outcomes.items():
        lines += [f"## {name}", ""]
        if outcome.quick:
            lines += ["Quick: small tables, short times.", ""]
        if outcome.error:
            lines += [f"Failed: {outcome.error}", ""]
        lines += [f"- {note}" for note in outcome.notes] + ([""] if outcome.notes else [])
        if outcome.figures:
            lines += ["| " + " | ".join(HEADS) + " |", "|---|---|---|---:|---|---:|"]
            lines += ["| " + " | ".join(cells(results, figure)) + " |" for figure in outcome.figures]
            lines.append("")
        lines += [f"Took {outcome.seconds:.0f} s.", ""]
    return "\n".join(lines)


def as_table(results: Results) -> Table:
    """For the terminal."""
    table = Table(*HEADS)
    for outcome in results.outcomes.values():
        for figure in outcome.figures:
            ours = figure.system == OURS
            table.add_row(*cells(results, figure), style="bold" if ours else "")
        table.add_section()
    return table


def cells(results: Results, figure: Figure) -> tuple[str, ...]:
    """A row of either."""
    ratio = results.ratio(figure)
    return (
        figure.work,
        figure.what,
        figure.system,
        f"{short(figure.value)} {figure.unit}",
        "" if figure.spread is None else f"{short(figure.spread[0])} - {short(figure.spread[1])}",
        "" if ratio is None else f"{ratio:.2f}",
    )


def failures(results: Results) -> Iterator[str]:
    """Failures, and what was not measured."""
    for name, outcome in results.outcomes.items():
        if outcome.error:
            yield f"{name}: {outcome.error}"
        yield from (f"{name}: {note}" for note in outcome.notes)
