"""The rows of a DoPut from ``pyarrow.flight``."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as fl

from barrage_server.errors import BarrageError, UnavailableError, WireFormatError
from barrage_server.flight.sockets import peer_name
from barrage_server.server.flight_messages import flight_messages
from barrage_server.server.principal import Principal
from barrage_server.server.upload import RawMessage
from barrage_server.wire.raw import COMMAND_DESCRIPTOR, PATH_DESCRIPTOR, Descriptor
from barrage_server.wire.soundness import check_schema

__all__ = ["FlightSource"]


class FlightSource:
    """An :class:`~barrage_server.server.upload.UploadSource` over ``pyarrow.flight``.

    Args:
        context: Flight's context of the call.
        principal: the caller.
        descriptor: the descriptor of the call.
        reader: the source of messages.
        writer: the sink of results.

    """

    def __init__(
        self,
        context: fl.ServerCallContext,
        principal: Principal,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.FlightMetadataWriter,
    ) -> None:
        self.peer = peer_name(context.peer())
        self.principal = principal
        self.descriptor = _plain(descriptor)
        self._context = context
        self._reader = reader
        self._writer = writer

    def schema(self) -> pa.Schema:
        """The schema with which the stream begins, checked; WireFormatError without one."""
        try:
            schema = self._reader.schema
        except (pa.ArrowException, OSError) as error:
            raise WireFormatError("A DoPut stream must begin with an Arrow schema.") from error
        check_schema(schema)
        return schema

    def messages(self) -> Iterator[RawMessage]:
        """The messages until the publisher half-closes or disconnects.

        Raises:
            WireFormatError: a message is damaged.

        """
        for chunk in flight_messages(self._reader, "an Arrow stream of the announced schema"):
            metadata = chunk.app_metadata
            yield chunk.data, None if metadata is None else memoryview(metadata)

    def is_cancelled(self) -> bool:
        """Whether the publisher has disconnected, or was cut off."""
        return bool(self._context.is_cancelled())

    def cut(self, error: BarrageError) -> bool:  # noqa: ARG002  (others send it)
        """False: Flight cannot end a call from another thread."""
        return False

    def reply(self, app_metadata: bytes) -> None:
        """Send a result; UnavailableError when the publisher has disconnected."""
        try:
            self._writer.write(pa.py_buffer(app_metadata))
        except (pa.ArrowException, OSError) as error:
            raise UnavailableError("The publisher has disconnected.") from error


def _plain(descriptor: fl.FlightDescriptor) -> Descriptor:
    if descriptor.descriptor_type == fl.DescriptorType.PATH:
        return Descriptor(PATH_DESCRIPTOR, path=tuple(descriptor.path))
    if descriptor.descriptor_type == fl.DescriptorType.CMD:
        return Descriptor(COMMAND_DESCRIPTOR, command=descriptor.command)
    return Descriptor()
