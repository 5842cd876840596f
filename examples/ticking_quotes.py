"""A server with prices that tick, for the other examples to follow; run by itself it serves until Ctrl-C."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

import barrage_server as bs

QUOTES = pa.schema([("sym", pa.string()), ("price", pa.float64()), ("size", pa.int64())])
TRADES = pa.schema([("sym", pa.string()), ("price", pa.float64())])
SYMBOLS = [f"SYM{number:02}" for number in range(40)]


@contextmanager
def serve_quotes(port: int = 0) -> Iterator[str]:
    """Serve ``quotes`` (keyed by symbol) and ``trades`` (append), both ticking; gives the server's address."""
    stop = threading.Event()
    with bs.Server(host="127.0.0.1", port=port) as server:
        quotes = server.keyed_table("quotes", QUOTES, key=["sym"])
        trades = server.append_table("trades", TRADES)
        chance = random.Random(7)

        def tick() -> None:
            while not stop.wait(0.02):
                symbols = chance.sample(SYMBOLS, 5)
                prices = [round(100 + chance.gauss(0, 5), 2) for _ in symbols]
                with server.cycle():  # both tables change together
                    quotes.upsert(
                        {"sym": symbols, "price": prices, "size": [chance.randrange(1, 100) for _ in symbols]}
                    )
                    quotes.delete({"sym": [chance.choice(SYMBOLS)]})
                    trades.append({"sym": symbols, "price": prices})

        ticker = threading.Thread(target=tick)
        ticker.start()
        try:
            yield server.uri
        finally:
            stop.set()
            ticker.join()


if __name__ == "__main__":
    with serve_quotes(port=8815) as address:
        print(f"serving quotes and trades on {address}; Ctrl-C ends it")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("bye")
