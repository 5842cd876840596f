"""Look at a window of a table: scroll through it, change its columns, and follow its tail like a log.

python examples/viewport.py                            # starts a server of its own, with trades that tick
python examples/viewport.py grpc://localhost:8815 trades
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack

from ticking_quotes import serve_quotes

import barrage_server as bs


def show(live: bs.LiveTable, what: str) -> None:
    print(f"\n{what}: {live.size} of {live.table_size} rows")
    for row in live.to_arrow().slice(0, 5).to_pylist():
        print("  ", row)


def main() -> None:
    with ExitStack() as stack:
        uri, table = sys.argv[1:3] if len(sys.argv) > 2 else (stack.enter_context(serve_quotes()), "trades")
        client = stack.enter_context(bs.connect(uri))
        live = stack.enter_context(client.subscribe(table, viewport=range(10), interval_ms=20))
        live.wait_until(lambda view: view.table_size > 100)
        show(live, "the first ten rows")

        start = time.perf_counter()
        live.set_viewport(range(50, 60))  # returns with the rows
        took = time.perf_counter() - start
        show(live, f"positions 50 to 59, {took * 1000:.1f} ms later")

        live.set_viewport(range(50, 60), columns=[live.schema.names[0]])
        show(live, "the same rows, one column")

        live.set_viewport(range(5), columns=None, reverse=True)
        show(live, "the last five rows")
        for update in live.updates(timeout=2):
            print(f"   the tail moved: {update.added.size} rows came into view, {update.removed.size} left")
            if live.table_size > 300:
                break
        show(live, "the last five rows now")


if __name__ == "__main__":
    main()
