"""FlightData as bytes, for endpoints on plain gRPC.

Deephaven's readers require the tag of the body on every record batch, also of an empty one, and the order header,
app_metadata, body. Generated protobuf code omits empty fields, and is therefore not used. Columns of a batch may differ
in length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from barrage_server.errors import LimitError, MessageTooLargeError, WireFormatError
from barrage_server.wire.arrow_message import BatchHeader, decode_schema_message, encapsulated, schema_header
from barrage_server.wire.layout import assemble
from barrage_server.wire.schema import unwrapped_type
from barrage_server.wire.soundness import check_sound

__all__ = [
    "COMMAND_DESCRIPTOR",
    "PATH_DESCRIPTOR",
    "Descriptor",
    "FlightDataParts",
    "check_decompressed_size",
    "decode_flight_data",
    "decode_ragged_batch",
    "decode_schema_message",
    "encode_flight_data",
    "flight_data_pieces",
    "joined",
    "schema_flight_data",
]

_DESCRIPTOR: Final = 1
_HEADER: Final = 2
_METADATA: Final = 3
_BODY: Final = 1000
_LENGTH_DELIMITED: Final = 2
_MOST_FIELDS: Final = 1000
"""The most fields of a message or descriptor. Four are defined; unknown and repeated ones take time."""
_BODY_TAG: Final = b"\xc2\x3e"
MAX_MESSAGE: Final = (1 << 31) - 1
"""Protobuf's limit of a message, in bytes."""

PATH_DESCRIPTOR: Final = 1
COMMAND_DESCRIPTOR: Final = 2


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A FlightDescriptor: its type (1 path, 2 command), and the path or the command."""

    type: int = 0
    command: bytes = b""
    path: tuple[str | bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class FlightDataParts:
    """The fields of one FlightData.

    Absent fields are None, an absent header is empty. The body is a view of the message.
    """

    descriptor: Descriptor | None = None
    data_header: bytes = b""
    app_metadata: bytes | None = None
    data_body: memoryview | None = None


def encode_flight_data(
    header: bytes, app_metadata: bytes | None, body: Iterable[Any] | None, descriptor: bytes | None = None
) -> bytes:
    """Serialize one FlightData message.

    Args:
        header: the Arrow message's flatbuffer; empty for none.
        app_metadata: the app_metadata; None for none.
        body: the pieces of the body, each a buffer; None for a message without a body (a schema).
        descriptor: the serialized FlightDescriptor of the first message of an upload.

    Raises:
        MessageTooLargeError: the message has more bytes than gRPC carries.

    """
    return joined(flight_data_pieces(header, app_metadata, body, descriptor))


def flight_data_pieces(
    header: bytes, app_metadata: bytes | None, body: Iterable[Any] | None, descriptor: bytes | None = None
) -> list[Any]:
    """Serialize one FlightData message as buffers; the body is not copied."""
    pieces: list[Any] = []
    if descriptor is not None:
        pieces += (b"\x0a", _varint(len(descriptor)), descriptor)
    if header:
        pieces += (b"\x12", _varint(len(header)), header)
    if app_metadata is not None:
        pieces += (b"\x1a", _varint(len(app_metadata)), app_metadata)
    if body is not None:
        views = [memoryview(piece) for piece in body]
        pieces += (_BODY_TAG, _varint(sum(view.nbytes for view in views)), *views)
    return pieces


def joined(pieces: Iterable[Any]) -> bytes:
    """Join the pieces of one serialized message.

    Raises:
        MessageTooLargeError: the message has more bytes than gRPC carries.

    """
    data = b"".join(pieces)
    if len(data) > MAX_MESSAGE:
        raise MessageTooLargeError(
            f"a message of {len(data):,} bytes is more than the {MAX_MESSAGE:,} that gRPC carries; ask "
            "for smaller batches"
        )
    return data


def schema_flight_data(schema: pa.Schema) -> bytes:
    """Serialize the first message of a stream of batches: the schema."""
    return encode_flight_data(schema_header(schema), None, None)


def decode_flight_data(data: bytes | memoryview) -> FlightDataParts:
    """Decode a serialized FlightData; unknown fields are ignored.

    Raises:
        WireFormatError: the message is damaged.

    """
    view = memoryview(data)
    descriptor: Descriptor | None = None
    header, app_metadata, body = b"", None, None
    for number, value in _fields(view):
        if number == _DESCRIPTOR:
            descriptor = _descriptor(value)
        elif number == _HEADER:
            header = bytes(value)
        elif number == _METADATA:
            app_metadata = bytes(value)
        elif number == _BODY:
            body = value
    return FlightDataParts(descriptor, header, app_metadata, body)


def decode_ragged_batch(
    header: bytes | memoryview,
    body: bytes | memoryview,
    schema: pa.Schema,
    *,
    check: bool = True,
    most: int = MAX_MESSAGE,
    setting: str = "put_bytes",
) -> list[pa.Array]:
    """Decode the columns of a record batch, which may differ in length.

    A batch with columns of equal length may be compressed, and may have types that this project does not write: string
    and binary views, and run ends.

    Args:
        header: the header of the message.
        body: the body of the message.
        schema: the schema on the wire.
        check: whether the columns are checked; otherwise the caller must.
        most: most bytes of a decompressed body.
        setting: the name of that limit, for errors.

    Raises:
        WireFormatError: the batch is damaged.
        LimitError: the batch is too large after decompression.

    """
    batch = BatchHeader.decode(header)
    if batch.body_length > len(body):
        raise WireFormatError(
            f"damaged record batch: {len(body)} bytes of body where {batch.body_length} are announced"
        )
    if batch.compressed:
        check_decompressed_size(batch, body, most, setting)
    if batch.compressed or any(_has_foreign(field.type) for field in schema):
        return _read_by_arrow(header, body, schema, check=check)
    data = pa.py_buffer(body)
    if data.address % 8:
        # Arrow requires aligned buffers, but a body may begin at any byte of its message.
        data = pa.py_buffer(bytes(body))
    return assemble([field.type for field in schema], batch.nodes, batch.buffers, data, check=check)


def _has_foreign(data_type: pa.DataType) -> bool:
    """Whether a type, at any depth, has a layout that only pyarrow decodes."""
    data_type = unwrapped_type(data_type)
    foreign = types.is_string_view(data_type) or types.is_binary_view(data_type) or types.is_run_end_encoded(data_type)
    return bool(foreign) or any(_has_foreign(data_type.field(number).type) for number in range(data_type.num_fields))


def _read_by_arrow(
    header: bytes | memoryview, body: bytes | memoryview, schema: pa.Schema, *, check: bool
) -> list[pa.Array]:
    try:
        message = pa.ipc.read_message(pa.BufferReader(encapsulated(header, (body,))))
        columns: list[pa.Array] = pa.ipc.read_record_batch(message, schema).columns
    except (pa.ArrowException, OSError, ValueError) as error:
        raise WireFormatError("damaged record batch: it does not fit its schema, or cannot be decompressed") from error
    if check:
        for column in columns:
            check_sound(column)
    return columns


def check_decompressed_size(batch: BatchHeader, body: bytes | memoryview, most: int, setting: str) -> int:
    """Compute the decompressed size of a batch in bytes.

    Each buffer begins with its size as an int64; -1 if it is not compressed.

    Raises:
        LimitError: the size exceeds ``most``, the value of the limit ``setting``.
        WireFormatError: a buffer lies outside the body.

    """
    total = 0
    for offset, size in struct.iter_unpack("<qq", batch.buffers):
        if offset < 0 or size < 0 or offset + size > len(body):
            raise WireFormatError("damaged record batch: a buffer lies outside the body")
        declared = struct.unpack_from("<q", body, offset)[0] if size >= 8 else 0
        total += size if declared < 0 else declared
    if total > min(most, MAX_MESSAGE):
        raise LimitError(
            f"A compressed record batch of {total:,} bytes is more than the {min(most, MAX_MESSAGE):,} that may come "
            f"at once ({setting}). Send smaller ones."
        )
    return total


def _descriptor(view: memoryview) -> Descriptor:
    kind, command, path = 0, b"", []
    for number, value in _fields(view, integers=True):
        if number == 1:
            kind = int.from_bytes(value, "little")
        elif number == 2:
            command = bytes(value)
        elif number == 3:
            try:
                path.append(bytes(value).decode())
            except UnicodeDecodeError as error:
                raise WireFormatError("a descriptor path that is not UTF-8 text") from error
    return Descriptor(kind, command, tuple(path))


def _fields(view: memoryview, *, integers: bool = False) -> Iterator[tuple[int, memoryview]]:
    """Yield the field numbers and values of a protobuf message.

    With ``integers``, varints are included, as 8 little-endian bytes.
    """
    at, end, count = 0, len(view), 0
    while at < end:
        count += 1
        if count > _MOST_FIELDS:
            raise WireFormatError(f"damaged FlightData: it has more than {_MOST_FIELDS:,} fields")
        tag, at = _read_varint(view, at)
        number, kind = tag >> 3, tag & 7
        if kind == _LENGTH_DELIMITED:
            size, at = _read_varint(view, at)
        elif kind == 0:
            value, at = _read_varint(view, at)
            if integers:
                yield number, memoryview(value.to_bytes(8, "little"))
            continue
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise WireFormatError(f"damaged FlightData: wire type {kind}")
        if size > end - at:
            raise WireFormatError("damaged FlightData: a field is longer than the message")
        if kind == _LENGTH_DELIMITED:
            yield number, view[at : at + size]
        at += size


def _read_varint(view: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(view):
            raise WireFormatError("damaged FlightData: it ends within a number")
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise WireFormatError("damaged FlightData: a number of more than ten bytes")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
