"""FlightData by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.errors import MessageTooLargeError, WireFormatError
from barrage_server.wire import raw
from barrage_server.wire.arrow_message import decode_schema_message, schema_header
from barrage_server.wire.raw import (
    Descriptor,
    FlightDataParts,
    decode_flight_data,
    encode_flight_data,
    schema_flight_data,
)

DPHN_DESCRIPTOR = bytes.fromhex("080212046470686e")


@given(
    header=st.binary(max_size=300),
    app_metadata=st.none() | st.binary(max_size=300),
    body=st.none() | st.lists(st.binary(max_size=200), max_size=3),
)
def test_there_and_back(header: bytes, app_metadata: bytes | None, body: list[bytes] | None) -> None:
    got = decode_flight_data(encode_flight_data(header, app_metadata, body, DPHN_DESCRIPTOR))
    assert got.descriptor == Descriptor(raw.COMMAND_DESCRIPTOR, b"dphn")
    assert (got.data_header, got.app_metadata) == (header, app_metadata)
    assert (None if got.data_body is None else bytes(got.data_body)) == (None if body is None else b"".join(body))


def test_the_bodys_tag_is_there_even_when_it_is_empty() -> None:
    """deephaven-clients 6: Java throws without it."""
    assert encode_flight_data(b"h", None, []) == b"\x12\x01h\xc2\x3e\x00"
    assert encode_flight_data(b"h", None, None) == b"\x12\x01h"


def test_fields_come_in_the_order_that_java_wants() -> None:
    assert encode_flight_data(b"h", b"m", [b"b"]) == b"\x12\x01h\x1a\x01m\xc2\x3e\x01b"


def test_paths() -> None:
    descriptor = b"\x08\x01\x1a\x05scope\x1a\x02t\xc3"
    with pytest.raises(WireFormatError, match="UTF-8"):
        decode_flight_data(encode_flight_data(b"", None, None, descriptor))
    got = decode_flight_data(encode_flight_data(b"", None, None, descriptor[:-1] + b"1"))
    assert got.descriptor == Descriptor(raw.PATH_DESCRIPTOR, path=("scope", "t1"))


def test_unknown_fields_are_skipped() -> None:
    """One of each wire type: varint, 64-bit, bytes, 32-bit."""
    unknown = b"\x20\x96\x01" + b"\x29" + b"8" * 8 + b"\x32\x02ab" + b"\x3d" + b"4" * 4
    assert decode_flight_data(unknown + b"\x12\x01h" + unknown) == FlightDataParts(data_header=b"h")


@pytest.mark.parametrize("is_nested", [False, True])
def test_run_ends_and_views_behind_an_extension_type(is_nested: bool) -> None:
    """They are left to Arrow however deep they are."""
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, 8]))
    views = pa.array(["a", None, "b" * 20], pa.string_view())
    arrays = [pa.ExtensionArray.from_storage(pa.opaque(array.type, "kind", "vendor"), array) for array in (runs, views)]
    if is_nested:
        arrays = [pa.StructArray.from_arrays([array], ["x"]) for array in arrays]
    batch = pa.record_batch(arrays, ["a", "b"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
    messages.read_next_message()
    message = messages.read_next_message()
    columns = raw.decode_ragged_batch(message.metadata.to_pybytes(), message.body.to_pybytes(), batch.schema)
    assert pa.RecordBatch.from_arrays(columns, schema=batch.schema).to_pylist() == batch.to_pylist()


def test_the_empty_message() -> None:
    assert decode_flight_data(b"") == FlightDataParts()


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_noise(noise: bytes) -> None:
    """Arbitrary bytes give a value or WireFormatError."""
    try:
        decode_flight_data(noise)
        decode_flight_data(b"\x0a" + bytes([len(noise)]) + noise)
    except WireFormatError:
        return


@pytest.mark.parametrize("field", [b"\x12\0", b"\x20\1", b"\x0a\0"], ids=["known", "unknown", "descriptors"])
def test_very_many_fields_are_damage(field: bytes) -> None:
    """Each takes a while, and a message has four."""
    decode_flight_data(field * 1000)
    for data in (field * 1001, b"\x0a\xd2\x0f" + b"\x18\0" * 1001):
        with pytest.raises(WireFormatError, match="damaged FlightData: it has more than 1,000 fields"):
            decode_flight_data(data)


@pytest.mark.parametrize("data", [b"\x12", b"\x12\xff", b"\x12\x05abc", b"\xff" * 11, b"\x13", b"\x29abc"])
def test_damage(data: bytes) -> None:
    with pytest.raises(WireFormatError, match="damaged FlightData"):
        decode_flight_data(data)


def test_messages_that_grpc_cannot_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "MAX_MESSAGE", 10)
    with pytest.raises(MessageTooLargeError, match="more than the 10 that gRPC carries"):
        encode_flight_data(b"0123456789", None, None)


def test_a_stream_begins_with_a_schema_that_has_no_body() -> None:
    """deephaven-clients 6: the header is a bare message, and there is neither app_metadata nor a body."""
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"deephaven:type": "long"})])
    parts = decode_flight_data(schema_flight_data(schema))
    assert (parts.app_metadata, parts.data_body) == (None, None)
    assert decode_schema_message(parts.data_header).equals(schema, check_metadata=True)


def test_the_encapsulated_schema_is_what_arrow_serializes() -> None:
    """deephaven-clients 5.1: FF FF FF FF, the length as a little-endian int32, and the message."""
    schema = pa.schema([("a", pa.int64())])
    framed = schema.serialize().to_pybytes()
    header = schema_header(schema)
    assert framed == b"\xff\xff\xff\xff" + len(header).to_bytes(4, "little") + header
