"""A Chromium, and tabs whose page tells what it paints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.environments import MissingPeerError
from benchmarks.machine import MIB
from benchmarks.process import ProcessFailedError
from tests.browser.chromium import FLAGS, find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["HEIGHT", "WIDTH", "Tab", "launched", "tab", "tabs"]

WIDTH, HEIGHT = 1920, 1080
_WATCH: Final = Path(__file__).with_name("watch.js")
_PATIENCE_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.01
_FAST_FRAMES: Final = Path(__file__).parents[2] / "tests" / "browser" / "fast_frames.js"


class Tab:
    """One tab.

    Args:
        page: playwright's.
    """

    def __init__(self, page: Page) -> None:
        self.page = page

    def open(self, address: str) -> None:
        """Go to an address, as if nothing had been there."""
        self.page.goto("about:blank")
        self.page.goto(address, wait_until="commit", timeout=_PATIENCE_SECONDS * 1000)

    def tells(self, expression: str) -> Any:
        """A value of ``watch.js``."""
        return self.page.evaluate(f"watch.{expression}")

    def until(self, condition: Callable[[], bool], what: str, seconds: float = _PATIENCE_SECONDS) -> None:
        """Look again and again until a condition holds.

        Raises:
            ProcessFailedError: it does not in time.
        """
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise ProcessFailedError(f"{what}: not after {seconds:.0f} s")
            time.sleep(_LOOK_SECONDS)

    def first_rows(self) -> float:
        """Seconds from the navigation until the first rows were painted."""
        return self._since_navigation("first")

    def picture(self) -> float:
        """Seconds from the navigation until the first line of a plot was."""
        return self._since_navigation("picture")

    def heap(self) -> float:
        """Memory of the scripts, without garbage, in MiB."""
        session = self.page.context.new_cdp_session(self.page)
        for _ in range(2):
            session.send("HeapProfiler.collectGarbage")
        used = session.send("Runtime.getHeapUsage")["usedSize"] / MIB
        session.detach()
        return float(used)

    def _since_navigation(self, name: str) -> float:
        found: list[float] = []

        def is_there() -> bool:
            value = self.tells(name)
            found[:] = [] if value is None else [value / 1e3]
            return bool(found)

        self.until(is_there, f"watch.{name}")
        return found[0]


@contextmanager
def launched() -> Iterator[Browser]:
    """The browser.

    Raises:
        MissingPeerError: there is none, or nothing that drives it.
    """
    try:
        from playwright.sync_api import sync_playwright

        chromium = find_chromium()
    except (ImportError, RuntimeError) as error:
        raise MissingPeerError(f"no browser: run scripts/make-browser-env .venv .web ({error})") from None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.path, args=FLAGS, env=dict(os.environ) | chromium.environment
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tabs(browser: Browser) -> Iterator[Callable[[], Tab]]:
    """Yield a function that makes tabs of a new user, which share a cache."""
    size = {"width": WIDTH, "height": HEIGHT}
    with browser.new_context(viewport=size, locale="en-US", reduced_motion="no-preference") as context:
        context.add_init_script(path=_WATCH)
        yield lambda: Tab(context.new_page())


@contextmanager
def tab(browser: Browser, *, fast_frames: bool = False) -> Iterator[Tab]:
    """A tab of such a user.

    Args:
        browser: the browser.
        fast_frames: frames follow each other as fast as they are painted.
    """
    with tabs(browser) as made:
        opened = made()
        if fast_frames:
            opened.page.add_init_script(path=_FAST_FRAMES)
        yield opened
