"""Writers: one for every kind of table, each with what its table must contain then."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.flight as fl

import barrage_server as bs
from barrage_server.engine import KeyedTable, UpdateGraph
from barrage_server.wire.protocol import PublishMode, PutOptions, TableKind
from tests.live.process import PATIENCE, ServerProcess
from tests.stress.cells import Row, cells, rows
from tests.stress.values import KEYS, encoded_type, random_array, random_type

_SIZES = [0, 1, 1, 3, 10, 40, 200]
_KEY_VALUES = 60


@dataclass(frozen=True, slots=True)
class Shapes:
    """What data may look like.

    Attributes:
        depth: of nested types.
        encoded: whether it comes in other encodings than tables have.
    """

    depth: int = 3
    encoded: bool = True


class Writer(ABC):
    """Writes to one table, which only it writes to; a thread at a time uses it.

    Attributes:
        name: the table.
        schema: its columns, drawn anew whenever the table is made.
    """

    kind: TableKind
    ordered = True

    def __init__(self, name: str, seed: str, shapes: Shapes) -> None:
        self.name = name
        self.shapes = shapes
        self.chance = random.Random(f"{seed}/{name}")
        self.schema = pa.schema([])
        self._client: bs.Client | None = None
        self._put_clients: list[fl.FlightClient] = []

    def start(self, server: ServerProcess) -> None:
        """Connect, and make the table, which is not there."""
        self._client = bs.connect(server.flight, timeout=PATIENCE)
        deephaven = server.deephaven.replace("dh+plain", "grpc")
        self._put_clients = [fl.connect(uri) for uri in (server.flight, deephaven)]
        self._make()

    def stop(self) -> None:
        """Hang up. The server may be gone."""
        if self._client is not None:
            self._client.close()
        for client in self._put_clients:
            client.close()
        self._put_clients = []

    def step(self) -> None:
        """Write something."""
        if self.chance.random() < 0.03:
            self.client.drop(self.name)
            self._make()
        else:
            self._write()

    @property
    def client(self) -> bs.Client:
        assert self._client is not None
        return self._client

    @abstractmethod
    def expected(self) -> list[Row]:
        """The rows that the table must have now."""

    def check(self, served: list[Row]) -> None:
        """Compare what the server has with what was written."""
        expected = self.expected()
        same = served == expected if self.ordered else Counter(served) == Counter(expected)
        assert same, f"table {self.name} {self.schema.types}: {difference(served, expected)}"

    @abstractmethod
    def _write(self) -> None:
        """Write something, and keep what it was."""

    def _make(self) -> None:
        count = self.chance.randint(1, 5)
        self.schema = self._random_schema(count)
        self.client.create_table(self.name, self.schema, kind=self.kind)

    def _random_schema(self, columns: int) -> pa.Schema:
        depth = self.shapes.depth
        return pa.schema([(f"c{number}", random_type(self.chance, depth)) for number in range(columns)])

    def _batches(self, schema: pa.Schema, size: int | None = None) -> pa.Table:
        """Rows in a random encoding, of a few batches."""
        chance = self.chance
        share = chance.choice([0.0, 0.4, 0.9]) if self.shapes.encoded else 0.0
        encoded = pa.schema([field.with_type(encoded_type(chance, field.type, share)) for field in schema])
        batches = []
        for _ in range(chance.choice([1, 1, 2, 3])):
            count = chance.choice(_SIZES) if size is None else size
            arrays = [self._column(field, count) for field in encoded]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=encoded))
        return pa.Table.from_batches(batches, schema=encoded)

    def _column(self, field: pa.Field, count: int) -> pa.Array:
        return random_array(self.chance, field.type, count)

    def _send(self, data: pa.Table, mode: PublishMode) -> None:
        """Publish rows in one of the ways that there are."""
        way = self.chance.randrange(3)
        if way == 0:
            self.client.publish(self.name, data, mode=mode)
            return
        codec = self.chance.choice([None, None, "lz4", "zstd"])
        options = fl.FlightCallOptions(timeout=PATIENCE, write_options=pa.ipc.IpcWriteOptions(compression=codec))
        descriptor = fl.FlightDescriptor.for_path(self.name)
        writer, answers = self._put_clients[way - 1].do_put(descriptor, data.schema, options)
        try:
            writer.write_metadata(PutOptions(mode=mode).to_json())
            for batch in data.to_batches():
                writer.write_batch(batch)
            writer.done_writing()
            answers.read()
        finally:
            writer.close()


class AppendWriter(Writer):
    """Adds rows at the end."""

    kind = TableKind.APPEND
    _ENOUGH = 3000

    def _make(self) -> None:
        self._rows: list[Row] = []
        super()._make()

    def expected(self) -> list[Row]:
        return self._rows

    def _write(self) -> None:
        if len(self._rows) > self._ENOUGH:
            self.client.drop(self.name)
            self._make()
        data = self._batches(self.schema)
        self._send(data, PublishMode.APPEND)
        self._rows = self._rows + rows(data)


class RingWriter(AppendWriter):
    """Adds rows to a table that keeps the last ones."""

    kind = TableKind.RING
    _ENOUGH = 20_000

    def _make(self) -> None:
        self._rows = []
        self._capacity = self.chance.choice([1, 7, 100])
        count = self.chance.randint(1, 4)
        self.schema = self._random_schema(count)
        self.client.create_table(self.name, self.schema, capacity=self._capacity)

    def expected(self) -> list[Row]:
        return self._rows[-self._capacity :]


class BlinkWriter(AppendWriter):
    """Adds rows that are gone with the next cycle."""

    kind = TableKind.BLINK

    def expected(self) -> list[Row]:
        return []


class ReplacedWriter(AppendWriter):
    """Replaces all rows."""

    kind = TableKind.REPLACED

    def _write(self) -> None:
        data = self._batches(self.schema)
        self._send(data, PublishMode.REPLACE)
        self._rows = rows(data)


class KeyedWriter(Writer):
    """Sets, deletes and replaces rows by key."""

    kind = TableKind.KEYED
    ordered = False

    def _make(self) -> None:
        self._draw()
        self.client.create_table(self.name, self.schema, key=self._keys)

    def _draw(self) -> None:
        chance = self.chance
        keys = [(f"k{number}", chance.choice(KEYS)) for number in range(chance.choice([1, 1, 2]))]
        others = [(f"c{number}", random_type(chance, self.shapes.depth)) for number in range(chance.randint(0, 4))]
        self.schema = pa.schema(chance.sample([*keys, *others], len(keys) + len(others)))
        self._keys = [name for name in self.schema.names if name.startswith("k")]
        self._domain = {name: random_array(chance, kind, _KEY_VALUES, nulls=0.05) for name, kind in keys}
        self._rows: dict[Row, Row] = {}

    def expected(self) -> list[Row]:
        return list(self._rows.values())

    def _write(self) -> None:
        mode = self.chance.choice([PublishMode.UPSERT] * 5 + [PublishMode.DELETE] * 2 + [PublishMode.REPLACE])
        wanted = self._keys if mode is PublishMode.DELETE else self.schema.names
        data = self._batches(pa.schema([self.schema.field(name) for name in wanted]))
        self._send(data, mode)
        self._apply(mode, data)

    def _apply(self, mode: PublishMode, data: pa.Table) -> None:
        keys = list(zip(*(cells(data.column(name)) for name in self._keys), strict=True))
        if mode is PublishMode.DELETE:
            for key in keys:
                self._rows.pop(key, None)
            return
        if mode is PublishMode.REPLACE:
            self._rows = {}
        self._rows.update(zip(keys, rows(data), strict=True))

    def _column(self, field: pa.Field, count: int) -> pa.Array:
        if field.name not in self._keys:
            return super()._column(field, count)
        domain = self._domain[field.name]
        indices = pa.array([self.chance.randrange(_KEY_VALUES) for _ in range(count)], pa.int32())
        return _encoded_as(domain.take(indices), field.type)


class PublishingWriter(KeyedWriter):
    """Writes to a table of its own process, which is published as it ticks."""

    def _draw(self) -> None:
        super()._draw()
        self._table = KeyedTable(UpdateGraph(), self.name, self.schema, self._keys)

    def _make(self) -> None:
        self._draw()
        self._publication = self.client.publish_live(self.name, self._table, interval_ms=1)

    def step(self) -> None:
        if self.chance.random() < 0.03:
            self._publication.close()
            self.client.drop(self.name)
            self._make()
        else:
            self._write()

    def _send(self, data: pa.Table, mode: PublishMode) -> None:
        change = {
            PublishMode.UPSERT: self._table.upsert,
            PublishMode.DELETE: self._table.delete,
            PublishMode.REPLACE: self._table.replace,
        }[mode]
        change(data)

    def wait_published(self, served: list[Row]) -> bool:
        """Whether the server has the content of this process; writers do not wait for publishing."""
        return Counter(served) == Counter(self.expected())


def _encoded_as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of a key column in another encoding."""
    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _encoded_as(array, kind.storage_type))
    if pa.types.is_dictionary(kind):
        encoded = array.dictionary_encode()
        indices, values = encoded.indices.cast(kind.index_type), _encoded_as(encoded.dictionary, kind.value_type)
        return pa.DictionaryArray.from_arrays(indices, values)
    if pa.types.is_run_end_encoded(kind):
        ends = pa.array(range(1, len(array) + 1), kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, _encoded_as(array, kind.value_type))
    return array.cast(kind)


def all_writers(seed: str, shapes: Shapes) -> list[Writer]:
    """One for every kind of table."""
    return [
        AppendWriter("append", seed, shapes),
        RingWriter("ring", seed, shapes),
        BlinkWriter("blink", seed, shapes),
        ReplacedWriter("replaced", seed, shapes),
        KeyedWriter("keyed", seed, shapes),
        KeyedWriter("keyed too", seed, shapes),
        PublishingWriter("published", seed, shapes),
    ]


def difference(found: list[Row], expected: list[Row]) -> str:
    """What differs, in one line."""
    if len(found) != len(expected):
        return f"{len(found)} rows instead of {len(expected)}"
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        for column, (cell, wanted) in enumerate(zip(ours, theirs, strict=True)):
            if cell != wanted:
                return f"row {number}, column {column}: {cell!r:.300} instead of {wanted!r:.300}"
    return "nothing"
