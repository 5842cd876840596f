"""The measurements in a page, of any system: a function for each row."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.bench import Bench
from benchmarks.names import OURS, PERSPECTIVE
from benchmarks.pages.browser import HEIGHT, WIDTH, Tab, tab
from benchmarks.pages.counter import Counter
from benchmarks.pages.rows import NUMBERS
from benchmarks.pages.systems import INTERVAL_MS, PageSystem
from benchmarks.process import ProcessFailedError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["CELLS_PER_SECOND", "Stage"]

CELLS_PER_SECOND: Final = 10_000
ROWS_IN_VIEW: Final = 36
"""Rows of tables whose cells change; all are in view, in each of the pages."""
_FRAME_SECONDS: Final = 1 / 60
_NOTCH: Final = 120
"""Pixels of a notch of the wheel."""
_LEAST_JUMP: Final = 0.05
_PAUSES_MS: Final = (100.0, 150.0)
"""Between two changes that are timed: longer than the interval, so that each is an update of its own."""
_KIB: Final = 1024


class Stage:
    """A system's page in the browser.

    Args:
        bench: gets the figures.
        browser: the browser.
        system: the system.
    """

    def __init__(self, bench: Bench, browser: Browser, system: PageSystem) -> None:
        self.bench, self.browser, self.system = bench, browser, system
        self.sizes = bench.sizes.pages
        self.name = system.name
        self._large = ""
        self._random = random.Random(7)

    @property
    def rows(self) -> str:
        """The size of the large table, as works have it."""
        return f"{self.sizes.rows:,} rows"

    def large(self) -> str:
        """The large table, which is made once."""
        if not self._large:
            self.bench.step(f"{self.name}: the large table")
            count = self.sizes.peers_rows if self.name == PERSPECTIVE else self.sizes.rows
            self.system.process.call("still", name="large", count=count)
            self._large = "large"
        return self._large

    def warm(self) -> None:
        """Look at pages, and scroll, until a JVM has compiled what that takes."""
        self.bench.warm(self._look)

    def nbytes(self) -> None:
        """Bytes to the first rows."""
        name = self.large()
        with Counter(self.system.port) as counter, tab(self.browser) as opened:
            opened.open(self.system.table(name, f"http://127.0.0.1:{counter.port}"))
            opened.first_rows()
            received = counter.received / _KIB
        self.bench.add("page, bytes to the first rows", "compressed", self.name, [received], "KiB")

    def first(self) -> None:
        """From the navigation to the first rows."""
        address = self.system.table(self.large())
        cold, cached = list[float](), list[float]()
        for _ in range(self.sizes.navigations):
            with tab(self.browser) as opened:
                for took in (cold, cached):
                    opened.open(address)
                    took.append(opened.first_rows() * 1e3)
        work = f"page, navigation to first rows, {self.rows}"
        self.bench.add(work, "cold", self.name, cold, "ms")
        self.bench.add(work, "cached", self.name, cached, "ms")

    def jump(self) -> None:
        """Jumps to random rows."""
        took = self.jumps(self.large(), self.sizes.jumps)
        self.bench.timed(f"page, jump to a random row, {self.rows}", "", self.name, took)

    def cells(self) -> None:
        """Cells that change in view."""
        work = f"page, {CELLS_PER_SECOND:,} cell changes/s in view"
        per_row = 1 + NUMBERS
        count = round(CELLS_PER_SECOND * INTERVAL_MS / 1000 / per_row)
        self.system.process.call("cells", name="cells", count=ROWS_IN_VIEW)
        self.system.process.call("tick", name="cells", count=count, batch_ms=INTERVAL_MS)
        try:
            with tab(self.browser) as opened:
                opened.open(self.system.table("cells"))
                opened.first_rows()
                time.sleep(self.bench.sizes.settle)
                before = opened.tells("updates")
                self._frames(work, opened, lambda: time.sleep(_FRAME_SECONDS))
                painted = (opened.tells("updates") - before) / self.sizes.seconds
                self.bench.add(work, "changes painted", self.name, [painted], "per second", "")
                self.bench.add(work, "rows in view", self.name, [opened.tells("rows")], "rows", "")
        finally:
            self.system.process.call("rest", name="cells")

    def wheel(self) -> None:
        """The wheel, turned without a pause."""
        with tab(self.browser) as opened:
            self._open_large(opened)
            opened.page.mouse.move(WIDTH / 2, HEIGHT / 2)
            work = f"page, the wheel, {self.rows}"
            self._scrolled(work, opened, lambda: opened.page.mouse.wheel(0, _NOTCH))

    def thumb(self) -> None:
        """The thumb, dragged up and down."""
        with tab(self.browser) as opened:
            self._open_large(opened)
            self.system.grab(opened)
            begin = time.monotonic()

            def drag() -> None:
                self.system.drag(opened, 0.5 - 0.4 * np.cos(3 * (time.monotonic() - begin)))

            self._scrolled(f"page, the thumb, {self.rows}", opened, drag)
            self.system.release(opened)

    def painted(self) -> None:
        """From the call that publishes a change until it is painted."""
        self.system.process.call("written", name="written", count=ROWS_IN_VIEW)
        pauses = [self._random.uniform(*_PAUSES_MS) for _ in range(self.sizes.stamps)]
        with tab(self.browser) as opened:
            opened.open(self.system.table("written"))
            opened.first_rows()
            before = self.system.process.call("write", name="written", pauses_ms=pauses[: 1 + len(pauses) // 5])
            opened.tells("record()")
            last = self.system.process.call("write", name="written", pauses_ms=pauses)
            opened.until(lambda: bool(opened.tells("newest") >= last), "the last change that was published")
            ages = [(at - stamp) / 1e6 for stamp, at in opened.tells("recorded()") if stamp > before]
        work = f"page, published to painted, {INTERVAL_MS} ms interval"
        self.bench.timed(work, "", self.name, ages)
        share = 100.0 * len(ages) / len(pauses)
        self.bench.add(work, "painted singly", self.name, [share], "%", "")
        self.system.process.call("drop", name="written")

    def memory(self) -> None:
        """Memory of the scripts when the page has shown some updates.

        Of this project also after many updates.
        """
        first, last = self.sizes.updates
        work = f"page, script memory, {first:,} and {last:,} updates"
        with tab(self.browser, fast_frames=self.name == OURS) as opened:
            if self.name == OURS:
                self.system.process.call("written", name="churned", count=ROWS_IN_VIEW)
                opened.open(self.system.table("churned"))
                opened.until(lambda: opened.tells("shown.first") == 0, "the rows")
                self.system.process.call("churn", name="churned", updates=first)
            else:
                self._shown_updates(opened, first)
            early = opened.heap()
            self.bench.add(work, "after the first", self.name, [early], "MiB")
            if self.name == OURS:
                self.system.process.call("churn", name="churned", updates=last - first)
                grown = max(0.0, opened.heap() - early)
                self.bench.add(work, "growth", self.name, [grown], "MiB")

    def plot(self) -> None:
        """From the navigation to the first line of a plot."""
        self.system.process.call("points", name="points", count=self.sizes.points)
        took = list[float]()
        for _ in range(self.sizes.navigations):
            with tab(self.browser) as opened:
                opened.open(self.system.plot("points"))
                took.append(opened.picture() * 1e3)
        work = f"page, plot of {self.sizes.points:,} rows"
        self.bench.add(work, "first picture", self.name, took, "ms")

    def jumps(self, name: str, count: int) -> list[float]:
        """Seconds from a jump of a table's thumb until the rows there are painted."""
        took = list[float]()
        with tab(self.browser) as opened:
            opened.open(self.system.table(name))
            opened.until(lambda: opened.tells("shown.first") == 0, "the first rows")
            self.system.grab(opened)
            share = 0.0
            for _ in range(count):
                share = self._other(share)
                opened.tells("aim()")
                self.system.drag(opened, share)
                found = [-1.0]

                def has_come(found: list[float] = found) -> bool:
                    found[0] = opened.tells("jumped()")
                    return found[0] >= 0

                opened.until(has_come, "the rows of a jump")
                took.append(found[0] / 1e3)
            self.system.release(opened)
        return took

    def _other(self, share: float) -> float:
        while True:
            other = self._random.uniform(0.02, 0.98)
            if abs(other - share) > _LEAST_JUMP:
                return other

    def _open_large(self, opened: Tab) -> None:
        opened.open(self.system.table(self.large()))
        opened.until(lambda: opened.tells("shown.first") == 0, "the first rows")
        time.sleep(self.bench.sizes.settle)

    def _look(self) -> None:
        self.jumps(self.large(), 3)

    def _shown_updates(self, opened: Tab, count: int) -> None:
        """Wait until the page has painted ``count`` updates."""
        self.system.process.call("cells", name="churned", count=ROWS_IN_VIEW)
        self.system.process.call("tick", name="churned", count=ROWS_IN_VIEW, batch_ms=INTERVAL_MS)
        try:
            opened.open(self.system.table("churned"))
            seconds = 30 + 5 * count * INTERVAL_MS / 1000
            opened.until(lambda: opened.tells("updates") >= count, f"{count:,} updates", seconds)
        finally:
            self.system.process.call("rest", name="churned")

    def _scrolled(self, work: str, opened: Tab, action: Callable[[], None]) -> None:
        before = opened.tells("shown.first")
        self._frames(work, opened, action)
        opened.until(lambda: opened.tells("shown.first") not in (before, -1), "the rows that were scrolled to")

    def _frames(self, work: str, opened: Tab, action: Callable[[], None]) -> None:
        """The share of frames in time while ``action`` runs, once a frame at most."""
        opened.tells("begin()")
        due = time.monotonic()
        end = due + self.sizes.seconds
        while (now := time.monotonic()) < end:
            action()
            due = max(now, due + _FRAME_SECONDS)
            time.sleep(max(0.0, due - time.monotonic()))
        paces = opened.tells("end()")
        if paces["frames"] < 1:
            raise ProcessFailedError("the page paints no frames")
        self.bench.add(work, "frames in time", self.name, [paces["share"]], "%", "more")
