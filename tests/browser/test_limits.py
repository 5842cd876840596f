"""What the server refuses as too much is one sentence in the place of the rows, and ends nothing else."""

from __future__ import annotations

import re

import pytest

import barrage_server as bs
from barrage_server.server import Limits
from tests.browser.tab import Tab
from tests.waiting import until

COLUMNS = 20


def filled(server: bs.Server) -> None:
    for name, columns in (("wide", COLUMNS), ("narrow", 1)):
        names = [f"c{number}" for number in range(columns)]
        server.append_table(name, dict.fromkeys(names, "int64")).append({name: list(range(50)) for name in names})


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (Limits(page_columns=10), r"A stream shows 10 columns at most \(page_columns\), not 20\."),
        (Limits(page_cells=300), r"A page shows 300 cells at most \(page_cells\), not [\d,]+\."),
        (Limits(page_streams=0), r"One page has 0 streams at most \(page_streams\); close one\."),
    ],
)
def test_a_limit_of_pages_is_said_by_name(tab: Tab, limits: Limits, sentence: str) -> None:
    with bs.Server(web_port=0, limits=limits) as server:
        filled(server)
        tab.open(server, "wide")
        cover = tab.page.locator(".cover")
        tab.until(lambda look: look.cover, "a sentence")
        assert re.fullmatch(sentence, cover.text_content() or "")
        tab.page.get_by_role("link", name="Tables").click()
        until(lambda: tab.page.locator("table.list a").count() == 2, what="the list")
        if limits.page_streams:
            tab.page.locator("table.list a", has_text="narrow").click()
            tab.until(lambda look: look.rows.get(49) == ["49"], "the rows of a table that fits")


def test_a_page_of_too_many_rows_is_said(tab: Tab) -> None:
    with bs.Server(web_port=0, limits=Limits(page_rows=5)) as server:
        filled(server)
        tab.open(server, "narrow")
        look = tab.until(lambda look: look.cover, "a sentence")
        assert re.fullmatch(r"A stream shows 5 rows at most \(page_rows\), not \d+\.", look.cover or "")
