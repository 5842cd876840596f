"""Which attributes of an upstream table hold for what is served here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

__all__ = ["ROUTE", "on_route", "passed_on", "route_entry"]

# Promises about what will ever happen to a row. Here a row can go, or change, that never did so upstream: when the
# upstream comes back after a restart with other content, the difference is told. Promises about what a version looks
# like (IsFlat, SortedColumns, RingCapacity ...) hold here too, since every version here is one of the upstream's.
_HISTORY: Final = frozenset({"AppendOnly", "AddOnly"})
_SORTED: Final = "SortedColumns"

ROUTE: Final = "BarrageRoute"
"""The attribute that says through which relays a table has come: entries of :func:`route_entry`, with commas."""


def passed_on(attributes: Mapping[str, object], columns: Sequence[str]) -> dict[str, object]:
    """The attributes of the upstream table that are true of a copy with ``columns``, the route left out."""
    kept = {name: value for name, value in attributes.items() if name not in _HISTORY and name != ROUTE}
    order = kept.get(_SORTED)  # such as "D=Descending"
    if order is not None and not {part.partition("=")[0] for part in str(order).split(",")} <= set(columns):
        del kept[_SORTED]
    return kept


def route_entry(server: str, table: str) -> str:
    """What a relay adds to the route: ``server`` identifies it among all servers."""
    return f"{server}/{quote(table, safe='')}"


def on_route(attributes: Mapping[str, object]) -> tuple[str, ...]:
    """The relays that a table has come through, first to last."""
    route = attributes.get(ROUTE)
    return tuple(str(route).split(",")) if route else ()
