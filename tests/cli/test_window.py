"""Where a screen stands in a table: against the simplest model, a list of rows that is looked at through a window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barrage_server.cli.window import GAP, ColumnLayout, Scroll

KEYS = st.sampled_from(["down", "up", "page down", "page up", "home", "end"])


def rows_shown(scroll: Scroll, page: int, size: int) -> list[int]:
    """What a server sends for the window: positions count from the first row, or in reverse from the last."""
    wanted = scroll.positions(page)
    rows = range(size)
    found = [size - 1 - at for at in wanted if at < size] if scroll.reverse else [at for at in wanted if at < size]
    return sorted(row for row in found if row in rows)


def press(scroll: Scroll, key: str, page: int, size: int) -> None:
    match key:
        case "home":
            scroll.home(page, size)
        case "end":
            scroll.end(page, size)
        case _:
            rows = page if "page" in key else 1
            scroll.move(rows if "down" in key else -rows, page, size)


@given(st.booleans(), st.integers(1, 8), st.integers(0, 40), st.lists(KEYS, max_size=12))
def test_keys_move_as_in_a_pager(reverse: bool, page: int, size: int, keys: list[str]) -> None:
    scroll = Scroll(None, reverse)
    top = max(0, size - page) if reverse else 0
    last = max(0, size - page)
    for key in keys:
        press(scroll, key, page, size)
        step = {"down": 1, "up": -1, "page down": page, "page up": -page}.get(key)
        top = min(max(0, top + step), last) if step is not None else (0 if key == "home" else last)
        assert rows_shown(scroll, page, size) == list(range(size))[top : top + page]
        if size:
            assert scroll.first_row(page, size) == top


@given(st.integers(0, 9), st.integers(1, 20), st.integers(1, 8), st.integers(0, 40), st.lists(KEYS, max_size=12))
def test_a_named_viewport_bounds_the_screen(start: int, length: int, page: int, size: int, keys: list[str]) -> None:
    scroll = Scroll(range(start, start + length))
    for key in keys:
        press(scroll, key, page, size)
        assert not scroll.reverse
        shown = rows_shown(scroll, page, size)
        assert set(shown) <= set(range(start, start + length))
        assert len(shown) == min(page, scroll.total(size))


@given(st.integers(1, 8), st.integers(0, 40), st.integers(0, 40))
def test_the_end_stays_at_the_end_of_a_table_that_grows(page: int, size: int, more: int) -> None:
    scroll = Scroll()
    scroll.end(page, size)
    assert rows_shown(scroll, page, size + more) == list(range(size + more))[-page:]


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=12),
    st.sets(st.integers(0, 11)),
    st.integers(0, 11),
    st.integers(1, 100),
)
def test_columns_are_shown_whole_or_not_at_all(widths: list[int], keys: set[int], first: int, available: int) -> None:
    first = min(first, len(widths) - 1)
    shown = ColumnLayout(widths, keys, available).shown(first)
    assert shown == sorted(set(shown))
    assert first in shown
    used = sum(widths[number] for number in shown) + GAP * (len(shown) - 1)
    others = [number for number in shown if number >= first]
    assert used <= available or others == [first]
    assert others == list(range(first, first + len(others)))
    assert all(number in keys for number in shown if number < first)
    following = first + len(others)
    if following < len(widths):
        assert used + GAP + widths[following] > available


@given(st.lists(st.integers(1, 50), max_size=12), st.sets(st.integers(0, 11)), st.integers(1, 100))
def test_every_column_is_some_steps_away_and_none_is_hidden_without_need(
    widths: list[int], keys: set[int], available: int
) -> None:
    layout = ColumnLayout(widths, keys, available)
    at, seen = 0, [layout.shown(0)]
    while (following := layout.after(at)) != at:
        at = following
        seen.append(layout.shown(at))
        assert seen[-1] != seen[-2], "a press that shows nothing else"
    assert {number for shown in seen for number in shown} == set(range(len(widths)))
    if len(seen[0]) == len(widths):
        assert len(seen) == 1
    assert all(len(widths) - 1 not in shown for shown in seen[:-1])
    for _ in widths:
        at = layout.before(at)
    assert layout.shown(at) == seen[0]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.sets(st.integers(0, 11)), st.integers(0, 20))
def test_a_wider_screen_shows_what_fits_again(widths: list[int], keys: set[int], first: int) -> None:
    assert ColumnLayout(widths, keys, sum(widths) + GAP * len(widths)).nearest(first) == 0
