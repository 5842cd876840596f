"""Reading the present content of a table once."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.client.annotations import user_schema
from barrage_server.client.channel import Channel
from barrage_server.client.content import Content
from barrage_server.client.failures import translated
from barrage_server.client.interruptible import Progress
from barrage_server.client.names import FlightAddress
from barrage_server.client.server_kind import ServerKind
from barrage_server.client.stream import SubscriptionStream, completed
from barrage_server.client.view import View, tell_left_out, unreadable
from barrage_server.engine import UpdateGraph
from barrage_server.errors import UnavailableError
from barrage_server.subscription import Window
from barrage_server.wire.empty import table_of
from barrage_server.wire.intake import Intake
from barrage_server.wire.metadata import SnapshotRequest, SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.tickets import DPHN

__all__ = ["take_snapshot"]


def take_snapshot(channel: Channel, address: FlightAddress, view: View, progress: Progress) -> pa.Table:
    """Read the present content of ``view``, as of one version of the table."""
    is_whole = view.columns is None and view.positions is None
    if is_whole and channel.server_kind is not ServerKind.DEEPHAVEN:
        return _whole_table(channel, address, progress)
    schema = channel.schema(address)
    window = view.window(schema, address.name)
    if view.columns is None:
        tell_left_out(schema, address.name)
        if is_whole and len(window.columns) == len(schema):
            return _whole_table(channel, address, progress)
    if channel.sends_ragged_batches:
        return _first_content(channel, address, window, progress)
    return _windowed(channel, address, window, progress)


def _whole_table(channel: Channel, address: FlightAddress, progress: Progress) -> pa.Table:
    """Read all rows and columns, by DoGet."""
    with translated(channel.address):
        ticket = flight.Ticket(address.ticket(channel.server_kind))
        reader = channel.client().do_get(ticket, channel.options())
        progress.cancel_with(reader.cancel)
        intake = Intake(reader.schema)
        schema = user_schema(intake.schema)
        batches: list[pa.RecordBatch] = []
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                break
            progress.advance()
            if chunk.data is not None and chunk.data.num_rows:
                batches.append(intake.take(chunk.data))
    arrays = [
        pa.chunked_array([batch.column(number) for batch in batches], field.type) for number, field in enumerate(schema)
    ]
    return table_of(arrays, sum(batch.num_rows for batch in batches), schema)


def _first_content(channel: Channel, address: FlightAddress, window: Window, progress: Progress) -> pa.Table:
    """Read the rows and columns of ``window``, by a subscription's first content.

    For servers that answer snapshot requests with columns of different lengths, which pyarrow cannot read.
    Subscriptions can request columns as lists.
    """
    request = SubscriptionRequest(
        address.ticket(channel.server_kind),
        window.columns,
        window.positions,
        SubscriptionOptions(columns_as_list=True),
        window.reverse,
    )
    dialect = channel.server_kind.dialect
    stream = SubscriptionStream(channel, request, dialect)
    try:
        progress.cancel_with(stream.cancel)
        reader = MessageReader(stream.schema(), left_out=unreadable)
        content = Content(UpdateGraph(), address.name)
        content.begin(user_schema(reader.schema), window, dialect)
        with channel.kept_alive():
            for message in stream.messages(reader):
                progress.advance()
                content.apply(message)
                if content.is_settled:
                    break
        return content.version.to_table()
    finally:
        stream.close()


def _windowed(channel: Channel, address: FlightAddress, window: Window, progress: Progress) -> pa.Table:
    """Read the rows and columns of ``window``, by a Barrage snapshot request."""
    ticket = address.ticket(channel.server_kind)
    request = SnapshotRequest(ticket, window.columns, window.positions, reverse_viewport=window.reverse)
    with translated(channel.address):
        descriptor = flight.FlightDescriptor.for_command(DPHN)
        writer, reader = channel.client().do_exchange(descriptor, channel.options())
        progress.cancel_with(reader.cancel)
        try:
            writer.write_metadata(request.encode())
            writer.done_writing()
            messages = MessageReader(reader.schema)
            message = _only_message(reader, messages, progress)
        except BaseException:
            reader.cancel()
            raise
        finally:
            with suppress(pa.ArrowException):  # the same error as that of reading
                writer.close()
    schema = user_schema(messages.schema)
    fields = pa.schema([schema.field(number) for number in window.columns], schema.metadata)
    columns = [message.add_columns[number] for number in window.columns]
    return table_of(columns, message.metadata.included_rows.size, fields)


def _only_message(reader: flight.FlightStreamReader, messages: MessageReader, progress: Progress) -> IncomingMessage:
    """Read a stream to its end, and return its only message."""
    found: IncomingMessage | None = None
    while True:
        try:
            chunk = reader.read_chunk()
        except StopIteration:
            break
        progress.advance()
        found = completed(chunk, messages) or found
    if found is None:
        raise UnavailableError("The server ended the stream before the snapshot was complete.")
    return found
