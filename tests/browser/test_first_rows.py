"""What a page does before its first rows are there: as little as it can, in as few frames."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import barrage_server as bs
from tests.browser.tab import Tab
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import WebSocketRoute

ROWS = 1000
HELD = 2
"""Binary frames to the first rows: a schema and a snapshot."""
# Notes what of the page is there when its websocket opens, and how many binary frames have come.
NOTES = """
window.built = [];
window.binary = 0;
window.WebSocket = class extends WebSocket {
  constructor(...given) {
    built.push(document.body?.querySelectorAll("*:not(noscript)").length ?? "nothing of the body is read");
    super(...given);
    this.addEventListener("message", ({data}) => { if (typeof data !== "string") binary += 1; });
  }
};
"""


@pytest.fixture
def table(server: bs.Server) -> bs.KeyedTable:
    made = server.keyed_table("t", {"key": "int64", "text": "string"}, key="key")
    made.upsert({"key": list(range(ROWS)), "text": [f"text {number}" for number in range(ROWS)]})
    return made


class Gate:
    """Holds back what is binary, which rows are, until it is opened."""

    def __init__(self, tab: Tab) -> None:
        self.said: list[str] = []
        self.held: list[bytes] = []
        self.is_open = False
        self._page: WebSocketRoute | None = None
        tab.page.route_web_socket(re.compile("/live$"), self._route)

    def open(self) -> None:
        self.is_open = True
        held, self.held = self.held, []
        for frame in held:
            assert self._page is not None
            self._page.send(frame)

    def _route(self, page: WebSocketRoute) -> None:
        self._page = page
        server = page.connect_to_server()

        def passed(message: str | bytes) -> None:
            if isinstance(message, str):
                self.said.append(message)
            if isinstance(message, str) or self.is_open:
                page.send(message)
            else:
                self.held.append(message)

        server.on_message(passed)


def opened(tab: Tab, server: bs.Server) -> Gate:
    """The page, with its rows held back and its clock at rest."""
    gate = Gate(tab)
    tab.page.add_init_script(NOTES)
    tab.page.clock.install(time=0)
    tab.page.clock.pause_at(1000)
    tab.open(server, "t")
    until(lambda: tab.look().frames == 0 and len(gate.held) == HELD, what="the rows")
    return gate


def test_the_websocket_opens_before_the_page_is_read(tab: Tab, server: bs.Server, table: bs.KeyedTable) -> None:
    tab.page.add_init_script(NOTES)
    tab.open(server, "t")
    tab.agrees(table)
    assert tab.page.evaluate("built") == ["nothing of the body is read"]
    assert tab.page.evaluate("document.body.querySelectorAll('*').length") > 10


def test_the_first_frame_has_the_rows(tab: Tab, server: bs.Server, table: bs.KeyedTable) -> None:
    """And nothing is said of waiting for them, if they come within a tenth of a second."""
    gate = opened(tab, server)
    tab.page.clock.run_for(80)
    look = tab.look()
    assert (look.frames, look.cover) == (0, None)
    gate.open()
    until(lambda: tab.page.evaluate("binary") == HELD, what="the rows in the page")
    for _ in range(18):
        tab.page.clock.run_for(1)
        look = tab.look()
        if look.frames:
            break
    assert look.rows[3] == ["3", "text 3"]


def test_a_grid_without_rows_is_painted_when_they_take_longer(
    tab: Tab, server: bs.Server, table: bs.KeyedTable
) -> None:
    gate = opened(tab, server)
    tab.page.clock.run_for(150)
    look = tab.look()
    assert look.names == ["key", "text"]
    assert look.rows[3] == [None, None]
    assert look.cover == "Waiting for the first rows of t…"
    gate.open()
    tab.page.clock.resume()
    tab.agrees(table)
