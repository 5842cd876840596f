"""What a DoPut does is written once: an endpoint is whatever gives a schema and messages, and takes replies."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pyarrow as pa
import pytest

from barrage_server.engine import UpdateGraph
from barrage_server.errors import BarrageError, LimitError, PublishError, UnavailableError, WireFormatError
from barrage_server.publish import Committer, Ledger, StagingArea
from barrage_server.rowset import RowSet
from barrage_server.server.access import AccessControl
from barrage_server.server.authentication import Authentication
from barrage_server.server.catalog import Catalog
from barrage_server.server.dispatcher import Dispatcher
from barrage_server.server.limits import Limits
from barrage_server.server.principal import Principal
from barrage_server.server.put import take_put
from barrage_server.server.resumption import Resumption
from barrage_server.server.server_state import ServerState
from barrage_server.server.streams import Streams
from barrage_server.server.table_feeds import TableFeeds
from barrage_server.server.upload import RawMessage, UploadStream
from barrage_server.server.workers import Workers
from barrage_server.subscription import SubscriptionLimits
from barrage_server.subscription.history import History
from barrage_server.wire.commit_messages import CommitRequest, StageEnd, StageRequest, StageResult
from barrage_server.wire.metadata import PublicationRequest, UpdateMetadata
from barrage_server.wire.protocol import FLUSH, STAGE_COMMAND
from barrage_server.wire.raw import COMMAND_DESCRIPTOR, PATH_DESCRIPTOR, Descriptor

SCHEMA = pa.schema([("a", pa.int64())])
TABLE = Descriptor(PATH_DESCRIPTOR, path=("t",))
STAGING = Descriptor(COMMAND_DESCRIPTOR, command=STAGE_COMMAND)


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], SCHEMA)


class Source:
    """The smallest endpoint: messages in a list."""

    peer = "somewhere"
    principal = Principal("me")

    def __init__(self, descriptor: Descriptor, *messages: RawMessage | Exception, cancelled: bool = False) -> None:
        self.descriptor = descriptor
        self.replies: list[bytes] = []
        self.hears = True
        self._messages = messages
        self._cancelled = cancelled

    def schema(self) -> pa.Schema:
        return SCHEMA

    def messages(self) -> Iterator[RawMessage]:
        for message in self._messages:
            if isinstance(message, Exception):
                raise message
            yield message

    def is_cancelled(self) -> bool:
        return self._cancelled

    def cut(self, error: BarrageError) -> bool:
        return False

    def reply(self, app_metadata: bytes) -> None:
        if not self.hears:
            raise UnavailableError("gone")
        self.replies.append(app_metadata)


@pytest.fixture
def server_state() -> Iterator[ServerState]:
    limits = Limits(request_bytes=1000, uploads=1)
    catalog = Catalog(UpdateGraph(), lambda *_: None, lambda *_: None, columns=limits.columns)
    staging, ledger, dispatcher = StagingArea(limits.staging), Ledger(), Dispatcher()
    checks = Workers(os.cpu_count() or 1, "checks")
    yield ServerState(
        catalog=catalog,
        staging=staging,
        ledger=ledger,
        committer=Committer(catalog, staging, ledger),
        feeds=TableFeeds(dispatcher, SubscriptionLimits()),
        dispatcher=dispatcher,
        streams=Streams({"upload": limits.uploads}),
        checks=checks,
        limits=limits,
        drop=lambda _: None,
        statistics=lambda: pytest.fail("not asked for"),
        access=AccessControl(catalog),
        authentication=Authentication(),
        resumption=Resumption(History(0.0, 0), lambda: 0.0),
        clock=lambda: 0.0,
    )
    checks.shutdown()
    dispatcher.close()


def content(server_state: ServerState) -> list[int]:
    values: list[int] = server_state.catalog.get("t").to_arrow()["a"].to_pylist()
    return values


def test_rows_are_put(server_state: ServerState) -> None:
    source = Source(TABLE, (batch(1, 2), None), (batch(3), None))
    take_put(server_state, source)
    assert content(server_state) == [1, 2, 3]
    assert [json.loads(reply)["rows"] for reply in source.replies] == [3]
    assert not server_state.streams.open()


def test_rows_are_staged_and_committed(server_state: ServerState) -> None:
    request = memoryview(StageRequest("p", "t", 0, "x").to_json())
    source = Source(STAGING, (None, request), (batch(1), None), (None, memoryview(StageEnd(1).to_json())))
    take_put(server_state, source)
    token = StageResult.from_json(source.replies[0]).token
    server_state.committer.commit(CommitRequest("p", "t", 0, tokens=(token,)), Source.principal.owner)
    assert content(server_state) == [1]


def test_updates_are_published(server_state: ServerState) -> None:
    update = UpdateMetadata(
        first_seq=0,
        last_seq=0,
        is_snapshot=True,
        added_rows=RowSet.flat(2),
        modified_rows=(RowSet.empty(),),
        table_size=2,
    )
    source = Source(
        TABLE,
        (None, memoryview(PublicationRequest(b"").encode())),
        (batch(1, 2), memoryview(update.encode())),
        (None, memoryview(FLUSH)),
    )
    take_put(server_state, source)
    assert content(server_state) == [1, 2]
    assert [json.loads(reply)["updates"] for reply in source.replies] == [1, 1, 1]


@pytest.mark.parametrize(
    ("messages", "cancelled", "error"),
    [
        ([(batch(1), None)], True, UnavailableError),
        ([(batch(1), None), WireFormatError("damaged")], True, UnavailableError),
        ([(batch(1), None), WireFormatError("damaged")], False, WireFormatError),
        ([(None, memoryview(bytes(1001)))], False, LimitError),
    ],
)
def test_a_stream_that_does_not_end_well_changes_nothing(
    server_state: ServerState, messages: list[RawMessage | Exception], cancelled: bool, error: type[BarrageError]
) -> None:
    with pytest.raises(error):
        take_put(server_state, Source(TABLE, *messages, cancelled=cancelled))
    assert server_state.catalog.find("t") is None
    assert not server_state.streams.open()


def test_a_staged_batch_without_its_end_is_dropped(server_state: ServerState) -> None:
    request = memoryview(StageRequest("p", "t", 0, "x").to_json())
    with pytest.raises(PublishError, match="broke off"):
        take_put(server_state, Source(STAGING, (None, request), (batch(1), None)))
    assert server_state.staging.statistics().entries == 0


def test_a_publisher_that_does_not_hear_the_result_has_published_all_the_same(server_state: ServerState) -> None:
    source = Source(TABLE, (batch(1), None))
    source.hears = False
    take_put(server_state, source)
    assert content(server_state) == [1]


def test_what_the_server_ends_is_told_so(server_state: ServerState) -> None:
    upload = UploadStream(server_state, Source(TABLE, (batch(1), None)))
    with upload.admitted():
        with pytest.raises(LimitError):
            server_state.streams.admit(UploadStream(server_state, Source(TABLE)))
        assert upload.overdue(server_state.limits.idle_upload_seconds - 1) is None
        assert upload.overdue(server_state.limits.idle_upload_seconds) is not None
        upload.let_idle()
        assert upload.overdue(1e9) is None
        upload.end(UnavailableError("The server is shutting down."))
        assert upload.overdue(0.0) == "The server is shutting down."
        with pytest.raises(UnavailableError, match="shutting down"):
            upload.collect(SCHEMA, upload.messages())
