"""Staging and committing over Flight, without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.spark.publisher import Publisher, ServerAccess, publisher_for
from barrage_server.wire.commit_messages import CommitRequest, StageRequest
from barrage_server.wire.protocol import PublishMode

SCHEMA = pa.schema([("v", pa.int64())])


@pytest.fixture
def publisher(server: bs.Server) -> Iterator[Publisher]:
    made = Publisher(ServerAccess(server.uri))
    yield made
    made.close()


def _stage(publisher: Publisher, values: list[int], batch: int = 0) -> str:
    staged = publisher.stage(StageRequest("p", "t", batch, "a"), SCHEMA, [pa.record_batch([values], SCHEMA)])
    assert staged is not None
    assert staged.rows == len(values)
    return staged.token


def test_what_is_staged_shows_only_after_its_commit(publisher: Publisher, server: bs.Server, client: bs.Client) -> None:
    first, second = _stage(publisher, [1, 2]), _stage(publisher, [3])
    assert not server.tables()
    result = publisher.commit(CommitRequest("p", "t", 0, tokens=(second, first)))
    assert (result.committed, result.rows, result.last_batch) == (True, 3, 0)
    assert client.snapshot("t")["v"].to_pylist() == [3, 1, 2]
    assert publisher.last_batch("p", "t") == 0


def test_without_rows_nothing_is_staged(publisher: Publisher, server: bs.Server) -> None:
    assert publisher.stage(StageRequest("p", "t", 0, "a"), SCHEMA, []) is None
    assert publisher.stage(StageRequest("p", "t", 0, "a"), SCHEMA, [pa.record_batch([[]], SCHEMA)]) is None
    assert server.statistics().staging.entries == 0


def test_a_sender_that_fails_halfway_leaves_nothing(publisher: Publisher, server: bs.Server, client: bs.Client) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[1]], SCHEMA)
        raise ZeroDivisionError("the job's own error")

    with pytest.raises(ZeroDivisionError, match="the job's own error"):
        publisher.stage(StageRequest("p", "t", 0, "a"), SCHEMA, batches())
    publisher.commit(CommitRequest("p", "t", 0, schema=SCHEMA))
    assert client.snapshot("t").num_rows == 0
    assert server.statistics().staging.rows == 0


def test_large_batches_travel_in_parts(publisher: Publisher, client: bs.Client) -> None:
    rows = pa.record_batch([pa.array(range(5_000_000), pa.int64())], SCHEMA)
    staged = publisher.stage(StageRequest("p", "t", 0, "a"), SCHEMA, [rows])
    assert staged is not None
    assert publisher.commit(CommitRequest("p", "t", 0, tokens=(staged.token,))).rows == rows.num_rows
    assert client.snapshot("t")["v"].combine_chunks().equals(rows["v"])


def test_abort_drops_and_forgets(publisher: Publisher, server: bs.Server) -> None:
    token = _stage(publisher, [1])
    assert publisher.abort([token, "unknown"]) == 1
    assert publisher.abort([]) == 0
    assert server.statistics().staging.entries == 0
    with pytest.raises(bs.PublishError, match=r"Could not commit batch 0 to table 't'.*unknown"):
        publisher.commit(CommitRequest("p", "t", 0, tokens=(token,)))


def test_errors_of_the_server_come_typed(publisher: Publisher) -> None:
    publisher.commit(CommitRequest("p", "t", 0, PublishMode.UPSERT, (_stage(publisher, [1]),), ("v",)))
    with pytest.raises(bs.KeyMismatchError):
        publisher.commit(CommitRequest("other", "t", 0, PublishMode.UPSERT, key=("w",), schema=SCHEMA))
    floats = pa.record_batch({"v": [0.5]})
    staged = publisher.stage(StageRequest("p", "t", 1, "a"), floats.schema, [floats])
    assert staged is not None
    with pytest.raises(bs.SchemaMismatchError, match="Could not commit"):
        publisher.commit(CommitRequest("p", "t", 1, PublishMode.UPSERT, (staged.token,), ("v",)))


def test_a_schema_that_a_server_refuses_at_once_is_told(publisher: Publisher) -> None:
    batch = pa.record_batch([pa.array([1]), pa.array([2])], names=["twice", "twice"])
    with pytest.raises(bs.BarrageError) as told:
        staged = publisher.stage(StageRequest("p", "t", 0, "a"), batch.schema, [batch] * 50)
        publisher.commit(CommitRequest("p", "t", 0, tokens=(staged.token if staged else "",)))
    assert isinstance(told.value, bs.UnsupportedTypeError | bs.InvalidRequestError)


def test_one_publisher_per_process_and_server(server: bs.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    first = publisher_for(ServerAccess(server.uri))
    assert publisher_for(ServerAccess(server.uri)) is first
    assert publisher_for(ServerAccess(server.uri, "token")) is not first
    # Connections do not survive a fork, after which the process has another id.
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert publisher_for(ServerAccess(server.uri)) is not first


def test_a_server_that_asks_for_a_token_gets_it() -> None:
    with bs.Server(port=0, token="right") as server:
        assert Publisher(ServerAccess(server.uri, token="right")).last_batch("p", "t") is None
        for token in (None, "wrong"):
            with pytest.raises(bs.AuthenticationError):
                Publisher(ServerAccess(server.uri, token=token)).last_batch("p", "t")


def test_a_batch_is_aborted_without_knowing_its_tokens(server: bs.Server) -> None:
    publisher = publisher_for(ServerAccess(server.uri))
    rows = pa.record_batch({"n": [1, 2]})
    for attempt in ("a", "b"):
        publisher.stage(StageRequest("p", "t", 3, attempt), rows.schema, [rows])
    publisher.stage(StageRequest("p", "t", 4, "c"), rows.schema, [rows])
    publisher.stage(StageRequest("p", "t", 3, "d", "next"), rows.schema, [rows])
    assert publisher.keep_batch("p", "t", 3, "next") > 0
    assert publisher.abort_batch("p", "t", 3, "gone") == 0
    assert publisher.abort_batch("p", "t", 3, "next") == 1
    assert publisher.abort_batch("p", "t", 3) == 2
    assert server.statistics().staging.entries == 1
