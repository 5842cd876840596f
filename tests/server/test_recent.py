"""Maps of bounded size."""

from __future__ import annotations

from barrage_server.server.recent import RecentMap


def test_beyond_the_bound_the_entry_that_was_put_first_goes() -> None:
    recent = RecentMap[str, int](2)
    for key in ("a", "b", "a", "c"):
        recent.put(key, len(recent))
    assert list(recent) == ["a", "c"]
    assert recent["a"] == 2
