"""DoPut: rows that wait for a commit; all of them or none."""

from __future__ import annotations

import json

import pyarrow.flight as fl
import pytest

from barrage_server.errors import (
    BarrageError,
    LimitError,
    PublishError,
    WireFormatError,
)
from barrage_server.publish import StagingLimits
from barrage_server.server import Limits, Server
from barrage_server.wire.commit_messages import CommitRequest, StageEnd, StageRequest, StageResult
from barrage_server.wire.protocol import COMMIT_ACTION
from tests.server.conftest import SCHEMA, address, endpoints
from tests.server.putting import ROWS, Message, refused, send
from tests.waiting import until

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


def test_more_than_may_be_staged_is_refused(endpoint: str) -> None:
    limits = Limits(staging=StagingLimits(entry_bytes=100))
    with Server(limits=limits, **endpoints(endpoint)) as server, fl.connect(address(server, endpoint)) as client:
        error = refused(lambda: stage(client, (None, REQUEST), *[(ROWS, None)] * 20))
        assert type(error) is LimitError
        assert server.statistics().staging.nbytes == 0


def test_what_is_staged_expires(endpoint: str) -> None:
    limits = Limits(staging=StagingLimits(expiry_seconds=0.1, lifetime_seconds=0.1))
    with Server(limits=limits, **endpoints(endpoint)) as server, fl.connect(address(server, endpoint)) as client:
        stage(client, (None, REQUEST), (ROWS, StageEnd(2).to_json()))
        until(lambda: server.statistics().staging.expired == 1)
        assert server.statistics().staging.nbytes == 0
