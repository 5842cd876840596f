"""Everything can be reached without a mouse."""

from __future__ import annotations

import re

import barrage_server as bs
from tests.browser.tab import Look, Tab
from tests.waiting import until

SCHEMA = {"key": "int64", "name": "string", "more": "float64"}


def focused(tab: Tab) -> str:
    """What has the focus: its role or element, and its name."""
    found: str = tab.page.evaluate(
        """(() => {
            const at = document.activeElement;
            return `${at.getAttribute("role") ?? at.localName} ${at.getAttribute("aria-label") ?? at.textContent}`;
        })()"""
    )
    return found


def walk(tab: Tab, to: str, key: str = "Tab", most: int = 40) -> None:
    """Press a key until what matches has the focus."""
    for _ in range(most):
        if re.search(to, focused(tab)):
            return
        tab.page.keyboard.press(key)
    raise AssertionError(f"{key} does not lead to {to}; the focus is on {focused(tab)}")


def active(look: Look) -> tuple[int, int] | None:
    found = look.mirror.get("active")
    return found and (found["row"], found["column"])


def at(tab: Tab, row: int, column: int) -> None:
    tab.until(lambda look: active(look) == (row, column), f"the cell {row}, {column}")


def test_the_whole_path_by_keyboard(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("quotes", SCHEMA, key="key")
    table.upsert({"key": list(range(300)), "name": [f"n{n}" for n in range(300)], "more": [n / 8 for n in range(300)]})
    server.append_table("other", SCHEMA)
    press = tab.page.keyboard.press

    # The list: search, columns of a table, the link.
    tab.open(server)
    tab.page.get_by_role("link", name="quotes").wait_for()
    walk(tab, "^input Search tables")
    tab.page.keyboard.type("quot")
    until(lambda: tab.page.get_by_role("link", name="other").count() == 0)
    walk(tab, "Columns of quotes")
    press("Enter")
    tab.page.get_by_text("double").wait_for()
    walk(tab, "^a quotes$", "Shift+Tab")
    press("Enter")

    # The grid has the focus at once.
    tab.agrees(table)
    assert focused(tab).startswith("grid")
    at(tab, 0, 0)
    for key, cell in [
        ("ArrowDown", (1, 0)), ("ArrowRight", (1, 1)), ("End", (1, 2)), ("Home", (1, 0)), ("Control+End", (299, 2)),
        ("Control+Home", (0, 0)), ("Control+ArrowDown", (299, 0)), ("Control+ArrowUp", (0, 0)), ("ArrowUp", (0, 0)),
    ]:  # fmt: skip
        press(key)
        at(tab, *cell)
    press("PageDown")
    tab.until(lambda look: (active(look) or (0, 0))[0] > 10, "a page")
    tab.agrees(table)

    # Go to a row; the grid has the focus again.
    press("g")
    assert focused(tab).startswith("input Go to row")
    tab.page.keyboard.type("201")
    press("Enter")
    at(tab, 200, 0)
    assert focused(tab).startswith("grid")

    # The whole cell, and back.
    press("Enter")
    tab.cell_says("200")
    press("ArrowDown")
    tab.cell_says("201")
    walk(tab, "Close the cell")
    press("Enter")
    until(lambda: tab.page.get_by_label("Value of the cell").count() == 0)
    assert focused(tab).startswith("grid")

    # The menu of a column hides it; the panel shows it again.
    press("ArrowRight")
    at(tab, 201, 1)
    press("Shift+F10")
    walk(tab, "^menuitem Hide", "ArrowDown")
    press("Enter")
    tab.agrees(table, ["key", "more"])
    walk(tab, "^button Columns", "Shift+Tab")
    press("Enter")
    walk(tab, "Show name")
    press("Space")
    tab.agrees(table)
    walk(tab, "Pin to the left: more")
    press("Enter")
    tab.agrees(table, ["more", "key", "name"])
    press("Escape")
    until(lambda: focused(tab).startswith("grid"))

    # Pause, numbers, copy.
    walk(tab, "^button Pause", "Shift+Tab")
    press("Space")
    tab.until(lambda look: "paused" in look.line, "the pause")
    press("Space")
    tab.until(lambda look: "paused" not in look.line, "the end of the pause")
    walk(tab, "^button Numbers")
    press("Enter")
    walk(tab, "2 digits", "ArrowDown")
    press("Enter")
    tab.until(lambda look: look.whole.get(208, [""])[0] == "26.00", "two digits")
    press("Escape")

    # Back to the list.
    walk(tab, "^a (Tables|barrage-server)$", "Shift+Tab")
    press("Enter")
    tab.page.get_by_role("link", name="quotes").wait_for()


def test_what_is_selected_is_copied_with_names_and_beyond_the_window(tab: Tab, server: bs.Server) -> None:
    table = server.append_table("t", SCHEMA)
    names = ["=1+1", 'a "quote"', "a,b", "line\nline", "", None] * 500
    table.append({"key": list(range(3000)), "name": names, "more": [0.5] * 3000})
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.open(server, "t", row="1")
    tab.agrees(table)
    tab.focus()
    tab.page.keyboard.press("Control+Home")
    for key in ("Shift+ArrowDown", "Shift+ArrowRight"):
        tab.page.keyboard.press(key)
    tab.page.keyboard.press("Control+c")
    until(lambda: tab.page.evaluate("navigator.clipboard.readText()") == '0\t=1+1\n1\ta "quote"')
    tab.page.keyboard.press("Control+a")
    tab.page.get_by_role("button", name="Copy", exact=False).first.click()
    tab.page.get_by_role("menuitem", name="Copy as CSV, with names").click()
    texts = ["=1+1", '"a ""quote"""', '"a,b"', '"line\nline"', '""', ""]
    whole = "key,name,more\r\n" + "".join(f"{n},{texts[n % 6]},0.5\r\n" for n in range(3000))
    until(lambda: tab.page.evaluate("navigator.clipboard.readText()") == whole, what="all rows on the clipboard")
