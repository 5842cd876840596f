"""The live view of ``watch`` as lines of styled text.

It is a table that fits the screen, with recent changes in colour.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.cells import cell_len, set_cell_size

from barrage_server.cli.cells import NULL, is_numeric, row_texts
from barrage_server.cli.text import count, rate
from barrage_server.cli.window import GAP, ColumnLayout, Scroll
from barrage_server.client.state import LiveState
from barrage_server.log import one_line

if TYPE_CHECKING:
    from barrage_server.client import LiveTable, Update
    from barrage_server.engine import TableVersion
    from barrage_server.rowset import RowSet

__all__ = ["HELP", "OTHER_LINES", "Line", "Screen"]

Line = list[tuple[str, str]]
"""Pieces of one line: the name of a style, and the text."""

OTHER_LINES: Final = 3
"""Lines of the screen that are not rows: title, header, footer."""
HELP: Final = (
    ("↑ ↓", "one row up, down"),
    ("PgUp PgDn", "one screen up, down; also b and space"),
    ("Home End", "first row; last row, and stay there; also g and G"),
    ("← →", "other columns"),
    ("? h", "this help, and back"),
    ("q", "end; also Esc and Ctrl-C"),
)
_RATE_SECONDS: Final = 5.0


class Screen:
    """Draws a live table, with recent changes in colour. Thread-safe.

    Args:
        name: the table.
        scroll: the position of the screen, moved by keys.
        is_whole: the live table has all rows, and the screen shows a part of them.
    """

    def __init__(self, name: str, scroll: Scroll, *, is_whole: bool) -> None:
        self.scroll = scroll
        self.shows_help = False
        self._name = name
        self._is_whole = is_whole
        self._lock = threading.Lock()
        self._last: Update | None = None
        self._recent: deque[tuple[float, int]] = deque()
        self._updates = 0
        self._widths: dict[str, int] = {}
        self._layout = ColumnLayout((), (), 0)

    def note(self, update: Update) -> None:
        """Record an update: its rows are in colour until the next one."""
        rows = update.added.size + update.removed.size + update.modified_rows.size
        with self._lock:
            self._last = update
            self._updates += 1
            self._recent.append((time.monotonic(), rows))

    def frame(self, live: LiveTable, width: int, height: int) -> list[Line]:
        """The lines of a terminal of ``width`` columns and ``height`` lines."""
        page = max(1, height - OTHER_LINES)
        self.scroll.move(0, page, live.table_size)
        title = self._title(live)
        if self.shows_help:
            body = [_fitted([("key", f"  {keys:<12}"), ("", text)], width) for keys, text in HELP]
            return _filled([title, [], *body], height, [("dim", " ? goes back to the table")], width)
        body, shown, total = self._grid(live, width, page)
        return _filled([title, *body], height, self._footer(live, page, shown, total), width)

    def content(self, live: LiveTable, width: int) -> list[Line]:
        """All rows in view, for a terminal that scrolls by itself."""
        body, shown, total = self._grid(live, width, max(1, live.size))
        rest = [[("dim", f"+{count(total - shown, 'columns')}, which --columns can name")]] if shown < total else []
        return [self._title(live), *body, *rest]

    def columns_right(self) -> None:
        """Show later columns, if any are hidden."""
        self.scroll.column = self._layout.after(self.scroll.column)

    def columns_left(self) -> None:
        """Show earlier columns."""
        self.scroll.column = self._layout.before(self.scroll.column)

    def _title(self, live: LiveTable) -> Line:
        healthy = live.state is LiveState.LIVE
        with self._lock:
            updates = self._updates
        return [
            ("title", self._name),
            ("", f"  {count(live.table_size, 'rows')}  "),
            ("live" if healthy else "lost", str(live.state)),
            ("dim", f"  {count(updates, 'updates')} · step {live.step}"),
        ]

    def _grid(self, live: LiveTable, width: int, page: int) -> tuple[list[Line], int, int]:
        """The lines of header and rows, the number of shown columns, and of all."""
        version = live.version
        rows = self._rows(version, live, page)
        schema = version.schema
        cells = row_texts(version.read(rows))
        for number, field in enumerate(schema):
            longest = max((cell_len(texts[number]) for texts in cells), default=0)
            known = self._widths.get(field.name, 0)  # a column keeps its greatest width, so that the view is steady
            self._widths[field.name] = max(known, longest, cell_len(one_line(field.name)))
        widths = [min(self._widths[field.name], width) for field in schema]
        keys = {number for number, field in enumerate(schema) if field.name in live.key_columns}
        self._layout = ColumnLayout(widths, keys, width)
        self.scroll.column = self._layout.nearest(self.scroll.column)
        shown = self._layout.shown(self.scroll.column)
        right = [is_numeric(field.type) for field in schema]
        styles = self._styles(version, rows)
        header = [("header", _padded(one_line(schema[number].name), widths[number], right[number])) for number in shown]
        lines = [_spaced(header)]
        for row, texts in enumerate(cells):
            line = []
            for number in shown:
                style = styles[number][row] or ("dim" if texts[number] == NULL else "")
                line.append((style, _padded(texts[number], widths[number], right[number])))
            lines.append(_spaced(line))
        return [_fitted(line, width) for line in lines], len(shown), len(widths)

    def _rows(self, version: TableVersion, live: LiveTable, page: int) -> RowSet:
        rows = version.row_set
        if self._is_whole:
            first = self.scroll.first_row(page, rows.size)
            return rows.slice(first, min(rows.size, first + page))
        if rows.size > page:
            return rows.slice(rows.size - page, rows.size) if live.is_reverse else rows.slice(0, page)
        return rows

    def _styles(self, version: TableVersion, rows: RowSet) -> list[list[str]]:
        """The style of each row, for each column."""
        with self._lock:
            last = self._last
        columns = len(version.schema)
        if last is None or last.after.step != version.step or last.after.schema != version.schema:
            return [[""] * rows.size] * columns
        keys = rows.keys()
        added = last.added.contains(keys)
        found = []
        for number in range(columns):
            modified = last.change.modified[number].contains(keys)
            found.append(np.select([added, modified], ["added", "modified"], "").tolist())
        return found

    def _footer(self, live: LiveTable, page: int, shown: int, total: int) -> Line:
        now = time.monotonic()
        with self._lock:
            while self._recent and self._recent[0][0] < now - _RATE_SECONDS:
                self._recent.popleft()
            speed = rate(sum(rows for _, rows in self._recent), _RATE_SECONDS)
        first = self.scroll.first_row(page, live.table_size)
        last = min(first + page, live.table_size)
        window = f"rows {count(first + 1)}-{count(last)} of {count(live.table_size)}" if live.table_size else "no rows"
        hidden = [f"+{count(total - shown, 'columns')} ← →"] if shown < total else []
        return [("dim", " · ".join([window, *hidden, speed, "? help", "q ends"]))]


def _filled(lines: list[Line], height: int, footer: Line, width: int) -> list[Line]:
    body = [_fitted(line, width) for line in lines[: max(1, height - 1)]]
    return [*body, *([] for _ in range(height - 1 - len(body))), _fitted(footer, width)]


def _spaced(pieces: Line) -> Line:
    blank = ("", " " * GAP)
    return [part for piece in pieces for part in (blank, piece)][1:]


def _padded(text: str, width: int, right: bool) -> str:
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, max(0, width - 1)) + "…"
    return " " * (width - length) + text if right else text + " " * (width - length)


def _fitted(line: Line, width: int) -> Line:
    """The line, cut at the screen's edge."""
    found: Line = []
    left = width
    for style, text in line:
        length = cell_len(text)
        if length > left:
            found.append((style, set_cell_size(text, left)))
            break
        found.append((style, text))
        left -= length
    return found
