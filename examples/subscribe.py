"""Follow a table, and print what each update did: rows added, removed and modified, with values old and new.

python examples/subscribe.py                            # starts a server of its own, with prices that tick
python examples/subscribe.py grpc://localhost:8815 quotes
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

from ticking_quotes import serve_quotes

import barrage_server as bs

UPDATES = 10


def main() -> None:
    with ExitStack() as stack:
        uri, table = sys.argv[1:3] if len(sys.argv) > 2 else (stack.enter_context(serve_quotes()), "quotes")
        client = stack.enter_context(bs.connect(uri))
        live = stack.enter_context(client.subscribe(table, interval_ms=100))
        print(f"{live.name}: {live.size} rows, columns {live.schema.names}")
        for number, update in enumerate(live.updates(timeout=30), start=1):
            print(f"\nstep {update.step}: {update.added.size} added, {update.removed.size} removed")
            for row in update.removed_values().slice(0, 3).to_pylist():
                print("  -", row)
            for row in update.added_values().slice(0, 3).to_pylist():
                print("  +", row)
            for column, rows in update.modified.items():
                if rows:
                    before = update.modified_previous_values(column)[column].slice(0, 3).to_pylist()
                    after = update.modified_values(column)[column].slice(0, 3).to_pylist()
                    print(f"  ~ {column}: {rows.size} rows, such as {before} -> {after}")
            if number == UPDATES:
                break
        print(f"\nnow {live.size} rows")


if __name__ == "__main__":
    main()
