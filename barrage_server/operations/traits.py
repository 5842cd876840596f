"""What holds for the result of an operation, given what holds for its input."""

from __future__ import annotations

from dataclasses import replace

from barrage_server.engine.traits import ROUTE, TableTraits

__all__ = ["of_columns", "of_rows", "route_of"]


def of_columns(traits: TableTraits) -> TableTraits:
    """For other columns of the same rows."""
    return replace(traits, is_input=False, stated=route_of(traits))


def of_rows(traits: TableTraits) -> TableTraits:
    """For some of the rows, under their keys, that stay in the result for as long as they do in the input."""
    return TableTraits(
        append_only=traits.append_only, add_only=traits.add_only, is_blink=traits.is_blink, stated=route_of(traits)
    )


def route_of(*traits: TableTraits) -> tuple[tuple[str, object], ...]:
    """The attribute with the relays that one of the inputs has passed, which keeps relays from following themselves.

    Other attributes of servers speak of tables that are not this one.
    """
    routes = {
        server: None
        for each in traits
        for name, value in each.stated
        if name == ROUTE and isinstance(value, str)
        for server in value.split(",")
    }
    return ((ROUTE, ",".join(routes)),) if routes else ()
