"""Fingers on a plot: one pans, two zoom, and what is under them stays there."""

from __future__ import annotations

import re
from typing import Any

import pytest

import barrage_server as bs
from tests.browser.finger import Finger
from tests.browser.tab import Tab
from tests.waiting import until

ROWS = 10_000


@pytest.fixture
def context_options() -> dict[str, Any]:
    return {"has_touch": True, "viewport": {"width": 700, "height": 600}}


def shown(tab: Tab) -> tuple[float, float] | None:
    """The range in the address; None: it names none."""
    found = re.search(r"[#&]plot=([-\d.]+)\+([-\d.]+)", tab.page.evaluate("location.hash"))
    return None if found is None else (float(found[1]), float(found[2]))


def shows(tab: Tab, low: float, high: float) -> None:
    """Wait until the address has this range, to three pixels, and the values beside the plot are of it."""
    slack = 3 * (high - low) / 600

    def is_near() -> bool:
        found = shown(tab)
        return found is not None and abs(found[0] - low) < slack and abs(found[1] - high) < slack

    until(is_near, what=f"{low:g} to {high:g} in the address, not {shown(tab)}")
    cells = tab.page.locator(".plot-values tbody tr td")
    until(
        lambda: abs(float(cells.nth(2).text_content() or "nan") - min(high, ROWS - 1)) < 2 * slack, what="the greatest"
    )


def test_one_finger_pans_and_two_zoom(server: bs.Server, tab: Tab) -> None:
    table = server.append_table("t", {"x": "float64", "y": "float64"})
    numbers = [float(number) for number in range(ROWS)]
    table.append({"x": numbers, "y": numbers})
    tab.open(server, "t", plot="2000.0 4000.0", x="x", y="y")
    until(lambda: tab.page.locator(".plot-values tbody tr td").count() > 0, what="the plot")
    box = tab.page.locator(".u-over").bounding_box()
    assert box is not None
    left, y, width = box["x"], box["y"] + box["height"] / 2, box["width"]
    finger = Finger(tab)
    finger.drag((left + 0.5 * width, y), (left + 0.25 * width, y))
    shows(tab, 2500, 4500)
    apart = ((left + 0.4 * width, y), (left + 0.6 * width, y))
    wide = ((left + 0.2 * width, y), (left + 0.8 * width, y))
    finger.pinch(apart, wide)
    shows(tab, 3500 - 1000 / 3, 3500 + 1000 / 3)
    finger.pinch(wide, apart)
    shows(tab, 2500, 4500)
