"""DoPut: a table that ticks elsewhere, update by update."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import KeyedTable, ReplicaTable
from barrage_server.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    UnsupportedOperationError,
)
from barrage_server.rowset import RowSet, RowSetShiftData
from barrage_server.server import Server
from barrage_server.wire.metadata import PublicationRequest, SubscriptionRequest, UpdateMetadata
from barrage_server.wire.protocol import (
    FLUSH,
)
from tests.server.follower import Follower
from tests.server.putting import Message, put, refused, send
from tests.waiting import until

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
