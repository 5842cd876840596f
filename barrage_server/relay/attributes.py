"""The attributes of an upstream table that hold for its copy here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from barrage_server.engine.traits import ROUTE

__all__ = ["ROUTE", "forwarded", "on_route", "route_entry"]

# Attributes about all future changes. They do not hold here: when the upstream restarts with other content, the
# difference is an update, which may remove or modify rows. Attributes of a version (IsFlat, SortedColumns, RingCapacity
# ...) hold here, because every version here is a version of the upstream.
_HISTORY: Final = frozenset({"AppendOnly", "AddOnly"})
_SORTED: Final = "SortedColumns"


def forwarded(attributes: Mapping[str, object], columns: Sequence[str]) -> dict[str, object]:
    """The attributes of an upstream table, without the route, that hold for a copy."""
    kept = {name: value for name, value in attributes.items() if name not in _HISTORY and name != ROUTE}
    order = kept.get(_SORTED)  # such as "D=Descending"
    if order is not None and not {part.partition("=")[0] for part in str(order).split(",")} <= set(columns):
        del kept[_SORTED]
    return kept


def route_entry(server: str, table: str) -> str:
    """The entry of a relay in the route; ``server`` is its unique id."""
    return f"{server}/{quote(table, safe='')}"


def on_route(attributes: Mapping[str, object]) -> tuple[str, ...]:
    """The relays that a table has passed, first to last."""
    route = attributes.get(ROUTE)
    return tuple(str(route).split(",")) if route else ()
