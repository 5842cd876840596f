"""``python -m benchmarks``: run the measurements, show them, and write ``benchmarks/RESULTS.md`` and
``results.json``.
"""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.harness import Figure, Run
from benchmarks.work import WORKS

HERE = Path(__file__).parent
NOTE = (
    "Row: int64 + float64 + int32 + a short string of 1,000 distinct values, 27.9 bytes. Server and client are two "
    "processes on one machine and share its cores; quote ratios, which come from one run, never the absolute figures."
)


def main(
    only: Annotated[
        list[str] | None, typer.Option(help=f"Only this work: {', '.join(WORKS)}. May be repeated.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="A tenth of the rows; nothing is written.")] = False,
    large: Annotated[int, typer.Option(help="Rows of the large tables.")] = 10_000_000,
    repeats: Annotated[int, typer.Option(help="How often each work is repeated.")] = 3,
) -> None:
    """Measure this server beside a bare pyarrow.flight server. Asserts nothing about speed."""
    unknown = sorted(set(only or ()) - set(WORKS))
    if unknown:
        raise typer.BadParameter(f"there is no work called {', '.join(unknown)}; there are {', '.join(WORKS)}")
    large = large // 10 if quick else large
    run = Run(large=large, small=large // 10, repeats=repeats)
    console = Console()
    with Progress(console=console, transient=True) as progress:
        chosen = [name for name in WORKS if not only or name in only]
        task = progress.add_task("measuring", total=len(chosen))
        for name in chosen:
            progress.update(task, description=name)
            WORKS[name](run)
            progress.advance(task)
    table = Table("work", "figure", "value", "spread", "ratio", "against")
    for figure in run.figures:
        table.add_row(*_cells(figure))
    console.print(table)
    if not quick and not only:
        (HERE / "results.json").write_text(json.dumps({"machine": machine(), **run.as_json()}, indent=1) + "\n")
        (HERE / "RESULTS.md").write_text(_markdown(run))


def machine() -> dict[str, str]:
    """What the figures were measured on and with."""
    return {
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **{package: version(package) for package in ("pyarrow", "numpy", "pyroaring")},
    }


def _cells(figure: Figure) -> tuple[str, ...]:
    spread = (
        f"{_short(figure.spread[0])} - {_short(figure.spread[1])}"
        if figure.spread and figure.spread[0] != figure.spread[1]
        else ""
    )
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    return (figure.work, figure.what, f"{_short(figure.value)} {figure.unit}", spread, ratio, figure.against)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _markdown(run: Run) -> str:
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = ["# Results", "", "Written by `make bench`.", "", NOTE, "", about + ".", ""]
    lines += ["| work | figure | value | spread | ratio | against |", "|---|---|---|---|---|---|"]
    lines += ["| " + " | ".join(_cells(figure)) + " |" for figure in run.figures]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.run(main)
