"""The Barrage messages in app_metadata, as values.

``encode()`` returns the finished bytes with the wrapper; :func:`decode_message` decodes all kinds. The wire format is
``schema/barrage.fbs``. None means an absent field, which the format distinguishes from an empty one.
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
    """Decode the message in app_metadata.

    Raises:
        WireFormatError: a wrong magic number, an unknown message type, or damaged bytes.

    """
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
