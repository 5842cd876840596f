"""The bodies of records: JSON, then Arrow IPC messages with rows.

A body begins with the length of the JSON text (4 bytes, little-endian), the text, and spaces up to a multiple of 8. The
JSON of a ``CYCLE``:

``step``
    the cycle.
``made``
    tables that the cycle creates: ``id``, ``name``, ``kind``, ``key``, ``capacity``, and ``schema``, an IPC schema
    message in base64.
``dropped``
    ids of tables that the cycle removes.
``exchanged``
    pairs of ids: a table that the cycle removes, and the one in ``made`` that gets its place and its ledger entries.
``rows``
    operations in order: ``table`` (its id), ``kind``, ``bytes``. A record batch message for each operation follows the
    JSON, in the same order.
``ledger``
    batches that the cycle commits: ``table`` (its id), and the fields of :class:`LedgerRecord`.

The JSON of a ``VOID``: ``cycle`` (the number of the record), and the changes that have not happened: ids of ``tables``,
which keep their content, and ``notes``, the numbers of entries of ``made``, ``dropped``, ``exchanged`` and ``ledger``,
counted through.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from barrage_server.engine.operation import Operation, OperationKind
from barrage_server.engine.storage import storage_type
from barrage_server.errors import JournalError, UnsupportedTypeError
from barrage_server.journal.files import Buffer
from barrage_server.journal.json_form import MALFORMED, whole_number
from barrage_server.journal.record import RecordType
from barrage_server.wire.empty import empty_array
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.table_spec import TableSpec

__all__ = [
    "CycleRecord",
    "LedgerRecord",
    "NameHolder",
    "TableRecord",
    "VoidRecord",
    "check_kept",
    "decode_cycle",
    "decode_void",
    "encode_cycle",
    "encode_void",
    "length_in",
    "operation_schema",
    "with_repeated",
    "without_repeated",
]

_LENGTH: Final = struct.Struct("<I")
_ALIGNMENT: Final = 8
_NOT_KEPT: Final = (
    "A data directory cannot keep a table with these columns: {}. Use simpler types, or make the table with "
    "durable=False."
)
_UNREADABLE: Final = "A record of {} in the journal cannot be read ({}). Restore the data directory from a backup."


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A table that exists from a cycle on.

    Attributes:
        id: its number in the data directory, which no other table ever has.
        name: its name.
        schema: its columns.
        spec: its kind, key and capacity.
    """

    id: int
    name: str
    schema: pa.Schema
    spec: TableSpec

    def to_json(self) -> dict[str, Any]:
        """The JSON form of the record."""
        return {
            "id": self.id,
            "name": self.name,
            "schema": base64.b64encode(self.schema.serialize()).decode(),
            "kind": str(self.spec.kind),
            "key": list(self.spec.key),
            "capacity": self.spec.capacity,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> TableRecord:
        """The record of a JSON form."""
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(found["schema"])))
        spec = TableSpec(TableKind(found["kind"]), tuple(found["key"]), found["capacity"])
        return cls(whole_number(found["id"]), str(found["name"]), schema, spec)


class NameHolder(NamedTuple):
    """The user and the epoch that a publisher's name belongs to.

    Attributes:
        principal: the user; empty if the name belongs to no user.
        epoch: the present epoch.
        earlier: the epochs before, which are refused.
    """

    principal: str
    epoch: str | None
    earlier: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """A batch that is committed to a table.

    Attributes:
        table: the id of the table.
        entry: the ledger's entry in JSON. This room reads the identity of its commit, and the holder of the name.
    """

    table: int
    entry: Mapping[str, Any]

    @property
    def publisher(self) -> str:
        """The name under which the batch is committed."""
        return str(self.entry["publisher"])

    @property
    def key(self) -> tuple[int, str]:
        """Table and publisher: an entry replaces earlier ones with the same key."""
        return self.table, self.publisher

    @property
    def commit(self) -> tuple[str, str | None, int]:
        """Publisher, epoch and batch, which identify the commit of the entry."""
        return self.publisher, self._epoch, int(self.entry["batch"])

    @property
    def holder(self) -> NameHolder:
        """The holder of the publisher's name since the commit."""
        entry = self.entry
        return NameHolder(str(entry.get("principal", "")), self._epoch, tuple(entry.get("earlier", ())))

    @property
    def is_released(self) -> bool:
        """Whether the name had been taken from the user before, whose commits count on."""
        return self.entry.get("released") is True

    def held_by(self, principal: str) -> LedgerRecord:
        """The same commit, under a name that now belongs to the user ``principal``."""
        return LedgerRecord(self.table, {**self.entry, "principal": principal})

    @property
    def _epoch(self) -> str | None:
        epoch = self.entry.get("epoch")
        return None if epoch is None else str(epoch)


@dataclass(slots=True)
class CycleRecord:
    """The changes that a cycle is about to make.

    Attributes:
        step: the cycle.
        made: tables that the cycle creates.
        dropped: ids of tables that it removes.
        exchanged: pairs of ids: a table that it removes, and the table that takes its place.
        rows: operations in order, each with the id of its table.
        ledger: batches that it commits.
    """

    step: int
    made: list[TableRecord] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    exchanged: list[tuple[int, int]] = field(default_factory=list)
    rows: list[tuple[int, Operation]] = field(default_factory=list)
    ledger: list[LedgerRecord] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to record."""
        return not (self.made or self.dropped or self.exchanged or self.rows or self.ledger)


@dataclass(frozen=True, slots=True)
class VoidRecord:
    """The changes that a cycle has failed to make.

    Attributes:
        cycle: the number of the cycle's record.
        tables: ids of the tables that it has not changed.
        notes: the numbers of the entries of ``made``, ``dropped``, ``exchanged`` and ``ledger``, counted through, that
            have not happened.
    """

    cycle: int
    tables: frozenset[int]
    notes: frozenset[int]


def check_kept(schema: pa.Schema) -> None:
    """Check that records and checkpoints with such columns can be read again.

    Rows play no part in it. Arrow's messages have a bound for the depth of types, in which a map counts twice, and none
    is read whose metadata names an extension type that has other storage.

    Raises:
        UnsupportedTypeError: they cannot.
    """
    try:
        read = pa.ipc.read_schema(schema.serialize())
        if not read.equals(schema) and list(map(_kept_as, read)) != list(map(_kept_as, schema)):
            raise UnsupportedTypeError(_NOT_KEPT.format("Arrow reads other columns than it has written"))
        given = {str(field.type): field.type for field in schema}  # an extension type may have no hash
        types = [*given.values(), *{storage_type(field.type) for field in schema}]
        batch = pa.RecordBatch.from_arrays(list(map(empty_array, types)), list(map(str, range(len(types)))))
        pa.ipc.read_record_batch(batch.serialize(), pa.ipc.read_schema(batch.schema.serialize()))
    except (pa.ArrowException, OSError, RecursionError) as error:
        raise UnsupportedTypeError(_NOT_KEPT.format(str(error).rstrip("."))) from error


def _kept_as(field: pa.Field) -> tuple[str, pa.DataType, bool]:
    """What must be the same of a column after a restart.

    An extension type may be unknown then.
    """
    return field.name, storage_type(field.type), field.nullable


def operation_schema(schema: pa.Schema, spec: TableSpec, kind: OperationKind) -> pa.Schema:
    """The columns of an operation: all of the table, or its key for a deletion."""
    if kind is not OperationKind.DELETE:
        return schema
    return pa.schema([schema.field(name) for name in spec.key])


def encode_cycle(record: CycleRecord, tables: Mapping[int, TableRecord]) -> list[Buffer]:
    """The parts of the body of a record.

    Args:
        record: the record.
        tables: the tables with operations, by id.
    """
    batches: list[Buffer] = []
    rows = []
    for number, operation in record.rows:
        table = tables[number]
        schema = operation_schema(table.schema, table.spec, operation.kind)
        batch = pa.RecordBatch.from_arrays(list(operation.columns), schema=schema).serialize()
        rows.append({"table": number, "kind": str(operation.kind), "bytes": batch.size})
        batches.append(memoryview(batch))
        if batch.size % _ALIGNMENT:
            batches.append(bytes(-batch.size % _ALIGNMENT))
    head: dict[str, Any] = {"step": record.step}
    if record.made:
        head["made"] = [table.to_json() for table in record.made]
    if record.dropped:
        head["dropped"] = record.dropped
    if record.exchanged:
        head["exchanged"] = record.exchanged
    if rows:
        head["rows"] = rows
    if record.ledger:
        shared = without_repeated(entry.entry for entry in record.ledger)
        head["ledger"] = [{"table": one.table, **entry} for one, entry in zip(record.ledger, shared, strict=True)]
    return [_head(head), *batches]


def decode_cycle(body: memoryview, table: Callable[[int], TableRecord]) -> CycleRecord:
    """The record of a body.

    Args:
        body: the bytes.
        table: returns the table of an id; not called for tables that the record itself makes.

    Raises:
        JournalError: the body is not the body of a cycle.
    """
    try:
        head, offset = _read_head(body)
        made = [TableRecord.from_json(found) for found in head.get("made", ())]
        own = {one.id: one for one in made}
        dropped = [whole_number(number) for number in head.get("dropped", ())]
        exchanged = [(whole_number(before), whole_number(after)) for before, after in head.get("exchanged", ())]
        record = CycleRecord(whole_number(head["step"]), made, dropped, exchanged)
        for entry in head.get("rows", ()):
            number, nbytes = whole_number(entry["table"]), whole_number(entry["bytes"])
            kind = OperationKind(entry["kind"])
            known = own.get(number) or table(number)
            schema = operation_schema(known.schema, known.spec, kind)
            message = pa.py_buffer(body[offset : offset + nbytes])
            batch = pa.ipc.read_record_batch(message, schema)
            record.rows.append((number, Operation(kind, batch.columns)))
            offset += nbytes + -nbytes % _ALIGNMENT
        for entry in with_repeated(head.get("ledger", ())):
            rest = {name: value for name, value in entry.items() if name != "table"}
            record.ledger.append(LedgerRecord(whole_number(entry["table"]), rest))
    except JournalError:
        raise
    except MALFORMED as error:
        raise JournalError(_UNREADABLE.format("a cycle", f"{type(error).__name__}: {error}")) from error
    return record


def without_repeated(entries: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The ledger's entries, each without what is the same in the entry before.

    All entries have the same fields. A publisher may commit to many tables at once, and have a long name that it has
    taken over from many epochs: that is written once in a text, and not for each table.
    """
    before: Mapping[str, Any] = {}
    for entry in entries:
        yield {name: value for name, value in entry.items() if name not in before or before[name] != value}
        before = entry


def with_repeated(entries: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The entries of a text, each with all its fields; see :func:`without_repeated`."""
    before: dict[str, Any] = {}
    for entry in entries:
        before = {**before, **entry}
        yield before


def encode_void(record: VoidRecord) -> list[Buffer]:
    """The parts of the body of a record."""
    head = {"cycle": record.cycle, "tables": sorted(record.tables), "notes": sorted(record.notes)}
    return [_head(head)]


def decode_void(body: memoryview) -> VoidRecord:
    """The record of a body.

    Raises:
        JournalError: the body is not the body of a void record.
    """
    try:
        head, _ = _read_head(body)
        tables, notes = (frozenset(map(whole_number, head[name])) for name in ("tables", "notes"))
        return VoidRecord(whole_number(head["cycle"]), tables, notes)
    except MALFORMED as error:
        raise JournalError(
            _UNREADABLE.format("what a cycle has not done", f"{type(error).__name__}: {error}")
        ) from error


def length_in(kind: int, body: memoryview) -> int | None:
    """The bytes of a body according to the text at its beginning.

    Args:
        kind: the type of the record.
        body: the bytes from the beginning of the body on, which may end early or be damaged.

    Returns:
        The number of bytes; ``None`` if the text cannot be read, and -1 for a type that has no such text.
    """
    if kind == RecordType.VOID:  # has a text alone
        return _LENGTH.size + _LENGTH.unpack_from(body)[0] if len(body) >= _LENGTH.size else None
    if kind != RecordType.CYCLE:
        return -1
    try:
        head, offset = _read_head(body)
        sizes = [whole_number(entry["bytes"]) for entry in head.get("rows", ())]
    except MALFORMED:
        return None
    return offset + sum(size + -size % _ALIGNMENT for size in sizes)


def _head(head: Mapping[str, Any]) -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % _ALIGNMENT)
    return _LENGTH.pack(len(text)) + text


def _read_head(body: memoryview) -> tuple[dict[str, Any], int]:
    (length,) = _LENGTH.unpack_from(body, 0)
    end = _LENGTH.size + length
    head = json.loads(bytes(body[_LENGTH.size : end]))
    if not isinstance(head, dict):
        raise TypeError("not a JSON object")
    return head, end
