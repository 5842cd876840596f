"""A tab of the browser that shows the page of a server, and what it paints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import barrage_server as bs
from tests.browser.cells import Texts, visible
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

HEADER, ROW = 42, 24  # pixels
NAME_LINE, TYPE_LINE = 18, 33
PATIENCE = 30.0
Expected = Sequence[Sequence[str | None]]
NETWORK = re.compile(r"WebSocket connection to 'ws://[^']*' failed|net::ERR_")


@dataclass
class Look:
    """What a tab shows in one frame."""

    names: list[str]
    """Heads of the columns in view, from left to right, as painted."""
    types: dict[str, str]
    """The lines below them, by name."""
    rows: dict[int, list[str | None]]
    """Painted cells by the number of their row, from 0; ``None``: nothing is painted there."""
    nulls: dict[int, list[bool]]
    """Which of them are painted as null is."""
    whole: dict[int, list[str]]
    """The same rows as the accessible grid has them."""
    mirror: dict[str, Any]
    cover: str | None
    stale: bool
    connection: str
    line: str
    capacity: int
    """Rows that touch the space for them where the table has enough."""
    frames: int


class Tab:
    """Drives one tab. ``problems`` has what must not happen in any test."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        self.may_lose_connections = False
        self.provoked: str | None = None
        """What a test brings about on purpose: a pattern."""

    def note(self, text: str) -> None:
        if self.may_lose_connections and NETWORK.search(text):
            return
        if self.provoked is None or not re.search(self.provoked, text):
            self.problems.append(text)

    def seen(self) -> list[str]:
        """The problems so far."""
        self.page.evaluate("null")  # what has been said before arrives with the answer
        return self.problems

    def open(self, server: bs.Server | str, table: str | None = None, **fields: str) -> None:
        """Go to the page, with a view of a table in its address."""
        uri = server if isinstance(server, str) else server.web_uri
        named = {} if table is None else {"table": table}
        fragment = urlencode(named | fields)
        # An address that differs in its fragment alone would not load the page anew.
        self.page.goto("about:blank")
        self.page.goto(f"{uri}/#{fragment}")

    def look(self) -> Look:
        return look_of(json.loads(self.page.evaluate("JSON.stringify(watch.look())")))

    def until(self, condition: Callable[..., Any], what: str = "") -> Look:
        """Look until the condition holds; that look."""
        last: list[Look] = []

        def looked() -> bool:
            last[:] = [self.look()]
            if self.may_lose_connections and last[0].connection.startswith("Connection lost"):
                self.retry()
            return bool(condition(last[0]))

        try:
            until(looked, PATIENCE, pause=0.02)
        except AssertionError as error:
            raise AssertionError(f"{what or 'what was waited for'} did not come; last: {last[0]}") from error
        return last[0]

    def agrees(
        self, table: bs.Table, columns: list[str] | None = None, what: str = "", *, is_read: bool = True
    ) -> Look:
        """Wait until what is painted, and what screen readers get, is the table; ``columns``: those that are shown."""
        content = table.to_arrow()
        names = content.schema.names if columns is None else columns
        expected = [Texts(content[name]) for name in names]
        return self.shows(names, expected, content.num_rows, what, is_read=is_read)

    def shows(self, names: list[str], expected: Expected, size: int, what: str = "", *, is_read: bool = True) -> Look:
        """The same for cells that are given: by place of the column and number of the row, ``None`` for null."""
        difference = ""

        def is_same(look: Look) -> bool:
            nonlocal difference
            difference = differs(look, names, expected, size, is_read=is_read)
            return not difference

        try:
            return self.until(is_same)
        except AssertionError as error:
            raise AssertionError(f"{what} {difference} {error}") from error

    def focus(self) -> None:
        """Give the grid the keys."""
        self.page.locator('[role="grid"]').focus()

    def go_to(self, row: int) -> None:
        """Enter the number of a row, from 0, into the field for it."""
        self.page.get_by_label("Go to row").fill(f"{row + 1}")
        self.page.get_by_label("Go to row").press("Enter")

    def wheel(self, pixels: float, sideways: float = 0) -> None:
        left, top, width, height = self.grid()
        self.page.mouse.move(left + width / 2, top + height / 2)
        self.page.mouse.wheel(sideways, pixels)

    def drag_thumb(self, share: float) -> None:
        """Drag the thumb to a place between 0 and 1 of its way; nothing where all rows fit."""
        thumb = self.page.locator(".scrollbar.vertical .thumb")
        box, track = thumb.bounding_box(), self.page.locator(".scrollbar.vertical").bounding_box()
        if box is None or track is None or not thumb.is_visible():
            return
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x, track["y"] + share * track["height"], steps=3)
        self.page.mouse.up()

    def cell_says(self, text: str) -> None:
        """Wait until the side view has this text, and nothing but text."""
        value = self.page.get_by_label("Value of the cell")
        until(lambda: value.text_content() == text, PATIENCE, what=f"the cell {text[:100]!r}")
        assert value.locator("*").count() == 0

    def grid(self) -> tuple[float, float, float, float]:
        """Left, top, width and height of the grid, in pixels."""
        box = self.page.locator(".surface").bounding_box()
        assert box is not None
        return box["x"], box["y"], box["width"], box["height"]

    def retry(self) -> None:
        """Have the page connect again now, as when the machine is on line again: it waits longer after each loss."""
        self.page.evaluate("dispatchEvent(new Event('online'))")


def look_of(found: dict[str, Any]) -> Look:
    texts = found["texts"]
    heads = {text["x"]: text["text"] for text in texts if text["y"] == NAME_LINE}
    types = {text["x"]: text["text"] for text in texts if text["y"] == TYPE_LINE}
    places = sorted(x for x in heads if x in types)
    body = [text for text in texts if text["y"] not in (NAME_LINE, TYPE_LINE) or text["x"] not in heads]
    by_line: dict[float, list[dict[str, Any]]] = {}
    for text in body:
        by_line.setdefault(text["y"], []).append(text)
    rows: dict[int, list[str | None]] = {}
    nulls: dict[int, list[bool]] = {}
    for line in by_line.values():
        # The number of the row is painted last, and farthest to the left.
        number = int(line[-1]["text"].replace(",", "")) - 1
        cells = {text["x"]: text for text in line[:-1]}
        rows[number] = [cells[x]["text"] if x in cells else None for x in places]
        nulls[number] = [x in cells and "italic" in cells[x]["font"] for x in places]
    mirror = found["mirror"] or {}
    return Look(
        names=[heads[x] for x in places],
        types={heads[x]: types[x] for x in places},
        rows=rows,
        nulls=nulls,
        whole=dict(mirror.get("lines", [])),
        mirror=mirror,
        cover=found["cover"],
        stale=found["stale"],
        connection=found["connection"] or "",
        line=found["line"] or "",
        capacity=-(-(found["height"] - HEADER) // ROW),
        frames=found["frames"],
    )


def differs(look: Look, names: list[str], expected: Expected, size: int, *, is_read: bool) -> str:
    """How what is painted is not the table; "" when it is. A cell that does not fit its column may be cut.

    ``is_read``: screen readers get the same, uncut; they get it up to a quarter of a second later.
    """
    if look.stale:
        return "what is shown is old"
    if not names:
        return f"the columns {look.names} are painted" if look.names else ""
    places = found_places(look.names, [visible(name) for name in names])
    if places is None:
        return f"the columns {look.names} are painted"
    least = min(size, look.capacity)
    if not least <= len(look.rows) <= least + 1:
        return f"{len(look.rows)} rows are painted, {least} fit"
    numbers = sorted(look.rows)
    if numbers and (numbers != list(range(numbers[0], numbers[0] + len(numbers))) or numbers[-1] >= size):
        return f"the rows {numbers} of {size} are painted"
    if is_read and (found := misread(look, places, len(names), numbers, size)):
        return found
    for number, painted in look.rows.items():
        for at, place in enumerate(places):
            whole = expected[place][number]
            shown = "null" if whole is None else whole
            where = f"row {number}, {names[place]}"
            if look.nulls[number][at] != (whole is None):
                return f"{where}: {painted[at]!r} looks like null, or null does not"
            text = painted[at]
            if text is None or not is_cut_of(text, shown):
                return f"{where}: {text!r} is painted instead of {shown!r}"
            read = "empty" if whole == "" else beginning(shown, 200)
            if is_read and look.whole[number][at] != read:
                return f"{where}: {look.whole[number][at]!r} is read instead of {read!r}"
    return ""


def misread(look: Look, places: range, columns: int, numbers: list[int], size: int) -> str:
    """How the accessible grid is not what is painted, apart from its cells."""
    mirror = look.mirror
    if (mirror.get("rows"), mirror.get("columns")) != (size, columns):
        return f"{mirror.get('rows')} rows of {size}, {mirror.get('columns')} columns of {columns} are accessible"
    if len(mirror["heads"]) != len(places) or not all(map(is_cut_of, look.names, mirror["heads"])):
        return f"the columns {mirror['heads']} are accessible"
    if sorted(look.whole) != numbers:
        return f"the rows {sorted(look.whole)} are accessible, {numbers} are painted"
    return ""


def found_places(painted: list[str], heads: list[str]) -> range | None:
    """Which of the columns have these heads; None: no such columns are side by side."""
    for first, head in enumerate(heads):
        if painted and is_cut_of(painted[0], head):
            found = range(first, first + len(painted))
            if found.stop <= len(heads) and all(is_cut_of(painted[at], heads[place]) for at, place in enumerate(found)):
                return found
    return None if painted else range(0)


def beginning(text: str, most: int) -> str:
    """A text, or its first characters and an ellipsis; counted as JavaScript does, and no character is halved."""
    units = text.encode("utf-16-le")
    return text if len(units) <= 2 * most else units[: 2 * most].decode("utf-16-le", errors="ignore") + "…"


def is_cut_of(text: str, whole: str) -> bool:
    """Whether a painted text is the whole one, its beginning with an ellipsis, or #### for a number."""
    if text == whole:
        return True
    return (text.endswith("…") and whole.startswith(text[:-1])) or (bool(text) and set(text) == {"#"})
