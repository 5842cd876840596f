"""The list of tables and Health in a narrow window, and what a quiet table says."""

from __future__ import annotations

import pytest

import barrage_server as bs
from tests.browser.tab import Tab
from tests.waiting import until

SCHEMA = {"key": "int64", "price": "float64"}
LONG = "a_table_with_a_name_that_is_longer_than_the_window_is_wide_" * 2


def test_health_keeps_its_columns_and_long_names_have_titles(tab: Tab, server: bs.Server) -> None:
    server.keyed_table(LONG, SCHEMA, key="key").upsert({"key": [1], "price": [1.0]})
    tab.page.set_viewport_size({"width": 360, "height": 640})
    tab.open(server)
    link = tab.page.get_by_role("link", name=LONG)
    link.wait_for()
    assert link.get_attribute("title") == LONG
    tab.page.evaluate('location.hash = "#health"')
    tables = tab.page.locator(".health section", has=tab.page.get_by_role("heading", name="Tables"))
    tables.wait_for()
    heads = tables.locator("th")
    assert heads.all_inner_texts() == ["Name", "Kind", "Rows", "Memory", "Followers"]
    assert all(head.is_visible() for head in heads.all())
    cell = tables.get_by_role("cell", name=LONG)
    assert cell.get_attribute("title") == LONG
    box = cell.bounding_box()
    assert box is not None
    assert box["width"] <= 300


@pytest.mark.parametrize(("width", "height"), [(1000, 520), (360, 640)])
def test_a_plot_of_eight_columns_leaves_room_for_its_picture(
    tab: Tab, server: bs.Server, width: int, height: int
) -> None:
    names = [f"y{number}" for number in range(8)]
    table = server.append_table("t", {"x": "int64", **dict.fromkeys(names, "float64")})
    table.append({"x": range(100), **{name: [row / 7 for row in range(100)] for name in names}})
    fields = "&".join(f"y={name}" for name in names)
    tab.page.set_viewport_size({"width": width, "height": height})
    tab.page.goto(f"{server.web_uri}/#table=t&plot=&x=x&{fields}")
    last = tab.page.get_by_role("rowheader", name="y7")
    last.wait_for()
    picture = tab.page.locator(".plot-chart").bounding_box()
    assert picture is not None
    assert picture["height"] >= 200
    sizes = tab.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert sizes == [width, height]
    values = tab.page.get_by_role("group", name="Values of the plot")
    until(lambda: values.evaluate("part => part.scrollHeight > part.clientHeight"), what="more values than have room")
    values.focus()

    def is_last_shown() -> bool:
        tab.page.keyboard.press("End")  # again, until the lines below the plot have their texts and their height
        return bool((last.bounding_box() or {"y": height})["y"] < height - 40)

    until(is_last_shown, what="the last column's values")


def test_a_quiet_table_is_live_without_a_figure(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    tab.open(server, "t")
    tab.until(lambda look: look.cover and "no rows" in look.cover, "the sentence")
    table.upsert({"key": [1], "price": [1.0]})
    lag = tab.page.locator(".lag")
    until(lambda: (lag.text_content() or "").endswith("ms"), what="the figure")
    until(lambda: lag.text_content() == "live", what="no figure")
