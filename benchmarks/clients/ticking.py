"""Deephaven's ticking client, which applies a subscription to a table of its own."""

from __future__ import annotations

import threading
import time

from pydeephaven import Session
from pydeephaven_ticking.table_listener import TableUpdate, listen

from benchmarks.loop import Loop

loop = Loop()


@loop.function
def first_content(port: int, table: str, rows: int) -> float:
    """Subscribe; the seconds until its table has ``rows`` rows."""
    session = Session("127.0.0.1", port)
    done = threading.Event()
    failed: list[Exception] = []

    def updated(update: TableUpdate) -> None:
        if update.update.current.num_rows >= rows:
            done.set()

    def stopped(error: Exception) -> None:
        failed.append(error)
        done.set()

    opened = session.open_table(table)
    begin = time.perf_counter()
    handle = listen(opened, updated, stopped)
    handle.start()
    done.wait(120)
    took = time.perf_counter() - begin
    if failed:
        raise failed[0]
    if not done.is_set():
        raise TimeoutError("the first content did not come")
    handle.stop()
    session.close()
    return took


if __name__ == "__main__":
    loop.run()
