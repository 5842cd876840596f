"""Looking up one table on a server."""

from __future__ import annotations

import pyarrow.flight as flight

from barrage_server.client.annotations import user_schema
from barrage_server.client.channel import Channel
from barrage_server.client.failures import translated
from barrage_server.client.info import TableInfo
from barrage_server.client.names import descriptor_of, listed_name
from barrage_server.wire.schema import key_columns, table_attributes
from barrage_server.wire.soundness import check_schema
from barrage_server.wire.table_facts import TableFacts

__all__ = ["look_up", "table_info"]


def look_up(channel: Channel, name: str) -> TableInfo:
    """Look up one table; UnknownTableError when there is none of this name."""
    descriptor = descriptor_of(name, channel.server_kind)

    def ask() -> flight.FlightInfo:
        with translated(channel.address):
            return channel.client().get_flight_info(descriptor, channel.short())

    found = channel.logged_in(ask)
    return table_info(found) or _described(name, found)


def table_info(info: flight.FlightInfo) -> TableInfo | None:
    """Convert the server's description of a table; None for a table without a name."""
    name = listed_name(info.descriptor.path)
    return None if name is None else _described(name, info)


def _described(name: str, info: flight.FlightInfo) -> TableInfo:
    with translated():  # pyarrow refuses an extension type that does not fit
        schema = info.schema
    check_schema(schema)
    return TableInfo(
        name=name,
        schema=user_schema(schema),
        size=info.total_records,
        attributes=table_attributes(schema),
        key_columns=key_columns(schema),
        durable=TableFacts.received(bytes(info.app_metadata)).durable,
    )
