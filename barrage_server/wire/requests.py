"""Requests of clients: subscriptions, snapshots, publications."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import flatbuffers
from barrage_flatbuf import BarragePublicationOptions as PublicationOptionsTable
from barrage_flatbuf import BarragePublicationRequest as PublicationRequestTable
from barrage_flatbuf import BarrageSnapshotOptions as SnapshotOptionsTable
from barrage_flatbuf import BarrageSnapshotRequest as SnapshotRequestTable
from barrage_flatbuf import BarrageSubscriptionOptions as SubscriptionOptionsTable
from barrage_flatbuf import BarrageSubscriptionRequest as SubscriptionRequestTable
from barrage_flatbuf.BarrageMessageType import BarrageMessageType

from barrage_server.errors import WireFormatError
from barrage_server.rowset import RowSet, decode_bit_set, decode_row_set, encode_bit_set, encode_row_set
from barrage_server.wire.flat import FlatTable
from barrage_server.wire.wrapper import PAYLOAD_SLOT, wrap

__all__ = ["PublicationRequest", "SnapshotRequest", "SubscriptionOptions", "SubscriptionRequest", "viewport_span"]

_VIEWPORT_SLOT: Final = 2
"""The slot of the viewport in a subscription or snapshot request."""
_BUILDER_BYTES: Final = 256
_SHORT_VIEWPORT: Final = 64
"""The most bytes of a viewport whose surrounding bytes are cached."""


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """Options of the answers. Zeros mean the server's default.

    Attributes:
        use_deephaven_nulls: whether nulls of fixed-width numbers are null values in the data instead of validity bits.
        min_update_interval_ms: the least time between two updates (not used by snapshots).
        batch_size: the most rows in one record batch; negative for no limit.
        max_message_size: the most bytes in one message.
        columns_as_list: whether each column is one list per batch (not used by snapshots).
        preview_list_length_limit: of lists, n > 0 sends the first n elements, n < 0 the last -n, 0 all.

    """

    use_deephaven_nulls: bool = False
    min_update_interval_ms: int = 0
    batch_size: int = 0
    max_message_size: int = 0
    columns_as_list: bool = False
    preview_list_length_limit: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """Opens a subscription, or changes the subscription of the stream.

    Attributes:
        ticket: the table's ticket.
        columns: column numbers; None for all.
        viewport: positions; None for the whole table.
        options: options of the answers.
        reverse_viewport: whether positions count from the end of the table.
        subscription_token: chosen by the client.

    """

    ticket: bytes
    columns: tuple[int, ...] | None = None
    viewport: RowSet | None = None
    options: SubscriptionOptions = SubscriptionOptions()
    reverse_viewport: bool = False
    subscription_token: bytes | None = None

    def encode(self) -> bytes:
        """Encode the app_metadata."""
        viewport = None if self.viewport is None else encode_row_set(self.viewport)
        if viewport is None or len(viewport) > _SHORT_VIEWPORT:
            return self._encode(viewport)[0]
        # The builder takes a hundred microseconds. Requests that move a viewport differ in its bytes only.
        data, at = _around(self.moved(RowSet.EMPTY), len(viewport))
        return b"".join((data[:at], viewport, data[at + len(viewport) :]))

    def _encode(self, viewport: bytes | None) -> tuple[bytes, int]:
        """Encode the message with an encoded viewport, and return its position."""
        builder = flatbuffers.Builder(_BUILDER_BYTES)
        ticket = builder.CreateByteVector(self.ticket)
        columns = None if self.columns is None else builder.CreateByteVector(encode_bit_set(self.columns))
        rows = None if viewport is None else builder.CreateByteVector(viewport)
        token = None if self.subscription_token is None else builder.CreateByteVector(self.subscription_token)
        chosen, table = self.options, SubscriptionOptionsTable
        table.Start(builder)
        table.AddUseDeephavenNulls(builder, chosen.use_deephaven_nulls)
        table.AddMinUpdateIntervalMs(builder, chosen.min_update_interval_ms)
        table.AddBatchSize(builder, chosen.batch_size)
        table.AddMaxMessageSize(builder, chosen.max_message_size)
        table.AddColumnsAsList(builder, chosen.columns_as_list)
        table.AddPreviewListLengthLimit(builder, chosen.preview_list_length_limit)
        options = table.End(builder)
        request = SubscriptionRequestTable
        request.Start(builder)
        request.AddTicket(builder, ticket)
        if columns is not None:
            request.AddColumns(builder, columns)
        if rows is not None:
            request.AddViewport(builder, rows)
        request.AddSubscriptionOptions(builder, options)
        if token is not None:
            request.AddSubscriptionToken(builder, token)
        request.AddReverseViewport(builder, self.reverse_viewport)
        data = _finish(builder, request.End(builder), BarrageMessageType.BarrageSubscriptionRequest)
        return data, 0 if rows is None else viewport_span(data)[0]

    def moved(self, viewport: RowSet) -> SubscriptionRequest:
        """Return the same request for another viewport."""
        return SubscriptionRequest(
            self.ticket, self.columns, viewport, self.options, self.reverse_viewport, self.subscription_token
        )

    @classmethod
    def decode_payload(cls, payload: bytes | memoryview, *, viewport: RowSet | None = None) -> SubscriptionRequest:
        """Decode a payload of :func:`barrage_server.wire.wrapper.unwrap`.

        Args:
            payload: the payload.
            viewport: replaces the viewport of the payload, which is then not decoded.

        Raises:
            WireFormatError: the payload is damaged.

        """
        table = FlatTable.root(payload)
        options = table.table(3)
        chosen = SubscriptionOptions()
        if options is not None:
            chosen = SubscriptionOptions(
                use_deephaven_nulls=options.boolean(1),
                min_update_interval_ms=options.int32(2),
                batch_size=options.int32(3),
                max_message_size=options.int32(4),
                columns_as_list=options.boolean(5),
                preview_list_length_limit=options.int64(6),
            )
        token = table.bytes_vector(5)
        return cls(
            ticket=_ticket(table),
            columns=_columns(table),
            viewport=_viewport(table) if viewport is None else viewport,
            options=chosen,
            reverse_viewport=table.boolean(4),
            subscription_token=None if token is None else bytes(token),
        )


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """Requests the present content once.

    The update interval and ``columns_as_list`` of the options are not sent.
    """

    ticket: bytes
    columns: tuple[int, ...] | None = None
    viewport: RowSet | None = None
    options: SubscriptionOptions = SubscriptionOptions()
    reverse_viewport: bool = False

    def encode(self) -> bytes:
        """Encode the app_metadata."""
        builder = flatbuffers.Builder(_BUILDER_BYTES)
        ticket = builder.CreateByteVector(self.ticket)
        columns, viewport = _selection(builder, self.columns, self.viewport)
        chosen, table = self.options, SnapshotOptionsTable
        table.Start(builder)
        table.AddPreviewListLengthLimit(builder, chosen.preview_list_length_limit)
        table.AddMaxMessageSize(builder, chosen.max_message_size)
        table.AddBatchSize(builder, chosen.batch_size)
        table.AddUseDeephavenNulls(builder, chosen.use_deephaven_nulls)
        options = table.End(builder)
        request = SnapshotRequestTable
        request.Start(builder)
        request.AddTicket(builder, ticket)
        if columns is not None:
            request.AddColumns(builder, columns)
        if viewport is not None:
            request.AddViewport(builder, viewport)
        request.AddSnapshotOptions(builder, options)
        request.AddReverseViewport(builder, self.reverse_viewport)
        return _finish(builder, request.End(builder), BarrageMessageType.BarrageSnapshotRequest)

    @classmethod
    def decode_payload(cls, payload: bytes | memoryview) -> SnapshotRequest:
        """Decode a payload; WireFormatError on damaged bytes."""
        table = FlatTable.root(payload)
        options = table.table(3)
        chosen = SubscriptionOptions()
        if options is not None:
            chosen = SubscriptionOptions(
                use_deephaven_nulls=options.boolean(1),
                batch_size=options.int32(2),
                max_message_size=options.int32(3),
                preview_list_length_limit=options.int64(4),
            )
        return cls(_ticket(table), _columns(table), _viewport(table), chosen, table.boolean(4))


@dataclass(frozen=True, slots=True)
class PublicationRequest:
    """Opens a stream of updates that the client publishes to a table."""

    ticket: bytes
    use_deephaven_nulls: bool = False

    def encode(self) -> bytes:
        """Encode the app_metadata."""
        builder = flatbuffers.Builder(_BUILDER_BYTES)
        ticket = builder.CreateByteVector(self.ticket)
        PublicationOptionsTable.Start(builder)
        PublicationOptionsTable.AddUseDeephavenNulls(builder, self.use_deephaven_nulls)
        options = PublicationOptionsTable.End(builder)
        PublicationRequestTable.Start(builder)
        PublicationRequestTable.AddTicket(builder, ticket)
        PublicationRequestTable.AddPublishOptions(builder, options)
        end = PublicationRequestTable.End(builder)
        return _finish(builder, end, BarrageMessageType.BarragePublicationRequest)

    @classmethod
    def decode_payload(cls, payload: bytes | memoryview) -> PublicationRequest:
        """Decode a payload; WireFormatError on damaged bytes."""
        table = FlatTable.root(payload)
        options = table.table(1)
        return cls(_ticket(table), options is not None and options.boolean(1))


@lru_cache(maxsize=256)
def _around(request: SubscriptionRequest, length: int) -> tuple[bytes, int]:
    """Encode a request with a viewport of ``length`` zero bytes, and its position."""
    return request._encode(bytes(length))


def viewport_span(data: bytes) -> tuple[int, int]:
    """Return the start and stop, in bytes, of the viewport in a subscription request.

    Raises:
        WireFormatError: there is no viewport.

    """
    payload = FlatTable.root(data).bytes_span(PAYLOAD_SLOT)
    span = None if payload is None else FlatTable.root(data[payload[0] : payload[1]]).bytes_span(_VIEWPORT_SLOT)
    if payload is None or span is None:
        raise WireFormatError("the request has no viewport")
    return payload[0] + span[0], payload[0] + span[1]


def _selection(
    builder: flatbuffers.Builder, columns: tuple[int, ...] | None, viewport: RowSet | None
) -> tuple[int | None, int | None]:
    """Write the column set and the viewport; return their offsets."""
    return (
        None if columns is None else builder.CreateByteVector(encode_bit_set(columns)),
        None if viewport is None else builder.CreateByteVector(encode_row_set(viewport)),
    )


def _finish(builder: flatbuffers.Builder, root: int, message_type: int) -> bytes:
    builder.Finish(root)
    return wrap(message_type, bytes(builder.Output()))


def _ticket(table: FlatTable) -> bytes:
    return bytes(table.bytes_vector(0) or b"")


def _columns(table: FlatTable) -> tuple[int, ...] | None:
    data = table.bytes_vector(1)
    return None if data is None else decode_bit_set(bytes(data))


def _viewport(table: FlatTable) -> RowSet | None:
    data = table.bytes_vector(_VIEWPORT_SLOT)
    return None if data is None else decode_row_set(bytes(data))
