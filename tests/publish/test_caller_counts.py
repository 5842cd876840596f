"""What each caller has of something that all callers share."""

from __future__ import annotations

import pytest

from barrage_server.publish.caller_counts import CallerCounts, share_of_one


def test_a_caller_that_has_nothing_takes_no_memory() -> None:
    counts = CallerCounts()
    counts.add("a", 5)
    counts.add(("b", "upload"))
    counts.remove("a", 3)
    assert (counts["a"], counts["b", "upload"], counts["c"]) == (2, 1, 0)
    counts.remove("a", 2)
    counts.remove(("b", "upload"))
    assert len(counts) == 0


@pytest.mark.parametrize(("limit", "share"), [(1, 1), (9, 9), (10, 9), (100, 90), (105, 95)])
def test_a_tenth_is_kept_for_others(limit: int, share: int) -> None:
    assert share_of_one(limit) == share
