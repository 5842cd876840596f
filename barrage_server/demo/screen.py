"""What the demo shows: a live screen in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Protocol, Self

import pyarrow as pa
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from barrage_server.demo.followers import Followed
from barrage_server.demo.tables import BOARD, CARRIERS, TOP_DELAYS

__all__ = ["LineScreen", "LiveScreen", "Scene", "Screen", "day_of"]

_FRAMES_PER_SECOND: Final = 4
_SECONDS_PER_LINE: Final = 5.0


@dataclass(slots=True)
class Scene:
    """What there is to see. ``replayed`` counts flights that every table has; ``until`` is where the replay stands."""

    total: int
    followed: Sequence[Followed]
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
        """Called a few times a second."""

    def say(self, text: str, style: str = "") -> None:
        """A line that stays."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class LineScreen:
    """A line every few seconds, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: tuple[str, float] = ("", 0.0)

    def show(self, scene: Scene) -> None:
        """Print a line when what is being done changes, and every five seconds."""
        doing, at = self._shown
        now = time.monotonic()
        if scene.doing == doing and now < at + _SECONDS_PER_LINE:
            return
        self._shown = (scene.doing, now)
        sizes = ", ".join(f"{followed.table.name} {followed.size:,}" for followed in scene.followed if followed.live)
        self.say(
            f"{now - scene.began:5.1f} s  {scene.doing}: {day_of(scene.until)} {scene.replayed:,} of {scene.total:,} "
            f"flights, {scene.rate:,.0f} rows/s{'; rows: ' + sizes if sizes else ''}"
        )

    def say(self, text: str, style: str = "") -> None:
        """Print a line."""
        self._console.print(Text(text, style), soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None


class LiveScreen:
    """The tables ticking, redrawn four times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._drawn = 0.0

    def show(self, scene: Scene) -> None:
        """Draw a frame, unless the last one is too young."""
        now = time.monotonic()
        if now >= self._drawn + 1 / _FRAMES_PER_SECOND:
            self._drawn = now
            self._live.update(_frame(scene), refresh=True)

    def say(self, text: str, style: str = "") -> None:
        """Print a line above the frame."""
        self._console.print(Text(text, style), soft_wrap=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()


def day_of(micros: int | None) -> str:
    """The UTC day of an instant in microseconds since 1970."""
    if micros is None:
        return "-"
    return dt.datetime.fromtimestamp(micros / 1e6, dt.UTC).date().isoformat()


def _frame(scene: Scene) -> RenderableType:
    percent = 100 * scene.replayed / max(scene.total, 1)
    title = Text.assemble(
        (scene.doing, "bold cyan"),
        f"  {day_of(scene.until)}  {scene.replayed:,} of {scene.total:,} flights ({percent:.0f} %)  ",
        (f"{scene.rate:,.0f} rows/s", "bold"),
    )
    bar = Table.grid(expand=True)  # a progress bar by itself does not end its line
    bar.add_row(ProgressBar(total=max(scene.total, 1), completed=scene.replayed, width=None))
    hint = Text(f"watch one yourself: barrage-server watch {scene.uri} board", style="dim")
    return Group(title, bar, _tables(scene.followed), Columns(_panels(scene.followed), padding=(0, 1)), hint)


def _tables(followed: Sequence[Followed]) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    for name in ("table", "rows", "added", "modified", "removed", "updates", "changes/s", ""):
        grid.add_column(name, justify="left" if name in ("table", "") else "right", no_wrap=True)
    for one in followed:
        counts = one.counts
        grid.add_row(
            Text(one.table.name, "bold green" if one.rate else "green"),
            f"{one.size:,}",
            f"{counts.added:,}",
            f"{counts.modified:,}",
            f"{counts.removed:,}",
            f"{counts.updates:,}",
            f"{one.rate:,.0f}",
            Text(one.table.about, "dim"),
        )
    return grid


def _panels(followed: Sequence[Followed]) -> list[RenderableType]:
    by_name = {one.table.name: one for one in followed if one.live is not None and one.size}
    panels: list[RenderableType] = []
    for table, order, columns in (
        (BOARD, "departs", ["origin", "dest", "carrier", "flight", "state"]),
        (CARRIERS, "flights", ["carrier", "flights", "mean_delay", "cancellations"]),
        (TOP_DELAYS, "dep_delay", ["carrier", "flight", "origin", "dest", "dep_delay"]),
    ):
        one = by_name.get(table.name)
        if one is not None and one.live is not None:
            # Delays of the same length stay in departure order, as the table has them.
            rows = one.live.to_arrow().sort_by([(order, "descending")]).slice(0, 8)
            panels.append(Panel(_grid(rows.select(columns)), title=table.name, title_align="left"))
    return panels


def _grid(rows: pa.Table) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="dim")
    for field_ in rows.schema:
        grid.add_column(field_.name, justify="left" if pa.types.is_string(field_.type) else "right", no_wrap=True)
    for row in rows.to_pylist():
        grid.add_row(*(f"{cell:,.1f}" if isinstance(cell, float) else str(cell) for cell in row.values()))
    return grid
