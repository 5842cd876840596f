"""What ``decoders.py`` gives bytes to: each decoder of this project, by the name of its target."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pyarrow as pa
from barrage_proto import table_pb2
from google.protobuf.message import DecodeError

from barrage_server.deephaven.operations import planned
from barrage_server.errors import BarrageError
from barrage_server.formula import compile_condition, compile_formula
from barrage_server.journal.checked_text import with_checksum
from barrage_server.journal.checkpoint import read_manifest
from barrage_server.journal.content import (
    TableRecord,
    decode_cycle,
    decode_void,
)
from barrage_server.journal.lineage import LINEAGE, read_lineage
from barrage_server.journal.record import find_records, read_records
from barrage_server.plan.json_form import plan_from_json, plan_to_json
from barrage_server.rowset.codec import decode_row_set, decode_shift_data, encode_row_set
from barrage_server.server.auth import from_payload, parse_authorization
from barrage_server.server.deephaven.multiplex import Demultiplexer, MessageReceived
from barrage_server.server.web.session import PageLimits, PageSession
from barrage_server.wire.arrow_message import DICTIONARY_BATCH, BatchHeader, decode_schema_message, header_type
from barrage_server.wire.commit_messages import (
    AbortRequest,
    AbortResult,
    CommitRequest,
    CommitResult,
    KeepRequest,
    KeepResult,
    LastBatchRequest,
    LastBatchResult,
    StageEnd,
    StageRequest,
    StageResult,
)
from barrage_server.wire.dictionaries import DictionaryDecoder
from barrage_server.wire.intake import Intake
from barrage_server.wire.metadata import decode_message
from barrage_server.wire.page_messages import Close, Move, Open
from barrage_server.wire.plan_messages import BindRequest, FunctionsResult, OperateResult, ReleaseRequest, ReleaseResult
from barrage_server.wire.protocol import CreateRequest, DropRequest, PublicationResult, PutOptions, PutResult, TableKind
from barrage_server.wire.raw import decode_flight_data
from barrage_server.wire.reading import ReadingReport
from barrage_server.wire.request_reader import RequestReader
from barrage_server.wire.resume import ResumePoint
from barrage_server.wire.table_spec import TableSpec
from barrage_server.wire.tickets import name_of_ticket, parse_computed, parse_ticket
from tests.fuzz.computing import rows_of
from tests.journal.simulated import Machine, SimulatedFolder

LIMIT = 1 << 24
"""Bytes that an upload may have."""
LENGTH = struct.Struct("<I")
MESSAGES = (
    PutOptions, StageRequest, StageEnd, CommitRequest, AbortRequest, KeepRequest, LastBatchRequest, CreateRequest,
    DropRequest, ReleaseRequest, BindRequest, PutResult, StageResult, CommitResult, AbortResult, KeepResult,
    LastBatchResult, PublicationResult, OperateResult, ReleaseResult, FunctionsResult,
)  # fmt: skip
"""What is JSON in an action, an upload or an answer."""
TABLE = TableRecord(1, "t", pa.schema([("v", pa.int64()), ("text", pa.string())]), TableSpec(TableKind.APPEND))
"""The one that records of the journal are about."""
_FRAME_BYTES = 1000
_FRAME_PREFIX = 5
_FRAME_STREAMS = 4
_COLUMNS = {field.name: field.type for field in rows_of(0).schema}


def metadata(data: bytes) -> None:
    decode_message(data)


def requests(data: bytes) -> None:
    reader = RequestReader()
    reader.read(data)
    reader.read(data)


def row_set(data: bytes) -> None:
    rows = decode_row_set(data, limit=1 << 16)
    assert decode_row_set(encode_row_set(rows)) == rows


def shift_data(data: bytes) -> None:
    decode_shift_data(data, limit=1 << 16)


def messages(data: bytes) -> None:
    """JSON of every action and answer."""
    for kind in MESSAGES:
        try:
            kind.from_json(data)
        except BarrageError:
            continue


def flight_data(data: bytes) -> None:
    """Protobuf, and the flatbuffers in it."""
    header = decode_flight_data(data).data_header
    if header:
        for decode in (BatchHeader.decode, decode_schema_message):
            try:
                decode(header)
            except BarrageError:
                continue


HARMLESS = (
    "does not represent a whole number of days",
    "is not within the acceptable range",
    "does not fit in precision",
)
"""What Arrow's full validation says of values that ``check_sound`` takes: dates, times and decimals out of range."""


def upload(data: bytes) -> None:
    """Schema, dictionaries and batches, as the ports read them that gRPC serves."""
    parts = parts_of(data)
    schema = next(parts, b"")
    decode_schema_message(schema)
    decoder = DictionaryDecoder(schema, LIMIT)
    intake: Intake | None = None
    for header in parts:
        body = next(parts, b"")
        if header_type(header) == DICTIONARY_BATCH:
            decoder.add(header, body)
        else:
            batch = decoder.batch(header, body)
            intake = intake or Intake(batch.schema, LIMIT, "too much")
            for column in intake.take(batch).columns:
                try:
                    column.validate(full=True)
                except pa.ArrowInvalid as error:
                    if not any(text in str(error) for text in HARMLESS):
                        raise


def tickets(data: bytes) -> None:
    for decode in (parse_ticket, name_of_ticket, parse_computed):
        try:
            decode(data)
        except BarrageError:
            continue


def plan(data: bytes) -> None:
    plan_to_json(plan_from_json(data))


def journal(data: bytes) -> None:
    """Records, and bodies under a right checksum."""
    for record in (*read_records(memoryview(data)), *find_records(memoryview(data), 0)):
        _body(record.body)
    _body(memoryview(data))


def _body(body: memoryview) -> None:
    for decode in (lambda: decode_cycle(body, lambda _: TABLE), lambda: decode_void(body)):
        try:
            decode()
        except BarrageError:
            continue


def page(data: bytes) -> None:
    """The messages of a page, one a line."""
    session = PageSession(PageLimits())
    for line in data.split(b"\n"):
        message = session.receive(line.decode(errors="replace"))
        if isinstance(message, Open):
            session.begin(message.stream)
            session.look(message, 10)
        elif isinstance(message, Move):
            session.look(message, 10)
        elif isinstance(message, Close):
            session.ended(message.stream)


def checkpoint(data: bytes) -> None:
    """What a checkpoint says of itself, and the lineage, each under a right checksum."""
    folder = SimulatedFolder(Machine())
    for name, text in zip(("manifest.json", LINEAGE), parts_of(data), strict=False):
        folder.replace(name, with_checksum(text))
    read_lineage(folder)
    read_manifest(folder, "1")


def formula(data: bytes) -> None:
    """A condition and a column of a table that has every plain type."""
    text = data.decode(errors="replace")
    for compiled in (compile_condition, compile_formula):
        try:
            compiled(text, _COLUMNS)
        except BarrageError:
            continue


def batch(data: bytes) -> None:
    """The operations of a batch of Deephaven's clients, each as a plan."""
    try:
        request = table_pb2.BatchTableRequest.FromString(data)
    except DecodeError:  # the port refuses it before there is a request
        return
    for operation in request.ops:
        kind = operation.WhichOneof("op")
        try:
            planned(kind or "", getattr(operation, kind) if kind else None)
        except BarrageError:
            continue


def frames(data: bytes) -> None:
    """The frames of a websocket, each with its length; their messages are bounded together."""
    demultiplexer = Demultiplexer(message_bytes=_FRAME_BYTES, streams=_FRAME_STREAMS)
    for frame in parts_of(data):
        for event in demultiplexer.receive(frame):
            if isinstance(event, MessageReceived):
                assert len(event.payload) <= _FRAME_BYTES
        assert demultiplexer.pending_bytes <= _FRAME_BYTES + _FRAME_PREFIX
        assert len(demultiplexer.open) <= _FRAME_STREAMS


def headers(data: bytes) -> None:
    """What a stranger says of itself: credentials, the point to resume from, a report of what was read."""
    text = data.decode("latin-1")
    for decode in (lambda: parse_authorization(text), lambda: from_payload(data), lambda: ReadingReport.decode(data)):
        try:
            decode()
        except BarrageError:
            continue
    point = ResumePoint.decode(text)
    assert point is None or ResumePoint.decode(point.encode()) == point


TARGETS: dict[str, Callable[[bytes], None]] = {
    "metadata": metadata,
    "requests": requests,
    "row_set": row_set,
    "shift_data": shift_data,
    "messages": messages,
    "flight_data": flight_data,
    "upload": upload,
    "tickets": tickets,
    "journal": journal,
    "plan": plan,
    "page": page,
    "checkpoint": checkpoint,
    "formula": formula,
    "batch": batch,
    "frames": frames,
    "headers": headers,
}


def parts_of(data: bytes) -> Iterator[bytes]:
    """The pieces of ``data``, each behind its length as :data:`LENGTH`; what is cut short ends with it."""
    place = 0
    while place + LENGTH.size <= len(data):
        (length,) = LENGTH.unpack_from(data, place)
        place += LENGTH.size
        yield data[place : place + length]
        place += length
