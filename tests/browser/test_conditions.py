"""Conditions in the browser: what is wrong with one, and how it is mended."""

from __future__ import annotations

import barrage_server as bs
from tests.browser.tab import Tab
from tests.waiting import until

SCHEMA = {"key": "int64", "price": "float64"}


def test_a_wrong_condition_stays_in_its_field_and_is_mended_there(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert({"key": list(range(9)), "price": [n / 2 for n in range(9)]})
    tab.open(server, "t")
    tab.agrees(table)
    tab.page.get_by_role("button", name="Filter").click()
    field = tab.page.get_by_label("Only rows where")
    field.fill("key < 5")
    field.press("Enter")
    tab.until(lambda look: len(look.rows) == 5, "the rows")
    field.fill("prise > 1")
    field.press("Enter")
    problem = tab.page.locator(".query .problem")
    until(lambda: "prise" in (problem.text_content() or ""), what="the error")
    assert "failed:" not in (problem.text_content() or "")
    assert field.input_value() == "prise > 1"
    assert tab.look().cover is None
    below, above = problem.bounding_box(), field.bounding_box()
    assert below is not None
    assert above is not None
    assert 0 <= below["y"] - above["y"] - above["height"] < 20
    field.fill("price > 1")
    field.press("Enter")
    look = tab.until(lambda look: [cells[:1] for cells in look.rows.values()] == [["3"], ["4"]], "the rows")
    assert look.cover is None
    assert not problem.is_visible()
    # A condition is changed by its chip.
    tab.page.get_by_role("button", name="where key < 5", exact=True).click()
    assert field.input_value() == "key < 5"
    field.fill("key < 4")
    field.press("Enter")
    tab.until(lambda look: [cells[:1] for cells in look.rows.values()] == [["3"]], "the row")
    assert tab.page.locator(".query .parts li").count() == 2


def test_no_match_is_said_and_no_condition_goes_silently(tab: Tab, server: bs.Server) -> None:
    server.keyed_table("t", SCHEMA, key="key").upsert({"key": [1], "price": [1.0]})
    tab.open(server, "t", where="key > 1")
    tab.until(lambda look: look.cover and look.cover.startswith("No row matches."), "the sentence")
    field = tab.page.get_by_label("Only rows where")
    for n in range(2, 9):
        field.fill(f"key > {n}")
        field.press("Enter")
        until(lambda n=n: tab.page.locator(".query .parts li").count() == n, what="the condition")  # type: ignore[misc]
    field.fill("key > 9")
    field.press("Enter")
    tab.page.get_by_text("A view has at most 8 conditions").wait_for()
    assert tab.page.locator(".query .parts li").count() == 8
    assert field.input_value() == "key > 9"


def test_a_sorted_column_has_a_mark(tab: Tab, server: bs.Server) -> None:
    server.keyed_table("t", SCHEMA, key="key").upsert({"key": [1, 2], "price": [1.0, 2.0]})
    tab.open(server, "t", **{"sort-down": "price"})
    look = tab.until(lambda look: look.rows.get(0) == ["2", "2"], "the rows")
    assert look.names == ["key", "price \u25bc"]
    heads = '[...document.querySelectorAll("[role=columnheader]")].map((head) => head.getAttribute("aria-sort"))'
    until(lambda: tab.page.evaluate(heads) == [None, "descending"], what="the mark for screen readers")


def test_a_key_column_is_marked(tab: Tab, server: bs.Server) -> None:
    """In the header and for screen readers, and also of rows that are picked."""
    server.keyed_table("t", SCHEMA, key="key").upsert({"key": [1, 2], "price": [1.0, 2.0]})
    heads = '[...document.querySelectorAll("[role=columnheader]")].map((head) => head.getAttribute("aria-description"))'
    for fields in ({}, {"where": "key > 1"}):
        tab.open(server, "t", **fields)
        look = tab.until(lambda look: ["2", "2"] in look.rows.values(), "the rows")
        assert look.names == ["key", "price"]
        assert [look.types[name] for name in look.names] == ["int64 \u00b7 key", "double"]
        until(lambda: tab.page.evaluate(heads) == ["key column", None], what="the mark for screen readers")


def test_all_of_the_field_for_a_condition_is_seen_in_a_narrow_window(tab: Tab, server: bs.Server) -> None:
    server.keyed_table("t", SCHEMA, key="key").upsert({"key": [1], "price": [1.0]})
    tab.page.set_viewport_size({"width": 360, "height": 640})
    tab.open(server, "t", where="key < 5")
    box = tab.page.get_by_role("button", name="Apply").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 360


def test_the_place_outlasts_an_empty_table(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    tab.open(server, "t", row="4001")
    tab.until(lambda look: look.cover and "no rows" in look.cover, "the sentence")
    table.upsert({"key": list(range(9_000)), "price": [0.0] * 9_000})
    tab.until(lambda look: 4_000 in look.rows and 3_999 not in look.rows, "the rows at the place")
    assert "row=4001" in tab.page.url


def test_numbers_that_come_later_are_shown_whole(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", {"key": "int64", "n": "int64"}, key="key")
    table.upsert({"key": list(range(1_000)), "n": [n if n < 500 else 10**17 + n for n in range(1_000)]})
    tab.open(server, "t")
    tab.until(lambda look: look.rows.get(0) == ["0", "0"], "the first rows")
    tab.go_to(900)
    tab.until(lambda look: look.rows.get(900) == ["900", str(10**17 + 900)], "the whole number")
