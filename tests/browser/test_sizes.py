"""Tables of any size: 100 million rows, 10,000 columns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import overload

import numpy as np
import pyarrow as pa
import pytest

import barrage_server as bs
from tests.browser.tab import ROW, Tab

ROWS = 100_000_000
PIECE = 10_000_000
COLUMNS = 10_000


class Cells(Sequence[str | None]):
    """Cells of a column that are computed when they are looked at."""

    def __init__(self, size: int, factor: int, shift: int, modulus: int) -> None:
        self._size, self._factor, self._shift, self._modulus = size, factor, shift, modulus

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...
    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        assert isinstance(row, int)
        return str((row * self._factor + self._shift) % self._modulus)


@pytest.mark.timeout(240)
def test_a_hundred_million_rows_are_reached_at_both_ends_and_anywhere(tab: Tab, server: bs.Server) -> None:
    table = server.append_table("t", {"x": "int8"})
    for first in range(0, ROWS, PIECE):
        table.append(pa.table({"x": pa.array((np.arange(first, first + PIECE) * 7 % 127).astype(np.int8))}))
    expected = [Cells(ROWS, 7, 0, 127)]
    tab.open(server, "t")
    look = tab.shows(["x"], expected, ROWS)
    assert max(look.rows) == ROWS - 1, "the end is followed"
    chance = random.Random(2)
    for row in [0, *(chance.randrange(ROWS) for _ in range(15)), ROWS - 1]:
        tab.go_to(row)
        tab.until(lambda look, row=row: row in look.rows, f"row {row}")
        tab.shows(["x"], expected, ROWS, is_read=row == 0)
    # A notch of the wheel moves by the same pixels as in a small table, also in the middle of nowhere.
    tab.go_to(ROWS // 2)
    before = min(tab.until(lambda look: ROWS // 2 in look.rows).rows)
    for notch in range(1, 6):
        tab.wheel(10 * ROW)
        tab.until(lambda look, first=before + 10 * notch: min(look.rows) == first, "the notch")
    tab.shows(["x"], expected, ROWS)
    for share in (0.0, 0.25, 0.999, 1.0):
        tab.drag_thumb(share)
        tab.shows(["x"], expected, ROWS, is_read=False)
    assert max(tab.look().rows) == ROWS - 1
    table.append({"x": [int((ROWS + more) * 7 % 127) for more in range(3)]})
    look = tab.shows(["x"], [Cells(ROWS + 3, 7, 0, 127)], ROWS + 3)
    assert max(look.rows) == ROWS + 2


def test_a_dragged_thumb_does_not_wait_for_the_next_frame(tab: Tab, server: bs.Server) -> None:
    """The movements that browsers tell before the frame are enough."""
    rows = 10_000
    table = server.keyed_table("t", {"x": "int64"}, key="x")
    table.upsert({"x": list(range(rows))})
    tab.page.add_init_script("addEventListener('pointermove', (event) => event.stopImmediatePropagation(), true);")
    tab.open(server, "t")
    tab.agrees(table)
    for share, row in ((1.0, rows - 1), (0.5, rows // 2)):
        tab.drag_thumb(share)
        tab.until(lambda look, row=row: row in look.rows, f"row {row}")  # places on the way are painted, too
        tab.agrees(table)


def test_ten_thousand_columns_are_scrolled_through(tab: Tab, server: bs.Server) -> None:
    rows = 100
    names = [f"c{number}" for number in range(COLUMNS)]
    schema = pa.schema([(name, pa.int32()) for name in names])
    table = server.append_table("t", schema)
    cells = np.arange(rows, dtype=np.int32) * COLUMNS
    table.append(pa.table([cells + number for number in range(COLUMNS)], schema=schema))
    expected = [Cells(rows, COLUMNS, number, 2**31) for number in range(COLUMNS)]
    tab.open(server, "t", row="1")
    tab.shows(names, expected, rows)
    tab.focus()
    tab.page.keyboard.press("Control+ArrowRight")
    look = tab.until(lambda look: names[-1] in look.names, "the last column")
    tab.shows(names, expected, rows)
    for _ in range(5):
        tab.wheel(0, -3000)
        tab.wheel(100)
        tab.shows(names, expected, rows, is_read=False)
    tab.page.get_by_role("button", name="Columns", exact=True).click()
    tab.page.get_by_label("Search columns").fill("c7777")
    tab.page.locator("aside.panel").get_by_role("button", name="c7777", exact=True).click()
    look = tab.until(lambda look: "c7777" in look.names, "the column")
    tab.shows(names, expected, rows)
    assert len(look.names) < 64
