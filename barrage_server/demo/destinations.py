"""The table that the server computes from the tables of Spark."""

from __future__ import annotations

import pyarrow as pa

from barrage_server import agg
from barrage_server.demo.flights import COLUMNS
from barrage_server.demo.tables import AIRPORTS, DESTINATIONS, FLIGHTS
from barrage_server.server import Server

__all__ = ["serve_destinations"]


def serve_destinations(server: Server, airports: pa.Table) -> None:
    """Serve the delays of each destination, the longest mean first.

    They follow from the flights so far. The function also makes the tables that they depend on: the flights, which
    Spark appends to, and the airports, whose names are joined.

    Args:
        server: a server without any of these tables.
        airports: columns ``faa`` and ``name``.
    """
    flights = server.append_table(FLIGHTS.name, COLUMNS)
    names = server.keyed_table(AIRPORTS, airports.schema, key="faa")
    names.upsert(airports)
    delays = [
        agg.count_("flights"),
        agg.avg("mean_delay = arr_delay"),
        agg.max_("worst_delay = arr_delay"),
        agg.sum_("total_delay = arr_delay"),
    ]
    named = flights.natural_join(names, on="dest = faa", joins="airport = name")
    worst_first = named.agg_by(delays, by=["dest", "airport"]).sort(["mean_delay", "dest"], ["descending", "ascending"])
    server.add_table(DESTINATIONS.name, worst_first)
