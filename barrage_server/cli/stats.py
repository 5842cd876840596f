"""Statistics of a server, as tables and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from barrage_server.cli.connection import Address
from barrage_server.cli.text import count
from barrage_server.log import one_line
from barrage_server.wire.commit_messages import is_single_write

__all__ = ["computed_tables", "failed_tables", "print_figures", "report_console", "show_statistics"]

_NO_WRAPPING: Final = 10_000
"""Width in characters that no line reaches."""
_NAME_WIDTH: Final = 8
"""Least width in characters of a name, which is folded; numbers are neither folded nor cut."""
_TABLES: Final = ("name", "kind", "rows", "nbytes", "subscribers", "step", "durable", "failed")
_SUBSCRIPTIONS: Final = ("table", "peer", "user", "behind", "viewport_rows", "messages", "rows", "nbytes")
_STREAMS: Final = ("kind", "table", "peer", "user", "open_seconds", "awaited", "awaited_seconds", "messages", "nbytes")
_RESULTS: Final = ("name", "operation", "user", "rows", "state_bytes", "cycles", "changed_rows", "seconds", "failed")
_COMMITS: Final = ("publisher", "table", "batch")
_HEADINGS: Final = {
    "name": "table",
    "nbytes": "bytes",
    "state_bytes": "bytes",
    "changed_rows": "changed",
    "seconds": "ms",
    "viewport_rows": "window",
    "open_seconds": "seconds",
    "awaited_seconds": "for",
}
_NAMES: Final = frozenset({"name", "operation", "table", "kind", "peer", "user", "awaited", "publisher"})


def show_statistics(address: Address, *, as_json: bool) -> None:
    """Print the statistics of a server, as one JSON object or as tables.

    Raises:
        UnsupportedOperationError: it is a Deephaven server.
    """
    with address.connect() as client:
        found = client.statistics()
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    console = report_console()
    tables, subscriptions, streams = (_rows(found, name) for name in ("tables", "subscriptions", "streams"))
    computed = _computed(found)
    staging = found.get("staging") or {}
    facts = [
        f"up {_span(found.get('uptime_seconds', 0.0))}",
        f"step {count(found.get('step', 0))}",
        count(len(tables), "tables"),
        count(len(subscriptions), "subscriptions"),
        count(len(streams), "streams"),
        count(found.get("sessions", 0), "Deephaven sessions"),
        count(len(computed), "computed tables"),
        count(staging.get("entries", 0), "batches staged"),
    ]
    console.print(" · ".join(facts), markup=False)
    if (reason := found.get("read_only")) is not None:
        console.print(f"commits to durable tables are refused: {one_line(str(reason))}", style="bold red", markup=False)
    commits = _commits(found)
    shown = (
        (tables, _TABLES),
        (computed, _RESULTS),
        (subscriptions, _SUBSCRIPTIONS),
        (streams, _STREAMS),
        (commits, _COMMITS),
    )
    for rows, columns in shown:
        if rows:
            console.print()
            print_figures(console, _grid(rows, columns))


def report_console() -> Console:
    """The console of a report, which wraps lines in a terminal only."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _NO_WRAPPING
    return console


def print_figures(console: Console, grid: Table) -> None:
    """Print a table, in lines longer than the terminal's where it is narrow."""
    least = Measurement.get(console, console.options.update(width=_NO_WRAPPING), grid).minimum
    if console.width < least:
        grid.width = least
    console.print(grid, crop=False)


def computed_tables(found: Mapping[str, Any]) -> Table | None:
    """The computed tables in a server's statistics; ``None`` without any."""
    rows = _computed(found)
    return _grid(rows, _RESULTS) if rows else None


def failed_tables(found: Mapping[str, Any]) -> Collection[str]:
    """The names of the server's tables that have failed."""
    return {str(row.get("name")) for row in _rows(found, "tables") if row.get("failed") is True}


def _computed(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The derived tables that are served, then those that are computed for clients."""
    served = [row for row in _rows(found, "tables") if row.get("kind") == "derived" and "cycles" in row]
    return [*served, *_rows(found, "results")]


def _rows(found: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    rows = found.get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _commits(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The last batch of each publisher, without single writes."""
    entries = found.get("commits")
    listed = entries if isinstance(entries, list) else []
    rows = [dict(zip(_COMMITS, entry, strict=False)) for entry in listed if isinstance(entry, list)]
    return [row for row in rows if not is_single_write(str(row.get("publisher", "")))]


def _grid(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    cells = [[one_line(_cell(name, row.get(name))) for name in columns] for row in rows]
    for name, *column in zip(columns, *cells, strict=True):
        is_name = name in _NAMES
        longest = max(map(cell_len, column), default=0)
        grid.add_column(
            _HEADINGS.get(name, name),
            justify="left" if is_name else "right",
            overflow="fold",
            no_wrap=not is_name,
            min_width=min(longest, _NAME_WIDTH) if is_name else longest,
        )
    for row_cells in cells:
        grid.add_row(*map(Text, row_cells))
    return grid


def _cell(name: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "-"
    if name == "seconds" and isinstance(value, int | float):
        value = 1000.0 * value
    if isinstance(value, float):
        return f"{value:,.1f}"
    return count(value) if isinstance(value, int) else str(value)


def _span(seconds: float) -> str:
    whole = int(seconds)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    told = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(told[:2]) or "0 s"
