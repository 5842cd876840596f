"""The staging area: named by token, bounded in bytes and time, and complete or gone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from barrage_server.errors import LimitError, PublishError
from barrage_server.publish import StagingArea, StagingLimits
from barrage_server.wire.commit_messages import StageRequest

REQUEST = StageRequest("query", "trades", 3, "attempt")
BATCH = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})


def sealed(area: StagingArea, request: StageRequest = REQUEST, batches: int = 1, now: float = 0.0) -> str:
    token = area.open(request, BATCH.schema, now)
    for _ in range(batches):
        area.add(token, BATCH, now)
    area.seal(token, 3 * batches, now)
    return token


def test_what_is_sealed_is_found_in_the_order_of_the_tokens() -> None:
    area = StagingArea()
    first, second = sealed(area), sealed(area, batches=2)
    found = area.find([second, first], "query", "trades", 3)
    assert [entry.rows for entry in found] == [6, 3]


def test_tokens_cannot_be_guessed_from_each_other() -> None:
    area = StagingArea()
    tokens = {sealed(area) for _ in range(50)}
    assert len(tokens) == 50
    assert min(map(len, tokens)) >= 24


def test_a_wrong_row_count_drops_the_entry() -> None:
    area = StagingArea()
    token = area.open(REQUEST, BATCH.schema, 0.0)
    area.add(token, BATCH, 0.0)
    with pytest.raises(PublishError, match="4 rows were announced and 3 have arrived"):
        area.seal(token, 4, 0.0)
    assert area.statistics().entries == 0
    assert area.statistics().nbytes == 0


def test_what_is_not_sealed_cannot_be_committed() -> None:
    area = StagingArea()
    token = area.open(REQUEST, BATCH.schema, 0.0)
    with pytest.raises(PublishError, match="still being staged"):
        area.find([token], "query", "trades", 3)


def test_nothing_is_added_behind_the_seal() -> None:
    area = StagingArea()
    token = sealed(area)
    with pytest.raises(PublishError, match="to its end already"):
        area.add(token, BATCH, 0.0)


@pytest.mark.parametrize(
    ("publisher", "table", "batch"), [("x", "trades", 3), ("query", "x", 3), ("query", "trades", 4)]
)
def test_a_token_serves_only_what_it_was_staged_for(publisher: str, table: str, batch: int) -> None:
    area = StagingArea()
    with pytest.raises(PublishError, match="was staged for batch 3 of table 'trades'"):
        area.find([sealed(area)], publisher, table, batch)


def test_unknown_and_repeated_tokens_are_refused() -> None:
    area = StagingArea()
    token = sealed(area)
    with pytest.raises(PublishError, match="unknown"):
        area.find([token, "never"], "query", "trades", 3)
    with pytest.raises(PublishError, match="twice"):
        area.find([token, token], "query", "trades", 3)


def test_dropping_counts_what_was_known() -> None:
    area = StagingArea()
    token = sealed(area)
    assert area.drop([token, token, "never"]) == 1
    assert area.drop([token]) == 0
    assert area.statistics().nbytes == 0


def test_a_batch_of_one_epoch_is_dropped_or_kept_and_that_of_its_successor_is_not_touched() -> None:
    area = StagingArea(StagingLimits(expiry_seconds=5.0, lifetime_seconds=5.0))
    requests = [StageRequest("query", "trades", 3, "attempt", epoch) for epoch in ("old", "new", None)]
    old, new, none = (sealed(area, request) for request in requests)
    assert area.keep_batch("query", "trades", 3, 4.0, epoch="new") == 1
    assert area.drop_batch("query", "trades", 3, epoch="old") == 1
    assert area.drop([old]) == 0
    assert area.expire(6.0) == 1  # the one without an epoch
    assert area.drop([none]) == 0
    assert area.find([new], "query", "trades", 3, epoch="new")
    assert area.drop_batch("query", "trades", 3) == 1


def test_a_batch_can_be_dropped_without_its_tokens() -> None:
    area = StagingArea()
    mine, other = sealed(area), sealed(area, StageRequest("query", "trades", 4, "attempt"))
    area.open(REQUEST, BATCH.schema, 0.0)
    assert area.drop_batch("query", "trades", 3) == 2
    assert area.drop_batch("query", "trades", 3) == 0
    assert area.find([other], "query", "trades", 4)
    assert area.statistics().nbytes == BATCH.nbytes
    with pytest.raises(PublishError):
        area.find([mine], "query", "trades", 3)


def test_one_entry_may_not_grow_beyond_its_limit() -> None:
    area = StagingArea(StagingLimits(entry_bytes=BATCH.nbytes))
    token = area.open(REQUEST, BATCH.schema, 0.0)
    area.add(token, BATCH, 0.0)
    with pytest.raises(LimitError, match="one staged batch"):
        area.add(token, BATCH, 0.0)
    assert area.statistics().entries == 0


def test_all_entries_together_have_a_limit_and_dropping_makes_room() -> None:
    area = StagingArea(StagingLimits(total_bytes=2 * BATCH.nbytes))
    first, _ = sealed(area), sealed(area)
    with pytest.raises(LimitError, match="all staged batches together"):
        sealed(area)
    area.drop([first])
    sealed(area)


def test_the_number_of_entries_has_a_limit() -> None:
    area = StagingArea(StagingLimits(entries=1))
    sealed(area)
    with pytest.raises(LimitError, match="1 batches are staged already"):
        sealed(area)


def test_one_caller_leaves_a_tenth_of_the_entries_to_others() -> None:
    area = StagingArea(StagingLimits(entries=20))
    own = [area.open(REQUEST, BATCH.schema, 0.0, "one") for _ in range(18)]
    with pytest.raises(LimitError, match="a tenth of all 20"):
        area.open(REQUEST, BATCH.schema, 0.0, "one")
    area.open(REQUEST, BATCH.schema, 0.0, "two")
    area.drop(own[:1])
    area.open(REQUEST, BATCH.schema, 0.0, "one")


@pytest.mark.parametrize(
    "limits",
    [
        StagingLimits(expiry_seconds=5, total_bytes=2 * BATCH.nbytes),
        StagingLimits(expiry_seconds=5, entries=2),
    ],
)
def test_what_has_expired_makes_room_for_others_oldest_first(limits: StagingLimits) -> None:
    """Until its room is needed it stays: the tasks of a batch may be far apart."""
    area = StagingArea(limits)
    older, younger = sealed(area, now=0.0), sealed(area, now=4.0)
    assert area.expire(60.0) == 0
    assert len(area.find([older, younger], "query", "trades", 3)) == 2
    with pytest.raises(LimitError):
        sealed(area, now=4.9)
    third = sealed(area, now=5.0)
    with pytest.raises(PublishError, match="expired"):
        area.find([older], "query", "trades", 3)
    assert len(area.find([younger, third], "query", "trades", 3)) == 2
    assert area.statistics().expired == 1


def test_an_entry_that_grows_does_not_make_room_by_its_own_end() -> None:
    """However old what it has is."""
    area = StagingArea(StagingLimits(expiry_seconds=5, total_bytes=2 * BATCH.nbytes))
    token = area.open(REQUEST, BATCH.schema, 0.0)
    area.add(token, BATCH, 0.0)
    area.add(token, BATCH, 100.0)
    assert area.seal(token, 6, 200.0).rows == 6


def test_what_is_not_touched_is_dropped_after_its_lifetime() -> None:
    area = StagingArea(StagingLimits(expiry_seconds=1, lifetime_seconds=10))
    old = sealed(area, now=0.0)
    young = sealed(area, now=5.0)
    assert area.expire(9.9) == 0
    assert area.expire(10.0) == 1
    with pytest.raises(PublishError, match="expired"):
        area.find([old], "query", "trades", 3)
    assert len(area.find([young], "query", "trades", 3)) == 1
    assert area.statistics().expired == 1


@pytest.mark.parametrize("by_token", [True, False])
def test_what_its_driver_keeps_does_not_expire(by_token: bool) -> None:
    """For as long as it asks: neither for the room of others, nor by its lifetime."""
    area = StagingArea(StagingLimits(expiry_seconds=5, lifetime_seconds=10, entries=2))
    kept, left = sealed(area, now=0.0), sealed(area, StageRequest("query", "trades", 4, "attempt"), now=0.0)
    for now in range(4, 40, 4):
        if by_token:
            assert area.keep([kept, kept, "unknown"], now) == 1
        else:
            assert area.keep_batch("query", "trades", 3, now) == 1
        assert area.expire(now) == (now == 12)
    assert area.drop([left]) == 0
    later = sealed(area, now=40.0)
    with pytest.raises(LimitError):
        sealed(area, now=40.0)
    assert len(area.find([kept, later], "query", "trades", 3)) == 2
    assert area.expire(46.0) == 1


def test_a_batch_is_kept_while_its_tasks_still_send() -> None:
    area = StagingArea(StagingLimits(expiry_seconds=5, lifetime_seconds=5))
    token = area.open(REQUEST, BATCH.schema, 0.0)
    assert area.keep_batch("query", "trades", 3, 4.0) == 1
    assert area.expire(8.0) == 0
    assert area.seal(token, 0, 8.0).rows == 0


def test_statistics_count_what_is_there() -> None:
    area = StagingArea()
    sealed(area, batches=2)
    figures = area.statistics()
    assert (figures.entries, figures.rows, figures.nbytes) == (1, 6, 2 * BATCH.nbytes)


def test_one_user_does_not_fill_the_staging_area_for_all() -> None:
    """What is dropped makes room; a server without users has no such bound."""
    area = StagingArea(StagingLimits(total_bytes=10 * BATCH.nbytes, caller_bytes=2 * BATCH.nbytes))

    def stage(principal: str) -> str:
        token = area.open(REQUEST, BATCH.schema, 0.0, principal)
        area.add(token, BATCH, 0.0)
        return token

    first = stage("one")
    stage("one")
    with pytest.raises(LimitError, match=r"of one caller together \(staging.caller_bytes\)"):
        stage("one")
    stage("two")
    for _ in range(3):
        stage("")
    area.drop([first])
    stage("one")
    with pytest.raises(LimitError, match="of one caller"):
        stage("one")
    assert area.statistics().nbytes == 6 * BATCH.nbytes
