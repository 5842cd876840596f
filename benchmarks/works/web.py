"""The page of this project beside those of Deephaven and Perspective.

They share a browser.

A row of the comparison is measured alone with ``--row NAME``, such as ``--row jump``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.crowd import crowd
from benchmarks.names import DEEPHAVEN, OURS, PERSPECTIVE
from benchmarks.pages.browser import launched, tab
from benchmarks.pages.crowd import page_crowd
from benchmarks.pages.stage import Stage
from benchmarks.pages.starts import start
from benchmarks.pages.systems import PageSystem, deephaven_page, our_page, perspective_page
from benchmarks.process import ProcessFailedError
from benchmarks.servers.writer import ROWS_PER_VIEW
from benchmarks.steady import Steady

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["ROWS", "run"]

VIEWERS_MS: Final = 100
_TICK_ROUNDS: Final = 5
_TICK_ROWS: Final = 100
_SMALLER: Final = 100
"""By how much the smaller of two plots has fewer rows."""

_IN_PAGES: Final[dict[str, Callable[[Stage], None]]] = {
    "bytes": Stage.nbytes,
    "first": Stage.first,
    "jump": Stage.jump,
    "cells": Stage.cells,
    "wheel": Stage.wheel,
    "thumb": Stage.thumb,
    "painted": Stage.painted,
    "memory": Stage.memory,
    "plot": Stage.plot,
}


def run(bench: Bench) -> None:
    """Each system by itself, its rows in sequence; then the rows without a browser."""
    if bench.wants(*_IN_PAGES, "many", "tick"):
        with launched() as browser:
            _ours(bench, browser)
            bench.peer(DEEPHAVEN, lambda: _peer(bench, browser, lambda: deephaven_page(bench.sizes.heap)))
            bench.peer(PERSPECTIVE, lambda: _peer(bench, browser, perspective_page), "perspective-page")
    _wanted(bench, "viewers", _our_viewers)
    bench.peer(DEEPHAVEN, lambda: _wanted(bench, "viewers", _deephaven_viewers))
    _wanted(bench, "start", _starts)


def _ours(bench: Bench, browser: Browser) -> None:
    with our_page() as system:
        stage = Stage(bench, browser, system)
        _in_pages(stage)
        _wanted(bench, "tick", lambda _: _plot_ticks(stage))
    if bench.wants("memory"):
        bench.step(f"{OURS}: memory")
        with our_page(interval_ms=1) as system:
            Stage(bench, browser, system).memory()
    if bench.wants("many"):
        bench.step("many")
        try:
            with our_page() as system:
                _many(Stage(bench, browser, system))
        except ProcessFailedError as error:  # it takes 5 GB
            bench.outcome.notes.append(f"{OURS}, many: {error}")


def _peer(bench: Bench, browser: Browser, make: Callable[[], AbstractContextManager[PageSystem]]) -> None:
    from playwright.sync_api import Error

    if bench.wants(*_IN_PAGES):
        with make() as system:
            stage = Stage(bench, browser, system)
            try:
                stage.warm()
            except Error as error:
                raise ProcessFailedError(str(error)) from error
            _in_pages(stage)


def _in_pages(stage: Stage) -> None:
    """The rows that any page may have.

    A failure of a peer is noted, and the next row is measured.
    """
    from playwright.sync_api import Error

    bench = stage.bench
    for row, measure in _IN_PAGES.items():
        if not bench.wants(row) or not stage.system.has(row):
            continue
        bench.step(f"{stage.name}: {row}")
        try:
            measure(stage)
        except (Error, ProcessFailedError, pa.ArrowException) as error:
            if stage.name == OURS:
                raise
            bench.outcome.notes.append(f"{stage.name}, {row}: {str(error).partition(chr(10))[0]}")
        bench.keep()


def _wanted(bench: Bench, row: str, measure: Callable[[Bench], None]) -> None:
    if bench.wants(row):
        bench.step(row)
        measure(bench)
        bench.keep()


def _many(stage: Stage) -> None:
    """Jumps in a narrow table beside those in one with fewer rows, in turns."""
    sizes, call = stage.sizes, stage.system.process.call
    counts = {"fewer": sizes.rows, "many": sizes.many_rows}
    took: dict[str, list[float]] = {name: [] for name in counts}
    for name, count in counts.items():
        call("still", name=name, count=count, columns=1)
    for _ in range(4):
        for name in counts:
            took[name] += stage.jumps(name, max(1, sizes.jumps // 4))
    for name, count in counts.items():
        stage.bench.timed(f"page, jump to a random row, one column, {count:,} rows", "", OURS, took[name])
        call("drop", name=name)
    medians = [float(np.median(took[name])) for name in ("many", "fewer")]
    work = f"page, jump to a random row, {sizes.many_rows:,} rows"
    stage.bench.add(work, "p50, of that of a tenth of the rows", OURS, [medians[0] / medians[1]], "times", "")


def _plot_ticks(stage: Stage) -> None:
    """The server's cost of a plot's tick, in turns with a smaller table.

    The table has a hundredth of the rows.
    """
    sizes, call = stage.sizes, stage.system.process.call
    counts = {"small": max(1, sizes.points // _SMALLER), "big": sizes.points}
    took: dict[str, list[float]] = {name: [] for name in counts}
    for name, count in counts.items():
        call("points", name=name, count=count)
    for _ in range(_TICK_ROUNDS):
        for name in counts:
            with tab(stage.browser) as opened:
                opened.open(stage.system.plot(name))
                opened.picture()
                call("plot_ticks", name=name, ticks=max(1, sizes.ticks // 10), count=_TICK_ROWS)
                took[name].append(call("plot_ticks", name=name, ticks=sizes.ticks, count=_TICK_ROWS))
    work = "page, a plot's tick"
    for name, count in counts.items():
        stage.bench.add(work, f"processor time, {count:,} rows", OURS, [each * 1e3 for each in took[name]], "ms", "")
    ratios = [big / small for big, small in zip(took["big"], took["small"], strict=True)]
    stage.bench.add(work, f"of that with 1/{_SMALLER} of the rows", OURS, ratios, "times", "")


def _our_viewers(bench: Bench) -> None:
    def measured(system: systems.System, viewports: list[tuple[int, int]], measure: float) -> Steady:
        web: str = system.process.hello["web"]
        settle = bench.sizes.settle
        return page_crowd(system, web, "t", viewports, interval_ms=VIEWERS_MS, settle=settle, measure=measure)

    with systems.ours(web_port=0) as system:
        _viewers(bench, system, measured)


def _deephaven_viewers(bench: Bench) -> None:
    def measured(system: systems.System, viewports: list[tuple[int, int]], measure: float) -> Steady:
        return crowd(system, "t", viewports, interval_ms=VIEWERS_MS, settle=bench.sizes.settle, measure=measure)

    with systems.deephaven(cycle_ms=VIEWERS_MS, interval_ms=VIEWERS_MS, heap=bench.sizes.heap) as system:
        _viewers(bench, system, measured)


def _viewers(
    bench: Bench,
    system: systems.System,
    measured: Callable[[systems.System, list[tuple[int, int]], float], Steady],
) -> None:
    """Browsers with different views, in each of which one row changes.

    It changes ten times a second.
    """
    count = bench.sizes.pages.viewers
    rows = count * ROWS_PER_VIEW
    system.make("t", "keyed", rows, rate=count * 1000 / VIEWERS_MS, batch_ms=VIEWERS_MS, writes="views")
    viewports = [(first, ROWS_PER_VIEW) for first in range(0, rows, ROWS_PER_VIEW)]
    if system.is_deephaven and bench.sizes.warm:
        measured(system, viewports, bench.sizes.warm)
    seen = measured(system, viewports, 3 * bench.sizes.measure)
    system.drop("t")
    work = f"page, {count:,} browsers at 10 Hz"
    bench.add(work, "server cores", system.name, [seen.cores], "cores")
    bench.add(work, "served on time", system.name, [seen.on_time], "%", "more")


def _starts(bench: Bench) -> None:
    """Pairs of starts, of which either is the first in turns."""
    took: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    start(with_page=True)
    for number in range(bench.sizes.pages.starts):
        for with_page in (False, True) if number % 2 else (True, False):
            took[with_page].append(start(with_page=with_page))
    work = "page, import and start of a server"
    without, with_it = np.array(took[False]), np.array(took[True])
    for at, what in enumerate(("time", "processor time")):
        bench.add(work, f"{what} without the page", OURS, list(without[:, at]), "s", "")
        bench.add(work, f"{what}, of that without the page", OURS, list(with_it[:, at] / without[:, at]), "times", "")


ROWS: Final = (*_IN_PAGES, "many", "tick", "viewers", "start")
"""What may be measured alone."""
