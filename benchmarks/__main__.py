"""``python -m benchmarks``: run the measurements, and show them.

They are written to ``benchmarks/RESULTS.md`` and ``results.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.environments import FOLDER
from benchmarks.figures import Results
from benchmarks.machine import describe
from benchmarks.operation_cases import CASES
from benchmarks.report import as_markdown, as_table, failures
from benchmarks.runner import run_one
from benchmarks.works import WORKS
from benchmarks.works.operations import LARGE
from benchmarks.works.web import ROWS

HERE: Final = Path(__file__).parent
_QUICK_SECONDS_USUALLY: Final = 60.0
_QUICK_SECONDS: Final = {"web": 300.0, "operations": 300.0}
_LARGE_SECONDS: Final = 7200.0
_ROWS: Final = {"web": ROWS, "operations": tuple(CASES)}


def main(
    only: Annotated[list[str] | None, typer.Option(help=f"Only this one: {', '.join(WORKS)}. May be repeated.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small tables and short times: some five minutes.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="Just to see that it works; without peers.")] = False,
    row: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this row of web ({', '.join(ROWS)}), or this operation. May be repeated."),
    ] = None,
    large: Annotated[
        bool, typer.Option("--large", help="With --only operations: tables of 10 million rows, too; 16 GB, an hour.")
    ] = False,
    results: Annotated[
        Path | None, typer.Option(help="Where to write; what is there stays, but for the ones that are run.")
    ] = None,
) -> None:
    """Measure this server beside its peers.

    Nothing is asserted here: python -m benchmarks.check does that.

    A full run goes to benchmarks/results.json and RESULTS.md, another one to .bench/quick/.
    """
    unknown = sorted(set(only or ()) - set(WORKS))
    if unknown:
        raise typer.BadParameter(f"there is no benchmark called {', '.join(unknown)}; there are {', '.join(WORKS)}")
    if row:
        name = only[0] if only and len(only) == 1 else ""
        if name not in _ROWS:
            raise typer.BadParameter(
                f"only {' and '.join(_ROWS)} have rows that run alone: add --only with one of them"
            )
        no_rows = sorted(set(row) - set(_ROWS[name]))
        if no_rows:
            raise typer.BadParameter(f"{name} has no row called {', '.join(no_rows)}; it has {', '.join(_ROWS[name])}")
    if large and only != ["operations"]:
        raise typer.BadParameter("only operations have a larger size: add --only operations")
    chosen = [LARGE] if large else row or ()
    mode = "tiny" if tiny else "quick" if quick else "full"
    path = results or (HERE if mode == "full" else FOLDER / mode) / "results.json"
    found = Results.load(path)
    console = Console()
    run_all(found, [name for name in WORKS if not only or name in only], mode, path, console, chosen)
    console.print(as_table(found))
    for text in failures(found):
        console.print(text, style="yellow")
    console.print(f"Written to {path} and {path.with_name('RESULTS.md')}.")


def run_all(
    found: Results, names: list[str], mode: str, path: Path, console: Console, rows: Sequence[str] = ()
) -> None:
    """Run benchmarks one by one, and write each result down at once.

    With ``rows``, what else was measured of a benchmark stays.
    """
    found.machine = describe()
    columns = (
        TextColumn("[bold]{task.fields[name]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(names), name="")
        for name in names:
            progress.update(task, name=name, description="")
            seconds = WORKS[name].seconds if mode == "full" else _QUICK_SECONDS.get(name, _QUICK_SECONDS_USUALLY)
            if LARGE in rows:
                seconds = _LARGE_SECONDS
            outcome = run_one(
                name,
                mode,
                seconds,
                FOLDER / "logs" / f"{name}.log",
                lambda text: progress.update(task, description=text),
                rows,
            )
            is_part = bool(rows) and LARGE not in rows and name in found.outcomes
            found.outcomes[name] = outcome.after(found.outcomes[name], rows) if is_part else outcome
            found.outcomes = {each: found.outcomes[each] for each in WORKS if each in found.outcomes}
            found.save(path)
            path.with_name("RESULTS.md").write_text(as_markdown(found))
            progress.advance(task)


if __name__ == "__main__":
    typer.run(main)
