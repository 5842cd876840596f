"""The output of the demo: a live screen in a terminal, lines elsewhere."""

from __future__ import annotations

import datetime as dt
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, Self

import pyarrow as pa
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from barrage_server.cli.cells import NULL
from barrage_server.cli.text import count
from barrage_server.cli.window import GAP, ColumnLayout
from barrage_server.demo.counting import CountedTable
from barrage_server.demo.tables import BOARD, CARRIERS, DESTINATIONS, TOP_DELAYS, DemoTable

__all__ = ["LineScreen", "LiveScreen", "Scene", "Screen", "day_of", "frame", "program"]

_FRAMES_PER_SECOND: Final = 4
_SECONDS_PER_LINE: Final = 5.0
_LINES_AROUND: Final = 5
"""Lines of a frame that are neither tables nor views: title, bar, header, hint, and the cursor's."""
_PANEL_LINES: Final = 3
"""Lines of a view that are not rows: its borders and its header."""
_BORDERS: Final = 4
"""Columns of a view's borders, with the blanks beside them."""
_MOST_ROWS: Final = 8
_FEWEST_ROWS: Final = 3
_ROWS_PER_LINE: Final = 3
"""Rows of a view in one line of text."""


@dataclass(frozen=True, slots=True)
class _View:
    """The part of a table that is shown.

    Attributes:
        table: the table.
        largest: the column whose largest values select the rows; None: the first rows.
        columns: the shown columns.
    """

    table: DemoTable
    largest: str | None
    columns: list[str]


_COMPUTED: Final = _View(DESTINATIONS, None, ["dest", "airport", "mean_delay"])
_SHOWN: Final = (
    _View(BOARD, "departs", ["origin", "dest", "carrier", "flight", "state"]),
    _View(DESTINATIONS, None, ["dest", "airport", "flights", "mean_delay", "worst_delay"]),
    _View(CARRIERS, "flights", ["carrier", "flights", "mean_delay", "cancellations"]),
    _View(TOP_DELAYS, "dep_delay", ["carrier", "flight", "origin", "dest", "dep_delay"]),
)
"""The views, the most important first. The last one is left out first."""


@dataclass(slots=True)
class Scene:
    """The state of a run for the screen.

    Attributes:
        total: number of flights to replay.
        counted: the tables with their subscriptions.
        uri: the server's URI.
        doing: the present activity.
        replayed: flights that every table has.
        until: departure of the last released flight, in microseconds since 1970.
        began: beginning of the run, in seconds of the monotonic clock.
        replay_began: beginning of the replay, likewise; None before.
        replay_seconds: seconds of the replay so far.
    """

    total: int
    counted: Sequence[CountedTable]
    uri: str
    doing: str = "starting Spark"
    replayed: int = 0
    until: int | None = None
    began: float = field(default_factory=time.monotonic)
    replay_began: float | None = None
    replay_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Flights per second since the replay began."""
        return self.replayed / self.replay_seconds if self.replay_seconds > 0 else 0.0


class Screen(Protocol):
    """Shows scenes; a context manager."""

    def show(self, scene: Scene) -> None:
        """Show the state of the run. Called a few times a second."""

    def say(self, text: str, style: str = "") -> None:
        """Print a line that stays."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class LineScreen:
    """Prints a line every few seconds, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: tuple[str, float] = ("", 0.0)

    def show(self, scene: Scene) -> None:
        """Print a line when the activity changes, and every five seconds."""
        doing, at = self._shown
        now = time.monotonic()
        if scene.doing == doing and now < at + _SECONDS_PER_LINE:
            return
        self._shown = (scene.doing, now)
        sizes = ", ".join(f"{counted.table.name} {counted.size:,}" for counted in scene.counted if counted.live)
        self.say(
            f"{now - scene.began:5.1f} s  {scene.doing}: {day_of(scene.until)} {scene.replayed:,} of {scene.total:,} "
            f"flights, {scene.rate:,.0f} rows/s{'; rows: ' + sizes if sizes else ''}"
        )
        for name, rows in _views(scene.counted, [_COMPUTED]):
            texts = (" ".join(map(_cell, row.values())) for row in rows.slice(0, _ROWS_PER_LINE).to_pylist())
            self.say(f"         {name}: {'; '.join(texts)}")

    def say(self, text: str, style: str = "") -> None:
        """Print a line."""
        self._console.print(Text(text, style), soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class LiveScreen:
    """Shows the tables while they tick, redrawn four times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._drawn = 0.0

    def show(self, scene: Scene) -> None:
        """Draw a frame, unless the last one is too recent."""
        now = time.monotonic()
        if now >= self._drawn + 1 / _FRAMES_PER_SECOND:
            self._drawn = now
            self._live.update(frame(scene, self._console.width, self._console.height), refresh=True)

    def say(self, text: str, style: str = "") -> None:
        """Print a line above the frame."""
        self._console.print(Text(text, style), soft_wrap=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def day_of(micros: int | None) -> str:
    """The UTC day of an instant in microseconds since 1970."""
    if micros is None:
        return "-"
    return dt.datetime.fromtimestamp(micros / 1e6, dt.UTC).date().isoformat()


def frame(scene: Scene, width: int, height: int) -> RenderableType:
    """The frame for a terminal; tables that do not fit are left out, and counted."""
    percent = 100 * scene.replayed / max(scene.total, 1)
    title = Text.assemble(
        (day_of(scene.until), "bold"),
        f"  {scene.replayed:,} of {scene.total:,} flights ({percent:.0f} %)  ",
        (f"{scene.rate:,.0f} rows/s", "bold"),
        (f"  {scene.doing}", "bold cyan"),
        no_wrap=True,
        overflow="ellipsis",
    )
    bar = Table.grid(expand=True)  # a progress bar by itself does not end its line
    bar.add_row(ProgressBar(total=max(scene.total, 1), completed=scene.replayed, width=None))
    counts = _tables(scene.counted, width)
    lines = height - _LINES_AROUND - len(scene.counted)
    shelves, left_out = _shelves(_views(scene.counted, _SHOWN), width, lines)
    hint = Text.assemble(
        (f"+{count(left_out, 'tables')} · " if left_out else "", "dim"),
        (f"try: {program()} watch {scene.uri} board", "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )
    # When even the lines without views do not fit, the cursor's line is left out first, then the hint.
    hints = [hint] if lines >= -1 else []
    return Group(title, bar, counts, *(Columns(shelf, padding=(0, 1)) for shelf in shelves), *hints)


def program() -> str:
    """The command that calls this program from the user's folder."""
    name = "barrage-server"
    beside = Path(sys.executable).with_name(name)
    found = shutil.which(name)
    if found is not None and Path(found).resolve() == beside.resolve():
        return name
    if not beside.is_file():
        return f"{sys.executable} -m barrage_server.cli"
    here = Path.cwd()
    return str(beside.relative_to(here)) if beside.is_relative_to(here) else str(beside)


def _tables(counted: Sequence[CountedTable], width: int) -> Table:
    names = ("table", "rows", "added", "modified", "removed", "updates", "changes/s", "")
    rows = [
        (
            one.table.name,
            f"{one.size:,}",
            f"{one.counts.added:,}",
            f"{one.counts.modified:,}",
            f"{one.counts.removed:,}",
            f"{one.counts.updates:,}",
            f"{one.rate:,.0f}",
            one.table.about,
        )
        for one in counted
    ]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    shown = ColumnLayout(widths, (), width).shown(0)
    grid = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for number in shown:
        grid.add_column(names[number], justify="left" if number in (0, len(names) - 1) else "right", no_wrap=True)
    for one, row in zip(counted, rows, strict=True):
        styles = {0: "bold green" if one.rate else "green", len(names) - 1: "dim"}
        grid.add_row(*(Text(row[number], styles.get(number, "")) for number in shown))
    return grid


def _views(counted: Sequence[CountedTable], shown: Sequence[_View]) -> list[tuple[str, pa.Table]]:
    """The rows of each view whose table has any."""
    by_name = {one.table.name: one for one in counted if one.live is not None and one.size}
    views = []
    for view in shown:
        one = by_name.get(view.table.name)
        if one is not None and one.live is not None:
            rows = one.live.to_arrow()
            if view.largest is not None:
                rows = rows.sort_by([(view.largest, "descending")])
            views.append((view.table.name, rows.slice(0, _MOST_ROWS).select(view.columns)))
    return views


def _shelves(views: Sequence[tuple[str, pa.Table]], width: int, lines: int) -> tuple[list[list[RenderableType]], int]:
    """The views side by side in rows, as far as they fit, and how many are left out."""
    for kept in range(len(views), 0, -1):
        shelves: list[list[tuple[str, list[str], list[tuple[str, ...]]]]] = [[]]
        used = 0
        for name, rows in views[:kept]:
            texts = [tuple(_cell(cell) for cell in row.values()) for row in rows.to_pylist()]
            widths = [max(map(len, column)) for column in zip(rows.column_names, *texts, strict=True)]
            shown = ColumnLayout(widths, (), width - _BORDERS).shown(0)
            takes = max(sum(widths[number] + GAP for number in shown) - GAP, len(name) + 2) + _BORDERS
            if used and used + 1 + takes > width:
                shelves.append([])
                used = 0
            used += takes + (1 if used else 0)
            cells = [tuple(row[number] for number in shown) for row in texts]
            shelves[-1].append((name, [rows.column_names[number] for number in shown], cells))
        rows_each = min(_MOST_ROWS, lines // len(shelves) - _PANEL_LINES)
        if rows_each >= _FEWEST_ROWS:
            return [[_panel(*view, rows_each) for view in shelf] for shelf in shelves], len(views) - kept
    return [], len(views)


def _panel(name: str, columns: list[str], cells: list[tuple[str, ...]], rows: int) -> Panel:
    grid = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        numeric = all(row[number][:1].isdigit() or row[number][:1] in ("-", NULL) for row in cells)
        grid.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for row in cells[:rows]:
        grid.add_row(*map(Text, row))
    return Panel(grid, title=name, title_align="left", expand=False)


def _cell(value: object) -> str:
    if value is None:
        return NULL
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
