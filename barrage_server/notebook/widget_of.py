"""The widget of a table: its source, and its checked options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from barrage_server.arguments import integer, shown, unbroken
from barrage_server.client.live import LiveTable
from barrage_server.client.remote_table import RemoteTable
from barrage_server.engine import Table
from barrage_server.engine.frames import arrow_rows
from barrage_server.engine.standalone import table as table_of
from barrage_server.errors import InvalidRequestError
from barrage_server.extras import missing_extra
from barrage_server.notebook.relay import PageEnd

__all__ = ["Source", "source_of", "widget_of"]

_THEMES: Final = ("auto", "light", "dark")
_LEAST_HEIGHT: Final = 120
_MOST_HEIGHT: Final = 10_000
"""Bounds of the height in CSS pixels, as in the widget's script."""
_MOST_SERIES: Final = 8
_PLOT_FIELDS: Final = ("x", "ys", "range")
_PLACE: Final = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_RANGE: Final = re.compile(rf"(?:rows \d+|last {_PLACE}|{_PLACE} {_PLACE})?", re.ASCII)
"""Ranges as the page writes them; it shows all rows for any other text."""


class Source(Protocol):
    """A table to show.

    Attributes:
        title: its title in the widget.
    """

    title: str

    def target(self) -> dict[str, str]:
        """The page's address of the table: its title, and ``table`` or ``ticket``."""

    def open(self) -> PageEnd:
        """Open the server's end of a link."""


def source_of(table: object) -> Source:
    """The source of a table that a user wants to see.

    Raises:
        InvalidRequestError: a plan was closed.
        SchemaMismatchError: the object has no rows that could be shown.
    """
    if isinstance(table, LiveTable | RemoteTable):
        return table.page_source
    from barrage_server.notebook.local import LocalSource  # it imports a good part of a server

    if isinstance(table, Table):
        return LocalSource(table)
    return LocalSource(table_of(arrow_rows(table)))


def widget_of(source: Source, *, height: int = 400, theme: str = "auto", plot: object = None) -> Any:
    """Make the widget; see :func:`barrage_server.show`.

    Raises:
        DependencyError: the packages for widgets are not installed.
        InvalidRequestError: an option is wrong.
    """
    integer(height, "height", least=_LEAST_HEIGHT, most=_MOST_HEIGHT)
    if not isinstance(theme, str) or theme not in _THEMES:
        raise InvalidRequestError(f"theme must be one of {', '.join(_THEMES)}, not {shown(theme)}.")
    specification = _plot(plot)
    try:
        from barrage_server.notebook.widget import TableWidget
    except ImportError as error:
        if (error.name or "").startswith("barrage_server"):
            raise
        raise missing_extra("A widget needs", "notebook", error) from error
    return TableWidget(source, height=height, theme=theme, plot=specification)


def _plot(plot: object) -> dict[str, object] | None:
    """The specification of a plot in the page's form; ``None``: a grid."""
    if plot is None or plot is False:
        return None
    if plot is True:
        return {}
    if isinstance(plot, str):
        return {"ys": _series([plot])}
    if isinstance(plot, Mapping):
        unknown = [name for name in plot if name not in _PLOT_FIELDS]
        if unknown:
            raise InvalidRequestError(f"A plot has {', '.join(_PLOT_FIELDS)}, and no {shown(unknown[0])}.")
        for name in ("x", "range"):
            if not isinstance(plot.get(name, ""), str):
                raise InvalidRequestError(f"The {name} of a plot must be a text, not {shown(plot[name])}.")
            unbroken(plot.get(name, ""), f"The {name} of a plot")
        if _RANGE.fullmatch(plot.get("range", "")) is None:
            raise InvalidRequestError(
                f'The range of a plot must be "", "rows 1000", "last 60000" or "10 20", not {shown(plot["range"])}.'
            )
        ys = plot.get("ys", ())
        return {**plot, "ys": _series([ys] if isinstance(ys, str) else ys)}
    return {"ys": _series(plot)}


def _series(ys: object) -> list[str]:
    if isinstance(ys, bytes) or not isinstance(ys, Sequence) or not all(isinstance(name, str) for name in ys):
        raise InvalidRequestError(f"A plot is names of columns, or a mapping with ys, x and range, not {shown(ys)}.")
    if len(ys) > _MOST_SERIES:
        raise InvalidRequestError(f"A plot has {_MOST_SERIES} columns at most, not {len(ys):,}.")
    return [unbroken(name, f"The column {shown(name)} of a plot") for name in ys]
