"""Where the system forces its own colours, all that is painted has these, and nothing is told by colour alone."""

from __future__ import annotations

from typing import Any

import pytest

import barrage_server as bs
from tests.browser.tab import Tab
from tests.browser.test_access import findings
from tests.waiting import until

TEXTS = ["CanvasText", "GrayText", "HighlightText", "LinkText", "ButtonText"]
# Areas and lines have them too; lines between cells are fainter, and a selection lets what is below it through.
AREAS = ["Canvas", "Highlight", "ButtonFace", "color-mix(in srgb, CanvasText 25%, Canvas)", "transparent"]
# Notes each colour that the grid is painted with, and which of them are those of texts.
COLOURS = """
window.colours = { all: new Set(), texts: new Set() };
const prototype = CanvasRenderingContext2D.prototype;
for (const name of ["fillText", "fillRect", "fill", "stroke"]) {
  const paint = prototype[name];
  const style = name === "stroke" ? "strokeStyle" : "fillStyle";
  prototype[name] = function (...at) {
    if (this.canvas.isConnected && typeof this[style] === "string") {
      colours.all.add(this[style]);
      if (name === "fillText") colours.texts.add(this[style]);
    }
    return paint.apply(this, at);
  };
}
"""
# The colours of the system as a canvas names them.
NAMED = """(names) => names.map((name) => {
  const context = document.createElement("canvas").getContext("2d");
  const probe = document.createElement("span");
  document.body.append(probe);
  probe.style.setProperty("forced-color-adjust", "none");
  probe.style.color = name;
  context.fillStyle = getComputedStyle(probe).color;
  probe.remove();
  return context.fillStyle;
})"""


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def context_options(scheme: str) -> dict[str, Any]:
    return {"forced_colors": "active", "color_scheme": scheme, "bypass_csp": True}


def contrast(one: str, other: str) -> float:
    """The ratio of luminances of two colours, as WCAG defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_grid_has_the_colours_of_the_system(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", {"key": "int64", "text": "string"}, key="key")
    table.upsert({"key": list(range(200)), "text": [None, "", "text", "more"] * 50})
    tab.page.add_init_script(COLOURS)
    tab.open(server, "t")
    tab.agrees(table)
    tab.focus()
    for key in ("ArrowDown", "Shift+ArrowDown", "Shift+ArrowRight"):
        tab.page.keyboard.press(key)
    table.upsert({"key": [0, 1], "text": ["zzz", "aaa"]})
    tab.agrees(table)
    named = dict(zip(names := TEXTS + AREAS, tab.page.evaluate(NAMED, names), strict=True))
    painted = {name: set(tab.page.evaluate(f"[...colours.{name}]")) for name in ("all", "texts")}
    assert {named[name] for name in ("Canvas", "CanvasText", "Highlight")} <= painted["all"]
    assert painted["all"] <= set(named.values()), named
    assert painted["texts"] <= {named[name] for name in TEXTS}
    assert all(contrast(colour, named["Canvas"]) >= 4.5 for colour in painted["texts"]), painted["texts"]
    assert findings(tab) == []


def test_a_change_has_a_mark_beside_its_colour(tab: Tab, server: bs.Server) -> None:
    """Up and down differ in form: the colours of both may be the same."""
    table = server.keyed_table("t", {"key": "int64", "n": "int64"}, key="key")
    table.upsert({"key": [0, 1], "n": [5, 5]})
    tab.page.add_init_script(
        """
        window.slopes = new Set();
        const { moveTo, lineTo } = CanvasRenderingContext2D.prototype;
        let begin;
        CanvasRenderingContext2D.prototype.moveTo = function (x, y) { begin = y; moveTo.call(this, x, y); };
        CanvasRenderingContext2D.prototype.lineTo = function (x, y) {
          if (begin !== undefined) slopes.add(Math.sign(y - begin));
          begin = undefined;
          lineTo.call(this, x, y);
        };
        """
    )
    tab.open(server, "t")
    tab.agrees(table)

    def marks() -> set[int]:
        """Where the first lines of triangles go: -1 is up. Those of the columns' menus are level."""
        return set(tab.page.evaluate("[...slopes]"))

    tab.page.evaluate("slopes.clear()")
    table.upsert({"key": [0], "n": [9]})
    tab.agrees(table)
    until(lambda: -1 in marks(), what="a mark that points up")
    tab.page.mouse.move(0, 0)
    table.upsert({"key": [1], "n": [1]})
    tab.agrees(table)
    until(lambda: 1 in marks(), what="a mark that points down")


def test_list_plot_and_health_are_found_faultless(tab: Tab, server: bs.Server) -> None:
    table = server.append_table("t", {"x": "int64", "y": "float64"})
    table.append({"x": list(range(1000)), "y": [float(number) for number in range(1000)]})
    tab.open(server)
    tab.page.locator("table.list a").wait_for()
    assert findings(tab) == []
    tab.open(server, "t", plot="", x="x", y="y")
    tab.page.locator(".plot-values tbody tr").wait_for()
    assert findings(tab) == []
    tab.open(server)
    tab.page.get_by_role("link", name="Health").click()
    tab.page.get_by_role("heading", name="Health").wait_for()
    assert findings(tab) == []
