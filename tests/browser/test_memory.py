"""A tab that has looked at a ticking table for an hour takes no more memory than one that has just begun.

``UPDATES`` is the number of updates that it paints; 36,000 are an hour at ten a second.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import barrage_server as bs
from barrage_server.subscription import SubscriptionLimits
from tests.browser.tab import Tab
from tests.waiting import until

COLUMNS = 12
ROWS = 200
FIRST, ALL = 1_000, int(os.environ.get("UPDATES") or 3_000)
"""Updates after which memory is read: when the tab is warm, and at the end."""
MOST = 2 << 20
"""Bytes of scripts that may come to those after the first updates."""
NUMBERS = [f"number{n}" for n in range(COLUMNS)]
SCHEMA = pa.schema([("key", pa.int64()), *((name, pa.float64()) for name in NUMBERS), ("text", pa.string())])
FRAMES = Path(__file__).with_name("fast_frames.js")


def rows(change: int, keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Table:
    """Rows whose numbers and texts were never there before."""
    texts = [f"change {change} of row {key}" for key in keys.tolist()]
    return pa.table([keys, *(change + keys / 128 + n for n in range(COLUMNS)), texts], schema=SCHEMA)


def test_script_memory_is_flat_over_an_hour_of_updates(tab: Tab) -> None:
    with bs.Server(web_port=0, subscriptions=SubscriptionLimits(default_interval_ms=1)) as server:
        table = server.keyed_table("t", SCHEMA, key="key")
        table.upsert(rows(0, np.arange(ROWS)))
        tab.page.add_init_script(path=FRAMES)
        tab.open(server, "t", row="1")
        tab.agrees(table)
        session = tab.page.context.new_cdp_session(tab.page)

        def used() -> int:
            for _ in range(2):
                session.send("HeapProfiler.collectGarbage")
            return int(session.send("Runtime.getHeapUsage")["usedSize"])

        def sent() -> int:
            [gauges] = server.statistics().subscriptions
            return gauges.messages

        def is_past(so_far: int) -> bool:
            return sent() > so_far

        published, before = 0, 0
        for goal in (FIRST, ALL):
            while (so_far := sent()) < goal:
                published += 1
                table.upsert(rows(published, np.arange(published % 7, ROWS, 7)))
                until(partial(is_past, so_far), pause=0.001)
            tab.agrees(table)
            if goal == FIRST:
                before = used()
        after = used()
        print(f"script memory: {before:,} bytes after {FIRST:,} updates, {after:,} after {ALL:,}")
        assert after - before < MOST
