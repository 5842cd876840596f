"""Numbers are shown as chosen for the page or for their column; the address says so, and a copy has every digit."""

from __future__ import annotations

from urllib.parse import parse_qs

import barrage_server as bs
from tests.browser.tab import Tab
from tests.browser.test_keyboard import focused, walk
from tests.waiting import until

SCHEMA = {"key": "int64", "price": "float64", "size": "float64", "name": "string"}
ROW = {"key": 1_234_567, "price": 98_765.4321, "size": 0.000125, "name": "a"}


def first_row(tab: Tab, expected: list[str]) -> None:
    """Wait until the first row is painted and read like this."""
    tab.until(lambda look: look.rows.get(0) == look.whole.get(0) == expected, f"the row {expected}")


def formats(tab: Tab) -> list[str]:
    """What the address says of numbers."""
    return parse_qs(tab.page.evaluate("location.hash.slice(1)")).get("format", [])


def choose(tab: Tab, *labels: str) -> None:
    """Choose entries of the menu of the active column's numbers, by keyboard."""
    for label in labels:
        tab.page.keyboard.press("Shift+F10")
        walk(tab, "^menuitem Numbers", "ArrowDown")
        tab.page.keyboard.press("Enter")
        walk(tab, f"^menuitem(radio|checkbox) {label}$", "ArrowDown")
        tab.page.keyboard.press("Enter")
        assert focused(tab).startswith("grid")


def test_a_column_has_its_own_format_by_keyboard(tab: Tab, server: bs.Server) -> None:
    server.keyed_table("t", SCHEMA, key="key").upsert({name: [value] for name, value in ROW.items()})
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.open(server, "t")
    first_row(tab, ["1234567", "98765.4321", "0.000125", "a"])
    tab.focus()
    press = tab.page.keyboard.press

    press("ArrowRight")
    choose(tab, "2 digits", "Group thousands")
    first_row(tab, ["1234567", "98,765.43", "0.000125", "a"])
    press("ArrowRight")
    choose(tab, "Scientific")
    first_row(tab, ["1234567", "98,765.43", "1.25e-4", "a"])
    until(lambda: formats(tab) == ["2g price", "e size"], what="the address")

    # What is chosen for the page goes for the other columns.
    tab.page.get_by_role("button", name="Numbers").click()
    tab.page.get_by_role("menuitemcheckbox", name="Group thousands").click()
    first_row(tab, ["1,234,567", "98,765.43", "1.25e-4", "a"])
    until(lambda: formats(tab) == ["g", "2g price", "e size"], what="the address")

    # A copy has every digit.
    tab.focus()
    press("Control+a")
    press("Control+c")
    until(lambda: tab.page.evaluate("navigator.clipboard.readText()") == "1234567\t98765.4321\t0.000125\ta")

    # The same columns in another order of rows, and at the next visit.
    for go in (lambda: tab.page.evaluate("location.hash += '&sort=key'"), tab.page.reload):
        go()
        first_row(tab, ["1,234,567", "98,765.43", "1.25e-4", "a"])

    tab.focus()
    press("Home")
    for _ in range(2):
        press("ArrowRight")
    choose(tab, "As the page")
    first_row(tab, ["1,234,567", "98,765.43", "0.000125", "a"])
    choose(tab, "All digits")
    until(lambda: formats(tab) == ["g", "2g price", "g size"], what="the address")


def test_a_link_brings_the_formats_with_it(tab: Tab, server: bs.Server) -> None:
    server.keyed_table("t", SCHEMA, key="key").upsert({name: [value] for name, value in ROW.items()})
    tab.open(server, "t")
    first_row(tab, ["1234567", "98765.4321", "0.000125", "a"])
    tab.page.goto("about:blank")
    tab.page.goto(f"{server.web_uri}/#table=t&format=0e&format=exact+price&format=3+gone&format=nonsense+size")
    first_row(tab, ["1e+6", "98765.4321", "1e-4", "a"])


def test_a_column_without_numbers_has_no_such_menu(tab: Tab, server: bs.Server) -> None:
    server.keyed_table("t", SCHEMA, key="key").upsert({name: [value] for name, value in ROW.items()})
    tab.open(server, "t")
    first_row(tab, ["1234567", "98765.4321", "0.000125", "a"])
    tab.focus()
    tab.page.keyboard.press("End")
    tab.page.keyboard.press("Shift+F10")
    menu = tab.page.get_by_role("menu", name="Column name")
    menu.get_by_role("menuitem", name="Hide").wait_for()
    assert menu.get_by_role("menuitem", name="Numbers").count() == 0
