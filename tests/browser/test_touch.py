"""A finger scrolls the grid pixel by pixel and on after it has left, chooses cells, and drags the thumb."""

from __future__ import annotations

from typing import Any

import pytest

import barrage_server as bs
from tests.browser.finger import Finger, Point
from tests.browser.tab import HEADER, ROW, Tab
from tests.waiting import until

SCHEMA = {f"c{number}": "int64" for number in range(30)}
ROWS = 5000


@pytest.fixture
def context_options() -> dict[str, Any]:
    return {"has_touch": True, "viewport": {"width": 600, "height": 500}}


@pytest.fixture
def table(tab: Tab, server: bs.Server) -> bs.KeyedTable:
    """A table that the tab shows from its first row on."""
    made = server.keyed_table("t", SCHEMA, key="c0")
    made.upsert({name: [row * 100 + number for row in range(ROWS)] for number, name in enumerate(SCHEMA)})
    tab.open(server, "t", row="1")
    tab.agrees(made)
    return made


def middle(tab: Tab) -> Point:
    left, top, width, height = tab.grid()
    return left + width / 2, top + height / 2


def first_row(tab: Tab) -> int:
    return min(tab.look().rows)


def begins(tab: Tab, table: bs.Table, row: int) -> None:
    """Wait until the tab shows the table from a row on."""
    tab.until(lambda look: min(look.rows) == row, f"row {row} at the top")
    tab.agrees(table)


def test_rows_and_columns_follow_a_finger_to_the_pixel(tab: Tab, table: bs.KeyedTable) -> None:
    x, y = middle(tab)
    finger = Finger(tab)
    finger.drag((x, y + 120), (x, y + 120 - 10 * ROW))
    begins(tab, table, 10)
    finger.drag((x, y - 120), (x, y - 120 + 4 * ROW), steps=4)
    begins(tab, table, 6)
    finger.drag((x, y - 120), (x, y + 200))
    begins(tab, table, 0)
    before = tab.look().names
    finger.drag((x + 200, y), (x - 200, y))
    tab.until(lambda look: int(look.names[-1][1:]) > int(before[-1][1:]), "columns to the right")
    tab.agrees(table)
    finger.drag((x - 250, y), (x + 250, y))
    tab.until(lambda look: look.names == before, "the columns of before")
    tab.agrees(table)


def test_a_flick_scrolls_on_and_comes_to_rest(tab: Tab, table: bs.KeyedTable) -> None:
    x, y = middle(tab)
    finger = Finger(tab)
    finger.drag((x, y + 150), (x, y - 150), rested=0.0)
    seen: list[int] = []

    def rests() -> bool:
        seen.append(first_row(tab))
        return len(seen) > 20 and len(set(seen[-20:])) == 1

    until(rests, what="the end of the movement")
    assert seen == sorted(seen)
    # 300 pixels in 160 ms, of which a third is left after 325 ms
    assert 300 / ROW + 10 < seen[-1] < 300 / ROW + 50
    tab.agrees(table)
    # a finger stops it
    finger.drag((x, y + 150), (x, y - 150), rested=0.0)
    until(lambda: first_row(tab) > seen[-1] + 300 / ROW + 2, what="the movement goes on")
    finger.down((x, y))
    tab.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    stopped = tab.agrees(table).rows
    finger.up()
    assert tab.agrees(table).rows.keys() == stopped.keys()


def test_a_tap_chooses_a_cell_and_opens_the_menu_of_a_column(tab: Tab, table: bs.KeyedTable) -> None:
    left, top, *_ = tab.grid()
    finger = Finger(tab)
    finger.drag((left + 200, top + HEADER + 3.5 * ROW), (left + 201, top + HEADER + 3.5 * ROW), steps=1)
    look = tab.until(lambda look: (look.mirror["active"] or {}).get("row") == 3, "the chosen cell")
    assert look.mirror["focused"]
    finger.drag((left + 200, top + HEADER / 2), (left + 200, top + HEADER / 2), steps=1)
    tab.page.get_by_role("menu").wait_for()
    tab.page.keyboard.press("Escape")


def test_the_thumb_is_dragged(tab: Tab, table: bs.KeyedTable) -> None:
    bar = tab.page.locator(".scrollbar.vertical").bounding_box()
    assert bar is not None
    x = bar["x"] + bar["width"] / 2
    finger = Finger(tab)
    finger.drag((x, bar["y"] + 5), (x, bar["y"] + bar["height"]))
    tab.until(lambda look: max(look.rows) == ROWS - 1, "the end")
    tab.agrees(table)
    finger.drag((x, bar["y"] + bar["height"] - 5), (x, bar["y"] + bar["height"] / 2))
    tab.until(lambda look: abs(min(look.rows) - ROWS / 2) < ROWS / 10, "the middle")
    tab.agrees(table)
