"""Publish: rows once, rows by key, and a table of this process that ticks on the server.

python examples/publish.py                            # starts a server of its own
python examples/publish.py grpc://localhost:8815
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

import pyarrow as pa

import barrage_server as bs


def main() -> None:
    with ExitStack() as stack:
        uri = sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(bs.Server(port=0)).uri
        client = stack.enter_context(bs.connect(uri))

        # Rows become visible in one step. The first call creates the table; the key makes it a keyed one.
        client.publish("cities", {"name": ["Oslo", "Lima"], "people": [709_000, 10_100_000]}, key=["name"])
        client.upsert("cities", {"name": ["Oslo", "Bern"], "people": [717_000, 134_000]})
        client.delete("cities", {"name": ["Lima"]})
        print(client.snapshot("cities").to_pylist())

        try:
            client.publish("cities", {"name": ["Rome"], "people": ["many"]})
        except bs.SchemaMismatchError as error:
            print("refused, and nothing changed:", error)

        # A table that ticks here ticks there too. Changes that come faster than they can be sent are sent together.
        schema = pa.schema([("n", pa.int64()), ("square", pa.int64())])
        squares = bs.KeyedTable(bs.UpdateGraph(), "squares", schema, ["n"])
        with client.publish_live("squares", squares, interval_ms=1), client.subscribe("squares", interval_ms=1) as live:
            for n in range(100):
                squares.upsert({"n": [n % 10], "square": [n * n]})
            live.wait_until(lambda view: view.to_arrow().equals(squares.to_arrow()))
            print(live, live.to_arrow()["square"].to_pylist())
        client.drop("squares")
        client.drop("cities")


if __name__ == "__main__":
    main()
