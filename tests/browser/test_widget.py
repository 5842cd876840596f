"""The notebook widget on a page without a notebook: several side by side, among styles that are not its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import barrage_server as bs
from tests.browser.tab import Tab
from tests.browser.test_access import findings
from tests.waiting import until

WIDGET = Path(bs.__file__).parent / "notebook" / "static" / "widget.js"
INDEX = Path(bs.__file__).parent / "server" / "web" / "static" / "index.html"
"""Names its script and its styles."""
HERE = Path(__file__).parent
PLACES = """<main><h1>A notebook</h1><button id="before">Before</button><div id="a"></div><div id="b"></div>
<div style="height: 2000px"></div></main>"""
HOSTILE = """
* { font-size: 40px !important; letter-spacing: 5px !important; }
canvas, .grid, .toolbar, .surface, button:not(#before) { display: none !important; }
"""
SCHEMA = {"key": "int64", "name": "string"}
BOTH = ["n:a", "n:b", "n:c"]


@pytest.fixture
def context_options() -> dict[str, Any]:
    """axe is put into the page."""
    return {"bypass_csp": True, "viewport": {"width": 1000, "height": 800}}


class Widgets:
    """A page with places for two widgets."""

    def __init__(self, tab: Tab, server: bs.Server, style: str = "") -> None:
        self.tab = tab
        self.page = tab.page
        self.page.add_init_script(path=HERE / "watch_canvases.js")
        for name, body in {
            "page.js": (HERE / "widget_page.js").read_text(encoding="utf-8"),
            "widget.js": WIDGET.read_text(encoding="utf-8"),
            "page.css": style,
            "early.js": "",
        }.items():
            kind = "text/css" if name.endswith("css") else "text/javascript"
            self.page.route(f"**/static/{name}", self._answer(kind, body))
        # Another page in a document of the server's: only from there are websockets to it allowed.
        self.page.goto(f"{server.web_uri}/static/LICENSES.txt")
        self.page.set_content(INDEX.read_text(encoding="utf-8"))
        until(lambda: self.page.evaluate("typeof show") == "function", what="the page")
        self.page.evaluate("(places) => { document.body.innerHTML = places; }", PLACES)

    def _answer(self, kind: str, body: str) -> Callable[[Any], None]:
        return lambda route: route.fulfill(content_type=f"{kind}; charset=utf-8", body=body)

    def show(self, place: str, **traits: Any) -> None:
        self.page.evaluate("([place, traits]) => show(place, traits)", [place, traits])

    def painted(self, place: str) -> list[str]:
        canvas = self.page.locator(f"#{place} .surface canvas")
        return [] if canvas.count() == 0 else canvas.evaluate("(canvas) => paintedTexts(canvas)")

    def names(self, place: str) -> list[str]:
        return sorted(text for text in self.painted(place) if text.startswith("n:"))

    def shows(self, place: str, names: list[str]) -> None:
        until(lambda: self.names(place) == names, what=f"{names} in {place}, {self.painted(place)}")


def filled(server: bs.Server, name: str = "t") -> bs.KeyedTable:
    table = server.keyed_table(name, SCHEMA, key="key")
    table.upsert({"key": [1, 2, 3], "name": BOTH})
    return table


def test_two_tick_side_by_side_and_neither_style_reaches_the_other(tab: Tab, server: bs.Server) -> None:
    table, other = filled(server), filled(server, "u")
    widgets = Widgets(tab, server, HOSTILE)
    look = """(element) => {
        const style = getComputedStyle(element);
        return JSON.stringify([...style].map((name) => [name, style.getPropertyValue(name)]));
    }"""
    outside = [tab.page.locator(place) for place in ("main > h1", "#before")]
    before = [json.loads(element.evaluate(look)) for element in outside]
    widgets.show("a", _target={"table": "t", "title": "t"})
    widgets.show("b", _target={"table": "u", "title": "u"})
    widgets.shows("a", BOTH)
    widgets.shows("b", BOTH)
    assert [json.loads(element.evaluate(look)) for element in outside] == before
    heading = tab.page.locator("#a .toolbar h1")
    assert heading.evaluate("(element) => getComputedStyle(element).fontSize") == "15px"
    assert heading.evaluate("(element) => getComputedStyle(element).letterSpacing") == "normal"
    table.upsert({"key": [2], "name": ["n:B"]})
    widgets.shows("a", ["n:B", "n:a", "n:c"])
    other.delete({"key": [1]})
    widgets.shows("b", BOTH[1:])
    # A panel of one, a menu of the other.
    tab.page.locator("#a").get_by_role("button", name="Columns").click()
    tab.page.locator("#b").get_by_role("button", name="Copy").click()
    assert tab.page.get_by_role("menu").count() == 1
    tab.page.locator("#a").get_by_label("Show name").click()
    until(lambda: tab.page.get_by_role("menu").count() == 0, what="the end of the menu")
    until(lambda: "name" not in widgets.painted("a"), what="the hidden column")
    assert "name" in widgets.painted("b")


def test_it_takes_no_focus_and_no_keys_before_it_has_it(tab: Tab, server: bs.Server) -> None:
    filled(server)
    widgets = Widgets(tab, server)
    tab.page.locator("#before").focus()
    tab.page.evaluate("window.heard = []; addEventListener('keydown', (event) => heard.push(event.key))")
    widgets.show("a", _target={"table": "t", "title": "t"})
    widgets.shows("a", BOTH)
    assert tab.page.evaluate("document.activeElement.id") == "before"
    grid = tab.page.locator('#a [role="grid"]')
    tab.page.keyboard.press("ArrowDown")
    assert tab.page.evaluate("heard") == ["ArrowDown"]
    until(lambda: grid.get_attribute("aria-activedescendant") is not None, what="the active cell")
    active = grid.get_attribute("aria-activedescendant")
    grid.focus()
    for key in ("ArrowDown", "d", "Escape", "Control+a"):
        tab.page.keyboard.press(key)
    tab.page.keyboard.press("Control+s")
    assert tab.page.evaluate("heard") == ["ArrowDown", "Control", "Control", "s"]
    until(lambda: grid.get_attribute("aria-activedescendant") != active, what="the next cell")


def test_a_turn_of_the_wheel_that_began_outside_goes_on_there(tab: Tab, server: bs.Server) -> None:
    table = server.append_table("t", SCHEMA)
    table.append({"key": list(range(500)), "name": ["n:x"] * 500})
    widgets = Widgets(tab, server)
    widgets.show("a", _target={"table": "t", "title": "t"})
    until(lambda: "n:x" in widgets.painted("a"), what="the rows")
    tab.page.mouse.move(20, 20)
    tab.page.mouse.wheel(0, 60)
    until(lambda: tab.page.evaluate("scrollY") == 60, what="the page's scrolling")
    before = widgets.painted("a")
    tab.page.evaluate("""() => {
        const turn = (target) => target.dispatchEvent(
            new WheelEvent('wheel', {deltaY: -50, bubbles: true, composed: true, cancelable: true}));
        const { shadowRoot } = document.querySelector('#a .barrage-widget');
        window.takesTurn = () => !turn(shadowRoot.querySelector('.surface'));
        turn(document.body);
        window.taken = takesTurn();
    }""")
    assert tab.page.evaluate("taken") is False
    until(lambda: tab.page.evaluate("takesTurn()"), what="a turn of its own", pause=0.4)
    until(lambda: widgets.painted("a") != before, what="the grid's scrolling")


def test_a_display_ends_and_leaves_nothing(tab: Tab, server: bs.Server) -> None:
    filled(server)
    widgets = Widgets(tab, server)
    widgets.show("a", _target={"table": "t", "title": "t"})
    widgets.show("b", _target={"table": "t", "title": "t"}, plot={"ys": ["key"]})
    widgets.shows("a", BOTH)
    values = tab.page.locator("#b .plot-values tbody")
    until(lambda: values.inner_text().split() == ["key", "3", "1", "3"], what="the plot")
    assert len(server.statistics().streams) == 2
    tab.page.evaluate("widgets.forEach(({end}) => end())")
    until(lambda: not server.statistics().streams, what="the end of the streams")
    assert tab.page.locator(".barrage-widget").count() == 0
    assert tab.page.evaluate("widgets.map(({model}) => model.listeners())") == [0, 0]
    kinds = [(one["kind"], one["link"]) for one in tab.page.evaluate("said")]
    assert {link for kind, link in kinds if kind == "open"} == {link for kind, link in kinds if kind == "close"}


def test_a_lost_link_says_why_and_comes_back_at_the_same_place(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert({"key": list(range(500)), "name": ["n:x"] * 500})
    widgets = Widgets(tab, server)
    widgets.show("a", _target={"table": "t", "title": "t"})
    tab.page.locator("#a").get_by_label("Go to row").fill("300")
    tab.page.locator("#a").get_by_label("Go to row").press("Enter")
    until(lambda: "300" in widgets.painted("a"), what="the row")
    tab.page.evaluate("""
        window.told = [];
        const line = document.querySelector('#a .barrage-widget').shadowRoot.querySelector('.connection');
        new MutationObserver(() => told.push(line.textContent)).observe(line, {childList: true, subtree: true});
        widgets[0].model.cut();
    """)
    until(lambda: any("The kernel was tired." in text for text in tab.page.evaluate("told")), what="the reason")
    table.upsert({"key": [299], "name": ["n:new"]})
    until(lambda: "n:new" in widgets.painted("a"), what="the change")
    assert tab.page.locator("#a .connection").is_hidden()


@pytest.mark.parametrize("come", [False, True], ids=["before they have come", "before they are painted"])
@pytest.mark.parametrize("kind", ["keyed", "append"])
def test_a_row_may_be_entered_before_the_first_rows(tab: Tab, server: bs.Server, kind: str, come: bool) -> None:
    rows = {"key": list(range(500)), "name": [f"n:{row + 1}" for row in range(500)]}
    if kind == "keyed":
        server.keyed_table("t", SCHEMA, key="key").upsert(rows)
    else:
        server.append_table("t", SCHEMA).append(rows)
    widgets = Widgets(tab, server)
    tab.page.evaluate(
        """(come) => {
        const frames = [];
        const shadow = () => document.querySelector("#a .barrage-widget").shadowRoot;
        window.enter = () => {
            const row = shadow().querySelector("[aria-label='Go to row']");
            if (row === null) return false;
            row.value = "300";
            row.form.requestSubmit();
            return true;
        };
        const { requestAnimationFrame } = window;
        if (come) window.requestAnimationFrame = (run) => frames.push(run);
        show("a", {_target: {table: "t", title: "t"}});
        window.paintAgain = () => {
            window.requestAnimationFrame = requestAnimationFrame;
            frames.forEach((run) => requestAnimationFrame(run));
        };
        if (come) return;
        const watch = new MutationObserver(() => { if (enter()) watch.disconnect(); });
        watch.observe(shadow(), {childList: true, subtree: true});
    }""",
        come,
    )
    if come:
        lag = tab.page.locator("#a .lag")
        until(lambda: lag.count() == 1 and lag.inner_text() != "", what="the first rows")
        assert widgets.painted("a") == []
        assert tab.page.evaluate("enter()")
        tab.page.evaluate("paintAgain()")
    until(lambda: "n:300" in widgets.painted("a"), what="the row")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("Enter")
    until(lambda: "n:301" in tab.page.locator("#a .panel").inner_text(), what="a cell below it")


def test_traits_change_what_is_shown(tab: Tab, server: bs.Server) -> None:
    filled(server)
    widgets = Widgets(tab, server)
    tab.page.evaluate("document.getElementById('a').style.display = 'none'")
    widgets.show("a", _target=json.dumps({"table": "t", "title": "t"}), theme="dark", height=250)
    tab.page.evaluate("document.getElementById('a').style.display = ''")
    widgets.shows("a", BOTH)
    inner = tab.page.locator("#a .widget")
    colour = "(element) => getComputedStyle(element).backgroundColor"
    assert inner.evaluate(colour) == "rgb(18, 22, 27)"
    assert inner.bounding_box()["height"] == 250
    tab.page.evaluate("widgets[0].model.set('height', 350); widgets[0].model.set('theme', 'light')")
    until(lambda: inner.evaluate(colour) == "rgb(255, 255, 255)", what="the light theme")
    assert inner.bounding_box()["height"] == 350
    tab.page.evaluate("widgets[0].model.set('theme', 'auto'); document.body.dataset.jpThemeLight = 'false'")
    until(lambda: inner.evaluate(colour) == "rgb(18, 22, 27)", what="the notebook's theme")
    tab.page.evaluate("widgets[0].model.set('plot', {ys: ['key']})")
    until(lambda: tab.page.locator("#a .plot-values tbody").inner_text().startswith("key"), what="the plot")


def test_it_is_taken_away_and_comes_back(tab: Tab, server: bs.Server) -> None:
    """As a notebook does with what is not in view."""
    table = filled(server)
    widgets = Widgets(tab, server)
    widgets.show("a", _target={"table": "t", "title": "t"})
    widgets.show("b", _target={"table": "t", "title": "t"}, plot={"ys": ["key"]})
    widgets.shows("a", BOTH)
    values = tab.page.locator("#b .plot-values tbody")
    until(lambda: values.count() == 1 and values.inner_text().split() == ["key", "3", "1", "3"], what="the plot")
    tab.page.evaluate("""() => {
        window.kept = ["a", "b"].map((id) => document.getElementById(id));
        kept.forEach((element) => element.remove());
        document.body.dataset.jpThemeLight = "false";
    }""")
    for number in range(5):
        table.upsert({"key": [2 + number], "name": [f"n:{number}"]})
    tab.page.evaluate("kept.forEach((element) => document.getElementById('before').before(element))")
    widgets.shows("a", ["n:0", "n:1", "n:2", "n:3", "n:4", "n:a"])
    until(lambda: values.inner_text().split() == ["key", "6", "1", "6"], what="the plot as it is now")
    colour = "(element) => getComputedStyle(element).backgroundColor"
    assert tab.page.locator("#a .widget").evaluate(colour) == "rgb(18, 22, 27)"
    canvas = tab.page.locator("#a .surface canvas")
    pixel = "(canvas) => [...canvas.getContext('2d').getImageData(canvas.width - 5, canvas.height - 5, 1, 1).data]"
    until(lambda: canvas.evaluate(pixel) == [18, 22, 27, 255], what="the dark grid")


HIDDEN = {
    "scrolled away": ("scrollTo(0, document.body.scrollHeight)", "scrollTo(0, 0)"),
    "in a hidden tab of the notebook": (
        "document.getElementById('tab').style.display = 'none'",
        "document.getElementById('tab').style.display = ''",
    ),
    "in a place that scrolls": (
        "document.getElementById('tab').scrollTo(0, 3000)",
        "document.getElementById('tab').scrollTo(0, 0)",
    ),
}
TABS = """<main><h1>A notebook</h1>
<div id="tab" style="height: 350px; overflow: auto"><div id="a"></div><div style="height: 3000px"></div></div>
<div style="height: 3000px"></div><div id="b" style="position: fixed; top: 400px; width: 100%"></div></main>"""


@pytest.mark.parametrize("how", HIDDEN)
@pytest.mark.parametrize("plot", [None, {"ys": ["key"]}], ids=["grid", "plot"])
def test_what_is_not_in_view_is_not_painted_and_its_updates_not_acknowledged(
    tab: Tab, server: bs.Server, plot: dict[str, list[str]] | None, how: str
) -> None:
    table = filled(server)
    widgets = Widgets(tab, server)
    tab.page.evaluate("(places) => { document.body.innerHTML = places; }", TABS)
    widgets.show("a", _target={"table": "t", "title": "t"}, plot=plot)
    widgets.show("b", _target={"table": "t", "title": "t"})
    widgets.shows("b", BOTH)
    acknowledged = "widgets[0].model.acknowledged()"
    greatest = tab.page.locator("#a .plot-values tbody")

    def names(least: int, last: int) -> list[str]:
        return sorted(f"n:{key}" for key in range(least, last + 1))

    def shows(least: int, last: int) -> bool:
        if plot is None:
            return widgets.names("a") == names(least, last)
        values: str = greatest.inner_text()
        return values.split()[-1:] == [str(last)]

    def wait(least: int, last: int) -> None:
        until(lambda: shows(least, last), what=f"the rows {least} to {last}")

    hide, again = HIDDEN[how]
    for first in (100, 200):
        table.delete({"key": table.to_arrow()["key"].to_pylist()})
        table.upsert({"key": [first], "name": [f"n:{first}"]})
        wait(first, first)
        tab.page.evaluate(
            """(hide) => new Promise((told) => {
                eval(hide);
                // Told after the widget, whose observer is older.
                new IntersectionObserver(([entry]) => entry.isIntersecting || told())
                    .observe(document.querySelector('#a .barrage-widget'));
            })""",
            hide,
        )
        before, painted = tab.page.evaluate(acknowledged), widgets.painted("a")
        for key in range(first + 1, first + 9):
            table.upsert({"key": [key], "name": [f"n:{key}"]})
            widgets.shows("b", names(first, key))
        # A frame that was under way may still have been painted.
        assert tab.page.evaluate(acknowledged) <= before + 1
        assert not shows(first, first + 8)
        if plot is None:
            assert widgets.painted("a") == painted or "n:" + str(first + 2) not in widgets.painted("a")
        tab.page.evaluate(again)
        wait(first, first + 8)
    tab.page.evaluate("widgets.forEach(({end}) => end())")  # or they would miss the server


def test_keys_in_a_grid_out_of_view_are_followed(tab: Tab, server: bs.Server) -> None:
    """Screen readers get the active cell, wherever the notebook is scrolled to."""
    filled(server)
    widgets = Widgets(tab, server)
    widgets.show("a", _target={"table": "t", "title": "t"})
    widgets.shows("a", BOTH)
    grid = tab.page.locator('#a [role="grid"]')
    grid.focus()
    active = "(grid) => grid.getRootNode().getElementById(grid.getAttribute('aria-activedescendant'))?.textContent"
    until(lambda: grid.evaluate(active) == "1", what="the first cell")
    tab.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    tab.page.keyboard.press("ArrowDown")
    until(lambda: grid.evaluate(active) == "2", what="the next cell")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(tab: Tab, server: bs.Server, theme: str) -> None:
    filled(server)
    widgets = Widgets(tab, server)
    widgets.show("a", _target={"table": "t", "title": "t"}, theme=theme)
    widgets.show("b", _target={"table": "t", "title": "t"}, theme=theme, plot={"ys": ["key"]})
    widgets.shows("a", BOTH)
    until(lambda: tab.page.locator("#b .plot-values tbody").inner_text().startswith("key"), what="the plot")
    assert findings(tab) == []
    tab.page.locator('#a [role="grid"]').focus()
    tab.page.keyboard.press("Enter")
    tab.page.get_by_label("Value of the cell").wait_for()
    tab.page.locator('#a [role="grid"]').focus()
    tab.page.keyboard.press("Shift+F10")
    tab.page.get_by_role("menu").wait_for()
    assert findings(tab) == []
