"""The list of tables, and what a view says when its table or its server is away."""

from __future__ import annotations

from urllib.parse import urlsplit

import barrage_server as bs
from tests.browser.tab import Tab
from tests.live.proxy import Proxy
from tests.waiting import until

SCHEMA = {"key": "int64", "name": "string"}


def rows(numbers: range, text: str = "row") -> dict[str, list[object]]:
    return {"key": list(numbers), "name": [f"{text} {number}" for number in numbers]}


def listed(tab: Tab) -> list[list[str]]:
    """Name, kind and rows of each table in the list."""
    lines = """
        [...document.querySelectorAll("table.list tbody tr:not(.details)")].map((line) => [
            line.querySelector("a").textContent, line.children[1].textContent, line.children[2].textContent,
        ])
    """
    found: list[list[str]] = tab.page.evaluate(lines)
    return found


def test_tables_come_grow_and_go(tab: Tab, server: bs.Server) -> None:
    tab.open(server)
    tab.page.get_by_text("The server has no tables yet").wait_for()
    server.append_table("b", SCHEMA).append(rows(range(1234)))
    server.keyed_table("a", SCHEMA, key="key")
    until(lambda: listed(tab) == [["a", "keyed", "0"], ["b", "append", "1,234"]])
    server.drop("a")
    until(lambda: listed(tab) == [["b", "append", "1,234"]])
    tab.page.get_by_label("Search").fill("b nam")
    until(lambda: listed(tab) == [["b", "append", "1,234"]])
    tab.page.get_by_label("Search").fill("nothing like it")
    until(lambda: listed(tab) == [])


def test_a_table_is_opened_from_the_list_and_left_again(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert(rows(range(50)))
    tab.open(server)
    tab.page.get_by_role("link", name="t", exact=True).click()
    tab.agrees(table)
    tab.page.go_back()
    until(lambda: listed(tab) == [["t", "keyed", "50"]])
    until(lambda: not server.statistics().streams, what="the end of the stream")


def test_a_dropped_table_says_so_and_comes_back(tab: Tab, server: bs.Server) -> None:
    server.keyed_table("t", SCHEMA, key="key").upsert(rows(range(5)))
    tab.open(server, "t")
    tab.agrees(server.table("t"))
    server.drop("t")
    look = tab.until(lambda look: look.cover, "the sentence")
    assert look.cover is not None
    assert look.cover.endswith(".") and "t" in look.cover
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert(rows(range(7), "another"))
    tab.agrees(table)


def test_a_table_that_was_never_there_says_so_until_it_is_made(tab: Tab, server: bs.Server) -> None:
    tab.open(server, "later")
    tab.until(lambda look: look.cover and look.cover.endswith("."), "the sentence")
    table = server.append_table("later", SCHEMA)
    table.append(rows(range(3)))
    tab.agrees(table)


def test_no_rows_and_no_columns_are_said(tab: Tab, server: bs.Server) -> None:
    table = server.append_table("t", SCHEMA)
    tab.open(server, "t")
    assert "no rows" in (tab.until(lambda look: look.cover and "Waiting" not in look.cover).cover or "")
    table.append(rows(range(2)))
    tab.agrees(table)
    tab.page.get_by_role("button", name="Columns", exact=True).click()
    tab.page.get_by_role("button", name="Hide all").click()
    assert "hidden" in (tab.until(lambda look: look.cover).cover or "")


def test_a_restarted_server_is_found_again_at_the_same_place(tab: Tab) -> None:
    tab.may_lose_connections = True
    with bs.Server(web_port=0) as server:
        table = server.keyed_table("t", SCHEMA, key="key")
        table.upsert(rows(range(5000)))
        port = urlsplit(server.web_uri or "").port
        tab.open(server, "t", row="3000")
        before = tab.agrees(table)
        assert min(before.rows) == 2999
    lost = tab.until(lambda look: look.stale, "the loss")
    assert lost.rows == before.rows, "what was there stays, grey"
    assert "Old since" in tab.until(lambda look: look.connection.startswith("Connection lost")).connection
    with bs.Server(web_port=port) as server:
        table = server.keyed_table("t", SCHEMA, key="key")
        table.upsert(rows(range(6000), "after"))
        assert sorted(tab.agrees(table).rows) == sorted(before.rows)


def test_the_address_names_the_view(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert(rows(range(1000)))
    tab.open(server, "t", row="701", column="name")
    assert min(tab.agrees(table, ["name"]).rows) == 700
    tab.go_to(10)
    tab.agrees(table, ["name"])
    until(lambda: "row=701" not in tab.page.evaluate("location.href"), what="the address")
    again = tab.page.url
    tab.page.goto("about:blank")
    tab.page.goto(again)
    assert 10 in tab.agrees(table, ["name"]).rows


def test_the_side_view_follows_its_cell(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert(rows(range(1000)))
    tab.open(server, "t", row="1")
    tab.agrees(table)
    tab.focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("Enter")
    tab.cell_says("row 0")
    table.upsert(rows(range(1), "changed"))
    tab.cell_says("changed 0")
    tab.go_to(900)  # whose cells are not here yet
    tab.cell_says("row 900")


def test_the_side_view_has_a_cell_that_is_out_of_view(tab: Tab, server: bs.Server) -> None:
    table = server.append_table("t", SCHEMA)
    table.append({"key": range(1000), "name": ["first" * 1000, *("later" for _ in range(999))]})
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.open(server, "t", column="name")
    assert 999 in tab.agrees(table, ["name"]).rows  # the end is followed, and the active cell is in the first row
    tab.page.get_by_role("button", name="Cell", exact=True).click()
    tab.cell_says("first" * 1000)
    panel = tab.page.get_by_role("complementary", name="Cell")
    assert "Row 1 · string · out of view" in panel.inner_text()
    panel.get_by_role("button", name="Copy").click()
    until(lambda: tab.page.evaluate("navigator.clipboard.readText()") == "first" * 1000, what="the copy")
    tab.go_to(500)
    tab.cell_says("later")


def test_columns_stay_as_the_user_has_them_after_a_lost_connection(tab: Tab, server: bs.Server) -> None:
    tab.may_lose_connections = True
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert(rows(range(100)))
    with Proxy(urlsplit(server.web_uri or "").port or 0) as proxy:
        tab.open(f"http://127.0.0.1:{proxy.port}", "t", column="name")
        tab.agrees(table, ["name"])
        tab.page.get_by_role("button", name="Columns", exact=True).click()
        tab.page.get_by_label("Show key").click()
        tab.agrees(table, ["name", "key"])
        proxy.cut()
        table.upsert(rows(range(50), "while it was away"))
        tab.agrees(table, ["name", "key"])
        assert tab.page.get_by_label("Show key").is_checked()


def test_the_list_comes_back_where_it_was_left(tab: Tab, server: bs.Server) -> None:
    for number in range(100):
        server.append_table(f"t{number:02}", {"x": "int64"})
    tab.open(server)
    link = tab.page.get_by_role("link", name="t77", exact=True)
    link.scroll_into_view_if_needed()
    top = "document.querySelector('main.tables').scrollTop"
    before = tab.page.evaluate(top)
    assert before > 500
    link.click()
    tab.page.locator("main.table").wait_for()
    tab.page.go_back()
    tab.page.locator("main.tables").wait_for()
    assert tab.page.evaluate(top) == before
    tab.page.get_by_role("link", name="Health").click()
    tab.page.locator("main.health").wait_for()
    assert tab.page.evaluate("document.querySelector('main.health').scrollTop") == 0
    tab.page.get_by_role("link", name="Tables").click()
    tab.page.locator("main.tables").wait_for()
    assert tab.page.evaluate(top) == before
