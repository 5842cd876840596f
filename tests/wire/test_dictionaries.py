"""Streams with dictionaries, decoded message by message."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from barrage_server.errors import LimitError, WireFormatError
from barrage_server.wire.arrow_message import DICTIONARY_BATCH, BatchHeader, header_type, schema_header
from barrage_server.wire.dictionaries import DictionaryDecoder, has_dictionaries, survives_streams

Message = tuple[bytes, bytes]


def messages(batches: list[pa.RecordBatch], **options: object) -> list[Message]:
    """Header and body of each message behind the schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    found = [(message.metadata.to_pybytes(), message.body.to_pybytes()) for message in list(reader)[1:]]
    return [(header, body) for header, body in found if header]


def batch_of(texts: list[str], dictionary: list[str]) -> pa.RecordBatch:
    indices = pa.array([dictionary.index(text) for text in texts], pa.int8())
    return pa.record_batch([pa.DictionaryArray.from_arrays(indices, pa.array(dictionary))], names=["x"])


def decoded(decoder: DictionaryDecoder, sent: list[Message]) -> list[list[str]]:
    found = []
    for header, body in sent:
        if header_type(header) == DICTIONARY_BATCH:
            decoder.add(header, body)
        else:
            found.append(decoder.batch(header, body).column(0).to_pylist())
    return found


@pytest.mark.parametrize("deltas", [False, True])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_dictionaries_are_replaced_and_continued(deltas: bool, compression: str | None) -> None:
    batches = [batch_of(["a"], ["a"]), batch_of(["b", "a"], ["a", "b"]), batch_of(["b"], ["a", "b"])]
    sent = messages(batches, emit_dictionary_deltas=deltas, compression=compression)
    assert decoded(DictionaryDecoder(schema_header(batches[0].schema), 1 << 20), sent) == [["a"], ["b", "a"], ["b"]]


def renumbered(header: bytes) -> bytes:
    """With the number 7 for dictionary 1."""
    changed = bytearray(header)
    for at in range(0, len(header) - 7, 4):
        if changed[at : at + 8] == struct.pack("<q", 1):
            changed[at : at + 8] = struct.pack("<q", 7)
    return bytes(changed)


def test_dictionaries_have_the_numbers_of_the_sender() -> None:
    """Other implementations count in another way than pyarrow, which would number them anew."""
    texts = [pa.array(values).dictionary_encode() for values in (["a", "b", "b"], ["x", "y", "z"])]
    batch = pa.record_batch(texts, ["a", "b"])
    first, second, rows = messages([batch])
    assert BatchHeader.of_dictionary(second[0])[0] == 1
    second = (renumbered(second[0]), second[1])
    assert BatchHeader.of_dictionary(second[0])[0] == 7
    decoder = DictionaryDecoder(renumbered(schema_header(batch.schema)), 1 << 20)
    decoder.add(*first)
    decoder.add(*second)
    assert decoder.batch(*rows).to_pylist() == batch.to_pylist()


@pytest.mark.parametrize(
    ("kind", "survives"),
    [
        (pa.dictionary(pa.int8(), pa.string()), True),
        (pa.list_(pa.dictionary(pa.int8(), pa.list_(pa.string()))), True),
        (pa.opaque(pa.dictionary(pa.int8(), pa.string()), "kind", "vendor"), True),
        (
            pa.dictionary(pa.int8(), pa.list_(pa.run_end_encoded(pa.int16(), pa.dictionary(pa.int8(), pa.string())))),
            False,
        ),
        (pa.struct([("a", pa.dictionary(pa.int8(), pa.uuid()))]), False),
    ],
    ids=str,
)
def test_which_dictionaries_survive_streams(kind: pa.DataType, survives: bool) -> None:
    assert survives_streams(kind) is survives


def test_a_batch_before_its_dictionary_is_refused() -> None:
    batch = batch_of(["a"], ["a"])
    (dictionary, rows) = messages([batch])
    with pytest.raises(WireFormatError):
        DictionaryDecoder(schema_header(batch.schema), 1 << 20).batch(*rows)
    with pytest.raises(WireFormatError, match="body"):
        DictionaryDecoder(schema_header(batch.schema), 1 << 20).add(dictionary[0], b"")
    with pytest.raises(WireFormatError):
        DictionaryDecoder(schema_header(batch.schema), 1 << 20).add(*rows)


@pytest.mark.parametrize(
    ("data_type", "has"),
    [
        (pa.string(), False),
        (pa.list_(pa.struct({"a": pa.int64()})), False),
        (pa.dictionary(pa.int8(), pa.string()), True),
        (pa.list_(pa.struct({"a": pa.dictionary(pa.int8(), pa.string())})), True),
        (pa.run_end_encoded(pa.int32(), pa.dictionary(pa.int8(), pa.string())), True),
        (pa.run_end_encoded(pa.int32(), pa.string()), False),
    ],
    ids=str,
)
def test_dictionaries_are_found_at_any_depth(data_type: pa.DataType, has: bool) -> None:
    assert has_dictionaries(data_type) is has


class TestLimits:
    """A stream of nothing but dictionaries takes memory, too."""

    def test_of_dictionaries_that_wait(self) -> None:
        batch = batch_of(["a"], ["a", "x" * 1000])
        dictionary, _ = messages([batch])
        decoder = DictionaryDecoder(schema_header(batch.schema), 10_000)
        with pytest.raises(LimitError):
            for _ in range(100):
                decoder.add(*dictionary)

    def test_of_dictionaries_that_are_continued(self) -> None:
        batches = [batch_of(["0"], [f"{number}" + "x" * 1000 * number for number in range(count)]) for count in (1, 9)]
        first, rows, delta, _ = messages(batches, emit_dictionary_deltas=True)
        decoder = DictionaryDecoder(schema_header(batches[0].schema), 80_000)
        with pytest.raises(LimitError):
            decoded(decoder, [first, *[rows, delta] * 10])

    def test_dictionaries_that_are_replaced_do_not_add_up(self) -> None:
        batch = batch_of(["a"], ["a", "x" * 1000])
        sent = messages([batch]) * 100
        assert decoded(DictionaryDecoder(schema_header(batch.schema), 10_000), sent) == [["a"]] * 100

    def test_of_bodies_when_they_are_decompressed(self) -> None:
        batch = batch_of(["a"], ["a", "x" * 100_000])
        dictionary, _ = messages([batch], compression="zstd")
        assert len(dictionary[1]) < 1000
        with pytest.raises(LimitError):
            DictionaryDecoder(schema_header(batch.schema), 50_000).add(*dictionary)
        damaged = bytearray(dictionary[1])
        damaged[:8] = struct.pack("<q", 1 << 42)
        with pytest.raises(LimitError):
            DictionaryDecoder(schema_header(batch.schema), 1 << 40).add(dictionary[0], bytes(damaged))
