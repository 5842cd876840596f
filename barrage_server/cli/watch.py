"""A table that ticks, in a terminal or as lines."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from rich.console import Console
from rich.text import Text

from barrage_server.cli.connection import Address
from barrage_server.cli.watch_lines import content_lines, update_lines
from barrage_server.cli.watch_screen import OTHER_LINES, Line, Screen
from barrage_server.cli.window import Scroll
from barrage_server.errors import BarrageError, UnknownTableError

if TYPE_CHECKING:
    from barrage_server.client import Client, LiveTable

__all__ = ["View", "Watch"]

_PLAIN_ROWS: Final = 50
"""Rows in view without a terminal and without --viewport."""
_WAIT_SECONDS: Final = 0.5
"""Seconds that lines wait for an update before they check whether the table has ended."""
_ANSWER_SECONDS: Final = 0.1
"""Longest delay, in seconds, of a key that ends the view."""
_RICH_STYLES: Final = {
    "title": "bold cyan",
    "live": "green",
    "lost": "bold red",
    "header": "bold",
    "added": "bold green",
    "modified": "bold yellow",
}
_RETRY_SECONDS: Final = 0.2

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Watch:
    """One run of ``barrage-server watch``.

    Attributes:
        address: the server.
        table: the table's name.
        viewport: row positions in view; None fits the screen.
        full: follow the whole table instead of a window.
        reverse: positions count from the last row.
        columns: names of the columns in view; None for all.
        interval_ms: least time between two updates.
        limit: number of updates after which to stop; None for no limit.
        wait: seconds to wait for the server and the table.
        plain: print lines even in a terminal.
    """

    address: Address
    table: str
    viewport: range | None
    full: bool
    reverse: bool
    columns: Sequence[str] | None
    interval_ms: int
    limit: int | None
    wait: float
    plain: bool

    def run(self) -> None:
        """Watch until the limit is reached, the table ends, ``q`` is pressed, or Ctrl-C."""
        in_terminal = sys.stdout.isatty() and not self.plain
        interactive = in_terminal and sys.stdin.isatty() and self.limit != 0
        scroll = Scroll(self.viewport, self.reverse)
        viewport = self.viewport
        if not self.full and (interactive or viewport is None):
            page = max(1, shutil.get_terminal_size().lines - OTHER_LINES) if in_terminal else _PLAIN_ROWS
            viewport = scroll.positions(page)
        deadline = time.monotonic() + self.wait
        with self.address.connect(self.wait) as client:
            subscribe = self._subscriber(client, viewport)
            with _retry_until(subscribe, deadline) as live:
                if interactive:
                    self._draw(Screen(self.table, scroll, is_whole=self.full), live)
                elif in_terminal and self.limit == 0:
                    _show(Screen(self.table, scroll, is_whole=self.full), live)
                else:
                    self._print(live)
                if live.error is not None:
                    raise live.error

    def _subscriber(self, client: Client, viewport: range | None) -> Callable[[], LiveTable]:
        return lambda: client.subscribe(
            self.table, columns=self.columns, viewport=viewport, reverse=self.reverse, interval_ms=self.interval_ms
        )

    def _draw(self, screen: Screen, live: LiveTable) -> None:
        """Show the table in the whole terminal; a thread of its own draws and reads keys."""
        from barrage_server.cli.terminal import Terminal

        view = View(screen, live, follows_screen=not self.full)
        terminal = Terminal(view.frame, view.keys())
        seen = 0
        with terminal.running():
            while seen != self.limit and not (live.state.is_final or terminal.has_ended):
                for update in live.updates(timeout=_ANSWER_SECONDS):
                    screen.note(update)
                    terminal.refresh()
                    seen += 1
                    if seen == self.limit or terminal.has_ended:
                        break
            by_key = terminal.has_ended
        if not by_key:
            _show(screen, live)  # after the terminal is restored: print the last view when the table ended by itself

    def _print(self, live: LiveTable) -> None:
        seen = 0
        _write(content_lines(self.table, live))
        while seen != self.limit and not live.state.is_final:
            for update in live.updates(timeout=_WAIT_SECONDS):
                _write(update_lines(update, live))
                seen += 1
                if seen == self.limit:
                    break


class View:
    """A screen that scrolls by keys, and requests only the rows that it shows."""

    def __init__(self, screen: Screen, live: LiveTable, *, follows_screen: bool) -> None:
        self._screen = screen
        self._live = live
        self._follows_screen = follows_screen
        self._page = 1
        self._asked: tuple[range, bool] | None = None

    def frame(self, width: int, height: int) -> list[Line]:
        """The lines of the screen, after requesting its rows if they have changed."""
        self._page = max(1, height - OTHER_LINES)
        lines = self._screen.frame(self._live, width, height)
        wanted = self._screen.scroll.positions(self._page), self._screen.scroll.reverse
        if self._follows_screen and wanted != self._asked:
            self._asked = wanted
            with suppress(BarrageError):  # the subscription has ended; its state shows that
                self._live.set_viewport(wanted[0], reverse=wanted[1], wait=False)
        return lines

    def keys(self) -> dict[str, Callable[[], None]]:
        """The functions of keys, by prompt_toolkit's names."""
        screen, scroll = self._screen, self._screen.scroll

        def move(rows: int, pages: int) -> Callable[[], None]:
            return lambda: scroll.move(rows + pages * self._page, self._page, self._live.table_size)

        def help_() -> None:
            screen.shows_help = not screen.shows_help

        def home() -> None:
            scroll.home(self._page, self._live.table_size)

        def end() -> None:
            scroll.end(self._page, self._live.table_size)

        return {
            **dict.fromkeys(("up", "k"), move(-1, 0)),
            **dict.fromkeys(("down", "j"), move(1, 0)),
            **dict.fromkeys(("pageup", "b"), move(0, -1)),
            **dict.fromkeys(("pagedown", " "), move(0, 1)),
            **dict.fromkeys(("home", "g"), home),
            **dict.fromkeys(("end", "G"), end),
            "left": screen.columns_left,
            "right": screen.columns_right,
            **dict.fromkeys(("?", "h"), help_),
        }


def _show(screen: Screen, live: LiveTable) -> None:
    """Print the rows in view, in the width of the terminal."""
    console = Console(highlight=False)
    for line in screen.content(live, console.width):
        console.print(Text.assemble(*((text, _RICH_STYLES.get(style, style)) for style, text in line)), no_wrap=True)


def _write(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _retry_until(attempt: Callable[[], _T], deadline: float) -> _T:
    """The result of ``attempt()``, retried until ``deadline`` for a missing table."""
    while True:
        try:
            return attempt()
        except UnknownTableError:
            if time.monotonic() + _RETRY_SECONDS > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
