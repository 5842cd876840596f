"""Each decoder under atheris, which looks for bytes that lead elsewhere: ``python -m tests.fuzz.decoders``.

A decoder gives a value, or an error of this project's tree. Anything else is a fault, and so is a gigabyte, or ten
seconds for one input. What it has found to be interesting stays in ``.fuzz``, and the next run begins with it. The test
suite changes seeds at random for a moment, without atheris.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import json
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from barrage_server.engine.operation import Operation, OperationKind
from barrage_server.errors import BarrageError
from barrage_server.journal.content import (
    CycleRecord,
    LedgerRecord,
    TableRecord,
    VoidRecord,
    decode_cycle,
    decode_void,
    encode_cycle,
    encode_void,
)
from barrage_server.journal.record import RecordType, encode_record, find_records, read_records
from barrage_server.plan.json_form import plan_from_json, plan_to_json
from barrage_server.rowset import RowSet
from barrage_server.rowset.codec import decode_row_set, decode_shift_data, encode_row_set, encode_shift_data
from barrage_server.rowset.shift_data import RowSetShiftData
from barrage_server.server.web.session import PageLimits, PageSession
from barrage_server.wire.arrow_message import DICTIONARY_BATCH, BatchHeader, decode_schema_message, header_type
from barrage_server.wire.commit_messages import (
    AbortRequest,
    CommitRequest,
    KeepRequest,
    LastBatchRequest,
    StageEnd,
    StageRequest,
)
from barrage_server.wire.dictionaries import DictionaryDecoder
from barrage_server.wire.intake import Intake
from barrage_server.wire.metadata import decode_message
from barrage_server.wire.page_messages import PAGE_VERSION, Close, Move, Open
from barrage_server.wire.plan_messages import BindRequest, ReleaseRequest
from barrage_server.wire.protocol import CreateRequest, DropRequest, PutOptions, TableKind
from barrage_server.wire.raw import decode_flight_data
from barrage_server.wire.request_reader import RequestReader
from barrage_server.wire.table_spec import TableSpec
from barrage_server.wire.tickets import name_of_ticket, parse_computed, parse_ticket, scope_ticket
from tests.fuzz.plans import plans_about

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
CORPUS = ROOT / ".fuzz"
"""Where corpora stay, one folder for each target, and inputs that a run has failed with."""
LIMIT = 1 << 24
"""Bytes that an upload may have."""
_LENGTH = struct.Struct("<I")
_JSON = (
    PutOptions, StageRequest, StageEnd, CommitRequest, AbortRequest, KeepRequest, LastBatchRequest, CreateRequest,
    DropRequest, ReleaseRequest, BindRequest,
)  # fmt: skip
_TABLE = TableRecord(1, "t", pa.schema([("v", pa.int64()), ("text", pa.string())]), TableSpec(TableKind.APPEND))


# What each decoder does with bytes.


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
    """JSON of every action."""
    for kind in _JSON:
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
    parts = _parts(data)
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
    for decode in (lambda: decode_cycle(body, lambda _: _TABLE), lambda: decode_void(body)):
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
}


# What they begin with.


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
        schema = base64.b64encode(_TABLE.schema.serialize().to_pybytes()).decode()
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
    if name == "tickets":
        return [scope_ticket("table"), b"e\1\0\0\0", b"h" + bytes(16), b"a/app/f/field"]
    batch = pa.record_batch({"v": [1, 2], "text": ["a", None]}, _TABLE.schema)
    bodies = [_journal_body(batch), b"".join(map(bytes, encode_void(VoidRecord(3, frozenset({1}), frozenset({0})))))]
    records = [b"".join(map(bytes, encode_record(RecordType.CYCLE, 5, [body], 0)[0])) for body in bodies]
    return [*bodies, *records, b"".join(records)]


def corpus_of(folder: Path, name: str) -> Path:
    """The corpus of a target in ``folder``: its seeds, and what earlier runs have found."""
    corpus = folder / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(name)):
        (corpus / f"seed-{number:03d}").write_bytes(data)
    return corpus


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
        made += _LENGTH.pack(len(header)) + header
        if number:
            made += _LENGTH.pack(len(body)) + body
    return made


def _parts(data: bytes) -> Iterator[bytes]:
    place = 0
    while place + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, place)
        place += _LENGTH.size
        yield data[place : place + length]
        place += length


def _journal_body(batch: pa.RecordBatch) -> bytes:
    record = CycleRecord(7, made=[_TABLE], ledger=[LedgerRecord(1, {"publisher": "p", "batch": 3})])
    record.rows.append((1, Operation(OperationKind.APPEND, batch.columns)))
    return b"".join(map(bytes, encode_cycle(record, {1: _TABLE})))


# Running them.


def check(name: str, data: bytes) -> None:
    """Run a target; only errors of this project's tree are let through."""
    try:
        TARGETS[name](data)
    except BarrageError:
        return


def change(data: bytes, chance: random.Random) -> bytes:
    """Flip, cut, repeat, or overwrite by boundary values."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 4])):
        if not changed:
            return bytes(changed)
        place = chance.randrange(len(changed))
        kind = chance.randrange(4)
        if kind == 0:
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            value = chance.choice([0, 1, -1, 1 << 31, (1 << 31) - 1, (1 << 63) - 1, -(1 << 63)])
            width = chance.choice([1, 2, 4, 8])
            changed[place : place + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
        elif kind == 2:
            del changed[place : place + chance.randint(1, 16)]
        else:
            changed[place:place] = changed[place : place + chance.randint(1, 16)]
    return bytes(changed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.decoders", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], help="all when left out")
    parser.add_argument("--seconds", type=int, default=60, help="for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="where corpora stay, and inputs that fail")
    parser.add_argument("--file", type=Path, help="run one target with the bytes of a file that a failure has left")
    arguments = parser.parse_args()
    if arguments.file is not None:
        for name in arguments.targets:
            check(name, arguments.file.read_bytes())
        return 0
    folder = arguments.corpus.resolve()
    for name in arguments.targets or TARGETS:
        began = time.monotonic()
        command = [sys.executable, "-m", "tests.fuzz.decoders_atheris", name, str(folder), str(arguments.seconds)]
        if importlib.util.find_spec("atheris") is None:
            print("atheris is not installed: make fuzz-decoders installs it", file=sys.stderr)
            return 2
        done = subprocess.run([*command, str(arguments.seed)], capture_output=True, text=True, check=False, cwd=ROOT)
        last = [line for line in done.stderr.splitlines() if line.startswith(("Done", "#"))][-1:]
        kept = sum(1 for _ in (folder / name).iterdir()) if (folder / name).is_dir() else 0
        print(f"{name}: {time.monotonic() - began:.0f} s, {' '.join(last)}, corpus of {kept:,}", flush=True)
        if done.returncode:
            print(f"{name}: FAILED with {done.returncode}, see {folder}\n{done.stderr[-4000:]}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
