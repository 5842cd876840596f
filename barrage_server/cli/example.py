"""Tables that tick, for a first look: ``barrage-server serve --example``."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import pyarrow as pa

import barrage_server as bs
from barrage_server.errors import BarrageError

__all__ = ["EXAMPLE_TABLES", "example_tables"]

logger = logging.getLogger("barrage_server.cli")

EXAMPLE_TABLES: Final = ("quotes", "trades", "totals")
"""Names of the tables, in the order of their creation."""

_AT: Final = pa.timestamp("us", tz="UTC")
_QUOTES: Final = pa.schema([("sym", pa.string()), ("price", pa.float64()), ("size", pa.int64()), ("at", _AT)])
_TRADES: Final = pa.schema([("at", _AT), ("sym", pa.string()), ("price", pa.float64()), ("size", pa.int64())])
_TOTALS: Final = pa.schema([("sym", pa.string()), ("trades", pa.int64()), ("volume", pa.int64())])
_TRADES_KEPT: Final = 10_000
_SYMBOLS: Final = np.array([first + second for first in "ABCDEFGHIJ" for second in "LMNRST"])
_SECONDS: Final = 0.1
"""Seconds between two cycles."""
_MOVED: Final = 8
"""Number of symbols with a new price per cycle."""


class _Market:
    """Random prices; every move is a quote, a trade and a new total."""

    def __init__(self, seed: int) -> None:
        self._chance = np.random.default_rng(seed)
        self._prices = np.round(self._chance.uniform(20, 200, len(_SYMBOLS)), 2)
        self._trades = np.zeros(len(_SYMBOLS), dtype=np.int64)
        self._volumes = np.zeros(len(_SYMBOLS), dtype=np.int64)

    def all_quotes(self, now: int) -> pa.Table:
        """A quote for every symbol."""
        return self._quotes(np.arange(len(_SYMBOLS)), np.full(len(_SYMBOLS), 100, dtype=np.int64), now)

    def move(self, now: int) -> tuple[pa.Table, pa.Table, pa.Table]:
        """The next cycle's rows: quotes, trades, totals."""
        moved = np.sort(self._chance.choice(len(_SYMBOLS), _MOVED, replace=False))
        steps = self._chance.normal(0, 0.002, _MOVED)
        self._prices[moved] = np.maximum(np.round(self._prices[moved] * (1 + steps), 2), 0.01)
        sizes = self._chance.integers(1, 20, _MOVED) * 10
        self._trades[moved] += 1
        self._volumes[moved] += sizes
        quotes = self._quotes(moved, sizes, now)
        totals = {"sym": _SYMBOLS[moved], "trades": self._trades[moved], "volume": self._volumes[moved]}
        return quotes, quotes.select(_TRADES.names), pa.table(totals, schema=_TOTALS)

    def _quotes(self, moved: np.ndarray[tuple[int], np.dtype[np.int64]], sizes: object, now: int) -> pa.Table:
        at = pa.array(np.full(len(moved), now, dtype=np.int64)).cast(_AT)
        columns = {"sym": _SYMBOLS[moved], "price": self._prices[moved], "size": sizes, "at": at}
        return pa.table(columns, schema=_QUOTES)


@contextmanager
def example_tables(server: bs.Server, seconds: float = _SECONDS, seed: int = 2013) -> Iterator[None]:
    """Serve the example tables while the ``with`` body runs. They tick.

    ``quotes`` is keyed by ``sym``, ``trades`` is a ring, ``totals`` is keyed by ``sym``; the three change in one cycle.

    Args:
        server: the server for the tables.
        seconds: time between two cycles.
        seed: seed of the prices.

    Raises:
        AlreadyExistsError: the server has another table of one of these names.
    """
    market = _Market(seed)
    quotes = server.keyed_table("quotes", _QUOTES, key=["sym"])
    trades = server.ring_table("trades", _TRADES, capacity=_TRADES_KEPT)
    totals = server.keyed_table("totals", _TOTALS, key=["sym"])
    quotes.upsert(market.all_quotes(_now()))
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(seconds):
            moved, traded, summed = market.move(_now())
            try:
                with server.cycle():
                    quotes.upsert(moved)
                    trades.append(traded)
                    totals.upsert(summed)
            except BarrageError as error:
                logger.warning("the example tables have stopped ticking: %s", error)
                return

    ticker = threading.Thread(target=tick, name="barrage-example", daemon=True)
    ticker.start()
    try:
        yield
    finally:
        stop.set()
        ticker.join()


def _now() -> int:
    return time.time_ns() // 1000
