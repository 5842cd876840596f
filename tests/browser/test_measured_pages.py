"""What the benchmark reads off pages: rows that are painted, jumps, changes, frames and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from benchmarks.pages.browser import Tab, tab
from benchmarks.pages.rows import FIRST_ID
from benchmarks.process import ProcessFailedError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CANVAS = "data:text/html,<canvas></canvas>"
ELEMENTS = "data:text/html,<div></div>"
PAINT = """([first, count, more]) => {
  const context = document.querySelector("canvas").getContext("2d");
  for (let row = 0; row < count; row++) context.fillText(String(first + row), 0, 20 * row);
  for (const text of more) context.fillText(text, 100, 20);
}"""
CELLS = """([first, count, leftover]) => {
  const host = document.querySelector("div");
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const rows = [...Array(count).keys()].map((row) => first + row);
  const cells = [...rows, ...leftover].map((id) => `<tr><td>${id.toLocaleString("en-US")}</td><td>1</td></tr>`);
  root.innerHTML = `<regular-table><table><tbody>${cells.join("")}</tbody></table></regular-table>`;
}"""


@pytest.fixture
def canvas(browser: Browser) -> Iterator[Tab]:
    with tab(browser) as made:
        made.open(CANVAS)
        yield made


def paint(opened: Tab, first: int, count: int, *more: str) -> None:
    opened.page.evaluate(PAINT, [FIRST_ID + first, count, more])


def test_the_first_rows_are_there_when_all_are_without_a_gap(canvas: Tab) -> None:
    paint(canvas, 0, 0, "1", "2", "3")
    paint(canvas, 0, 10)
    paint(canvas, 0, 15, str(FIRST_ID + 20), *(str(FIRST_ID + 21 + row) for row in range(10)))
    assert canvas.tells("first") is None
    before = canvas.page.evaluate("performance.now()")
    paint(canvas, 0, 30, "12.5", "x" * 20)
    assert before <= canvas.tells("first") <= canvas.page.evaluate("performance.now()")
    assert canvas.first_rows() == canvas.tells("first") / 1e3
    assert (canvas.tells("shown.first"), canvas.tells("rows")) == (0, 30)


def test_a_jump_ends_when_other_rows_stay(canvas: Tab) -> None:
    paint(canvas, 0, 30)
    canvas.tells("aim()")
    canvas.page.mouse.move(5, 5)
    paint(canvas, 0, 30)
    assert canvas.tells("jumped()") == -1, "the rows are the same"
    paint(canvas, 1000, 0, "placeholders")
    assert canvas.tells("jumped()") == -1
    moved = canvas.page.evaluate("performance.now()")
    canvas.page.evaluate("new Promise((done) => setTimeout(done, 60))")
    paint(canvas, 1000, 30)
    assert canvas.tells("jumped()") == -1, "they may not stay"
    canvas.until(lambda: canvas.tells("jumped()") >= 0, "the jump", 10)
    assert canvas.tells("jumped()") >= 60
    assert canvas.tells("shown.at") >= moved + 60
    assert canvas.tells("shown.first") == 1000


def test_each_change_is_seen_once_when_it_is_painted(canvas: Tab) -> None:
    canvas.tells("record()")
    for stamp in (1_800_000_000_000_001, 1_800_000_000_000_001, 1_800_000_000_000_002):
        paint(canvas, 0, 30, f"{stamp:,}", "1,800,000,000,000,000")
    assert canvas.tells("updates") == 2
    stamps, times = zip(*canvas.tells("recorded()"), strict=True)
    assert stamps == (1_800_000_000_000_001, 1_800_000_000_000_002)
    now = canvas.page.evaluate("Date.now() * 1000")
    assert all(now - 60e6 < at < now + 1e6 for at in times)


def test_frames_that_are_missing_are_counted(canvas: Tab) -> None:
    canvas.tells("begin()")
    blocked = "() => { const end = performance.now() + 500; while (performance.now() < end); }"
    canvas.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    canvas.page.evaluate(blocked)
    found = canvas.tells("end()")
    assert found["frames"] >= 2
    missed = found["frames"] * (100 / found["share"] - 1)
    assert missed >= 25


def test_elements_count_as_what_is_painted(browser: Browser) -> None:
    with tab(browser) as opened:
        opened.open(ELEMENTS)
        opened.page.evaluate(CELLS, [FIRST_ID, 30, []])
        assert opened.first_rows() > 0
        # The last row is out of sight, and stays as it was.
        opened.page.evaluate(CELLS, [FIRST_ID + 500, 30, [FIRST_ID + 30]])
        opened.until(lambda: opened.tells("shown.first") == 500, "the other rows", 10)


def test_a_picture_is_a_line_of_many_points(canvas: Tab) -> None:
    stroke = """(points) => {
      const path = new Path2D();
      for (let at = 0; at < points; at++) path.lineTo(at, at);
      document.querySelector("canvas").getContext("2d").stroke(path);
    }"""
    canvas.page.evaluate(stroke, 10)
    assert canvas.tells("picture") is None
    canvas.page.evaluate(stroke, 200)
    assert canvas.picture() > 0


def test_a_line_may_be_an_element(browser: Browser) -> None:
    draw = "(points) => document.querySelector('path').setAttribute('d', 'M0,0' + 'L1,1'.repeat(points))"
    with tab(browser) as opened:
        opened.open("data:text/html,<svg><path/></svg>")
        opened.page.evaluate(draw, 10)
        assert opened.tells("picture") is None
        opened.page.evaluate(draw, 200)
        assert opened.picture() > 0


def test_what_does_not_come_is_an_error(canvas: Tab) -> None:
    with pytest.raises(ProcessFailedError, match="rows: not after 0 s"):
        canvas.until(lambda: False, "rows", 0)
