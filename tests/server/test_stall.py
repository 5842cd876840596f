"""A client that does not do what it is waited for is overdue, after its time and not before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.server.stall import Awaited, StallWatch


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_overdue_where_nothing_is_waited_for() -> None:
    clock = Clock()
    stall = StallWatch(clock)
    assert stall.overdue(1e9) is None
    with stall.taking(5.0):
        assert stall.taking_since == 100.0
    assert stall.overdue(1e9) is None
    assert stall.taking_since is None


@pytest.mark.parametrize("what", Awaited)
def test_a_client_is_overdue_when_its_time_has_passed(what: Awaited) -> None:
    clock = Clock()
    stall = StallWatch(clock)
    stall.expect(what, 5.0)
    assert stall.overdue(104.9) is None
    assert stall.overdue(105.5) == what.value.format(5.5)


def test_progress_begins_the_time_anew() -> None:
    clock = Clock()
    stall = StallWatch(clock)
    stall.expect(Awaited.SEND, 5.0)
    clock.now = 104.0
    stall.expect(Awaited.SEND, 5.0)
    assert stall.overdue(108.0) is None
    assert stall.overdue(109.0) is not None
    stall.expect(Awaited.SEND, float("inf"))
    assert stall.overdue(1e12) is None


def test_what_fails_while_it_is_sent_is_waited_for_no_more() -> None:
    stall = StallWatch(Clock())
    with pytest.raises(OSError, match="gone"), stall.taking(5.0):
        raise OSError("gone")
    assert stall.overdue(1e9) is None


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=10))
def test_to_ask_changes_nothing(times: list[float]) -> None:
    """In whatever order it is asked: the answer depends on the time alone."""
    stall = StallWatch(Clock())
    stall.expect(Awaited.TAKE, 5.0)
    assert [stall.overdue(now) is not None for now in times] == [now - 100.0 >= 5.0 for now in times]
