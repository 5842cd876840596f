"""Open streams are counted, limited, watched, and waited for in bounded time."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import barrage_server as bs
from barrage_server.errors import BarrageError, LimitError, UnavailableError
from barrage_server.server.limits import Limits
from barrage_server.server.principal import OPEN, SHARED, Principal
from barrage_server.server.private_tables import Need
from barrage_server.server.statistics import StreamGauges
from barrage_server.server.streams import Streams, Traffic, Watchdog
from tests.waiting import until


class Fake:
    def __init__(self, kind: str = "subscription", reason: str | None = None) -> None:
        self.kind = kind
        self.peer = "ipv4:127.0.0.1:1"
        self.reason = reason
        self.told: BarrageError | None = None
        self.principal = Principal("me")
        self.can_be_cut = False
        self.cuts = 0
        self.folded = 0

        self.facts: dict[str, Any] = {}
        self.traffic = (0, 0)

    def describe(self) -> StreamGauges:
        return StreamGauges(self.kind, self.peer, "", None, "", 0.0, None, 0.0, *self.traffic)

    def needs(self) -> Sequence[Need]:
        return ()

    def cut(self) -> bool:
        self.cuts += 1
        return self.can_be_cut

    def overdue(self, now: float) -> str | None:
        return self.reason

    def fold(self, now: float) -> None:
        self.folded += 1

    def end(self, error: BarrageError) -> None:
        self.told = error


def test_one_more_than_the_limit_is_refused_until_one_leaves() -> None:
    streams = Streams({"subscription": 2})
    first, second, third = Fake(), Fake(), Fake()
    streams.admit(first)
    streams.admit(second)
    with pytest.raises(LimitError, match="has 2 subscriptions open"):
        streams.admit(third)
    streams.admit(Fake("download"))
    streams.release(first)
    streams.admit(third)
    assert streams.open("subscription") == [second, third]
    assert streams.count("subscription") == 2


def test_one_caller_has_so_many_streams_of_all_kinds_and_leaves_the_others_theirs() -> None:
    streams = Streams({"subscription": 10}, per_caller=2)
    first, bobs = Fake(), Fake()
    bobs.principal = Principal("bob")
    streams.admit(first)
    streams.admit(Fake("upload"))
    with pytest.raises(LimitError, match=r"'me' has 2 streams open \(streams_per_caller\)"):
        streams.admit(Fake("download"))
    streams.admit(bobs)
    streams.release(first)
    streams.admit(Fake("download"))
    with pytest.raises(LimitError):
        streams.admit(Fake())


def test_one_caller_leaves_a_tenth_of_each_kind_to_others() -> None:
    streams = Streams({"upload": 20})
    held = [Fake("upload") for _ in range(18)]
    for stream in held:
        streams.admit(stream)
    with pytest.raises(LimitError, match="the last tenth of all 20"):
        streams.admit(Fake("upload"))
    streams.admit(Fake("subscription"))
    bobs = Fake("upload")
    bobs.principal = Principal("bob")
    streams.admit(bobs)
    streams.release(held.pop())
    streams.admit(Fake("upload"))


def test_a_stream_that_does_not_end_when_it_is_told_is_cut() -> None:
    streams = Streams({})
    told, other = Fake(), Fake()
    for stream in (told, other):
        stream.can_be_cut = True
        streams.admit(stream)
    watchdog = Watchdog(streams, lambda _: False, lambda _: None, lambda: None)
    streams.expect_end(told, "revoked", 10.0)
    streams.expect_end(told, "revoked", 11.0)
    watchdog.check(11.9)
    watchdog.check(12.0)
    assert (told.cuts, other.cuts) == (0, 0)
    watchdog.check(12.2)
    assert (told.cuts, other.cuts) == (1, 0)
    assert streams.overdue(told, 12.0) == "revoked"


def test_a_client_that_acts_after_a_pause_of_the_machine_keeps_its_stream() -> None:
    """The first pass after it finds the stream overdue, as it would a client that had the time and did nothing."""
    streams = Streams({})
    stream = Fake()
    stream.can_be_cut = True
    streams.admit(stream)
    watchdog = Watchdog(streams, lambda _: False, lambda _: None)
    for reason in ("late", None, "late", None):
        stream.reason = reason
        watchdog.check(100.0)
    assert (stream.cuts, watchdog.evicted) == (0, 0)
    stream.reason = "late"
    watchdog.check(200.0)
    watchdog.check(200.2)
    assert (stream.cuts, watchdog.evicted) == (1, 1)


def test_callers_of_an_open_server_are_not_told_apart_and_not_counted() -> None:
    streams = Streams({}, per_caller=1)
    for _ in range(3):
        stream = Fake()
        stream.principal = Principal("any", credential=f"{OPEN}:")
        streams.admit(stream)


def test_the_holders_of_a_shared_token_are_one_caller_whatever_they_call_themselves() -> None:
    streams = Streams({}, per_caller=2)
    held = []
    for name in ("ann", "bob", "cat"):
        held.append(Fake())
        held[-1].principal = Principal(name, credential=f"{SHARED}:1")
    streams.admit(held[0])
    streams.admit(held[1])
    with pytest.raises(LimitError, match="streams_per_caller"):
        streams.admit(held[2])
    streams.release(held[0])
    streams.admit(held[2])


def test_closing_streams_admit_no_other_and_wait_for_the_open_ones() -> None:
    streams = Streams({})
    inside = Fake()
    streams.admit(inside)
    streams.close()
    with pytest.raises(UnavailableError):
        streams.admit(Fake())
    assert not streams.wait_empty(0.01)
    waited: list[bool] = []
    waiter = threading.Thread(target=lambda: waited.append(streams.wait_empty(10)))
    waiter.start()
    streams.release(inside)
    waiter.join(10)
    assert waited == [True]


def test_releasing_twice_counts_once() -> None:
    streams = Streams({})
    stream = Fake()
    streams.admit(stream)
    streams.release(stream)
    streams.release(stream)
    assert streams.count("subscription") == 0


def test_what_streams_have_carried_is_counted_once_from_first_to_last() -> None:
    streams = Streams({"upload": 1})
    first, second = Fake("upload"), Fake("upload")
    streams.admit(first)
    with pytest.raises(LimitError):
        streams.admit(second)
    first.traffic = (2, 20)
    assert streams.traffic() == {"upload": Traffic(open=1, opened=1, refused=1, messages=2, nbytes=20)}
    first.traffic = (3, 30)
    streams.release(first)
    first.traffic = (4, 40)
    streams.admit(second)
    second.traffic = (1, 1)
    assert streams.traffic() == {"upload": Traffic(open=1, opened=2, refused=1, messages=4, nbytes=31)}


def leaps() -> Callable[[], float]:
    """A clock that is two periods of housekeeping later whenever it is read."""
    return itertools.count(0.0, 2 * Watchdog.IDLE_PERIOD).__next__


def test_the_watchdog_cuts_off_overdue_streams_and_runs_its_chores() -> None:
    streams = Streams({})
    kicked: list[str] = []
    kept: list[float] = []
    good, bad = Fake(), Fake(reason="slow")
    streams.admit(good)
    streams.admit(bad)

    def kick(peer: str) -> bool:
        kicked.append(peer)
        bad.reason = None
        return True

    watchdog = Watchdog(streams, kick, kept.append, clock=leaps())
    watchdog.start()
    until(lambda: kicked and kept)
    assert good.folded
    assert watchdog.evicted == 1
    streams.close()
    watchdog.join(10)


def test_the_watchdog_goes_on_after_an_error(caplog: pytest.LogCaptureFixture) -> None:
    streams = Streams({})
    calls: list[float] = []

    def housekeeping(now: float) -> None:
        calls.append(now)
        raise ValueError("broom")

    watchdog = Watchdog(streams, lambda peer: True, housekeeping, clock=leaps())
    watchdog.PERIOD = watchdog.IDLE_PERIOD = 0.01
    watchdog.start()
    until(lambda: len(calls) >= 2)
    streams.close()
    watchdog.join(10)
    assert "broom" in caplog.text


def test_a_stream_that_can_be_cut_off_keeps_its_connection() -> None:
    """The connection is ended only where the stream is still open after the grace, and the stream counts once."""
    streams = Streams({})
    kicked: list[str] = []
    stuck = Fake(reason="slow")
    stuck.can_be_cut = True
    streams.admit(stuck)

    def kick(peer: str) -> bool:
        kicked.append(peer)
        return True

    watchdog = Watchdog(streams, kick, lambda now: None)
    watchdog.check(9.8)
    watchdog.check(10.0)
    watchdog.check(10.0 + watchdog.GRACE / 2)
    assert (stuck.cuts, kicked, watchdog.evicted) == (1, [], 1)
    watchdog.check(10.0 + watchdog.GRACE)
    assert (stuck.cuts, kicked, watchdog.evicted) == (1, [stuck.peer], 1)


@pytest.mark.parametrize(
    "name", ["slow_client_seconds", "idle_upload_seconds", "goodbye_seconds", "credential_seconds"]
)
def test_limits_that_cannot_be_are_refused(name: str) -> None:
    changes: dict[str, Any] = {name: 0}
    with pytest.raises(BarrageError, match=name):
        dataclasses.replace(Limits(), **changes)
    with pytest.raises(BarrageError, match="subscriptions"):
        Limits(subscriptions=-1)
    with pytest.raises(BarrageError, match="connections_per_address must be at least 1"):
        Limits(connections_per_address=0)


@pytest.mark.parametrize("wrong", ["3", None, -1, [], float("nan"), True])
@pytest.mark.parametrize("kind", [Limits, bs.StagingLimits])
def test_every_limit_is_checked_in_words(kind: type[Any], wrong: Any) -> None:
    for field in dataclasses.fields(kind):
        if field.name != "staging":
            with pytest.raises(BarrageError, match=field.name):
                kind(**{field.name: wrong})
    with pytest.raises(BarrageError, match="staging"):
        Limits(staging=3)  # type: ignore[arg-type]


def test_a_fault_of_one_stream_keeps_no_other_from_being_watched(caplog: pytest.LogCaptureFixture) -> None:
    streams = Streams({})
    bad, late = Fake(reason="bad"), Fake(reason="late")
    bad.peer, late.peer = "bad", "late"
    streams.admit(bad)
    streams.admit(late)
    kicked: list[str] = []

    def kick(peer: str) -> bool:
        if peer == "bad":
            raise OSError("no more files")
        kicked.append(peer)
        return True

    watchdog = Watchdog(streams, kick, lambda now: None)
    watchdog.check(0.0)
    watchdog.check(0.2)
    assert kicked == ["late"]
    assert "no more files" in caplog.text
