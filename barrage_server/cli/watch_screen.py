"""The live view of ``watch``: a table that fits the screen, with what has just changed in colour."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from barrage_server.cli.cells import NULL, is_numeric, row_texts
from barrage_server.cli.text import count, rate
from barrage_server.client.state import LiveState

if TYPE_CHECKING:
    from barrage_server.client import LiveTable, Update

__all__ = ["Screen"]

_OTHER_LINES: Final = 6
"""Lines of the screen that are not rows: title, header, rule, footer, prompt."""
_RATE_SECONDS: Final = 5.0
_ADDED, _MODIFIED, _DIM = "bold green", "bold yellow", "dim"


class Screen:
    """Draws a live table on ``console``; :meth:`note` tells it what to show in colour, and counts."""

    def __init__(self, name: str, console: Console) -> None:
        self.console = console
        self._name = name
        self._last: Update | None = None
        self._recent: deque[tuple[float, int]] = deque()
        self._updates = 0

    @property
    def rows(self) -> int:
        """Rows that fit."""
        return max(1, self.console.height - _OTHER_LINES)

    def note(self, update: Update) -> None:
        """Remember an update: its rows are in colour until the next one."""
        self._last = update
        self._updates += 1
        rows = update.added.size + update.removed.size + update.modified_rows.size
        self._recent.append((time.monotonic(), rows))

    def render(self, live: LiveTable) -> RenderableType:
        """One frame."""
        return Group(self._title(live), self._grid(live), self._footer(live))

    def _title(self, live: LiveTable) -> Text:
        healthy = live.state is LiveState.LIVE
        return Text.assemble(
            (self._name, "bold cyan"),
            f"  {count(live.table_size, 'rows')}",
            "  ",
            (str(live.state), "green" if healthy else "bold red"),
        )

    def _grid(self, live: LiveTable) -> Table:
        version = live.version
        shown = version.row_set
        if shown.size > self.rows:
            shown = shown.slice(shown.size - self.rows, shown.size) if live.is_reverse else shown.slice(0, self.rows)
        keys = shown.keys()
        schema = version.schema
        cells = row_texts(version.read(shown))
        added = np.zeros(len(keys), dtype=bool)
        modified = [added] * len(schema)
        if self._last is not None and self._last.after.step == version.step and self._last.after.schema == schema:
            added = self._last.added.contains(keys)
            modified = [rows.contains(keys) for rows in self._last.change.modified]
        grid = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
        for field in schema:
            grid.add_column(Text(field.name), justify="right" if is_numeric(field.type) else "left", no_wrap=True)
        for row, texts in enumerate(cells):
            styles = (
                _ADDED if added[row] else _MODIFIED if modified[column][row] else _DIM if text == NULL else ""
                for column, text in enumerate(texts)
            )
            grid.add_row(*(Text(text, style) for text, style in zip(texts, styles, strict=True)))
        return grid

    def _footer(self, live: LiveTable) -> Text:
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - _RATE_SECONDS:
            self._recent.popleft()
        speed = rate(sum(rows for _, rows in self._recent), _RATE_SECONDS)
        view = f"{count(live.size)} of {count(live.table_size)} in view"
        return Text(
            f"{view} · {count(self._updates, 'updates')} · {speed} · step {live.step} · Ctrl-C ends", style=_DIM
        )
