"""The tables of the demo: names and keys. Needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "AIRPORTS",
    "BOARD",
    "CARRIERS",
    "DESTINATIONS",
    "FLIGHTS",
    "PUBLISHED",
    "TABLES",
    "TOP_DELAYS",
    "WORST_DELAYS",
    "DemoTable",
]

WORST_DELAYS: Final = 100
"""Rows of ``top_delays``."""


@dataclass(frozen=True, slots=True)
class DemoTable:
    """A table of the demo.

    Attributes:
        name: its name.
        key: the columns that identify a row.
        about: a description for the screen.
        at_least: least delay, in minutes, of a flight that counts.
        is_sorted: whether its rows have an order, which is checked as well.
    """

    name: str
    key: tuple[str, ...]
    about: str
    at_least: int = 0
    is_sorted: bool = False


FLIGHTS: Final = DemoTable("flights", ("seq",), "every flight")
CARRIERS: Final = DemoTable("carriers", ("carrier",), "flights, delays and cancellations per carrier")
BOARD: Final = DemoTable("board", ("origin", "dest"), "last departure per route")
TOP_DELAYS: Final = DemoTable("top_delays", ("time_hour", "carrier", "flight"), "the 100 worst delays so far", 60)
DESTINATIONS: Final = DemoTable(
    "destinations", ("dest",), "delays per destination, computed by the server", is_sorted=True
)

PUBLISHED: Final = (FLIGHTS, CARRIERS, BOARD, TOP_DELAYS)
"""The tables that Spark publishes."""
TABLES: Final = (*PUBLISHED, DESTINATIONS)
"""All tables that are checked."""
AIRPORTS: Final = "airports"
"""Name of the table with the airports' names, which the demo does not change."""
