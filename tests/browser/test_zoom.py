"""At 200 % and other zooms: sharp, complete, and nothing out of reach."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import barrage_server as bs
from tests.browser.tab import Tab
from tests.waiting import until

SCHEMA = {"key": "int64", "price": "float64", "name": "string"}
WIDTH, HEIGHT = 1200, 600
# Controls that are neither in the window nor in something that scrolls to them.
OUT_OF_REACH = """() => {
  const cut = (element) => {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) return false;
    let across = box.left < -1 || box.right > innerWidth + 1;
    let down = box.top < -1 || box.bottom > innerHeight + 1;
    for (let at = element.parentElement; at !== null; at = at.parentElement) {
      const style = getComputedStyle(at);
      const scrolls = at === document.documentElement ? /visible|auto|scroll/ : /auto|scroll/;
      if (at.scrollWidth > at.clientWidth && scrolls.test(style.overflowX)) across = false;
      if (at.scrollHeight > at.clientHeight && scrolls.test(style.overflowY)) down = false;
    }
    return across || down;
  };
  return [...document.querySelectorAll("a, button, input, select, summary")].filter(cut)
    .map((element) => element.getAttribute("aria-label") ?? element.textContent);
}"""


def zoomed(percent: int) -> dict[str, Any]:
    """What a browser's zoom does: a pixel of the page is more of the screen's, and the window has fewer of them."""
    share = 100 / percent
    return {
        "viewport": {"width": round(WIDTH * share), "height": round(HEIGHT * share)},
        "device_scale_factor": percent / 100,
    }


@pytest.fixture
def percent() -> int:
    return 200


@pytest.fixture
def context_options(percent: int) -> dict[str, Any]:
    return zoomed(percent)


@pytest.fixture
def table(server: bs.Server) -> bs.KeyedTable:
    made = server.keyed_table("quotes", SCHEMA, key="key")
    made.upsert({"key": list(range(500)), "price": [n / 8 for n in range(500)], "name": [f"n{n}" for n in range(500)]})
    return made


def within(tab: Tab) -> None:
    """All that can be pressed is in the window, and nothing scrolls sideways."""
    assert tab.page.evaluate(OUT_OF_REACH) == []
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("percent", [67, 110, 150, 200, 300])
def test_the_grid_is_painted_in_the_pixels_of_the_screen(
    tab: Tab, server: bs.Server, table: bs.KeyedTable, percent: int
) -> None:
    tab.open(server, "quotes")
    tab.agrees(table)
    size = "(() => { const at = document.querySelector('canvas'); return [at.width, at.clientWidth]; })()"
    pixels, width = tab.page.evaluate(size)
    assert pixels == round(width * percent / 100)
    tab.go_to(200)
    tab.until(lambda look: 200 in look.rows, "row 200")
    tab.agrees(table)


def test_a_zoom_that_changes_is_taken_over(tab: Tab, server: bs.Server, table: bs.KeyedTable) -> None:
    tab.open(server, "quotes")
    tab.agrees(table)
    session = tab.page.context.new_cdp_session(tab.page)
    ratio = "document.querySelector('canvas').width / document.querySelector('canvas').clientWidth"

    def has_ratio(factor: float) -> bool:
        return bool(tab.page.evaluate(ratio) == factor)

    for width, height, factor in ((600, 300, 3.0), (400, 200, 1.0), (1200, 600, 2.0)):
        size = {"width": width, "height": height, "deviceScaleFactor": factor, "mobile": False}
        session.send("Emulation.setDeviceMetricsOverride", size)
        until(partial(has_ratio, factor), 10, what=f"{factor} pixels")
        tab.agrees(table)


def test_nothing_is_out_of_reach(tab: Tab, server: bs.Server, table: bs.KeyedTable) -> None:
    tab.open(server)
    tab.page.get_by_role("link", name="quotes").wait_for()
    within(tab)
    tab.page.get_by_role("link", name="quotes").click()
    tab.agrees(table)
    within(tab)
    tab.page.get_by_role("button", name="Columns", exact=True).click()
    tab.page.get_by_label("Show price").wait_for()
    within(tab)
    tab.page.get_by_role("button", name="Columns", exact=True).click()
    tab.focus()
    tab.page.keyboard.press("Enter")
    tab.page.get_by_label("Value of the cell").wait_for()
    within(tab)
    tab.focus()
    tab.page.keyboard.press("Shift+F10")
    tab.page.get_by_role("menu").wait_for()
    within(tab)
    tab.page.keyboard.press("Escape")
    tab.page.evaluate("location.hash = '#health'")
    tab.page.get_by_role("heading", name="Tables").wait_for()
    within(tab)
    tab.open(server, "quotes", plot="", x="key", y="price")
    tab.page.get_by_role("row", name="price").wait_for()
    within(tab)
