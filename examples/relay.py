"""Serve a table of another server, whose subscribers are not affected by a restart of that server.

python examples/relay.py                                   # starts a server of its own, and restarts it
python examples/relay.py grpc://localhost:8815/quotes      # serves a table of yours until Ctrl-C
python examples/relay.py dh+plain://localhost:10000/scope/quotes
"""

from __future__ import annotations

import sys

from ticking_quotes import serve_quotes

import barrage_server as bs


def main() -> None:
    if len(sys.argv) > 1:
        with bs.Server() as relay:
            followed = relay.follow(sys.argv[1])
            print(f"{followed.name} of {followed.uri} is served at {relay.uri}; Ctrl-C ends it")
            relay.serve_forever()
            return
    with bs.Server() as relay:
        with serve_quotes() as upstream:
            followed = relay.follow(f"{upstream}/quotes", max_delay=0.5)
            client = bs.connect(relay.uri)
            live = client.subscribe("quotes", interval_ms=100)
            watch(live, 3)
        followed.wait_for(bs.FollowedState.RECONNECTING, timeout=10)
        print(f"\nthe upstream is gone ({followed.state}); subscribers are {live.state} and see {live.size} rows\n")
        with client, serve_quotes(port=int(upstream.rpartition(":")[2])):
            followed.wait_live(timeout=30)
            print(f"it is back: {followed}")
            watch(live, 3)


def watch(live: bs.LiveTable, count: int) -> None:
    for number, update in enumerate(live.updates(timeout=30), start=1):
        counts = f"{update.added.size} added, {update.removed.size} removed, {update.modified_rows.size} modified"
        print(f"{live.size} rows: {counts}")
        if number == count:
            break


if __name__ == "__main__":
    main()
