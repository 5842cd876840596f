"""A table that ticks, in a terminal or as lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from rich.console import Console
from rich.live import Live

from barrage_server.cli.connection import Address
from barrage_server.cli.watch_lines import content_lines, update_lines
from barrage_server.cli.watch_screen import Screen
from barrage_server.errors import UnknownTableError

if TYPE_CHECKING:
    from barrage_server.client import Client, LiveTable

__all__ = ["Watch"]

_PLAIN_ROWS: Final = 50
"""Rows in view without a terminal, unless a viewport is named."""
_FRAME_SECONDS: Final = 0.5
"""How often the live view is drawn anew when nothing changes, so that a lost connection shows."""
_RETRY_SECONDS: Final = 0.2

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Watch:
    """One run of ``barrage-server watch``.

    Attributes:
        address: where the server is.
        table: the table's name.
        viewport: row positions in view; None fits the screen.
        full: follow the whole table instead of a window.
        reverse: positions count from the last row.
        columns: names of the columns in view; None for all.
        interval_ms: least time between two updates.
        limit: stop after so many updates; None goes on until Ctrl-C.
        patience: seconds to wait for the server and the table to be there.
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
    patience: float
    plain: bool

    def run(self) -> None:
        """Watch until the limit is reached, the table ends, or Ctrl-C."""
        console = Console(highlight=False)
        pretty = console.is_terminal and not self.plain
        screen = Screen(self.table, console)
        viewport = self.viewport
        if viewport is None and not self.full:
            viewport = range(screen.rows if pretty else _PLAIN_ROWS)
        deadline = time.monotonic() + self.patience
        with self.address.connect(self.patience) as client:
            subscribe = self._subscriber(client, viewport)
            with _patiently(subscribe, deadline) as live:
                if pretty:
                    self._draw(screen, live)
                else:
                    self._print(live)
                if live.error is not None:
                    raise live.error

    def _subscriber(self, client: Client, viewport: range | None) -> Callable[[], LiveTable]:
        return lambda: client.subscribe(
            self.table, columns=self.columns, viewport=viewport, reverse=self.reverse, interval_ms=self.interval_ms
        )

    def _draw(self, screen: Screen, live: LiveTable) -> None:
        seen = 0
        with Live(screen.render(live), console=screen.console, auto_refresh=False) as display:
            while seen != self.limit and not live.state.is_final:
                for update in live.updates(timeout=_FRAME_SECONDS):
                    screen.note(update)
                    display.update(screen.render(live), refresh=True)
                    seen += 1
                    if seen == self.limit:
                        break
                display.update(screen.render(live), refresh=True)

    def _print(self, live: LiveTable) -> None:
        seen = 0
        _write(content_lines(self.table, live))
        while seen != self.limit and not live.state.is_final:
            for update in live.updates(timeout=_FRAME_SECONDS):
                _write(update_lines(update, live))
                seen += 1
                if seen == self.limit:
                    break


def _write(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _patiently(attempt: Callable[[], _T], deadline: float) -> _T:
    """What ``attempt`` gives, tried again until the deadline while the table is not there yet."""
    while True:
        try:
            return attempt()
        except UnknownTableError:
            if time.monotonic() + _RETRY_SECONDS > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
