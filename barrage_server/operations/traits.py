"""The traits of the result of an operation, given the traits of its input."""

from __future__ import annotations

from dataclasses import replace

from barrage_server.engine.traits import ROUTE, TableTraits

__all__ = ["of_columns", "of_rows", "route_of"]


def of_columns(traits: TableTraits) -> TableTraits:
    """Traits of other columns of the same rows."""
    return replace(traits, is_input=False, stated=route_of(traits))


def of_rows(traits: TableTraits) -> TableTraits:
    """Traits of a subset of the rows, under their keys.

    The rows stay in the result for as long as they stay in the input.
    """
    return TableTraits(
        append_only=traits.append_only, add_only=traits.add_only, is_blink=traits.is_blink, stated=route_of(traits)
    )


def route_of(*traits: TableTraits) -> tuple[tuple[str, object], ...]:
    """The attribute with the relays that the inputs have passed.

    It keeps relays from following themselves. Other attributes of servers are about tables that are not this one.
    """
    routes = {
        server: None
        for each in traits
        for name, value in each.stated
        if name == ROUTE and isinstance(value, str)
        for server in value.split(",")
    }
    return ((ROUTE, ",".join(routes)),) if routes else ()
