"""A smoke test in Firefox: the page shows tables exactly, ticks, scrolls, plots, and breaks no rule of its policy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import barrage_server as bs
from tests.browser.firefox import Bidi, running
from tests.browser.tab import Tab
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

WATCH = Path(__file__).with_name("watch.js").read_text(encoding="utf-8")
SCHEMA = {"key": "int64", "price": "float64", "name": "string", "at": "timestamp[ns, Europe/Berlin]"}
ENTER, PAGE_DOWN = "\ue007", "\ue00f"


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bidi]:
    """Skipped where there is none: not every machine has one, or may unpack one. FIREFOX= insists on one."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(running(tmp_path_factory.mktemp("firefox")))
        except RuntimeError as error:
            if os.environ.get("FIREFOX"):
                raise
            pytest.skip(str(error))
        made.add_init_script("window.problems = []; window.reportProblem = (text) => problems.push(text);" + WATCH)
        made.set_viewport_size({"width": 1200, "height": 600})
        yield made


@pytest.fixture
def tab(firefox: Bidi, server: bs.Server) -> Iterator[Tab]:
    """A tab in which nothing may fail. It leaves the page before the server ends, which the page would report."""
    firefox.problems.clear()
    try:
        yield Tab(cast("Page", firefox))
        assert firefox.evaluate("problems") == []
        assert firefox.problems == []
    finally:
        firefox.goto("about:blank")


def rows(first: int, count: int, text: str = "row") -> dict[str, list[Any]]:
    numbers = range(first, first + count)
    return {
        "key": [2**62 + number for number in numbers],
        "price": [None if number % 7 == 3 else number / 8 for number in numbers],
        "name": ["" if number % 5 == 0 else f"{text} {number}\u202e" for number in numbers],
        "at": [1_718_445_600_000_000_001 + number for number in numbers],
    }


def test_a_table_is_shown_exactly_ticks_and_scrolls(tab: Tab, firefox: Bidi, server: bs.Server) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert(rows(0, 3000))
    tab.open(server)
    until(lambda: firefox.evaluate("document.querySelector('table.list a')?.textContent") == "t", what="the list")
    firefox.evaluate("document.querySelector('table.list a').click()")
    tab.agrees(table)
    table.upsert(rows(1, 5, "changed"))
    tab.agrees(table)
    box = firefox.evaluate("document.querySelector('.surface').getBoundingClientRect().toJSON()")
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    firefox.wheel(*middle, 240)
    tab.until(lambda look: min(look.rows) == 10, "ten rows on")
    tab.agrees(table)
    firefox.click(*middle)
    tab.until(lambda look: look.mirror["focused"] and look.mirror["active"], "an active cell")
    firefox.press(PAGE_DOWN, PAGE_DOWN)
    tab.until(lambda look: min(look.rows) > 30, "two pages on")
    tab.agrees(table)
    firefox.press(ENTER)
    value = "document.querySelector('[aria-label=\"Value of the cell\"]')?.textContent"
    until(lambda: firefox.evaluate(value), what="the whole cell")
    server.drop("t")
    tab.until(lambda look: look.cover and "t" in look.cover, "the sentence")


def test_a_plot_ticks_and_health_is_shown(tab: Tab, firefox: Bidi, server: bs.Server) -> None:
    table = server.append_table("ticks", {"x": "int64", "y": "float64"})
    table.append({"x": list(range(1000)), "y": [float(number) for number in range(1000)]})
    tab.open(server, "ticks", plot="", x="x", y="y")
    cells = "[...document.querySelectorAll('.plot-values tbody :is(th, td)')].map((cell) => cell.textContent)"
    until(lambda: firefox.evaluate(cells) == ["y", "999", "0", "999"], what="the points")
    painted = """(() => {
        const canvas = document.querySelector(".plot-chart canvas");
        if (canvas === null || canvas.width === 0) return 0;
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.filter((value, at) => at % 4 === 3 && value > 100).length;
    })()"""
    until(lambda: firefox.evaluate(painted) > 1000, what="the line")
    table.append({"x": [1000], "y": [5000.5]})
    until(lambda: firefox.evaluate(cells) == ["y", "5000.5", "0", "5000.5"], what="the new point")
    firefox.evaluate("void (location.hash = '#health')")
    heads = "[...document.querySelectorAll('.health h2')].map((head) => head.textContent)"
    until(lambda: "Tables" in firefox.evaluate(heads), what="health")
