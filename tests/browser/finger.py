"""Fingers on the screen of a tab."""

from __future__ import annotations

from collections.abc import Iterable

from tests.browser.tab import Tab

__all__ = ["Finger", "Point"]

FRAME = 0.016
"""Seconds between two movements of a finger."""
Point = tuple[float, float]


class Finger:
    """One finger on the screen of a tab, or several. Its clock goes by its movements, so that their speed is exact."""

    def __init__(self, tab: Tab) -> None:
        self._page = tab.page
        self._session = tab.page.context.new_cdp_session(tab.page)
        self._time = 0.0

    def down(self, at: Point) -> None:
        self._begin()
        self._send("touchStart", [at])

    def move(self, points: Iterable[Point]) -> None:
        for point in points:
            self._send("touchMove", [point])

    def up(self, *, rested: float = 0.0) -> None:
        """Leave the screen, ``rested`` seconds after the last movement."""
        self._time += rested
        self._send("touchEnd", [])

    def drag(self, start: Point, end: Point, *, rested: float = 0.5, steps: int = 10) -> None:
        self.down(start)
        self.move(_way(start, end, steps))
        self.up(rested=rested)

    def pinch(self, start: tuple[Point, Point], end: tuple[Point, Point], *, steps: int = 10) -> None:
        """Two fingers move, each from its start to its end."""
        self._begin()
        self._send("touchStart", [start[0]])
        self._send("touchStart", list(start))
        for points in zip(_way(start[0], end[0], steps), _way(start[1], end[1], steps), strict=True):
            self._send("touchMove", list(points))
        self.up()

    def _begin(self) -> None:
        self._time = max(self._time, float(self._page.evaluate("Date.now()")) / 1000)

    def _send(self, what: str, points: list[Point]) -> None:
        self._time += FRAME
        touches = [{"x": x, "y": y, "id": number + 1} for number, (x, y) in enumerate(points)]
        self._session.send("Input.dispatchTouchEvent", {"type": what, "touchPoints": touches, "timestamp": self._time})


def _way(start: Point, end: Point, steps: int) -> list[Point]:
    ways = [count / steps for count in range(1, steps + 1)]
    return [(start[0] + way * (end[0] - start[0]), start[1] + way * (end[1] - start[1])) for way in ways]
