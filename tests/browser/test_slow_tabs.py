"""A tab that does not paint, or whose network stalls, costs the server nothing but time."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

import barrage_server as bs
from tests.browser.tab import Tab
from tests.live.proxy import Proxy
from tests.waiting import until

ROWS, COLUMNS = 60, 12
UPDATES = 800
TEXT = "x" * 400
MOST = 48 << 20
"""Bytes that pools and the history of tables may keep; the updates together are 230 MB."""
MOST_SCRIPTS = 4 << 20
"""Bytes that the scripts of a tab may keep; one update has 290 KB."""
SCHEMA = pa.schema([("key", pa.int64()), *((f"c{number}", pa.string()) for number in range(COLUMNS))])


def memory() -> int:
    """Resident bytes of this process, which has the server."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def rows(update: int) -> pa.Table:
    texts = pa.array([f"{update} {row} {TEXT}" for row in range(ROWS)])
    return pa.table([np.arange(ROWS), *([texts] * COLUMNS)], schema=SCHEMA)


def publish_many(table: bs.KeyedTable, updates: int) -> None:
    for update in range(updates):
        table.upsert(rows(update))


def test_a_hidden_tab_keeps_no_memory_on_the_server(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert(rows(0))
    # What a browser does to hidden tabs: it paints no frames.
    tab.page.add_init_script(
        """
        const request = window.requestAnimationFrame.bind(window);
        const waiting = [];
        window.hidden = (hidden) => {
            window.requestAnimationFrame = hidden ? (run) => waiting.push(run) : request;
            if (!hidden) for (const run of waiting.splice(0)) request(run);
        };
        """
    )
    tab.open(server, "t")
    tab.agrees(table)
    publish_many(table, 200)
    tab.page.evaluate("hidden(true)")
    frames = tab.look().frames
    publish_many(table, 100)
    before = memory()
    publish_many(table, UPDATES)
    assert tab.look().frames == frames, "nothing was painted"
    assert memory() - before < MOST
    tab.page.evaluate("hidden(false)")
    tab.agrees(table)


def test_a_tab_at_a_twentieth_of_its_speed_says_how_old_it_is_and_keeps_no_memory(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert(rows(0))
    tab.open(server, "t")
    tab.agrees(table)
    session = tab.page.context.new_cdp_session(tab.page)

    def scripts() -> int:
        """Bytes of the tab's scripts, and of what they keep outside of their heap."""
        for _ in range(2):
            session.send("HeapProfiler.collectGarbage")
        usage = session.send("Runtime.getHeapUsage")
        return int(usage["usedSize"] + usage.get("backingStorageSize", 0))

    def publish_while_painted(updates: int, frames: int) -> None:
        """Publish at least ``updates`` updates, and go on until the tab has painted ``frames`` more frames."""
        begun = tab.look().frames
        published = 0
        while published < updates or tab.look().frames < begun + frames:
            publish_many(table, 50)
            published += 50

    def behind(line: str) -> int:
        found = re.search(r"([\d,]+) ms", line)
        return int(found[1].replace(",", "")) if found else 0

    publish_while_painted(200, 20)
    tab.agrees(table)
    session.send("Emulation.setCPUThrottlingRate", {"rate": 20})
    publish_while_painted(100, 5)
    before, before_scripts = memory(), scripts()
    lags: list[int] = []
    for _ in range(UPDATES // 100):
        publish_while_painted(100, 1)
        lags.append(behind(tab.look().line))
    assert memory() - before < MOST
    assert scripts() - before_scripts < MOST_SCRIPTS
    assert max(lags) >= 50, f"the page says that it is behind: {lags}"
    session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    tab.agrees(table)
    tab.page.evaluate("location.hash = '#'")
    until(lambda: not server.statistics().streams, what="the end of the stream")


def test_a_stalled_network_keeps_no_memory_on_the_server(tab: Tab, server: bs.Server) -> None:
    tab.may_lose_connections = True  # after five seconds without a word the page gives the connection up
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert(rows(0))
    with Proxy(urlsplit(server.web_uri or "").port or 0) as proxy:
        tab.open(f"http://127.0.0.1:{proxy.port}", "t")
        tab.agrees(table)
        publish_many(table, 200)
        proxy.stall()
        publish_many(table, 100)
        before = memory()
        publish_many(table, UPDATES)
        assert memory() - before < MOST
        tab.until(lambda look: look.stale or "behind" in look.line, "the page's word about it")
        proxy.resume()
        tab.agrees(table)


def test_views_that_are_opened_and_left_leave_nothing_on_the_server(tab: Tab, server: bs.Server) -> None:
    for number in range(3):
        server.keyed_table(f"t{number}", SCHEMA, key="key").upsert(rows(number))
    tab.open(server)
    for number in range(100):
        name = f"t{number % 3}"
        tab.page.evaluate("name => { location.hash = `#table=${name}` }", name)
        tab.until(lambda look, name=name: look.mirror.get("label") == f"Table {name}" and look.rows)
        assert len(server.statistics().streams) <= 2
    tab.page.evaluate("location.hash = '#'")
    until(lambda: not server.statistics().streams, what="the end of the streams")
