"""The compared pages: their servers, their addresses, and their scrolling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote, urlsplit

from benchmarks.environments import modules_of, python_of
from benchmarks.names import DEEPHAVEN, OURS, PERSPECTIVE
from benchmarks.pages.browser import HEIGHT, WIDTH, Tab
from benchmarks.process import Process
from benchmarks.systems import deephaven_process

__all__ = ["INTERVAL_MS", "PageSystem", "deephaven_page", "our_page", "perspective_page"]

INTERVAL_MS: Final = 50
"""The least time between two updates, of all systems that have one."""


class PageSystem(ABC):
    """A server that runs, and its page.

    Args:
        process: the server's; it answers with ``web``, the address of the page.

    Attributes:
        process: the server's.
        name: of the system.
        web: the address.
    """

    name: str

    def __init__(self, process: Process) -> None:
        self.process = process
        self.web: str = process.hello["web"]

    @property
    def port(self) -> int:
        """The port that serves the page."""
        port = urlsplit(self.web).port
        assert port is not None
        return port

    def has(self, row: str) -> bool:
        """Whether the system has what a row of the comparison is about."""
        return bool(row)

    def table(self, name: str, web: str = "") -> str:
        """The address of a table from its first row on.

        ``web``: the address that serves the page, if not this system's.
        """
        return (web or self.web) + self._path(name)

    @abstractmethod
    def _path(self, name: str) -> str: ...

    @abstractmethod
    def plot(self, name: str) -> str:
        """The address of a plot over all rows."""

    @abstractmethod
    def grab(self, tab: Tab) -> None:
        """Grab the thumb of the vertical scroll bar, while the first rows are shown."""

    @abstractmethod
    def drag(self, tab: Tab, share: float) -> None:
        """Drag it to a place between 0 and 1 of its way."""

    @abstractmethod
    def release(self, tab: Tab) -> None:
        """Let it go."""


class _Dragged(PageSystem):
    """A page whose thumb takes the mouse."""

    @abstractmethod
    def _track(self, tab: Tab) -> tuple[float, float, float]:
        """The place of the thumb, and its lowest one: x, first and last y, in pixels."""

    def grab(self, tab: Tab) -> None:
        """Press the mouse on the thumb."""
        self._place = self._track(tab)
        tab.page.mouse.move(*self._place[:2])
        tab.page.mouse.down()

    def drag(self, tab: Tab, share: float) -> None:
        """Move the mouse."""
        x, first, last = self._place
        tab.page.mouse.move(x, first + share * (last - first))

    def release(self, tab: Tab) -> None:
        """Release the mouse."""
        tab.page.mouse.up()


class OurPage(_Dragged):
    """This project's."""

    name = OURS

    def has(self, row: str) -> bool:
        """All rows but ``memory``, which a server with faster updates measures."""
        return row != "memory"

    def _path(self, name: str) -> str:
        return f"/#table={quote(name)}&row=1"

    def plot(self, name: str) -> str:
        """The page's own plot."""
        return f"{self.web}/#table={quote(name)}&plot=&x=x&y=y"

    def _track(self, tab: Tab) -> tuple[float, float, float]:
        track = tab.page.locator(".scrollbar.vertical").bounding_box()
        thumb = tab.page.locator(".scrollbar.vertical .thumb").bounding_box()
        assert track is not None
        assert thumb is not None
        half = thumb["height"] / 2
        return thumb["x"] + thumb["width"] / 2, thumb["y"] + half, track["y"] + track["height"] - half


class DeephavenPage(_Dragged):
    """Deephaven's, of a single table."""

    name = DEEPHAVEN

    def _path(self, name: str) -> str:
        return f"/iframe/widget/?name={quote(name)}"

    def plot(self, name: str) -> str:
        """A chart, which is a widget with a name like a table."""
        return f"{self.web}/iframe/widget/?name={quote(name)}"

    def _track(self, tab: Tab) -> tuple[float, float, float]:
        del tab
        # The bar is painted at the right edge of the window, below the heads of 30 pixels; its thumb has 24 pixels.
        return WIDTH - 7, 42, HEIGHT - 12


class PerspectivePage(PageSystem):
    """Perspective's viewer with its grid.

    The grid scrolls by a scroll bar of the browser, which a script moves.
    """

    name = PERSPECTIVE

    def has(self, row: str) -> bool:
        """All but ``plot``: another package of Perspective's draws plots."""
        return row != "plot"

    def _path(self, name: str) -> str:
        return f"/#{quote(name)}"

    def plot(self, name: str) -> str:
        """Never asked for: :meth:`has` says that there is none."""
        raise NotImplementedError(name)

    def grab(self, tab: Tab) -> None:
        """Find the element that scrolls."""
        tab.page.evaluate(_FIND_GRID)

    def drag(self, tab: Tab, share: float) -> None:
        """Scroll the element."""
        tab.page.evaluate(_SCROLL, share)

    def release(self, tab: Tab) -> None:
        """Nothing holds the element."""


_FIND_GRID: Final = """
() => { window.grid = document.querySelector("perspective-viewer-datagrid").shadowRoot.querySelector("regular-table"); }
"""
_SCROLL: Final = """
(share) => { watch.acted(); grid.scrollTop = share * (grid.scrollHeight - grid.clientHeight); }
"""


@contextmanager
def our_page(interval_ms: int = INTERVAL_MS) -> Iterator[PageSystem]:
    """This project's server."""
    with Process("benchmarks.servers.ours_pages", {"interval_ms": interval_ms}) as process:
        yield OurPage(process)


@contextmanager
def deephaven_page(heap: str) -> Iterator[PageSystem]:
    """Deephaven's server.

    Raises:
        MissingPeerError: it is not installed.
    """
    started = deephaven_process("deephaven_pages", cycle_ms=INTERVAL_MS, interval_ms=INTERVAL_MS, heap=heap)
    with started as process:
        yield DeephavenPage(process)


@contextmanager
def perspective_page() -> Iterator[PageSystem]:
    """Perspective's server, of the version of its viewer.

    Raises:
        MissingPeerError: one of them is not installed.
    """
    python, settings = python_of("perspective-page"), {"modules": modules_of("perspective-js")}
    with Process("benchmarks.servers.perspective_pages", settings, python=python) as process:
        yield PerspectivePage(process)
