"""Tables of every type come back from a checkpoint, and what cannot come back is refused when it comes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.errors import InvalidRequestError, JournalError, LimitError, UnsupportedTypeError
from barrage_server.journal import columns_file
from barrage_server.journal.files import OsDirectory
from barrage_server.server import durability
from tests.server.conftest import endpoints
from tests.server.durable import SCHEMA, durability_of, rows, state
from tests.waiting import until

LEAVES: dict[pa.DataType, Callable[[random.Random], Any]] = {
    pa.int32(): lambda rng: rng.getrandbits(20),
    pa.float64(): lambda rng: rng.getrandbits(20) / 8,
    pa.bool_(): lambda rng: rng.random() < 0.5,
    pa.string(): lambda rng: "é" * rng.randrange(5),
    pa.large_binary(): lambda rng: b"\0\xff" * rng.randrange(5),
    pa.binary(3): lambda rng: bytes(rng.randrange(256) for _ in range(3)),
    pa.binary(0): lambda _: b"",
    pa.decimal128(5, 0): lambda rng: rng.randrange(10**5),
    pa.date64(): lambda rng: rng.randrange(1000) * 86_400_000,
    pa.timestamp("us", "UTC"): lambda rng: rng.getrandbits(40),
    pa.time32("s"): lambda rng: rng.randrange(86_400),
    pa.null(): lambda _: None,
}


def random_type(rng: random.Random, depth: int) -> pa.DataType:
    """A type with at most ``depth`` levels of lists, structs and maps."""
    kind = rng.randrange(8) if depth else 7

    def field(name: str) -> pa.Field:
        data_type = random_type(rng, depth - 1)
        return pa.field(name, data_type, nullable=rng.random() < 0.5 or pa.types.is_null(data_type))

    if kind == 0:
        return pa.list_(field("item"))
    if kind == 1:
        return pa.large_list(field("item"))
    if kind == 2:
        return pa.list_(field("item"), rng.randrange(4))
    if kind == 3:
        return pa.map_(rng.choice([pa.string(), pa.int32()]), random_type(rng, depth - 1))
    if kind == 4:
        return pa.list_view(random_type(rng, depth - 1))
    if kind < 7:
        return pa.struct([field(f"f{number}") for number in range(rng.randrange(4))])
    return rng.choice(list(LEAVES))


def random_value(rng: random.Random, data_type: pa.DataType, *, nullable: bool = True) -> Any:
    """A value of a type; parents of fields without nulls may be null."""
    if nullable and rng.random() < 0.25:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: random_value(rng, field.type, nullable=field.nullable) for field in data_type}
    if pa.types.is_map(data_type):
        keys = range(rng.randrange(3))
        named = [str(key) for key in keys] if data_type.key_type == pa.string() else keys
        return [(key, random_value(rng, data_type.item_type)) for key in named]
    if pa.types.is_nested(data_type):
        item = data_type.value_field
        size = data_type.list_size if pa.types.is_fixed_size_list(data_type) else rng.randrange(4)
        return [random_value(rng, item.type, nullable=item.nullable) for _ in range(size)]
    return LEAVES[data_type](rng)


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_nested_types_come_back_from_journal_and_checkpoint(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    schemas = {}
    for number in range(25):
        fields = [pa.field(f"c{place}", random_type(rng, 4)) for place in range(3)]
        schemas[f"t{number}"] = pa.schema([pa.field("key", pa.int64()), *fields])
    with bs.Server(data_dir=folder) as server:
        for number, (name, schema) in enumerate(schemas.items()):
            columns = [pa.array(range(9))]
            columns += [pa.array([random_value(rng, one.type) for _ in range(9)], one.type) for one in list(schema)[1:]]
            given = pa.record_batch(columns, schema)
            if number % 2:
                server.keyed_table(name, schema, key="key").upsert(given)
            else:
                server.append_table(name, schema).append(given)
        before = {name: (keys, table.to_pylist()) for name, (keys, table) in state(server).items()}
    for starts_from in ("journal", "checkpoint"):
        with bs.Server(data_dir=folder) as server:
            assert (durability_of(server).recovered.checkpoint is None) == (starts_from == "journal")
            assert {name: (keys, table.to_pylist()) for name, (keys, table) in state(server).items()} == before
            assert {table.name: table.schema for table in server.tables()} == schemas
            durability_of(server).save()


POINT = pa.struct([pa.field("xyz", pa.list_(pa.float64(), 3), nullable=False)])


def nested(depth: int, wrap: Callable[[pa.DataType], pa.DataType] = pa.list_) -> pa.DataType:
    """A type with this number of types around an int64."""
    data_type = pa.int64()
    for _ in range(depth):
        data_type = wrap(data_type)
    return data_type


def nested_value(depth: int) -> Any:
    return [nested_value(depth - 1)] if depth else 7


# Parquet writes the first two, and cannot read them; it reads other decimals than it has written.
KEPT = {
    "a null struct around a list of fixed size": pa.array([{"xyz": [1.0, 2.0, 3.0]}, None], POINT),
    "lists 55 deep": pa.array([nested_value(55)] * 2, nested(55)),
    "lists as deep as Arrow's messages": pa.array([nested_value(63)] * 2, nested(63)),
    "a decimal of too many digits": pa.Array.from_buffers(
        pa.decimal128(3, 0), 2, [None, pa.py_buffer(struct.pack("<4q", 1 << 50, 7, 3, -1))]
    ),
    "a long time zone": pa.array([1, 2], pa.timestamp("us", "x" * 100_000)),
    "bytes of large width": pa.array([b"x" * 100_000, None], pa.binary(100_000)),
    "a long name within": pa.StructArray.from_arrays([pa.array([1, 2])], ["n" * 1_000_000]),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_parquet_does_not_keep_is_published_and_comes_back(folder: Path, case: str) -> None:
    given = pa.table({"id": [1, 2], "x": KEPT[case]})
    with bs.Server(data_dir=folder) as server, bs.connect(server.uri) as client:
        client.publish("t", given, kind="append")
        durability_of(server).save()
    with bs.Server(data_dir=folder) as server, bs.connect(server.uri) as client:
        found = client.snapshot("t")
        assert found.schema == given.schema
        assert found["x"].combine_chunks().equals(KEPT[case])
    assert {path.suffix for path in (folder / "state").glob("*/*")} == {".parquet", ".arrow", ".json"}


def test_lists_that_together_have_too_many_items_for_one_array_come_back(folder: Path) -> None:
    """Items without bytes: each row is small."""
    most = 2**31 - 1
    ends = pa.array([0, most], pa.int32()).buffers()[1]
    row = pa.Array.from_buffers(pa.list_(pa.null()), 1, [None, ends], children=[pa.nulls(most)])
    batch = pa.record_batch([row], ["x"])
    with bs.Server(data_dir=folder) as server:
        table = server.append_table("t", batch.schema)
        for _ in range(3):
            table.append(batch)
        durability_of(server).save()
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").size == 3


def test_rows_that_no_message_of_arrow_can_have_are_refused_alone(folder: Path) -> None:
    size = 2**30
    row = pa.Array.from_buffers(pa.list_(pa.null(), size), 4, [None], children=[pa.nulls(4 * size)])
    batch = pa.record_batch([row], ["x"])
    with bs.Server(data_dir=folder) as server:
        table, other = server.append_table("t", batch.schema), server.append_table("other", SCHEMA)
        with pytest.raises(InvalidRequestError, match="journal cannot have these rows"):
            table.append(batch)
        table.append(batch.slice(0, 1))
        other.append(rows(1))
    with bs.Server(data_dir=folder) as server:
        assert (server.table("t").size, server.table("other").size) == (1, 1)


UUID = {"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": ""}
UNKEPT = {
    "lists too deep": pa.field("x", nested(64)),
    "structs too deep": pa.field("x", nested(64, lambda inner: pa.struct([("a", inner)]))),
    "maps too deep": pa.field("x", nested(32, lambda inner: pa.map_(pa.int8(), inner))),
    "maps of which no schema can be read": pa.field("x", nested(63, lambda inner: pa.map_(pa.int8(), inner))),
    "no UUID": pa.field("x", pa.int64(), metadata=UUID),
    "no UUID within": pa.field("x", pa.struct([pa.field("a", pa.int64(), metadata=UUID)])),
}


@pytest.mark.parametrize("case", UNKEPT)
def test_a_type_that_cannot_be_read_again_makes_no_durable_table(folder: Path, case: str) -> None:
    schema = pa.schema([pa.field("key", pa.int64()), UNKEPT[case]])
    with bs.Server(data_dir=folder) as server:
        for make in (server.append_table, server.replaced_table):
            with pytest.raises(UnsupportedTypeError, match=r"data directory cannot keep .* durable=False"):
                make("t", schema)
        with pytest.raises(UnsupportedTypeError, match="data directory cannot keep"):
            server.keyed_table("t", schema, key="key")
        server.append_table("memory", schema, durable=False)
        server.append_table("other", SCHEMA).append(rows(1))
        durability_of(server).save()
    with bs.Server(data_dir=folder) as server:
        assert [table.name for table in server.tables()] == ["other"]


def test_a_table_in_memory_that_could_not_be_durable_is_overwritten(folder: Path) -> None:
    with bs.Server(port=0, data_dir=folder) as server, bs.connect(server.uri) as client:
        server.append_table("t", pa.schema([pa.field("x", pa.int64(), metadata=UUID)]), durable=False)
        with pytest.raises(InvalidRequestError, match="storage type for Uuid"):  # a schema that pyarrow does not read
            client.table("t").schema  # noqa: B018  (asks the server)
        client.replace("t", pa.table({"x": [1, 2]}))
        assert server.table("t").to_arrow()["x"].to_pylist() == [1, 2]
    with bs.Server(data_dir=folder) as server:
        assert not server.tables()


def test_a_client_makes_no_table_with_a_schema_of_many_bytes(endpoint: str) -> None:
    long = "n" * 100_000
    schemas = [
        pa.schema([(long, pa.int64())]),
        pa.schema([("x", pa.struct([(long, pa.int64())]))]),
        pa.schema([("x", pa.timestamp("us", long))]),
        pa.schema([pa.field("x", pa.list_(pa.field("item", pa.int8(), metadata={"m": long})))]),
        pa.schema([("x", pa.int8())], metadata={"m": long}),
    ]
    with (
        bs.Server(limits=bs.Limits(schema_bytes=99_999), **endpoints(endpoint)) as server,
        bs.connect(server.uri) as client,
    ):
        for schema in schemas:
            for make in (client.create_table, server.append_table):
                with pytest.raises(LimitError, match=r"99,999 bytes .*\(schema_bytes\)"):
                    make("t", schema)
            rows_of_it = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
            with pytest.raises(LimitError, match=r"\(schema_bytes\)"):
                client.publish("t", rows_of_it, kind="append")
        assert client.tables() == []
        client.create_table("t", pa.schema([("n" * 90_000, pa.int64())]))


def test_a_data_directory_with_nested_columns_in_parquet_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As earlier servers wrote it; the next checkpoint links what is there, and adds rows in both files."""
    schema = pa.schema(
        [("x", pa.list_(pa.int64())), ("at", pa.date64()), ("key", pa.int64()), ("s", pa.struct([("a", pa.string())]))]
    )

    def some(*keys: int) -> pa.Table:
        return pa.table([[[key] * key for key in keys], keys, keys, [{"a": str(key)} for key in keys]], schema=schema)

    with monkeypatch.context() as patched:
        patched.setattr(columns_file, "is_kept_by_parquet", lambda data_type: not pa.types.is_date64(data_type))
        with bs.Server(data_dir=folder) as server:
            server.append_table("t", schema).append(some(1, 2))
            durability_of(server).save()
    for number in range(2):
        with bs.Server(data_dir=folder) as server:
            assert durability_of(server).recovered.cycles == 0
            table = server.append_table("t", schema)
            assert table.to_arrow() == some(*range(1, 3 + number))
            table.append(some(3 + number))
            durability_of(server).save()
            before = state(server)
    assert len(list((folder / "state").glob("*/*.parquet"))) == 3
    with bs.Server(data_dir=folder) as server:
        assert state(server) == before


def unreadable(directory: Any, name: str, *_: Any) -> None:
    raise JournalError(f"The file {name} was written and cannot be read again.")


def test_a_parquet_file_that_cannot_be_read_again_is_written_as_arrow(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    check = columns_file.check_written

    def check_parquet(directory: Any, name: str, schema: pa.Schema, count: int) -> None:
        (unreadable if name.endswith(".parquet") else check)(directory, name, schema, count)

    with bs.Server(data_dir=folder) as server:
        server.append_table("t", SCHEMA).append(rows(1, 2))
        with monkeypatch.context() as patched:
            patched.setattr(columns_file, "check_written", check_parquet)
            durability_of(server).save()
        before = state(server)
    assert "parquet is written as Arrow instead: The file" in caplog.text
    assert {path.suffix for path in (folder / "state").glob("*/*")} == {".arrow", ".json"}
    with bs.Server(data_dir=folder) as server:
        assert state(server) == before


@pytest.mark.parametrize("fault", ["files", "manifest"])
def test_a_checkpoint_that_cannot_be_read_again_leaves_the_former_one_and_the_journal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    monkeypatch.setattr(durability, "_LEAST_JOURNAL_BYTES", 1 << 12)
    monkeypatch.setattr(durability, "_TURN_SECONDS", 0.01)
    monkeypatch.setattr(durability, "_RETRY_SECONDS", 0.05)
    with bs.Server(data_dir=folder) as server:
        table = server.append_table("t", SCHEMA)
        table.append(rows(1))
        durability_of(server).save()
        (former,) = (folder / "state").iterdir()
        with monkeypatch.context() as patched:
            if fault == "files":
                patched.setattr(columns_file, "check_written", unreadable)
            else:
                patched.setattr(
                    "barrage_server.journal.checkpoint.read_manifest", lambda folder, name: unreadable(0, name)
                )
            table.append(rows(*range(1000)))
            until(lambda: caplog.text.count("no checkpoint could be written") > 1)
            with pytest.raises(JournalError, match="cannot be read again"):
                durability_of(server).save()
            assert former.is_dir()
            assert [path.name for path in (folder / "state").iterdir() if path.name.isdecimal()] == [former.name]
            assert (folder / "journal" / f"{former.name}.log").exists()
            table.append(rows(2))
        before = state(server)
    with bs.Server(data_dir=folder) as server:
        assert state(server) == before


@pytest.mark.parametrize("damage", ["schema", "rows", "text"])
@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_written_file_is_compared_with_what_was_to_be_written(tmp_path: Path, ending: str, damage: str) -> None:
    schema = pa.schema([("0", pa.int64() if ending == ".parquet" else pa.date64())])
    directory = OsDirectory(tmp_path)
    batch = [pa.array([1, 2], pa.int64()).cast(schema.field(0).type)]
    columns_file.write_rows(directory, "t", schema, lambda: [batch])
    path = tmp_path / f"t{ending}"
    columns_file.check_written(directory, path.name, schema, 2)
    other = schema if damage != "schema" else pa.schema([("0", pa.int8())])
    if damage == "text":
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(JournalError, match=f"{path.name} was written"):
        columns_file.check_written(directory, path.name, other, 3 if damage == "rows" else 2)
