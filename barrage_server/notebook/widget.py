"""The widget: traits for the browser, and the relay of its messages."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets

from barrage_server.notebook.relay import Relay
from barrage_server.notebook.widget_of import Source

__all__ = ["TableWidget"]

_STATIC: Final = Path(__file__).parent / "static"
_SETTLE_SECONDS: Final = 2.0
"""Seconds in which a kernel that was busy receives the messages that came meanwhile."""


class TableWidget(anywidget.AnyWidget):  # type: ignore[misc]  # it has no types
    """A table in a notebook: a grid, or a plot. Made by :func:`barrage_server.show`.

    Args:
        source: the table to show.
        height: height in CSS pixels.
        theme: ``auto``, ``light`` or ``dark``.
        plot: the specification of a plot; ``None``: a grid.
    """

    # as text, because the library keeps all widgets made from a file; of two lines, because one could be a path
    _esm = _STATIC.joinpath("widget.js").read_text(encoding="utf-8") + "\n"

    _target = traitlets.Dict().tag(sync=True)
    height = traitlets.Int(400).tag(sync=True)
    theme = traitlets.Enum(("auto", "light", "dark"), "auto").tag(sync=True)
    plot = traitlets.Dict(None, allow_none=True).tag(sync=True)

    def __init__(
        self, source: Source, *, height: int = 400, theme: str = "auto", plot: dict[str, object] | None = None
    ) -> None:
        # before the comm is opened, which the browser may answer at once
        self._relay = Relay(source.open, _sender(weakref.ref(self)), settled=_settler())
        self._ended = weakref.finalize(self, self._relay.close)
        self._ended.atexit = False
        self._title = source.title
        super().__init__(_target=source.target(), height=height, theme=theme, plot=plot)
        self.on_msg(_receive)

    @property
    def displays(self) -> int:
        """The number of connected displays."""
        return self._relay.links

    def close(self) -> None:
        """End all displays, and their sessions on the server. May be called repeatedly."""
        self._relay.close()
        super().close()

    @traitlets.observe("comm")  # type: ignore[untyped-decorator]  # it has no types
    def _watch_comm(self, change: Any) -> None:
        if change["new"] is not None:
            relay = self._relay
            change["new"].on_close(lambda _message: relay.close())

    def __repr__(self) -> str:
        return f"<TableWidget {self._title!r}>"


def _receive(widget: TableWidget, content: object, _buffers: object) -> None:
    widget._relay.receive(content)


def _sender(widget: weakref.ref[TableWidget]) -> Callable[[dict[str, Any], list[bytes]], object]:
    """Return a function that sends to the browser while the widget lives."""

    def send(message: dict[str, Any], buffers: list[bytes]) -> None:
        held = widget()
        if held is not None and held.comm is not None:
            held.send(message, buffers)

    return send


def _settler() -> Callable[[Callable[[], object]], object]:
    """Return a function that calls back when the kernel had time for messages."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return lambda check: check()

    def settled(check: Callable[[], object]) -> None:
        try:
            loop.call_soon_threadsafe(loop.call_later, _SETTLE_SECONDS, check)
        except RuntimeError:  # the event loop is closed
            check()

    return settled
