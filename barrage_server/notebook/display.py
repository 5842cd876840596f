"""The function that shows a table in a notebook."""

from __future__ import annotations

from typing import Any

__all__ = ["show"]


def show(table: object, *, height: int = 400, theme: str = "auto", plot: object = None) -> Any:
    """A widget for notebooks: a grid that scrolls and ticks, or a plot.

    The data pass through the kernel, so the browser needs no connection to the server. A table or plan of a server is
    read from that server, as far as it is in view; a table of this process, and rows, from this process. When the
    widget is closed, when its kernel ends, and when nothing shows it, nothing is left on the server.

    >>> bs.show(client.table("trades").where("size > 1000"), plot={"x": "time", "ys": ["price"]})

    Args:
        table: a live table, a table of a client or a plan of one, a table of a server in this process or of a graph, a
            data frame, or any other object that offers an Arrow stream.
        height: height of the widget, in CSS pixels, from 120 to 10,000.
        theme: ``auto`` (the notebook's theme), ``light`` or ``dark``.
        plot: the plot to show in place of the grid: the names of up to eight columns, or a mapping with ``ys``, ``x``
            (a column; ``""`` for the number of the row) and ``range`` (``""`` for all, ``"rows 1000"``,
            ``"last 60000000000"`` in the unit of ``x``, or ``"10 20"``); True leaves the choice to the page.

    Returns:
        An :class:`anywidget.AnyWidget`.

    Raises:
        DependencyError: the packages of the extra ``notebook`` are not installed.
        InvalidRequestError: an argument is wrong.
        SchemaMismatchError: ``table`` has no rows that could be shown.
        UnsupportedOperationError: ``table`` is of a Deephaven server.
    """
    from barrage_server.notebook.widget_of import source_of, widget_of  # they import numpy and more

    return widget_of(source_of(table), height=height, theme=theme, plot=plot)
