"""axe finds nothing on any view, light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import barrage_server as bs
from barrage_server.server import Limits
from tests.browser.tab import Tab

AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = pytest.mark.parametrize("scheme", ["light", "dark"])


@pytest.fixture
def context_options(scheme: str) -> dict[str, Any]:
    """axe is put into the page, which its policy forbids."""
    return {"bypass_csp": True, "color_scheme": scheme}


def findings(tab: Tab) -> list[str]:
    assert AXE.exists(), "axe is missing: run `make browser`, which installs it."
    tab.page.evaluate(AXE.read_text(encoding="utf-8"))
    found = tab.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:120] for node in one['nodes']]}" for one in found["violations"]
    ]


def test_list_and_log_in(tab: Tab, scheme: str) -> None:
    with bs.Server(web_port=0, token="secret") as server:
        server.append_table("t", {"x": "int64", "text": "string"}).append({"x": [1], "text": ["a"]})
        tab.open(server)
        tab.page.get_by_label("Token").fill("wrong")
        tab.page.get_by_role("button", name="Log in").click()
        tab.page.get_by_text("does not accept").wait_for()
        assert findings(tab) == []
        tab.page.get_by_label("Token").fill("secret")
        tab.page.get_by_role("button", name="Log in").click()
        tab.page.get_by_role("button", name="Columns of t").click()
        assert findings(tab) == []


def test_grid_with_panels_menu_and_sentences(tab: Tab, server: bs.Server, scheme: str) -> None:
    table = server.keyed_table("t", {"x": "int64", "text": "string"}, key="x")
    table.upsert({"x": list(range(200)), "text": [None, ""] * 100})
    tab.open(server, "t")
    tab.agrees(table)
    assert findings(tab) == []
    tab.focus()
    tab.page.keyboard.press("Enter")
    tab.page.get_by_label("Value of the cell").wait_for()
    assert findings(tab) == []
    tab.page.get_by_role("button", name="Columns", exact=True).click()
    tab.page.get_by_label("Show text").wait_for()
    assert findings(tab) == []
    tab.focus()
    tab.page.keyboard.press("Shift+F10")
    tab.page.get_by_role("menu").wait_for()
    assert findings(tab) == []
    tab.page.get_by_role("menuitem", name="Numbers").click()
    tab.page.get_by_role("menu", name="Numbers of x").wait_for()
    assert findings(tab) == []
    tab.page.keyboard.press("Escape")
    server.drop("t")
    tab.until(lambda look: look.cover, "the sentence")
    assert findings(tab) == []


def test_plot(tab: Tab, server: bs.Server, scheme: str) -> None:
    server.append_table("t", {"x": "int64", "y": "float64"}).append({"x": range(100), "y": [None, 2.0] * 50})
    tab.open(server, "t", plot="", x="x", y="y")
    tab.page.get_by_role("row", name="y 2 2 2").wait_for()
    assert findings(tab) == []
    tab.page.locator("summary").click()
    tab.page.get_by_label("y", exact=True).wait_for()
    assert findings(tab) == []


def test_health(tab: Tab, scheme: str) -> None:
    """With a follower, and rows near a limit."""
    with bs.Server(web_port=0, limits=Limits(sessions=2)) as server:
        table = server.keyed_table("t", {"x": "int64"}, key="x")
        table.upsert({"x": [1, 2]})
        with tab.page.context.new_page() as other:
            other.goto(f"{server.web_uri}/#table=t")
            tab.open(server)
            tab.page.evaluate("location.hash = '#health'")
            tab.page.get_by_role("heading", name="Tables").wait_for()
            followers = tab.page.locator(".health section", has=tab.page.get_by_role("heading", name="Followers"))
            followers.get_by_role("cell", name="t", exact=True).wait_for()
            assert findings(tab) == []
