"""The widget in a real JupyterLab: it ticks, keeps its keys, and leaves nothing on a server after a restart."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import barrage_server as bs
from tests.browser.lab import ROOT, Lab, Notebook, running_lab, write_notebook
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytestmark = pytest.mark.timeout(300)
SCHEMA = {"key": "int64", "name": "string"}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with running_lab(tmp_path) as running:
        yield running


@pytest.fixture
def context_options() -> dict[str, object]:
    """As tall as a notebook: JupyterLab makes what is in view only."""
    return {"viewport": {"width": 1300, "height": 2000}}


def test_the_example_ticks_and_plots(lab: Lab, context: BrowserContext) -> None:
    shutil.copy(ROOT / "examples" / "notebook.ipynb", lab.folder)
    notebook = lab.open(context, "notebook.ipynb")
    notebook.run_all()
    until(lambda: notebook.page.locator(".barrage-widget").count() == 3 or notebook.errors(), what="three widgets")
    assert notebook.errors() == []
    for number in (0, 1):
        ticks(notebook, number)
    assert not {"sym", "price", "size", "time"} - set(notebook.painted(0))
    assert not {"sym", "price", "size"} - set(notebook.painted(1))
    values = notebook.widget(2).locator(".plot-values tbody")
    until(lambda: values.inner_text().startswith("price"), what="the plot")
    shown = values.inner_text()
    until(lambda: values.inner_text() != shown, what="a tick of the plot")
    assert notebook.widget(2).locator(".u-over").count() == 1
    # From the grid to a plot and back, within the widget.
    notebook.widget(0).get_by_role("button", name="Plot").click()
    until(lambda: notebook.widget(0).locator(".plot-values tbody").inner_text().startswith("price"), what="its plot")
    notebook.widget(0).get_by_role("button", name="Table").click()
    until(lambda: "ACME" in notebook.painted(0), what="its rows")


def ticks(notebook: Notebook, number: int) -> None:
    until(lambda: {"ACME", "BOLT", "COGS"} <= set(notebook.painted(number)), what="the rows")
    before = notebook.painted(number)
    until(lambda: notebook.painted(number) != before, what="a tick")


def shows(notebook: Notebook, number: int, names: list[str]) -> None:
    until(lambda: rows(notebook, number) == names or notebook.errors(), what="the rows")
    assert notebook.errors() == []


def rows(notebook: Notebook, number: int = 0) -> list[str]:
    """The painted cells of the column ``name``."""
    return sorted(text for text in notebook.painted(number) if text.startswith("n:"))


def test_a_server_elsewhere_has_no_stream_left_after_a_restart(lab: Lab, context: BrowserContext) -> None:
    with bs.Server(port=0) as server:
        table = server.keyed_table("t", SCHEMA, key="key")
        table.upsert({"key": [1, 2, 3], "name": ["n:a", "n:b", "n:c"]})
        connect = f"import barrage_server as bs\nclient = bs.connect({server.uri!r})\nlive = client.subscribe('t')"
        write_notebook(lab.folder / "n.ipynb", connect, "widget = live.widget(height=260)\nwidget", "widget")
        notebook = lab.open(context, "n.ipynb")
        notebook.run_all()
        for number in (0, 1):
            shows(notebook, number, ["n:a", "n:b", "n:c"])
        assert notebook.page.locator(".barrage-widget").count() == 2

        keys_are_those_of_the_grid(notebook)
        themes_are_those_of_the_notebook(notebook)

        # Two displays of one widget, each with its own view.
        notebook.widget(1).get_by_role("button", name="Columns").click()
        notebook.widget(1).get_by_label("Show key").click()
        table.upsert({"key": [2], "name": ["n:B"]})
        for number in (0, 1):
            shows(notebook, number, ["n:B", "n:a", "n:c"])
        until(lambda: "key" not in notebook.painted(1), what="the hidden column")
        assert "key" in notebook.painted(0)

        assert server.statistics().streams
        notebook.restart()
        until(lambda: not server.statistics().streams, what="the end of all streams")
        until(lambda: "Connection lost" in notebook.widget(0).locator(".connection").inner_text(), what="the sentence")
        notebook.until_idle()
        notebook.run_all()
        for number in (0, 1):
            shows(notebook, number, ["n:B", "n:a", "n:c"])


def keys_are_those_of_the_grid(notebook: Notebook) -> None:
    page = notebook.page
    cells = notebook.cells
    grid = notebook.widget(0).locator('[role="grid"]')
    # Without the focus they are the notebook's: b makes a cell below.
    page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").first.click()
    page.keyboard.press("b")
    until(lambda: notebook.cells == cells + 1, what="a cell below")
    page.keyboard.press("z")
    until(lambda: notebook.cells == cells, what="the cells as before")
    notebook.widget(0).locator(".surface").click(position={"x": 100, "y": 60})
    active = grid.get_attribute("aria-activedescendant")
    for key in ("d", "d", "a", "b", "x", "ArrowDown"):
        page.keyboard.press(key)
    until(lambda: grid.get_attribute("aria-activedescendant") != active, what="the next cell")
    page.keyboard.press("Shift+F10")
    menu = page.get_by_role("menu")
    menu.wait_for()
    box, place = menu.bounding_box(), notebook.widget(0).bounding_box()
    assert box is not None
    assert place is not None
    assert place["y"] < box["y"] < place["y"] + place["height"]
    page.keyboard.press("Escape")
    menu.wait_for(state="detached")
    page.keyboard.press("g")
    field = notebook.widget(0).get_by_label("Go to row")
    page.keyboard.type("1")
    assert field.input_value() == "1"
    page.keyboard.press("Enter")
    assert notebook.cells == cells
    # Copying.
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("Control+Home")
    page.keyboard.press("Shift+End")
    page.keyboard.press("Control+c")
    until(lambda: page.evaluate("navigator.clipboard.readText()") == "1\tn:a", what="the copy")


def themes_are_those_of_the_notebook(notebook: Notebook) -> None:
    widget = notebook.widget(0)
    assert widget.get_attribute("data-theme") == "light"
    notebook.command("apputils:change-theme", theme="JupyterLab Dark")
    until(lambda: widget.get_attribute("data-theme") == "dark", what="the dark theme")
    back = "(host) => getComputedStyle(host.shadowRoot.querySelector('.widget')).backgroundColor"
    assert widget.evaluate(back) == "rgb(18, 22, 27)"
