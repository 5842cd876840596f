"""The Barrage messages in app_metadata, as values.

``encode()`` of each returns the finished bytes, wrapper included; :func:`decode_message` reads any of them. The wire
format is ``schema/barrage.fbs``. In every value None means an absent field, which the format distinguishes from an
empty one.
"""

from __future__ import annotations

from typing import TypeAlias

from barrage_flatbuf.BarrageMessageType import BarrageMessageType

from barrage_server.errors import WireFormatError
from barrage_server.wire.requests import PublicationRequest, SnapshotRequest, SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.update_metadata import UpdateMetadata
from barrage_server.wire.wrapper import MAGIC, is_barrage, unwrap

__all__ = [
    "MAGIC",
    "BarrageMessage",
    "PublicationRequest",
    "SnapshotRequest",
    "SubscriptionOptions",
    "SubscriptionRequest",
    "UpdateMetadata",
    "decode_message",
    "is_barrage",
]

BarrageMessage: TypeAlias = SubscriptionRequest | SnapshotRequest | PublicationRequest | UpdateMetadata


def decode_message(data: bytes | memoryview) -> BarrageMessage:
    """The value in app_metadata; WireFormatError on a wrong magic, an unknown message type, or damaged bytes."""
    message_type, payload = unwrap(data)
    match message_type:
        case BarrageMessageType.BarrageUpdateMetadata:
            return UpdateMetadata.decode_payload(payload)
        case BarrageMessageType.BarrageSubscriptionRequest:
            return SubscriptionRequest.decode_payload(payload)
        case BarrageMessageType.BarrageSnapshotRequest:
            return SnapshotRequest.decode_payload(payload)
        case BarrageMessageType.BarragePublicationRequest:
            return PublicationRequest.decode_payload(payload)
    raise WireFormatError(
        f"Barrage message type {message_type} is not handled here; "
        "send a subscription, snapshot or publication request, or an update"
    )
