"""What a page keeps of a view equals the view of the table, whatever happened before, in every kind of table."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest

from barrage_server.engine import UpdateGraph
from barrage_server.rowset import RowSet
from barrage_server.subscription import Window
from barrage_server.wire.metadata import SubscriptionOptions
from tests.properties.sources import SCHEMA, SOURCES, Source
from tests.web.frames import Recording, feed_of
from tests.web.node import answer

pytestmark = pytest.mark.slow

CASES = 20
STEPS = 60


def random_window(chance: random.Random) -> Window:
    numbers = range(len(SCHEMA))
    columns = tuple(sorted(chance.sample(numbers, chance.choice([0, 1, 2, 4, 5, 5]))))
    first, count = chance.choice([0, 0, 1, 3, 6, 1000]), chance.choice([0, 1, 3, 5, 9, 1 << 40])
    positions = RowSet.from_range(first, first + count - 1) if count else RowSet.empty()
    return Window(columns, positions, chance.random() < 0.5)


def record(kind: type[Source], seed: int) -> Recording:
    """A page that looks at a random table and scrolls about, while the table changes."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    for _ in range(chance.choice([0, 3, 6])):
        source.change(chance)
    options = SubscriptionOptions(
        columns_as_list=True, min_update_interval_ms=1, batch_size=chance.choice([0, -1, 1, 3])
    )
    page = Recording(feed_of(source.table), random_window(chance), options)
    page.serve()
    for _ in range(STEPS):
        match chance.choice(["change", "change", "change", "several", "look", "scroll"]):
            case "change":
                source.change(chance)
            case "several":
                for _ in range(3):
                    source.change(chance)
            case "look":
                page.look_at(random_window(chance))
            case _:
                window, by = page.window, chance.randrange(-2, 3)
                positions = window.positions
                if positions and positions.first_key + by >= 0:
                    page.look_at(Window(window.columns, positions.shift(by), window.reverse))
        if chance.random() < 0.7:
            page.serve()
    page.serve()
    return page


@pytest.mark.parametrize("kind", dict.fromkeys(SOURCES))
def test_a_page_sees_the_view_of_the_table(kind: type[Source], tmp_path: Path) -> None:
    pages = [record(kind, seed) for seed in range(CASES)]
    found = answer("replay", [page.case() for page in pages], tmp_path)
    assert sum(len(page.expected) for page in pages) > CASES * STEPS // 3
    for seed, (page, seen) in enumerate(zip(pages, found, strict=True)):
        assert len(seen) == len(page.expected), (seed, seen[-1:])
        for number, (expected, got) in enumerate(zip(page.expected, seen, strict=True)):
            assert got == expected, f"seed {seed}, look {number}"


@pytest.mark.parametrize("kind", dict.fromkeys(SOURCES))
def test_pages_that_share_messages_see_their_own_views(kind: type[Source], tmp_path: Path) -> None:
    """Messages of many viewports of one table are made together; some pages have the same one, and share its bytes."""
    chance = random.Random(3)
    source = kind(UpdateGraph())
    for _ in range(8):
        source.change(chance)
    feed = feed_of(source.table)
    options = SubscriptionOptions(columns_as_list=True, min_update_interval_ms=1)
    every = tuple(range(len(SCHEMA)))
    pages = [
        Recording(feed, Window(every, RowSet.from_range(first % 6, first % 6 + 3), first % 4 == 3), options)
        for first in range(24)
    ]
    for _ in range(25):
        for page in pages:
            page.serve()
        source.change(chance)
    for page, seen in zip(pages, answer("replay", [page.case() for page in pages], tmp_path), strict=True):
        assert seen == page.expected
    assert len({tuple(page.frames[2:]) for page in pages}) < len(pages)


def test_damaged_frames_are_refused_or_read_as_other_values(tmp_path: Path) -> None:
    """No crash, no hang, and never a window of another shape than it says."""
    chance = random.Random(5)
    cases = []
    for seed in range(60):
        page = record(chance.choice(SOURCES), seed)
        frames = list(page.frames)
        for _ in range(chance.choice([1, 1, 3])):
            number = chance.randrange(len(frames))
            data = bytearray(frames[number])
            match chance.choice(["flip", "flip", "cut", "swap", "long"]):
                case "flip":
                    data[chance.randrange(len(data))] = chance.choice([0, 1, 0x20, 0x7F, 0x80, 0xFF])
                case "cut":
                    del data[chance.randrange(len(data)) :]
                case "long":
                    place = 4 * chance.randrange(len(data) // 4)
                    data[place : place + 4] = chance.choice([b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0\0\0\x01"])
                case _:
                    data = bytearray(chance.choice(frames))
            frames[number] = bytes(data)
        cases.append({**page.case(), "frames": [base64.b64encode(data).decode() for data in frames]})
    for case, seen in zip(cases, answer("replay", cases, tmp_path), strict=True):
        refused = bool(seen) and "error" in seen[-1]
        assert refused or len(seen) == len(case["looks"])
        for look in seen[: len(seen) - refused]:
            assert all(len(row) == len(look["columns"]) and "missing" not in row for row in look["rows"])
            assert look["first"] + len(look["rows"]) <= max(look["size"], look["first"])
