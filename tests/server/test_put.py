"""DoPut: rows from stock clients; all of them or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, ReplacedTable, RingTable, Table
from barrage_server.errors import (
    AlreadyExistsError,
    BarrageError,
    InvalidRequestError,
    KeyMismatchError,
    LimitError,
    SchemaMismatchError,
    UnknownTableError,
    UnsupportedTypeError,
    WireFormatError,
)
from barrage_server.server import Limits, Server
from barrage_server.wire.protocol import (
    PUT_OPTIONS_KEY,
    PublishMode,
    PutOptions,
    TableKind,
)
from tests.server.conftest import SCHEMA, address, endpoints
from tests.server.follower import Follower
from tests.server.putting import ROWS, put, refused, send
from tests.waiting import until


def test_a_stock_client_makes_a_table_and_adds_to_it(server: Server, client: fl.FlightClient) -> None:
    table = pa.table({"sym": ["A"], "price": [1.0]}, schema=SCHEMA)
    for _ in range(2):
        writer, _reader = client.do_put(fl.FlightDescriptor.for_path("mine"), SCHEMA)
        writer.write_table(table)
        writer.close()
    assert server.table("mine").to_arrow().to_pydict() == {"sym": ["A", "A"], "price": [1.0, 1.0]}
    assert isinstance(server.table("mine"), AppendTable)


@pytest.mark.parametrize("path", [("scope", "mine"), ("mine",)])
def test_both_paths_lead_to_the_table(server: Server, client: fl.FlightClient, path: tuple[str, ...]) -> None:
    answer = json.loads(send(client, fl.FlightDescriptor.for_path(*path), SCHEMA, (ROWS, None)))
    assert answer == {"table": "mine", "rows": 2, "step": server.graph.step}


def test_the_whole_put_is_one_update(server: Server, client: fl.FlightClient) -> None:
    put(client, "mine")
    with Follower(client, "mine") as follower:
        follower.wait(lambda follower: follower.messages)
        put(client, "mine", *[ROWS] * 50)
        follower.wait(lambda follower: len(follower.rows) == 100)
        assert len(follower.messages) == 2


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (PutOptions(key=("sym",)), KeyedTable),
        (PutOptions(mode=PublishMode.UPSERT, key=("sym",)), KeyedTable),
        (PutOptions(mode=PublishMode.REPLACE), ReplacedTable),
        (PutOptions(kind=TableKind.RING, capacity=1), RingTable),
        (PutOptions(kind=TableKind.BLINK), BlinkTable),
    ],
)
@pytest.mark.parametrize("way", ["metadata", "with the first batch", "schema"])
def test_options_come_in_three_ways(
    server: Server, client: fl.FlightClient, options: PutOptions, kind: type[Table], way: str
) -> None:
    descriptor = fl.FlightDescriptor.for_path("mine")
    if way == "metadata":
        send(client, descriptor, SCHEMA, (None, options.to_json()), (ROWS, None))
    elif way == "schema":
        schema = SCHEMA.with_metadata({PUT_OPTIONS_KEY: options.to_schema_metadata(), "own": "kept"})
        send(client, descriptor, schema, (ROWS.replace_schema_metadata(schema.metadata), None))
        assert server.table("mine").schema.metadata == {b"own": b"kept"}
    else:
        send(client, descriptor, SCHEMA, (ROWS, options.to_json()))
    assert type(server.table("mine")) is kind


@pytest.mark.parametrize("metadata", [b"mine", b"{", b'{"note": 1}', b"[1]", b"\xff\xfe"])
def test_metadata_of_ones_own_is_left_alone(server: Server, client: fl.FlightClient, metadata: bytes) -> None:
    send(client, fl.FlightDescriptor.for_path("mine"), SCHEMA, (ROWS, metadata), (ROWS, metadata))
    assert server.table("mine").size == 4


def test_columns_may_come_in_another_order_and_dictionaries_are_decoded(
    client: fl.FlightClient, quotes: KeyedTable
) -> None:
    batch = pa.record_batch({"price": [9.0], "sym": pa.array(["A"]).dictionary_encode()})
    put(client, "quotes", batch)
    assert quotes.to_arrow().to_pydict() == {"sym": ["A", "B"], "price": [9.0, 2.0]}


def test_null_keys_are_keys_and_the_last_row_of_a_key_wins(client: fl.FlightClient, quotes: KeyedTable) -> None:
    put(client, "quotes", pa.record_batch({"sym": [None, "A", None], "price": [1.0, 5.0, 3.0]}, schema=SCHEMA))
    assert quotes.to_arrow().to_pydict() == {"sym": ["A", "B", None], "price": [5.0, 2.0, 3.0]}


def test_delete_through_put(client: fl.FlightClient, quotes: KeyedTable) -> None:
    put(client, "quotes", pa.record_batch({"sym": ["A"]}), options=PutOptions(mode=PublishMode.DELETE))
    assert quotes.to_arrow().to_pydict() == {"sym": ["B"], "price": [2.0]}


@pytest.mark.parametrize(
    ("name", "batch", "options", "kind"),
    [
        ("quotes", pa.record_batch({"sym": ["A"]}), None, SchemaMismatchError),
        ("quotes", pa.record_batch({"sym": ["A"], "price": ["x"]}), None, SchemaMismatchError),
        ("quotes", pa.record_batch({"sym": ["A"], "price": [1.0], "more": [1]}), None, SchemaMismatchError),
        ("quotes", ROWS, PutOptions(key=("price",)), KeyMismatchError),
        ("quotes", ROWS, PutOptions(kind=TableKind.APPEND), AlreadyExistsError),
        ("new", ROWS, PutOptions(key=("nope",)), KeyMismatchError),
        ("new", ROWS, PutOptions(mode=PublishMode.UPSERT), KeyMismatchError),
        ("new", ROWS, PutOptions(mode=PublishMode.DELETE), UnknownTableError),
        ("new", ROWS, PutOptions(kind=TableKind.RING), InvalidRequestError),
        ("log", ROWS, PutOptions(capacity=5), AlreadyExistsError),
        ("", ROWS, None, InvalidRequestError),
        ("new\n", ROWS, None, InvalidRequestError),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    server: Server,
    client: fl.FlightClient,
    quotes: KeyedTable,
    name: str,
    batch: pa.RecordBatch,
    options: PutOptions | None,
    kind: type[BarrageError],
) -> None:
    server.append_table("log", SCHEMA)
    step = server.graph.step
    assert type(refused(lambda: put(client, name, batch, options=options))) is kind
    assert server.graph.step == step
    assert {table.name for table in server.tables()} == {"quotes", "log"}


@pytest.mark.parametrize("way", ["app_metadata", "schema"])
def test_an_unknown_option_is_refused_by_name(server: Server, client: fl.FlightClient, way: str) -> None:
    """A misspelt key would make an append table, and say nothing."""
    inner, metadata, schema = b'{"keys": ["sym"]}', None, SCHEMA
    if way == "schema":
        schema = SCHEMA.with_metadata({PUT_OPTIONS_KEY: inner})
    else:
        metadata = b'{"barrage": %s}' % inner
    rows = ROWS.replace_schema_metadata(schema.metadata)
    error = refused(lambda: send(client, fl.FlightDescriptor.for_path("t"), schema, (rows, metadata)))
    assert "unknown field 'keys'. Did you mean 'key'?" in str(error)
    assert server.tables() == ()


@pytest.mark.parametrize("union", [pa.sparse_union, pa.dense_union])
def test_extension_types_of_unions_are_refused(
    server: Server, client: fl.FlightClient, union: Callable[[list[pa.Field]], pa.DataType]
) -> None:
    """Nulls that pyarrow makes of them end the process, so no table may come to have such a column."""
    kind = pa.opaque(union([pa.field("a", pa.int64())]), "a", "b")
    for schema in (pa.schema([("v", kind)]), pa.schema([("v", pa.list_(pa.struct([("x", kind)])))])):
        error = refused(partial(send, client, fl.FlightDescriptor.for_path("t"), schema))
        assert type(error) is UnsupportedTypeError
        with pytest.raises(UnsupportedTypeError, match="stored as unions"):
            server.keyed_table("t", pa.schema([("k", pa.int64()), *schema]), key=["k"])
    assert server.tables() == ()


def test_a_type_that_keys_cannot_have_is_named(server: Server, client: fl.FlightClient) -> None:
    lists = pa.record_batch({"l": pa.array([[1]], pa.list_view(pa.int64()))})
    error = refused(lambda: put(client, "l", lists, options=PutOptions(key=("l",))))
    assert type(error) is UnsupportedTypeError
    assert "list_view" in str(error)
    assert server.tables() == ()


@pytest.mark.parametrize(
    "metadata",
    [b'{"barrage": 1}', b'{"barrage": {"mode": "x"}}', b'{"barrage": {"key": 3}}', b'{"barrage": {"capacity": -1}}'],
)
def test_options_that_make_no_sense_are_refused(server: Server, client: fl.FlightClient, metadata: bytes) -> None:
    error = refused(lambda: send(client, fl.FlightDescriptor.for_path("mine"), SCHEMA, (ROWS, metadata)))
    assert type(error) is WireFormatError
    assert server.tables() == ()


def test_a_command_is_no_table(client: fl.FlightClient) -> None:
    error = refused(lambda: send(client, fl.FlightDescriptor.for_command(b"insert"), SCHEMA, (ROWS, None)))
    assert type(error) is InvalidRequestError


def test_too_large_a_put_is_refused(endpoint: str) -> None:
    with (
        Server(limits=Limits(put_bytes=100), **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        error = refused(lambda: put(client, "mine", *[ROWS] * 20))
        assert type(error) is LimitError
        assert server.tables() == ()


def test_too_many_uploads_are_refused(endpoint: str) -> None:
    with (
        Server(limits=Limits(uploads=1), **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        writer, _ = client.do_put(fl.FlightDescriptor.for_path("mine"), SCHEMA)
        until(lambda: server.statistics().uploads == 1)
        error = refused(lambda: put(client, "other", ROWS))
        assert type(error) is LimitError
        writer.close()
        until(lambda: server.statistics().uploads == 0)
        put(client, "other", ROWS)
