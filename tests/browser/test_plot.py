"""The plot: drawn from the points of the server, ticking, zoomed and named by the address."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

import barrage_server as bs
from tests.browser.tab import Tab
from tests.live.proxy import Proxy
from tests.waiting import until

BEGIN = 1_718_445_600_000_000_000  # 2024-06-15T10:00:00Z
SECOND = 1_000_000_000
LINES = """() => {
  const copied = (from) => {
    const copy = new OffscreenCanvas(from.width, from.height).getContext('2d', {willReadFrequently: true});
    copy.drawImage(from, 0, 0);
    return copy;
  };
  const canvas = document.querySelector('.plot-chart canvas');
  if (canvas === null) return [];
  const {width, height} = canvas;
  const data = copied(canvas).getImageData(0, 0, width, height).data;
  const probe = document.createElement('span');
  document.querySelector('.plot').append(probe);
  probe.style.color = 'var(--plot-1)';
  const [red, green, blue] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
  probe.remove();
  const columns = [];
  for (let x = 0; x < width; x++) {
    let top = -1, bottom = -1;
    for (let y = 0; y < height; y++) {
      const at = 4 * (y * width + x);
      const near = Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue) < 90;
      if (near && data[at + 3] > 100) { if (top < 0) top = y; bottom = y; }
    }
    columns.push([top, bottom]);
  }
  return columns;
}"""


def filled(table: bs.Table, first: int, count: int, value: Callable[[int], float | None]) -> None:
    numbers = range(first, first + count)
    table.append(  # type: ignore[attr-defined]
        {
            "time": pa.array([BEGIN + number * SECOND for number in numbers], pa.timestamp("ns", "UTC")),
            "y": [value(number) for number in numbers],
            "z": [float(number % 7) for number in numbers],
            "text": ["x"] * count,
        }
    )


def made(server: bs.Server) -> bs.Table:
    schema = {"time": pa.timestamp("ns", "UTC"), "y": "float64", "z": "float64", "text": "string"}
    return server.append_table("ticks", schema)


def painted(tab: Tab) -> list[list[int]]:
    found: list[list[int]] = tab.page.evaluate(LINES)
    return found


def columns_with_line(tab: Tab) -> list[int]:
    return [x for x, (top, _) in enumerate(painted(tab)) if top >= 0]


def values(tab: Tab) -> list[list[str]]:
    """The text alternative: a line for each column."""
    return [
        [cell.strip() for cell in row.locator("th, td").all_text_contents()]
        for row in tab.page.locator(".plot-values tbody tr").all()
    ]


def address(tab: Tab) -> dict[str, list[str]]:
    return parse_qs(tab.page.evaluate("location.hash").removeprefix("#"), keep_blank_values=True)


def test_from_the_table_to_a_plot_that_ticks(server: bs.Server, tab: Tab) -> None:
    table = made(server)
    filled(table, 0, 10_000, lambda number: number % 1000)
    tab.open(server, "ticks")
    tab.page.get_by_role("button", name="Plot").click()
    until(lambda: values(tab) == [["y", "999", "0", "999"]])
    until(lambda: len(columns_with_line(tab)) > 900)
    filled(table, 10_000, 1, lambda _: 5000.5)
    until(lambda: values(tab) == [["y", "5000.5", "0", "5000.5"]])
    label = tab.page.locator(".plot-chart").get_attribute("aria-label")
    assert label == "Plot. y: last 5000.5, least 0, greatest 5000.5"
    assert "2024-06-15 12:46:40" in (tab.page.locator(".plot-values thead").text_content() or "")


def test_a_gap_at_nulls(server: bs.Server, tab: Tab) -> None:
    filled(made(server), 0, 10_000, lambda number: None if 4000 <= number < 6000 else 1.0)
    tab.open(server, "ticks", plot="", x="time", y="y")
    until(lambda: len(columns_with_line(tab)) > 500)
    inside = columns_with_line(tab)
    steps = [after - before for before, after in pairwise(inside)]
    width = inside[-1] - inside[0]
    assert sum(step > 3 for step in steps) == 1
    assert abs(max(steps) - width / 5) < 6


def test_zoom_back_and_the_address(server: bs.Server, tab: Tab) -> None:
    filled(made(server), 0, 100_000, float)
    tab.open(server, "ticks", plot="", x="time", y="y")
    until(lambda: len(columns_with_line(tab)) > 900)
    box = tab.page.locator(".u-over").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + box["width"] * 0.25, middle)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=4)
    tab.page.mouse.up()

    def zoomed() -> bool:
        first, _, last = address(tab)["plot"][0].partition(" ")
        if not last:
            return False
        places = [(int(place) - BEGIN) / SECOND for place in (first, last)]
        return abs(places[0] - 25_000) < 500 and abs(places[1] - 50_000) < 500

    until(zoomed)
    until(lambda: values(tab) and abs(float(values(tab)[0][3]) - 50_000) < 500)
    linked = tab.page.evaluate("location.href")
    tab.page.locator(".u-over").dblclick()
    until(lambda: address(tab)["plot"] == [""])
    until(lambda: values(tab)[0][3] == "99999")
    tab.page.goto("about:blank")
    tab.page.goto(linked)
    until(lambda: values(tab) and abs(float(values(tab)[0][3]) - 50_000) < 500)


def test_by_keyboard(server: bs.Server, tab: Tab) -> None:
    filled(made(server), 0, 1000, float)
    tab.open(server, "ticks", plot="", x="time", y="y")
    until(lambda: values(tab) == [["y", "999", "0", "999"]])
    tab.page.locator(".plot-chart").focus()
    tab.page.keyboard.press("+")
    until(lambda: values(tab) and float(values(tab)[0][2]) > 50)
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("Home")
    until(lambda: values(tab) == [["y", "999", "0", "999"]])
    tab.page.get_by_label("Range").select_option("last 60000000000")
    until(lambda: values(tab) and values(tab)[0][2] == "938")
    until(lambda: address(tab)["plot"] == ["last 60000000000"])
    tab.page.locator("summary").focus()
    tab.page.keyboard.press("Enter")
    tab.page.get_by_label("z").focus()
    tab.page.keyboard.press("Space")
    until(lambda: [row[0] for row in values(tab)] == ["y", "z"])
    until(lambda: address(tab)["y"] == ["y", "z"])
    tab.page.get_by_label("Along").select_option("")
    until(lambda: values(tab)[0][3] == "999")
    until(lambda: address(tab)["x"] == [""])


def test_what_cannot_be_plotted_is_said(server: bs.Server, tab: Tab) -> None:
    made(server)
    server.append_table("words", {"text": "string"})
    tab.open(server, "words", plot="")
    cover = tab.page.locator(".cover")
    until(lambda: cover.text_content() == "This table has no column of numbers to plot.")
    for fields, text in (
        ({"x": "text", "y": "y"}, "x must be a column of numbers or times"),
        ({"x": "time", "y": "text"}, "ys must be columns of numbers"),
        ({"x": "time", "y": "nope"}, "has no column 'nope'"),
        ({"x": "time", "y": "y"}, "There are no rows in this range yet."),
    ):
        tab.open(server, "ticks", plot="", **fields)
        until(lambda text=text: text in (cover.text_content() or ""))  # type: ignore[misc]


def says(tab: Tab, note: str) -> None:
    """Wait until the line below the plot says this, and nothing else."""
    line = tab.page.locator(".line-below > span").first
    until(lambda: line.text_content() == note, what=note)


def test_rows_that_are_picked_are_not_said_to_be_in_no_order(server: bs.Server, tab: Tab) -> None:
    """They are sorted, as the server does not know their order; rows of the table itself are not."""
    ring = server.ring_table("ring", {"x": "int64", "y": "float64"}, capacity=1000)
    ring.append({"x": list(range(100)), "y": [float(number) for number in range(100)]})
    tab.open(server, "ring", plot="", x="x", y="y")
    until(lambda: values(tab) == [["y", "99", "0", "99"]])
    says(tab, "")
    tab.open(server, "ring", plot="", x="x", y="y", where="y >= 10")
    until(lambda: values(tab) == [["y", "99", "10", "99"]])
    says(tab, "The plot sorts the rows by this column.")


def test_rows_in_no_order_are_said_to_be_sorted(server: bs.Server, tab: Tab) -> None:
    keyed = server.keyed_table("keyed", {"k": "int64", "y": "float64"}, key="k")
    keyed.upsert({"k": [5, 1, 3], "y": [1.0, 2.0, None]})
    tab.open(server, "keyed", plot="", x="k", y="y")
    says(tab, "The plot sorts the rows by this column.")
    keyed.delete({"k": [1]})
    keyed.upsert({"k": [9], "y": [7.0]})
    until(lambda: values(tab) == [["y", "7", "1", "7"]])


def test_x_that_falls_is_drawn_as_if_it_rose(server: bs.Server, tab: Tab) -> None:
    falling = server.append_table("falling", {"x": "int64", "y": "float64"})
    falling.append({"x": list(range(999, -1, -1)), "y": [float(number) for number in range(999, -1, -1)]})
    tab.open(server, "falling", plot="", x="x", y="y")
    says(tab, "The plot sorts the rows by this column.")
    until(lambda: values(tab) == [["y", "999", "0", "999"]])
    until(lambda: len(columns_with_line(tab)) > 900)
    heights = [top for top, _ in painted(tab) if top >= 0]
    assert heights == sorted(heights, reverse=True), "it rises from left to right, in pixels from the top"
    falling.append({"x": [-1, -2], "y": [-500.0, 2000.0]})
    until(lambda: values(tab) == [["y", "999", "-500", "2000"]])


def test_nulls_alone_are_no_line_until_a_number_comes(server: bs.Server, tab: Tab) -> None:
    table = made(server)
    filled(table, 0, 1000, lambda _: None)
    tab.open(server, "ticks", plot="", x="time", y="y")
    until(lambda: values(tab) == [["y", "\u2013", "\u2013", "\u2013"]])
    assert columns_with_line(tab) == []
    assert (
        tab.page.locator(".plot-chart").get_attribute("aria-label")
        == "Plot. y: last \u2013, least \u2013, greatest \u2013"
    )
    filled(table, 1000, 1, lambda _: 3.5)
    until(lambda: values(tab) == [["y", "3.5", "3.5", "3.5"]])
    until(lambda: 0 < len(columns_with_line(tab)) < 20, what="a dot")


def test_one_row_is_a_dot(server: bs.Server, tab: Tab) -> None:
    table = made(server)
    filled(table, 0, 1, lambda _: 42.0)
    tab.open(server, "ticks", plot="", x="time", y="y")
    until(lambda: values(tab) == [["y", "42", "42", "42"]])
    until(lambda: 0 < len(columns_with_line(tab)) < 20, what="a dot")
    filled(table, 10, 1, lambda _: 44.0)
    until(lambda: len(columns_with_line(tab)) > 900, what="a line to the second one")


def test_a_column_that_is_dropped_is_said_and_comes_back(server: bs.Server, tab: Tab) -> None:
    filled(made(server), 0, 100, float)
    tab.open(server, "ticks", plot="", x="time", y="y")
    until(lambda: values(tab) == [["y", "99", "0", "99"]])
    cover = tab.page.locator(".cover")
    server.drop("ticks")
    until(lambda: "was dropped" in (cover.text_content() or ""), what="the word about the table")
    server.append_table("ticks", {"time": pa.timestamp("ns", "UTC"), "other": "float64"})
    until(lambda: "no column 'y'" in (cover.text_content() or ""), what="the word about the column")
    server.drop("ticks")
    filled(made(server), 0, 50, float)
    until(lambda: values(tab) == [["y", "49", "0", "49"]], what="the points of the new table")


def test_a_mouse_zooms_with_its_wheel_and_pans(server: bs.Server, tab: Tab) -> None:
    filled(made(server), 0, 100_000, float)
    tab.open(server, "ticks", plot="", x="time", y="y")
    until(lambda: len(columns_with_line(tab)) > 900)
    box = tab.page.locator(".u-over").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2

    def shown() -> tuple[float, float]:
        """First and last second of the range in the address."""
        first, _, last = address(tab)["plot"][0].partition(" ")
        return ((int(first) - BEGIN) / SECOND, (int(last) - BEGIN) / SECOND) if last else (0.0, 100_000.0)

    def shows(first: float, last: float, what: str) -> None:
        until(lambda: max(abs(shown()[0] - first), abs(shown()[1] - last)) < 1_000, what=f"{what}, not {shown()}")
        # the points of that range come: each is as high as its second
        until(lambda: values(tab) and abs(float(values(tab)[0][2]) - max(first, 0)) < 1_000, what=f"least of {what}")
        until(lambda: abs(float(values(tab)[0][3]) - min(last, 99_999)) < 1_000, what=f"greatest of {what}")

    tab.page.mouse.move(box["x"] + box["width"] * 0.75, middle)
    tab.page.mouse.wheel(0, -346.57)  # of a length that halves the range
    shows(37_500, 87_500, "half of it, about the pointer")
    tab.page.keyboard.down("Shift")
    tab.page.mouse.wheel(0, -box["width"] / 2)
    shows(12_500, 62_500, "half a screen to the left, by the wheel")
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.25, middle, steps=5)
    tab.page.mouse.up()
    tab.page.keyboard.up("Shift")
    shows(37_500, 87_500, "half a screen to the right, by the mouse with Shift")
    tab.page.mouse.move(box["x"] + box["width"] * 0.25, middle)
    tab.page.mouse.down(button="middle")
    tab.page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=5)
    tab.page.mouse.up(button="middle")
    shows(25_000, 75_000, "a quarter back, by the middle button")
    tab.page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    for _ in range(2):
        tab.page.mouse.wheel(0, 346.57)
    shows(-50_000, 150_000, "twice the rows that there are")
    tab.page.mouse.dblclick(box["x"] + box["width"] * 0.5, middle)
    shows(25_000, 75_000, "what was there before, by a double click")


def test_nothing_is_left_on_the_server(server: bs.Server, tab: Tab) -> None:
    filled(made(server), 0, 1000, float)
    tab.open(server, "ticks", plot="", x="time", y="y")
    until(lambda: values(tab) == [["y", "999", "0", "999"]])
    assert len(server.statistics().results) == 1
    tab.page.get_by_role("button", name="Table").click()
    until(lambda: not server.statistics().results)
    assert "plot" not in address(tab)


def test_a_plot_of_a_wild_name(server: bs.Server, tab: Tab) -> None:
    """Markup in names is text."""
    name: Any = "<img src=x onerror=alert(1)>"
    server.append_table(name, {name: "float64"}).append({name: [1.0, 2.0]})
    tab.open(server, name, plot="", x="")
    until(lambda: values(tab) == [[name, "2", "1", "2"]])


def test_a_plot_comes_back_after_a_lost_connection_and_a_restart(tab: Tab) -> None:
    tab.may_lose_connections = True
    with bs.Server(web_port=0) as server:
        table = made(server)
        filled(table, 0, 1000, float)
        port = urlsplit(server.web_uri or "").port or 0
        with Proxy(port) as proxy:
            tab.open(f"http://127.0.0.1:{proxy.port}", "ticks", plot="last 60000000000", x="time", y="y")
            until(lambda: values(tab) == [["y", "999", "938", "999"]])
            proxy.cut()
            filled(table, 1000, 500, float)
            until(lambda: values(tab) == [["y", "1499", "1438", "1499"]], what="the points of now")
            until(lambda: len(server.statistics().streams) == 1)
        tab.open(server, "ticks", plot="", x="time", y="y")
        until(lambda: len(columns_with_line(tab)) > 900)
    tab.page.get_by_text("Connection lost").wait_for()
    assert values(tab) == [["y", "1499", "0", "1499"]], "what was there stays"
    assert len(columns_with_line(tab)) > 900
    assert tab.page.locator(".stale").count()
    with bs.Server(web_port=port) as server:
        table = made(server)
        filled(table, 0, 2000, lambda number: float(-number))

        def came_back() -> bool:
            tab.retry()
            return values(tab) == [["y", "-1999", "-1999", "0"]]

        until(came_back, what="the points of the other server")
        assert not tab.page.locator(".stale").count()
        filled(table, 2000, 1, lambda _: 7.0)
        until(lambda: values(tab) == [["y", "7", "-1999", "7"]])
        assert address(tab)["plot"] == [""]
