"""Arrays taken apart for IPC bodies and put together again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.errors import LimitError, UnsupportedTypeError, WireFormatError
from barrage_server.wire.arrow_message import BatchHeader, encapsulated, encode_batch_header
from barrage_server.wire.layout import assemble, take_apart
from barrage_server.wire.raw import decode_ragged_batch
from tests.wire.arrays import arrays, even_columns, unions


def packed(columns: list[pa.Array]) -> tuple[bytes, bytes]:
    parts = take_apart(columns)
    header = encode_batch_header(max(map(len, columns), default=0), parts.nodes, parts.spans, parts.size)
    body = b"".join(bytes(memoryview(piece)) for piece in parts.body)
    assert len(body) == parts.size
    return header, body


def schema_of(columns: list[pa.Array]) -> pa.Schema:
    return pa.schema([pa.field(f"c{number}", column.type) for number, column in enumerate(columns)])


@given(st.lists(arrays(), min_size=1, max_size=4))
def test_there_and_back(columns: list[pa.Array]) -> None:
    """Columns of different lengths, slices of anything."""
    header, body = packed(columns)
    for got, column in zip(decode_ragged_batch(header, body, schema_of(columns)), columns, strict=True):
        assert got.equals(column)


@given(unions())
def test_unions_there_and_back_and_to_arrow(array: pa.Array) -> None:
    header, body = packed([array])
    schema = schema_of([array])
    (got,) = decode_ragged_batch(header, body, schema)
    (read,) = pa.ipc.read_record_batch(
        pa.ipc.read_message(pa.BufferReader(encapsulated(header, (body,)))), schema
    ).columns
    for copy in (got, read):
        copy.validate(full=True)
        assert copy.type == array.type
        assert list(map(repr, copy)) == list(map(repr, array))


def test_what_a_slice_does_not_show_of_views_and_unions_does_not_travel() -> None:
    long = pa.array([["x" * 1000]] * 100, pa.list_view(pa.string()))
    union = pa.UnionArray.from_dense(
        pa.array([0] * 100, pa.int8()), pa.array(range(100), pa.int32()), [pa.array(["x" * 1000] * 100)]
    )
    for array in (long, union):
        assert take_apart([array.slice(40, 1)]).size < 2000


@given(even_columns())
def test_arrow_reads_what_is_written(columns: list[pa.Array]) -> None:
    """With columns of one length this is a plain Arrow record batch."""
    header, body = packed(columns)
    schema = schema_of(columns)
    message = pa.ipc.read_message(pa.BufferReader(encapsulated(header, (body,))))
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    assert batch.equals(pa.record_batch(columns, schema=schema))


@given(even_columns())
def test_what_arrow_writes_is_read(columns: list[pa.Array]) -> None:
    schema = schema_of(columns)
    message = pa.ipc.read_message(pa.record_batch(columns, schema=schema).serialize())
    got = decode_ragged_batch(message.metadata.to_pybytes(), message.body.to_pybytes(), schema)
    for array, column in zip(got, columns, strict=True):
        assert array.equals(column)


@given(st.lists(arrays(), min_size=1, max_size=3))
def test_what_deephaven_readers_rely_on(columns: list[pa.Array]) -> None:
    """Buffers lie behind each other at multiples of 8, padding included; empty columns have no bytes at all."""
    header, body = packed(columns)
    batch = BatchHeader.decode(header)
    spans = batch.buffers.cast("q").tolist()
    at = 0
    for offset, size in zip(spans[::2], spans[1::2], strict=True):
        assert offset == at
        assert size % 8 == 0
        at += size
    assert at == len(body) == batch.body_length
    if not any(len(column) for column in columns):
        assert not body


@settings(max_examples=300)
@given(st.lists(arrays(), min_size=1, max_size=3), st.data())
def test_damage(columns: list[pa.Array], data: st.DataObject) -> None:
    """Changed headers and bodies give arrays that are sound, or WireFormatError."""
    header, body = (bytearray(part) for part in packed(columns))
    for target in (header, body):
        for _ in range(data.draw(st.integers(0, 3)) if target else 0):
            target[data.draw(st.integers(0, len(target) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    try:
        for array in decode_ragged_batch(bytes(header), bytes(body[: max(cut, len(body) // 2)]), schema_of(columns)):
            array.validate(full=pa.types.is_string(array.type))
            str(array)
    except (WireFormatError, UnsupportedTypeError):
        return


def test_bodies_at_odd_addresses() -> None:
    columns = [pa.array([1, None, 3]), pa.array(["a", "b", None])]
    header, body = packed(columns)
    shifted = memoryview(b"x" + body)[1:]
    for column, got in zip(columns, decode_ragged_batch(header, shifted, schema_of(columns)), strict=True):
        assert got.equals(column)


def test_compressed_batches_are_read() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    batch = pa.record_batch([pa.array(range(1000)), pa.array(["text"] * 1000)], schema=schema)
    message = _compressed(batch)
    got = decode_ragged_batch(message.metadata.to_pybytes(), message.body.to_pybytes(), schema)
    assert pa.record_batch(got, schema=schema).equals(batch)
    with pytest.raises(WireFormatError, match="decompressed"):
        decode_ragged_batch(message.metadata.to_pybytes(), bytes(message.body.size), schema)


def test_compressed_batches_that_would_fill_the_memory() -> None:
    batch = pa.record_batch([pa.array(range(1000))], names=["a"])
    message = _compressed(batch)
    body = bytearray(message.body.to_pybytes())
    body[:8] = (1 << 40).to_bytes(8, "little")
    with pytest.raises(LimitError, match="Send smaller ones"):
        decode_ragged_batch(message.metadata.to_pybytes(), bytes(body), batch.schema)


def test_null_keys_of_maps_are_refused() -> None:
    """Arrow ends the process when it is to make such an array."""
    maps = pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int64()))
    for node in (1, 2):  # the entries, and the keys in them
        parts = take_apart([maps])
        parts.nodes[2 * node + 1] = 1
        at = node + 1  # buffers: the validity and offsets of the maps, the validity of the entries, that of the keys
        parts.spans[2 * at : 2 * at + 2] = (0, 8)
        nodes = memoryview(np.array(parts.nodes, np.int64).tobytes())
        spans = memoryview(np.array(parts.spans, np.int64).tobytes())
        body = pa.py_buffer(b"".join(bytes(memoryview(piece)) for piece in parts.body))
        with pytest.raises(WireFormatError, match="null"):
            assemble([maps.type], nodes, spans, body)


def _compressed(batch: pa.RecordBatch) -> pa.Message:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()
    return reader.read_next_message()


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a"]).dictionary_encode(),
        pa.array(["a"], pa.string_view()),
    ],
    ids=["dictionary", "view"],
)
def test_types_that_do_not_travel(array: pa.Array) -> None:
    with pytest.raises(UnsupportedTypeError, match="cast them"):
        take_apart([array])


EXTENSIONS = [
    pa.array([None, b"0" * 16, b"1" * 16], pa.uuid()),
    pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None, "[1]"])),
    pa.ListArray.from_arrays(pa.array([0, 1, 3, 3]), pa.array([b"0" * 16, None, b"1" * 16], pa.uuid())),
    pa.array([{}, None, {}], pa.struct([])),
]


@pytest.mark.parametrize("array", EXTENSIONS, ids=lambda array: str(array.type))
@pytest.mark.parametrize("part", [slice(0, 3), slice(1, 3), slice(0, 0)], ids=["all", "slice", "empty"])
def test_extension_types_travel_as_what_they_are_made_of(array: pa.Array, part: slice) -> None:
    columns = [array[part], pa.array([1, 2, 3])]
    header, body = packed(columns)
    for got, column in zip(decode_ragged_batch(header, body, schema_of(columns)), columns, strict=True):
        assert got.type == column.type
        assert got.to_pylist() == column.to_pylist()


# Types that this project does not write, but that others may send.
FOREIGN = [
    pa.array(["a", None, "longer than twelve bytes"], pa.string_view()),
    pa.array([b"a", None, b"longer than twelve bytes"], pa.binary_view()),
    pa.array([[1], None, [2, None]], pa.list_view(pa.int16())),
    pa.array([["longer than twelve bytes"], None, []], pa.large_list_view(pa.string_view())),
    pa.array([{"x": "a"}, None, {"x": None}], pa.struct([("x", pa.string_view())])),
    pa.UnionArray.from_dense(
        pa.array([0, 1, 1], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1]), pa.array(["a", None])]
    ),
    pa.UnionArray.from_sparse(pa.array([0, 1, 1], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", None, "c"])]),
    pa.RunEndEncodedArray.from_arrays([1, 3], pa.array(["a", None])),
]


@pytest.mark.parametrize("array", FOREIGN, ids=lambda array: str(array.type))
def test_types_that_are_read_and_not_written(array: pa.Array) -> None:
    message = pa.ipc.read_message(pa.record_batch([array], names=["c0"]).serialize())
    (got,) = decode_ragged_batch(message.metadata.to_pybytes(), message.body.to_pybytes(), schema_of([array]))
    assert got.type == array.type
    assert got.to_pylist() == array.to_pylist()


@settings(max_examples=300)
@given(st.sampled_from(FOREIGN), st.data())
def test_damaged_bodies_of_such_types(array: pa.Array, data: st.DataObject) -> None:
    """Changed bodies give an array that can be read, or WireFormatError."""
    message = pa.ipc.read_message(pa.record_batch([array], names=["c0"]).serialize())
    body = bytearray(message.body.to_pybytes())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        (got,) = decode_ragged_batch(message.metadata.to_pybytes(), bytes(body), schema_of([array]))
    except WireFormatError:
        return
    got.to_pylist()


@pytest.mark.parametrize("data_type", [pa.null(), pa.list_(pa.null(), 0)], ids=str)
def test_arrays_that_take_no_bytes_are_not_of_any_length(data_type: pa.DataType) -> None:
    """A damaged header of a hundred bytes must not make this process allocate what it announces."""
    nodes = 2 if pa.types.is_fixed_size_list(data_type) else 1
    for length, is_fine in ((1_000_000_000, True), ((1 << 31) - 1, True), (1 << 31, False), (1 << 45, False)):
        spans = [0, 0] if nodes == 2 else []
        header = encode_batch_header(length, [length, 0, *[0] * (2 * nodes - 2)], spans, 0)
        schema = pa.schema([("c0", data_type)])
        if is_fine:
            assert [len(array) for array in decode_ragged_batch(header, b"", schema)] == [length]
        else:
            with pytest.raises(WireFormatError, match="impossible"):
                decode_ragged_batch(header, b"", schema)


def test_nodes_that_are_left_over() -> None:
    columns = [pa.array([1]), pa.array([2])]
    header, body = packed(columns)
    with pytest.raises(WireFormatError, match="more field nodes"):
        decode_ragged_batch(header, body, schema_of(columns[:1]))
    with pytest.raises(WireFormatError, match="missing"):
        decode_ragged_batch(header, body, schema_of([*columns, pa.array([3])]))
    with pytest.raises(WireFormatError, match="announced"):
        decode_ragged_batch(header, body[:-8], schema_of(columns))
