"""Valid bytes for each target of ``targets.py``."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

from barrage_server.engine import AppendTable, UpdateGraph
from barrage_server.engine.operation import Operation, OperationKind
from barrage_server.errors import BarrageError
from barrage_server.journal.checked_text import without_checksum
from barrage_server.journal.checkpoint import Checkpoint, Unsaved, save_checkpoint
from barrage_server.journal.content import CycleRecord, LedgerRecord, VoidRecord, encode_cycle, encode_void
from barrage_server.journal.lineage import LINEAGE, write_lineage
from barrage_server.journal.record import RecordType, encode_record
from barrage_server.rowset import RowSet
from barrage_server.rowset.codec import encode_row_set, encode_shift_data
from barrage_server.rowset.shift_data import RowSetShiftData
from barrage_server.wire.page_messages import PAGE_VERSION
from barrage_server.wire.raw import decode_flight_data
from barrage_server.wire.reading import ReadingReport
from barrage_server.wire.resume import Era, Lineage, ResumePoint
from barrage_server.wire.tickets import scope_ticket
from tests.fuzz.corpus import batches_about
from tests.fuzz.plans import plans_about
from tests.fuzz.targets import LENGTH, TABLE
from tests.fuzz.texts import FORMULAS
from tests.journal.simulated import Machine, SimulatedFolder

GOLDEN = Path(__file__).parents[1] / "golden"


def seeds(name: str) -> list[bytes]:
    """Valid bytes for a target, made from the golden vectors and the encoders."""
    chance = np.random.default_rng(1)
    sets = [RowSet.from_keys(np.unique(chance.integers(0, 1 << bits, 50))) for bits in (6, 12, 40)]
    if name in ("metadata", "requests", "flight_data"):
        golden = [path.read_bytes() for path in sorted(GOLDEN.glob("*/*.bin")) if path.stat().st_size < 4000]
        if name == "flight_data":
            return golden[:200]
        return [found for data in golden if (found := _metadata_of(data))][:200]
    if name == "row_set":
        return [bytes(encode_row_set(rows)) for rows in (RowSet.empty(), *sets)]
    if name == "shift_data":
        return [bytes(encode_shift_data(RowSetShiftData.from_arrays([10, 40], [20, 50], [5, -3])))]
    if name == "messages":
        schema = base64.b64encode(TABLE.schema.serialize().to_pybytes()).decode()
        made: list[dict[str, object]] = [
            {"publisher": "p", "table": "t", "batch": 1, "attempt": "a"},
            {"batches": 3},
            {"publisher": "p", "table": "t", "batch": 1, "tokens": ["x"], "schema": schema, "mode": "append"},
            {"table": "t", "schema": schema, "kind": "keyed", "key": ["v"]},
            {"tokens": ["x"], "publisher": "p", "batch": 3, "epoch": "e"},
        ]
        return [json.dumps(one).encode() for one in made]
    if name == "upload":
        return [_stream(array) for array in _arrays()]
    if name == "plan":
        return list(plans_about("table"))
    if name == "page":
        hello, where = {"type": "hello", "version": PAGE_VERSION, "token": "x"}, {"first": 0, "count": 10}
        opened = {"type": "open", "stream": 1, "table": "t", "kind": "follow", "columns": [0, 2], **where}
        rest: list[dict[str, object]] = [
            {"type": "move", "stream": 1, **where},
            {"type": "ack", "stream": 1, "updates": 1},
            {"type": "pause", "stream": 1},
            {"type": "resume", "stream": 1},
            {"type": "cell", "stream": 1, "request": 1, "row": 3, "column": 2},
            {"type": "ping", "n": 1},
            {"type": "health", "on": True},
            {"type": "close", "stream": 1},
        ]
        return [b"\n".join(json.dumps(one).encode() for one in (hello, opened, *rest[:end])) for end in range(9)]
    if name == "checkpoint":
        return [_framed(_state_texts())]
    if name == "formula":
        return [text.encode() for text in FORMULAS]
    if name == "batch":
        return list(batches_about("table", "other"))
    if name == "frames":
        stream, ends = struct.pack(">I", 3), struct.pack(">I", 3 | 1 << 31)
        opening = stream + b"grpc-websockets-path: Service/Method\r\nauthorization: Bearer x\r\n"
        sent = [opening, stream + b"\0\0\0\0\0\7request", ends + b"\1"]
        return [_framed(sent[:end]) for end in range(1, 4)]
    if name == "headers":
        basic = base64.b64encode(b"user:password")
        point, report = ResumePoint("lineage", 7).encode().encode(), ReadingReport(3, 10).encode()
        handshake = bytes(fl.BasicAuth("user", "password").serialize())
        return [b"Basic " + basic, b"Bearer token", point, report, handshake]
    if name == "tickets":
        return [scope_ticket("table"), b"e\1\0\0\0", b"h" + bytes(16), b"a/app/f/field"]
    batch = pa.record_batch({"v": [1, 2], "text": ["a", None]}, TABLE.schema)
    bodies = [_journal_body(batch), b"".join(map(bytes, encode_void(VoidRecord(3, frozenset({1}), frozenset({0})))))]
    records = [b"".join(map(bytes, encode_record(RecordType.CYCLE, 5, [body], 0)[0])) for body in bodies]
    return [*bodies, *records, b"".join(records)]


def _metadata_of(data: bytes) -> bytes | None:
    try:
        found = decode_flight_data(data).app_metadata
    except BarrageError:
        return None
    return None if found is None else bytes(found)


def _arrays() -> Iterator[pa.Array]:
    yield pa.array([1, None, 3])
    yield pa.array(["a", None, "long enough not to be inline"], pa.string_view())
    yield pa.array(["a", "b", "a"]).dictionary_encode()
    yield pa.array([[1], None, [2, 3]])
    yield pa.array([{"a": 1, "b": "x"}, None])
    yield pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, 8]))


def _stream(array: pa.Array) -> bytes:
    """The messages of a stream, each header and body with its length."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([array], ["x"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    made = b""
    for number, message in enumerate(pa.ipc.MessageReader.open_stream(sink.getvalue())):
        header = message.metadata.to_pybytes()
        body = b"" if message.body is None else message.body.to_pybytes()
        made += LENGTH.pack(len(header)) + header
        if number:
            made += LENGTH.pack(len(body)) + body
    return made


def _journal_body(batch: pa.RecordBatch) -> bytes:
    record = CycleRecord(7, made=[TABLE], ledger=[LedgerRecord(1, {"publisher": "p", "batch": 3})])
    record.rows.append((1, Operation(OperationKind.APPEND, batch.columns)))
    return b"".join(map(bytes, encode_cycle(record, {1: TABLE})))


def _state_texts() -> Iterator[bytes]:
    """What a data directory says of a checkpoint and of its starts."""
    folder = SimulatedFolder(Machine())
    table = AppendTable(UpdateGraph(), "t", TABLE.schema)
    table.append({"v": [1, 2], "text": ["a", None]})
    ledger = (LedgerRecord(1, {"publisher": "p", "epoch": "e", "batch": 3}),)
    goal = Checkpoint("directory", 1, 7, 2, ledger=ledger)
    save_checkpoint(folder, None, goal, [Unsaved(TABLE, table.version, 2)])
    write_lineage(folder, Lineage((Era("first", 0), Era("second", 5))), "directory", 3)
    for content in (folder.folder(goal.name).read("manifest.json"), folder.read(LINEAGE)):
        text = without_checksum(content)
        assert text is not None
        yield text


def _framed(parts: Iterable[bytes]) -> bytes:
    return b"".join(LENGTH.pack(len(part)) + part for part in parts)
