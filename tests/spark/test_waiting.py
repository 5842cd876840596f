"""A server that is away is waited for: as long as told, in words that name it, and not when waiting cannot help."""

from __future__ import annotations

import http.server
import logging
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import barrage_server as bs
from barrage_server.spark import BarrageSink
from barrage_server.spark.publisher import Publisher, ServerAccess, _Parts
from barrage_server.spark.waiting import WaitPolicy, has_given_up
from barrage_server.wire.commit_messages import CommitRequest, StageRequest

ADDRESS = "grpc://nowhere:8815"
ROWS = pa.record_batch({"n": [1, 2, 3]})


def failing(times: int, error: bs.BarrageError) -> Callable[[], int]:
    """Fails ``times`` times, then returns 7."""
    left = [error] * times

    def act() -> int:
        if left:
            raise left.pop()
        return 7

    return act


@pytest.mark.parametrize("error", [bs.UnavailableError("away"), bs.DeadlineError("slow")])
def test_an_action_is_repeated_with_growing_pauses_and_the_log_names_the_server(
    caplog: pytest.LogCaptureFixture, error: bs.BarrageError
) -> None:
    pauses: list[float] = []
    assert WaitPolicy(ADDRESS, 300.0, pauses.append).retried(failing(12, error)) == 7
    assert len(pauses) == 12
    assert pauses[0] <= 0.1 < pauses[2] < 5.0
    assert max(pauses) <= 5.0
    waiting, answers = (record.getMessage() for record in caplog.records)
    assert waiting.startswith(f"waiting for the server at {ADDRESS}, for up to 300 s more")
    assert answers.startswith(f"the server at {ADDRESS} answers again")


def test_a_wait_without_end_is_one(caplog: pytest.LogCaptureFixture) -> None:
    assert WaitPolicy(ADDRESS, float("inf"), lambda _: None).retried(failing(1000, bs.UnavailableError("away"))) == 7
    assert "without end" in caplog.text


def test_a_wait_ends_with_the_last_error_and_says_how_long_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("barrage_server.spark.waiting.time.monotonic", lambda: clock[0])

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    with pytest.raises(bs.UnavailableError, match=rf"^away; gave up after waiting for {ADDRESS} for 20 s\.$") as told:
        WaitPolicy(ADDRESS, 20.0, sleep).retried(failing(10**6, bs.UnavailableError("away.")))
    assert 20.0 <= clock[0] < 20.1
    assert has_given_up(told.value)


def test_without_time_to_wait_the_error_comes_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(bs.UnavailableError, match=r"^away$") as told:
        WaitPolicy(ADDRESS, 0.0).retried(failing(1, bs.UnavailableError("away")))
    assert not has_given_up(told.value)
    assert not caplog.records


@pytest.mark.parametrize("error", [bs.LimitError("full"), bs.AuthenticationError("who?"), bs.PublishError("expired")])
def test_other_errors_are_not_waited_for(error: bs.BarrageError) -> None:
    with pytest.raises(type(error)):
        WaitPolicy(ADDRESS, 300.0, lambda _: pytest.fail("waited")).retried(failing(1, error))


def test_what_cannot_be_repeated_is_not() -> None:
    with pytest.raises(bs.UnavailableError, match=r"^away$"):
        WaitPolicy(ADDRESS, 300.0).retried(failing(1, bs.UnavailableError("away")), may_repeat=lambda: False)


class Away:
    """An address whose server starts at the first pause of a waiting client."""

    def __init__(self) -> None:
        with bs.Server() as server:
            self.uri, self.port = server.uri, server.port
        self.server: bs.Server | None = None

    def come(self, _seconds: float = 0.0) -> None:
        """Be there from now on."""
        if self.server is None:
            self.server = bs.Server(port=self.port)


@pytest.fixture
def away() -> Iterator[Away]:
    made = Away()
    yield made
    if made.server is not None:
        made.server.close()


def test_actions_and_stages_wait_for_the_server(away: Away) -> None:
    publisher = Publisher(ServerAccess(away.uri)).with_policy(WaitPolicy(away.uri, 300.0, away.come))
    staged = publisher.stage(StageRequest("p", "t", 0, "a"), ROWS.schema, iter([ROWS, ROWS]))
    assert staged is not None
    assert staged.rows == 6
    assert away.server is not None
    away.server.close()
    away.server = None
    assert publisher.last_batch("p", "t") is None
    staged = publisher.stage(StageRequest("p", "t", 0, "a"), ROWS.schema, iter([ROWS]))
    assert staged is not None
    assert publisher.commit(CommitRequest("p", "t", 0, tokens=(staged.token,))).rows == 3
    publisher.close()


@pytest.mark.parametrize("limit", [0, 100, 10**9])
def test_parts_begin_anew_until_too_many_were_taken(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr("barrage_server.spark.publisher._HELD_BYTES", limit or 1)
    batches = [pa.record_batch({"n": [number, number]}) for number in range(20)]
    everything = [number for number in range(20) for _ in range(2)]

    def values(parts: Iterator[pa.RecordBatch]) -> list[int]:
        return [value for part in parts for value in part["n"].to_pylist()]

    for taken in range(40):
        parts = _Parts(iter(batches))
        first = iter(parts)
        for _ in range(taken):
            next(first, None)
        if parts.is_whole():
            assert values(iter(parts)) == everything
        else:
            assert taken * batches[0].nbytes >= limit
    assert values(iter(_Parts(iter(batches)))) == everything
    assert _Parts(iter([])).is_empty


@pytest.fixture
def web_server() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"grpc://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join(30)


class OtherFlightServer(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """A server of Arrow Flight that knows no Barrage."""

    def list_actions(self, context: fl.ServerCallContext) -> list[fl.ActionType]:
        return []


def test_what_is_no_server_of_ours_is_told_when_the_sink_is_made(web_server: str) -> None:
    with pytest.raises(bs.InvalidRequestError, match="does not speak gRPC"):
        BarrageSink(web_server, table="t")
    not_ours = pytest.raises(bs.InvalidRequestError, match="not the Arrow Flight port of a barrage-server")
    with OtherFlightServer("grpc://127.0.0.1:0") as other, not_ours:
        BarrageSink(f"grpc://127.0.0.1:{other.port}", table="t")


def test_a_web_server_is_not_waited_for(web_server: str) -> None:
    publisher = Publisher(ServerAccess(web_server)).with_policy(
        WaitPolicy(web_server, 300.0, lambda _: pytest.fail("waited"))
    )
    with pytest.raises(bs.InvalidRequestError, match="does not speak gRPC"):
        publisher.last_batch("p", "t")


def test_a_token_that_is_missing_or_wrong_is_told_when_the_sink_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARRAGE_TOKEN", raising=False)
    with bs.Server(token="right") as server:
        for token in (None, "wrong"):
            with pytest.raises(bs.AuthenticationError, match="Pass token=, or set BARRAGE_TOKEN"):
                BarrageSink(server.uri, table="t", token=token)
        BarrageSink(server.uri, table="t", token="right")
        monkeypatch.setenv("BARRAGE_TOKEN", "right")
        BarrageSink(server.uri, table="t")


def test_a_server_that_is_not_there_yet_is_no_error_of_the_sink(away: Away, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    BarrageSink(away.uri, table="t")
    assert not caplog.records
