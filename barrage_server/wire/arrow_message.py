"""Headers of Arrow IPC messages, as in ``FlightData.data_header``.

They are flatbuffers without a length prefix.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from barrage_server.errors import WireFormatError
from barrage_server.wire.flat import FlatTable
from barrage_server.wire.soundness import check_schema

__all__ = [
    "DICTIONARY_BATCH",
    "RECORD_BATCH",
    "SCHEMA",
    "BatchHeader",
    "decode_schema_message",
    "encapsulated",
    "header_type",
    "read_schema",
    "schema_header",
]

SCHEMA: Final = 1
DICTIONARY_BATCH: Final = 2
RECORD_BATCH: Final = 3
"""``MessageHeader`` types of Arrow's Message.fbs."""

_LITTLE_ENDIAN: Final = 0

_CONTINUATION: Final = b"\xff\xff\xff\xff"

# The header of a record batch has a fixed layout but for its two vectors, so it is packed here: the root offset,
# padding, the vtable of Message (12 bytes; a table of 22; version at 14, type at 21, header at 16, body length at 4),
# Message, the vtable of RecordBatch (10 bytes; a table of 24; length at 4, nodes at 20, buffers at 16), RecordBatch.
# Then come the buffers and the nodes, each as a count and pairs of int64 at multiples of 8.
_BATCH: Final = struct.Struct("<I 4x 6H i q 2x h I x B 5H i q 4x I I I")
_MESSAGE_TABLE: Final = (20, 12, 22, 14, 21, 16, 4, 12)
_BATCH_TABLE: Final = (10, 24, 4, 20, 16, 10)


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of a record batch.

    Attributes:
        length: the number of rows.
        nodes: the field nodes, 16 bytes each.
        buffers: the offsets and lengths of the buffers, 16 bytes each.
        body_length: bytes of the body.
        compressed: whether the buffers are compressed.

    """

    length: int
    nodes: memoryview
    buffers: memoryview
    body_length: int
    compressed: bool = False

    @classmethod
    def decode(cls, header: bytes | memoryview) -> BatchHeader:
        """Decode a header.

        Raises:
            WireFormatError: it is damaged, or the header of another message.

        """
        message = FlatTable.root(header)
        batch = message.table(2)
        if message.int8(1) != RECORD_BATCH or batch is None:
            raise WireFormatError("expected a record batch; dictionary and other messages are not used here")
        return cls._of(batch, message.int64(3))

    @classmethod
    def _of(cls, batch: FlatTable, body_length: int) -> BatchHeader:
        nodes, buffers = batch.structs(1, 16), batch.structs(2, 16)
        length = batch.int64(0)
        if length < 0 or body_length < 0:
            raise WireFormatError("damaged record batch: a negative length")
        empty = memoryview(b"")
        return cls(
            length,
            empty if nodes is None else nodes,
            empty if buffers is None else buffers,
            body_length,
            batch.table(3) is not None,
        )

    @classmethod
    def of_dictionary(cls, header: bytes | memoryview) -> tuple[int, bool, BatchHeader]:
        """Decode the header of a dictionary batch.

        Returns:
            The id of the dictionary, whether the batch is a delta, and the header of its values.

        Raises:
            WireFormatError: ``header`` is damaged, or the header of another message.

        """
        message = FlatTable.root(header)
        dictionary = message.table(2)
        values = None if dictionary is None else dictionary.table(1)
        if message.int8(1) != DICTIONARY_BATCH or dictionary is None or values is None:
            raise WireFormatError("damaged dictionary batch")
        return dictionary.int64(0), dictionary.boolean(2), cls._of(values, message.int64(3))


def encode_batch_header(length: int, nodes: list[int], spans: list[int], body_length: int) -> bytes:
    """Encode the header of a record batch; ``nodes`` and ``spans`` list pairs flat."""
    count = len(spans) // 2
    table = (*_BATCH_TABLE, length, 8, 12 + 16 * count, count)
    head = _BATCH.pack(*_MESSAGE_TABLE, body_length, 4, 16, RECORD_BATCH, *table)
    return head + struct.pack(f"<{len(spans)}q4xI{len(nodes)}q", *spans, len(nodes) // 2, *nodes)


def header_type(header: bytes | memoryview) -> int:
    """Read the ``MessageHeader`` type; WireFormatError when the header is damaged."""
    return FlatTable.root(header).int8(1)


def schema_header(schema: pa.Schema) -> bytes:
    """Encode the header of a schema message."""
    data: bytes = schema.serialize().to_pybytes()
    return data[8:] if data.startswith(_CONTINUATION) else data[4:]


def decode_schema_message(header: bytes | memoryview) -> pa.Schema:
    """Decode the schema in a header. Raises what :func:`read_schema` does."""
    data = bytes(header)
    message = FlatTable.root(data)
    schema = message.table(2)
    if message.int8(1) != SCHEMA or schema is None:
        raise WireFormatError("expected a schema message first")
    if schema.int16(0) != _LITTLE_ENDIAN:
        raise WireFormatError("big-endian numbers are not supported; send them little-endian")
    return read_schema(_CONTINUATION + struct.pack("<I", len(data)) + data)


def read_schema(message: bytes) -> pa.Schema:
    """Read the schema in an encapsulated IPC message.

    Raises:
        WireFormatError: the message is damaged, or not a schema.
        UnsupportedTypeError: the schema has unsupported types.

    """
    try:
        schema = pa.ipc.read_schema(pa.BufferReader(message))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise WireFormatError("damaged schema message") from error
    check_schema(schema)
    return schema


def encapsulated(header: bytes | memoryview, body: Iterable[Any] = ()) -> bytes:
    """Join a header and the pieces of its body to an encapsulated IPC message."""
    padding = b"\0" * (-len(header) % 8)
    return b"".join((_CONTINUATION, struct.pack("<I", len(header) + len(padding)), header, padding, *body))
