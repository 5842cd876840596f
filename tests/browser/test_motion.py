"""Changes fade, but not for users who prefer reduced motion: theirs glow and end."""

from __future__ import annotations

from typing import Any

import pytest

import barrage_server as bs
from tests.browser.tab import Tab
from tests.waiting import until

SCHEMA = {"key": "int64", "price": "float64"}
# Notes how strongly rectangles are painted.
STRENGTHS = """
window.strengths = new Set();
const { fillRect } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.fillRect = function (...at) {
  if (strengths.size > 0 || window.isChanged) strengths.add(this.globalAlpha);
  fillRect.apply(this, at);
};
"""


@pytest.fixture(params=["reduce", "no-preference"])
def motion(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def context_options(motion: str) -> dict[str, Any]:
    return {"reduced_motion": motion}


def test_a_change_fades_unless_motion_is_reduced(tab: Tab, server: bs.Server, motion: str) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert({"key": list(range(10)), "price": [1.0] * 10})
    tab.page.add_init_script(STRENGTHS)
    tab.open(server, "t")
    tab.agrees(table)
    tab.page.evaluate("window.isChanged = true")
    table.upsert({"key": [3], "price": [2.0]})
    tab.agrees(table)
    frames: list[int] = []

    def rests() -> bool:
        frames.append(tab.look().frames)
        return len(frames) > 60 and frames[-60] == frames[-1]

    until(rests, what="no further frame", pause=0.02)
    strengths = set(tab.page.evaluate("[...strengths]"))
    assert 1 in strengths
    assert (len(strengths) > 1) == (motion == "no-preference")
    assert tab.page.evaluate("document.getAnimations().length") == 0
