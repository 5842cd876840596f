"""Rows in layouts and encodings that do harm: refused at all endpoints, in every way in, and the server goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.publish import StagingLimits
from barrage_server.rowset import RowSet
from barrage_server.server import Limits, Server
from barrage_server.wire.commit_messages import StageRequest
from barrage_server.wire.metadata import PublicationRequest, UpdateMetadata
from barrage_server.wire.protocol import STAGE_COMMAND
from barrage_server.wire.tickets import scope_ticket
from tests.server.conftest import address, endpoints

LIMIT = 1 << 20
REFUSED = (fl.FlightError, pa.ArrowException)


def _overlapping_views() -> pa.Array:
    return pa.ListViewArray.from_arrays([0] * 1000, pa.array([1000] * 1000, pa.int32()), pa.array(range(1000)))


def _views_of_one_text() -> pa.Array:
    buffers = pa.array(["x" * 1000], pa.string_view()).buffers()
    return pa.Array.from_buffers(
        pa.string_view(), 10_000, [None, pa.py_buffer(buffers[1].to_pybytes()[:16] * 10_000), *buffers[2:]]
    )


def _dictionary_of_runs() -> pa.Array:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1_000_000], pa.int32()), pa.array([7]))
    return pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), runs)


def _wide_union() -> pa.Array:
    """Few bytes, all of the narrow member: a table keeps a null of the wide one beside each."""
    codes, places = pa.array([0] * 100, pa.int8()), pa.array(range(100), pa.int32())
    return pa.UnionArray.from_dense(codes, places, [pa.array(range(100), pa.int8()), pa.nulls(0, pa.binary(1 << 16))])


BOMBS: dict[str, Callable[[], pa.Array]] = {
    "runs": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([10_000_000], pa.int32()), pa.array([7])),
    "runs in a struct": lambda: pa.StructArray.from_arrays([BOMBS["runs"]()], ["a"]),
    "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array(np.zeros(10_000, np.int8)), pa.array(["x" * 1000])),
    "dictionary of runs": _dictionary_of_runs,
    "list views that overlap": _overlapping_views,
    "views of one text": _views_of_one_text,
    "nulls": lambda: pa.nulls(1_000_000),
    "union": _wide_union,
    "union in a list": lambda: pa.ListArray.from_arrays([0, 100], _wide_union()),
    "bytes of no width": lambda: pa.Array.from_buffers(pa.binary(0), 1_000_000, [None, pa.py_buffer(b"")]),
}


def _texts(*offsets: int) -> pa.Array:
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"abcdefgh")]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


DAMAGED: dict[str, Callable[[], pa.Array]] = {
    "texts far away": lambda: _texts(0, 1 << 30, 1 << 30, 8),
    "texts that run backwards": lambda: _texts(0, 8, 2, 8),
    "lists of them": lambda: pa.ListArray.from_arrays([0, 3], _texts(0, 1 << 30, 1 << 30, 8)),
    "indices": lambda: pa.DictionaryArray.from_arrays(pa.array([0, 99], pa.int8()), pa.array(["a"]), safe=False),
    "dictionary": lambda: pa.DictionaryArray.from_arrays(
        pa.array([1], pa.int8()), _texts(0, 1 << 30, 1 << 30, 8), safe=False
    ),
}


def _interval(unit: int) -> pa.DataType:
    """The Arrow type of intervals in months (0), or in days and milliseconds (1): pyarrow reads it and has no arrays of
    it."""
    known = pa.schema([("x", pa.month_day_nano_interval())])
    message = known.serialize().to_pybytes()
    for place, byte in enumerate(message):
        if byte == 2:  # one of them is the unit: nanoseconds, too
            with suppress(pa.ArrowException, OSError):
                changed = message[:place] + bytes([unit]) + message[place + 1 :]
                found = pa.ipc.read_schema(pa.BufferReader(changed)).field(0).type
                if found != known.field(0).type:
                    return found
    raise AssertionError


UNREADABLE: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "plain": lambda interval: interval,
    "list": pa.list_,
    "struct": lambda interval: pa.struct([("a", interval)]),
    "dictionary": lambda interval: pa.dictionary(pa.int8(), interval),
}


def put_rows(client: fl.FlightClient, batch: pa.RecordBatch) -> None:
    writer, answers = client.do_put(fl.FlightDescriptor.for_path("t"), batch.schema)
    with writer:
        writer.write_batch(batch)
        writer.done_writing()
        answers.read()


def stage_rows(client: fl.FlightClient, batch: pa.RecordBatch) -> None:
    writer, answers = client.do_put(fl.FlightDescriptor.for_command(STAGE_COMMAND), batch.schema)
    with writer:
        writer.write_metadata(StageRequest("p", "t", 0, "a").to_json())
        writer.write_batch(batch)
        writer.done_writing()
        answers.read()


def publish_update(client: fl.FlightClient, batch: pa.RecordBatch) -> None:
    writer, answers = client.do_put(fl.FlightDescriptor.for_path("t"), batch.schema)
    rows = RowSet.flat(batch.num_rows)
    metadata = UpdateMetadata(is_snapshot=True, added_rows=rows, added_rows_included=rows)
    with writer:
        writer.write_metadata(PublicationRequest(scope_ticket("t")).encode())
        writer.write_with_metadata(batch, metadata.encode())
        writer.done_writing()
        answers.read()


WAYS = {"rows": put_rows, "staging": stage_rows, "publication": publish_update}


@pytest.fixture
def small(endpoint: str) -> Iterator[Server]:
    limits = Limits(put_bytes=LIMIT, staging=StagingLimits(entry_bytes=LIMIT))
    with Server(limits=limits, **endpoints(endpoint)) as server:
        yield server


def _send(server: Server, endpoint: str, way: str, array: pa.Array) -> None:
    with fl.connect(address(server, endpoint)) as client:
        WAYS[way](client, pa.record_batch([array], names=["x"]))


def _check_good(server: Server, endpoint: str) -> None:
    """Others go on: a table of the same name, too."""
    _send(server, endpoint, "rows", pa.array([1, 2]))
    assert server.table("t").to_arrow().column("x").to_pylist() == [1, 2]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BOMBS)
def test_what_is_small_only_as_long_as_it_is_encoded_is_refused(
    small: Server, endpoint: str, way: str, name: str
) -> None:
    with pytest.raises(REFUSED, match="LimitError"):
        _send(small, endpoint, way, BOMBS[name]())
    _check_good(small, endpoint)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DAMAGED)
def test_what_leads_astray_is_refused(small: Server, endpoint: str, way: str, name: str) -> None:
    with pytest.raises(REFUSED, match="WireFormatError"):
        _send(small, endpoint, way, DAMAGED[name]())
    _check_good(small, endpoint)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("unit", [0, 1], ids=["months", "days"])
def test_types_without_arrays_are_refused(small: Server, endpoint: str, way: str, kind: str, unit: int) -> None:
    schema = pa.schema([("x", UNREADABLE[kind](_interval(unit)))])
    # rows of a type that is laid out alike, under the other schema
    rows = pa.nulls(2, UNREADABLE[kind](pa.int32() if unit == 0 else pa.int64()))
    with pa.ipc.new_stream(sink := pa.BufferOutputStream(), pa.schema([("x", rows.type)])) as writer:
        writer.write_batch(pa.record_batch([rows], names=["x"]))
    stream = pa.BufferReader(sink.getvalue())
    pa.ipc.read_message(stream)
    batch = pa.ipc.open_stream(schema.serialize().to_pybytes() + stream.read()).read_next_batch()
    with fl.connect(address(small, endpoint)) as client, pytest.raises(REFUSED, match="UnsupportedTypeError"):
        WAYS[way](client, batch)
    _check_good(small, endpoint)


@pytest.mark.parametrize("mode", ["dense", "sparse"])
def test_a_schema_without_rows_takes_no_values(small: Server, endpoint: str, mode: str) -> None:
    """Arrow makes a null of a union's member where there are no rows."""
    wide = pa.union([pa.field("a", pa.list_(pa.int8(), 1 << 28)), pa.field("b", pa.string())], mode)
    schema = pa.schema([("x", wide), ("y", pa.list_(wide)), ("z", pa.dictionary(pa.int8(), pa.string()))])
    before = pa.total_allocated_bytes()
    with fl.connect(address(small, endpoint)) as client:
        writer, answers = client.do_put(fl.FlightDescriptor.for_path("empty"), schema)
        writer.done_writing()
        answers.read()
        writer.close()
    assert small.table("empty").size == 0
    assert pa.total_allocated_bytes() - before < 1 << 26


@pytest.mark.parametrize("mode", ["dense", "sparse"])
def test_a_union_without_members_is_refused(small: Server, endpoint: str, mode: str) -> None:
    """pyarrow cannot make an empty array of it without ending the process."""
    with fl.connect(address(small, endpoint)) as client, pytest.raises(REFUSED, match="UnsupportedTypeError"):
        writer, answers = client.do_put(fl.FlightDescriptor.for_path("t"), pa.schema([("x", pa.union([], mode))]))
        with writer:
            writer.done_writing()
            answers.read()
    _check_good(small, endpoint)


def test_nulls_that_become_wide_values_are_counted_as_these(small: Server, endpoint: str) -> None:
    """A column of type null fits every column, and takes what the values of that take."""
    wide = pa.schema([("x", pa.list_(pa.float64(), 1000))])
    small.append_table("t", wide)
    with pytest.raises(REFUSED, match="LimitError"):
        _send(small, endpoint, "rows", pa.nulls(1000))
    _send(small, endpoint, "rows", pa.nulls(10))
    assert small.table("t").size == 10


def test_a_publication_brings_the_values_of_all_columns(small: Server, endpoint: str) -> None:
    """Else a few bytes in one column would make wide rows in the others."""
    schema = pa.schema([("a", pa.bool_()), ("b", pa.list_(pa.float64(), 1000))])
    listed = pa.schema([pa.field(f.name, pa.list_(f), nullable=False) for f in schema])
    rows = RowSet.flat(100_000)
    flags = pa.array([[True] * 100_000], listed.types[0])
    nothing = pa.array([[]], listed.types[1])
    metadata = UpdateMetadata(is_snapshot=True, added_rows=rows, added_rows_included=rows)
    with (
        fl.connect(address(small, endpoint)) as client,
        pytest.raises(REFUSED, match="WireFormatError"),
    ):
        writer, answers = client.do_put(fl.FlightDescriptor.for_path("t"), listed)
        with writer:
            writer.write_metadata(PublicationRequest(scope_ticket("t")).encode())
            writer.write_with_metadata(pa.record_batch([flags, nothing], schema=listed), metadata.encode())
            writer.done_writing()
            answers.read()


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_rows_count_as_they_are(small: Server, endpoint: str, codec: str) -> None:
    batch = pa.record_batch([pa.array(np.zeros(1_000_000, np.int64))], names=["x"])
    options = fl.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression=codec))
    with (
        fl.connect(address(small, endpoint)) as client,
        pytest.raises(REFUSED, match="LimitError"),
    ):
        writer, answers = client.do_put(fl.FlightDescriptor.for_path("t"), batch.schema, options)
        with writer:
            writer.write_batch(batch)
            writer.done_writing()
            answers.read()
    _check_good(small, endpoint)
