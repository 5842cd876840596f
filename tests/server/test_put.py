"""DoPut: rows from stock clients, staged rows, ticking publications; all of it or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, ReplacedTable, ReplicaTable, RingTable, Table
from barrage_server.errors import (
    AlreadyExistsError,
    BarrageError,
    InvalidRequestError,
    KeyMismatchError,
    LimitError,
    PublishError,
    SchemaMismatchError,
    UnknownTableError,
    UnsupportedOperationError,
    UnsupportedTypeError,
    WireFormatError,
)
from barrage_server.flight.errors import from_flight
from barrage_server.publish import StagingLimits
from barrage_server.rowset import RowSet, RowSetShiftData
from barrage_server.server import Limits, Server
from barrage_server.wire.metadata import PublicationRequest, SubscriptionRequest, UpdateMetadata
from barrage_server.wire.protocol import (
    COMMIT_ACTION,
    FLUSH,
    PUT_OPTIONS_KEY,
    CommitRequest,
    PublishMode,
    PutOptions,
    StageEnd,
    StageRequest,
    StageResult,
    TableKind,
)
from tests.server.conftest import SCHEMA, address
from tests.server.follower import Follower, until

FAILURES = (pa.ArrowException, OSError)
ROWS = pa.record_batch({"sym": ["A", "B"], "price": [1.0, 2.0]}, schema=SCHEMA)
Message = tuple[pa.RecordBatch | None, bytes | None]


def send(client: fl.FlightClient, descriptor: fl.FlightDescriptor, schema: pa.Schema, *messages: Message) -> bytes:
    """One DoPut; what the server answered."""
    writer, reader = client.do_put(descriptor, schema)
    try:
        for batch, metadata in messages:
            if batch is None:
                writer.write_metadata(metadata)
            elif metadata is None:
                writer.write_batch(batch)
            else:
                writer.write_with_metadata(batch, metadata)
        writer.done_writing()
        answer = reader.read()
    finally:
        writer.close()
    return b"" if answer is None else bytes(answer.to_pybytes())


def put(client: fl.FlightClient, name: str, *batches: pa.RecordBatch, options: PutOptions | None = None) -> Any:
    metadata = None if options is None else options.to_json()
    schema = batches[0].schema if batches else SCHEMA
    first: list[Message] = [] if metadata is None else [(None, metadata)]
    answer = send(client, fl.FlightDescriptor.for_path(name), schema, *first, *((batch, None) for batch in batches))
    return json.loads(answer)


def refused(call: Callable[[], Any]) -> BarrageError:
    with pytest.raises(FAILURES) as caught:
        call()
    assert "Traceback" not in str(caught.value)
    return from_flight(caught.value)


# Plain.


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
    assert "unknown field 'keys'; did you mean 'key'?" in str(error)
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


def test_too_large_a_put_is_refused(door: str) -> None:
    with Server(limits=Limits(put_bytes=100), deephaven_port=0) as server, fl.connect(address(server, door)) as client:
        error = refused(lambda: put(client, "mine", *[ROWS] * 20))
        assert type(error) is LimitError
        assert server.tables() == ()


def test_too_many_uploads_are_refused(door: str) -> None:
    with Server(limits=Limits(uploads=1), deephaven_port=0) as server, fl.connect(address(server, door)) as client:
        writer, _ = client.do_put(fl.FlightDescriptor.for_path("mine"), SCHEMA)
        until(lambda: server.statistics().uploads == 1)
        error = refused(lambda: put(client, "other", ROWS))
        assert type(error) is LimitError
        writer.close()
        until(lambda: server.statistics().uploads == 0)
        put(client, "other", ROWS)


# Staged.

STAGE = fl.FlightDescriptor.for_command(b"barrage.stage")
REQUEST = StageRequest("query", "mine", 0, "attempt").to_json()


def stage(client: fl.FlightClient, *messages: Message) -> StageResult:
    return StageResult.from_json(send(client, STAGE, SCHEMA, *messages))


def test_staged_rows_are_seen_when_they_are_committed_and_once(server: Server, client: fl.FlightClient) -> None:
    result = stage(client, (None, REQUEST), (ROWS, None), (ROWS, None), (None, StageEnd(4).to_json()))
    assert result.rows == 4
    assert server.tables() == ()
    assert server.statistics().staging.rows == 4
    body = CommitRequest("query", "mine", 0, tokens=(result.token,)).to_json()
    answers = [json.loads(next(iter(client.do_action((COMMIT_ACTION, body)))).body.to_pybytes()) for _ in range(3)]
    assert [answer["committed"] for answer in answers] == [True, False, False]
    assert server.table("mine").size == 4
    assert server.statistics().staging.rows == 0
    assert server.statistics().commits == (("query", "mine", 0),)


def test_the_request_may_come_with_the_first_rows_and_the_end_with_the_last(
    server: Server, client: fl.FlightClient
) -> None:
    assert stage(client, (ROWS, REQUEST), (ROWS, StageEnd(4).to_json())).rows == 4


def test_an_empty_attempt_is_one_too(client: fl.FlightClient) -> None:
    assert stage(client, (None, REQUEST), (None, StageEnd(0).to_json())).rows == 0


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ([], PublishError),
        ([(ROWS, None)], WireFormatError),
        ([(ROWS, b"{}")], WireFormatError),
        ([(None, b"x")], WireFormatError),
        ([(None, REQUEST), (ROWS, None)], PublishError),
        ([(None, REQUEST), (ROWS, None), (None, StageEnd(3).to_json())], PublishError),
        ([(None, REQUEST), (ROWS, b'{"end": false, "rows": 2}')], WireFormatError),
        ([(None, REQUEST), (ROWS, StageEnd(2).to_json()), (ROWS, None)], PublishError),
    ],
)
def test_what_is_not_staged_to_its_end_is_dropped(
    server: Server, client: fl.FlightClient, messages: list[Message], kind: type[BarrageError]
) -> None:
    assert type(refused(lambda: stage(client, *messages))) is kind
    until(lambda: server.statistics().uploads == 0)
    assert server.statistics().staging.entries == 0


def test_more_than_may_be_staged_is_refused(door: str) -> None:
    limits = Limits(staging=StagingLimits(entry_bytes=100))
    with Server(limits=limits, deephaven_port=0) as server, fl.connect(address(server, door)) as client:
        error = refused(lambda: stage(client, (None, REQUEST), *[(ROWS, None)] * 20))
        assert type(error) is LimitError
        assert server.statistics().staging.nbytes == 0


def test_what_is_staged_expires(door: str) -> None:
    limits = Limits(staging=StagingLimits(expiry_seconds=0.1, lifetime_seconds=0.1))
    with Server(limits=limits, deephaven_port=0) as server, fl.connect(address(server, door)) as client:
        stage(client, (None, REQUEST), (ROWS, StageEnd(2).to_json()))
        until(lambda: server.statistics().staging.expired == 1)
        assert server.statistics().staging.nbytes == 0


# Ticking.

NAMED = fl.FlightDescriptor.for_path("feed")
PUBLISH = PublicationRequest(b"s/feed").encode()
NUMBERS = pa.schema([("n", pa.int64())])


def update(**fields: Any) -> bytes:
    empty: dict[str, Any] = {
        "added_rows": RowSet.empty(),
        "removed_rows": RowSet.empty(),
        "shift_data": RowSetShiftData.empty(),
        "modified_rows": (RowSet.empty(),),
    }
    return UpdateMetadata(**{**empty, **fields}).encode()


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=NUMBERS)


SNAPSHOT = (numbers(1, 2, 3), update(is_snapshot=True, added_rows=RowSet.flat(3), table_size=3))


def test_a_publication_ticks_in_a_table_that_others_follow(server: Server, client: fl.FlightClient) -> None:
    writer, reader = client.do_put(NAMED, NUMBERS)
    writer.write_metadata(PUBLISH)
    writer.write_with_metadata(*SNAPSHOT)
    table = until(lambda: next(iter(server.tables()), None))
    assert isinstance(table, ReplicaTable)
    with Follower(client, "feed") as follower:
        follower.wait(lambda follower: follower.content() == [[1], [2], [3]])
        shifts = RowSetShiftData.from_arrays([1], [2], [9])
        writer.write_with_metadata(
            numbers(7),
            update(added_rows=RowSet.from_range(5, 5), removed_rows=RowSet.from_range(0, 0), shift_data=shifts),
        )
        follower.wait(lambda follower: follower.content() == [[7], [2], [3]])
        writer.write_with_metadata(numbers(20), update(modified_rows=(RowSet.from_range(10, 10),)))
        follower.wait(lambda follower: follower.content() == [[7], [20], [3]])
        writer.write_with_metadata(numbers(), update(removed_rows=RowSet.from_range(11, 11)))
        follower.wait(lambda follower: follower.content() == [[7], [20]])
    assert json.loads(reader.read().to_pybytes())["updates"] == 1  # said when others can see the table
    writer.done_writing()
    assert json.loads(reader.read().to_pybytes())["updates"] == 4
    writer.close()
    assert table.to_arrow().to_pydict() == {"n": [7, 20]}


def test_a_flush_is_answered_when_what_came_before_it_is_applied(server: Server, client: fl.FlightClient) -> None:
    writer, reader = client.do_put(NAMED, NUMBERS)
    writer.write_metadata(PUBLISH)
    writer.write_with_metadata(*SNAPSHOT)
    assert json.loads(reader.read().to_pybytes())["updates"] == 1  # unasked
    for updates in range(2, 20):
        writer.write_with_metadata(numbers(updates), update(modified_rows=(RowSet.from_range(0, 0),)))
        writer.write_metadata(FLUSH)
        assert json.loads(reader.read().to_pybytes())["updates"] == updates
        assert server.table("feed").to_arrow()["n"][0].as_py() == updates
    writer.done_writing()
    assert json.loads(reader.read().to_pybytes())["updates"] == 19
    writer.close()


def test_a_publication_that_comes_back_replaces_what_was_there(server: Server, client: fl.FlightClient) -> None:
    send(client, NAMED, NUMBERS, (None, PUBLISH), SNAPSHOT)
    table = server.table("feed")
    again = (numbers(8), update(is_snapshot=True, added_rows=RowSet.from_range(1, 1), table_size=1))
    send(client, NAMED, NUMBERS, (None, PUBLISH), again)
    assert server.table("feed") is table
    assert table.to_arrow().to_pydict() == {"n": [8]}


@pytest.mark.parametrize(
    "message",
    [
        (numbers(1), update(added_rows=RowSet.flat(1))),
        (numbers(), update(removed_rows=RowSet.from_range(9, 9))),
        (numbers(1), update(modified_rows=(RowSet.from_range(9, 9),))),
        (numbers(1, 2), update(added_rows=RowSet.from_range(5, 5))),
        (numbers(1), update(added_rows=RowSet.from_range(5, 9), added_rows_included=RowSet.from_range(5, 5))),
        (numbers(1), b"dphn"),
        (numbers(1), None),
        (None, FLUSH + b" "),
        (numbers(), SubscriptionRequest(b"s/feed").encode()),
    ],
)
def test_an_update_that_contradicts_the_table_ends_the_publication_and_the_table_stays(
    server: Server, client: fl.FlightClient, message: Message
) -> None:
    error = refused(lambda: send(client, NAMED, NUMBERS, (None, PUBLISH), SNAPSHOT, message))
    assert isinstance(error, InvalidRequestError), error
    assert server.table("feed").to_arrow().to_pydict() == {"n": [1, 2, 3]}
    until(lambda: server.statistics().uploads == 0)
    send(client, NAMED, NUMBERS, (None, PUBLISH), SNAPSHOT)


def test_a_flush_within_an_update_is_refused(server: Server, client: fl.FlightClient) -> None:
    half = update(added_rows=RowSet.from_range(5, 6), num_add_batches=2)
    error = refused(lambda: send(client, NAMED, NUMBERS, (None, PUBLISH), SNAPSHOT, (numbers(1), half), (None, FLUSH)))
    assert "in the middle of an update" in str(error)
    assert server.table("feed").size == 3


def test_only_one_publishes_a_table(server: Server, client: fl.FlightClient) -> None:
    writer, _ = client.do_put(NAMED, NUMBERS)
    writer.write_metadata(PUBLISH)
    writer.write_with_metadata(*SNAPSHOT)
    until(lambda: server.tables())
    error = refused(lambda: send(client, NAMED, NUMBERS, (None, PUBLISH), SNAPSHOT))
    assert type(error) is AlreadyExistsError
    writer.close()


def test_a_publication_does_not_take_over_a_table(client: fl.FlightClient, quotes: KeyedTable) -> None:
    request = PublicationRequest(b"s/quotes").encode()
    error = refused(lambda: send(client, NAMED, NUMBERS, (None, request), SNAPSHOT))
    assert type(error) is AlreadyExistsError
    assert quotes.size == 2


def test_a_published_table_takes_no_rows(server: Server, client: fl.FlightClient) -> None:
    send(client, NAMED, NUMBERS, (None, PUBLISH), SNAPSHOT)
    error = refused(lambda: put(client, "feed", numbers(1)))
    assert type(error) is UnsupportedOperationError


def test_another_request_in_a_put_is_refused(server: Server, client: fl.FlightClient) -> None:
    error = refused(lambda: send(client, NAMED, NUMBERS, (None, SubscriptionRequest(b"s/feed").encode())))
    assert type(error) is InvalidRequestError
