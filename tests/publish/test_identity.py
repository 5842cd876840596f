"""Who commits what: epochs of one name, users, and batches that are missing."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from barrage_server.engine import UpdateGraph
from barrage_server.errors import FencedError, LimitError, LostBatchesError, PublishError
from barrage_server.publish import Committer, Ledger, StagingArea
from barrage_server.server.catalog import Catalog
from barrage_server.wire.commit_messages import CommitRequest, LastBatchRequest, StageRequest, single_write_publisher
from barrage_server.wire.protocol import PublishMode, TableKind
from tests.publish.test_commit import SCHEMA, Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def row(batch: int) -> dict[str, list[object]]:
    return {"k": [str(batch)], "v": [batch]}


# Epochs.


def test_a_new_epoch_is_refused_unless_it_takes_the_name_over_and_ends_the_one_before(desk: Desk) -> None:
    for batch in range(3):
        desk.commit(batch, desk.stage(batch, row(batch), epoch="a"), epoch="a")
    token = desk.stage(0, row(10), epoch="b")
    with pytest.raises(FencedError, match=r"takeover=True"):
        desk.commit(0, token, epoch="b")
    assert desk.rows()["v"] == [0, 1, 2]
    staged_by_the_old = desk.stage(3, row(3), epoch="a")
    assert desk.commit(0, token, epoch="b", takeover=True).committed
    assert desk.commit(0, epoch="b", takeover=True).duplicate
    assert desk.commit(1, desk.stage(1, row(11), epoch="b"), epoch="b").last_batch == 1
    assert desk.rows()["v"] == [0, 1, 2, 10, 11]
    for takeover in (False, True):
        with pytest.raises(FencedError, match="taken over by epoch 'b'"):
            desk.commit(3, staged_by_the_old, epoch="a", takeover=takeover)
    with pytest.raises(FencedError):
        desk.committer.check_stage(StageRequest("query", "t", 3, "x", "a"))
    assert desk.staging.statistics().entries == 0
    assert desk.rows()["v"] == [0, 1, 2, 10, 11]


def test_an_epoch_that_begins_may_stage_before_it_takes_the_name_over(desk: Desk) -> None:
    """And the epoch that still commits does not drop its rows."""
    desk.commit(0, desk.stage(0, row(0), epoch="a"), epoch="a")
    desk.committer.check_stage(StageRequest("query", "t", 0, "x", "b"))
    token = desk.stage(0, row(10), epoch="b")
    desk.commit(1, desk.stage(1, row(1), epoch="a"), epoch="a")
    assert desk.commit(0, token, epoch="b", takeover=True).committed
    assert desk.rows()["v"] == [0, 1, 10]


def test_what_one_epoch_has_staged_no_other_commits(desk: Desk) -> None:
    token = desk.stage(0, row(0), epoch="a")
    with pytest.raises(PublishError, match="another epoch"):
        desk.commit(0, token, epoch="b")


def test_the_last_batch_is_that_of_the_epoch_that_asks(desk: Desk) -> None:
    for batch in range(3):
        desk.commit(batch, desk.stage(batch, row(batch), epoch="a"), epoch="a")
    last_batch = desk.committer.last_batch
    assert last_batch(LastBatchRequest("query", "t")).last_batch == 2
    assert last_batch(LastBatchRequest("query", "t", "a")).last_batch == 2
    assert last_batch(LastBatchRequest("query", "t", "b", takeover=True)).last_batch is None
    with pytest.raises(FencedError):
        last_batch(LastBatchRequest("query", "t", "b"))
    assert last_batch(LastBatchRequest("other", "t", "b")).last_batch is None


# Users.


def test_a_publisher_name_belongs_to_the_user_that_commits_under_it_first(desk: Desk) -> None:
    desk.commit(0, desk.stage(0, row(0), principal="ann"), principal="ann")
    foreign = desk.stage(1, row(1), principal="bob")
    for refused in (
        lambda: desk.commit(1, foreign, principal="bob"),
        lambda: desk.commit(0, principal="bob"),
        lambda: desk.commit(1, foreign, principal="bob", takeover=True, epoch="b"),
        lambda: desk.committer.check_stage(StageRequest("query", "t", 1, "x"), "bob"),
        lambda: desk.committer.last_batch(LastBatchRequest("query", "t"), "bob"),
        lambda: desk.committer.last_batch(LastBatchRequest("query", "t", "b", takeover=True), "bob"),
    ):
        with pytest.raises(FencedError, match="belongs to another user"):
            refused()
    assert desk.commit(1, desk.stage(1, row(1), principal="ann"), principal="ann").committed
    assert desk.rows()["v"] == [0, 1]


def test_no_user_commits_drops_or_keeps_what_another_has_staged(desk: Desk) -> None:
    token = desk.stage(0, row(0), principal="ann")
    with pytest.raises(PublishError, match="unknown"):
        desk.commit(0, token, principal="bob")
    assert desk.staging.drop([token], "bob") == 0
    assert desk.staging.drop_batch("query", "t", 0, "bob") == 0
    assert desk.staging.keep([token], 1.0, "bob") == 0
    assert desk.staging.keep_batch("query", "t", 0, 1.0, "bob") == 0
    assert desk.commit(0, token, principal="ann").committed


# Losses.


@pytest.mark.parametrize(
    ("before", "batch", "missing"),
    [((), 1, "batch 0 is"), ((), 5, "batches 0 to 4 are"), ((0,), 2, "batch 1 is"), ((0, 1), 9, "batches 2 to 8 are")],
)
def test_a_batch_that_does_not_follow_is_refused_and_named(
    desk: Desk, before: tuple[int, ...], batch: int, missing: str
) -> None:
    for number in before:
        desk.commit(number, desk.stage(number, row(number)), allow_gap=False)
    with pytest.raises(LostBatchesError, match=rf"{missing} missing.*allow_gap=True"):
        desk.commit(batch, desk.stage(batch, row(batch)), allow_gap=False)
    assert desk.ledger.last("query", "t") == (before[-1] if before else None)


def test_a_gap_that_is_allowed_is_in_the_log(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "barrage_server.publish"):
        assert desk.commit(5, desk.stage(5, row(5)), allow_gap=True).committed
    assert "batches 0 to 4 are missing" in caplog.text
    caplog.clear()
    desk.commit(6, desk.stage(6, row(6)), allow_gap=True)
    assert not caplog.records


def test_batches_that_need_none_before_them_have_no_gap(desk: Desk) -> None:
    """A batch that is the whole table, rows that live for one cycle, and single writes."""
    desk.commit(5, schema=SCHEMA, mode=PublishMode.REPLACE, allow_gap=False)
    single = single_write_publisher(UUID(int=1))
    for batch in (3, 7):
        assert desk.commit(batch, publisher=single, schema=SCHEMA, allow_gap=False).committed
    desk.catalog.drop("t")
    desk.commit(5, publisher="blinks", schema=SCHEMA, kind=TableKind.BLINK, allow_gap=False)
    assert desk.commit(9, publisher="blinks", schema=SCHEMA, allow_gap=False).committed


def test_a_publisher_beyond_the_room_of_the_ledger_is_refused_and_publishes_nothing() -> None:
    catalog, staging = Catalog(UpdateGraph()), StagingArea()
    committer = Committer(catalog, staging, Ledger(capacity=1))
    committer.commit(CommitRequest("first", "t", 0, schema=SCHEMA))
    with pytest.raises(LimitError):
        committer.commit(CommitRequest("second", "u", 0, schema=SCHEMA))
    assert catalog.find("u") is None
    assert committer.commit(CommitRequest("first", "t", 1, schema=SCHEMA)).committed


# The log of refused batches.


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [line for line in lines if "is not committed" in line]


def test_a_refused_gap_is_a_warning_once_until_the_publisher_commits(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with pytest.raises(LostBatchesError):
            desk.commit(5, desk.stage(5, row(5)), allow_gap=False)
    (line,) = refusals(caplog)
    assert line.startswith("batch 5 of publisher 'query' is not committed into table t: LostBatchesError: ")
    assert "batches 0 to 4 are missing" in line
    desk.commit(0, desk.stage(0, row(0)), allow_gap=False)
    with pytest.raises(LostBatchesError):
        desk.commit(2, desk.stage(2, row(2)), allow_gap=False)
    assert "batch 1 is missing" in refusals(caplog)[-1]
    assert len(refusals(caplog)) == 2


@pytest.mark.parametrize("call", ["commit", "stage"])
def test_a_fenced_publisher_is_a_warning_once_while_its_successor_commits(
    desk: Desk, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    desk.commit(0, desk.stage(0, row(0), epoch="a"), epoch="a")
    for batch in range(3):
        desk.commit(batch, desk.stage(batch, row(batch), epoch="b"), epoch="b", takeover=True)
        with pytest.raises(FencedError):
            if call == "commit":
                desk.commit(1, epoch="a")
            else:
                desk.committer.check_stage(StageRequest("query", "t", 1, "x", "a"))
    (line,) = refusals(caplog)
    assert line.startswith("batch 1 of publisher 'query' is not committed into table t: FencedError: ")
    assert "taken over by epoch 'b'" in line
