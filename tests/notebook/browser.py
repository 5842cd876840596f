"""A browser's end of a widget, in Python: the comm, and a page on it."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import comm
from comm.base_comm import BaseComm

from tests.server.web.page_client import PATIENCE, Page, View

__all__ = ["Comm", "Display", "installed", "looking", "opened"]


class Comm(BaseComm):  # type: ignore[misc]  # it has no types
    """A comm without a browser: it keeps what the kernel sends."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.said: list[tuple[str, dict[str, Any], list[bytes]]] = []
        self.displays: dict[str, Display] = {}
        super().__init__(*arguments, **options)

    def publish_msg(self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any) -> None:
        self.said.append((msg_type, data or {}, list(buffers or ())))
        content = (data or {}).get("content")
        if isinstance(content, dict) and content.get("link") in self.displays:
            self.displays[content["link"]].heard.put((content, list(buffers or ())))

    @property
    def state(self) -> dict[str, Any]:
        """What the widget has told the browser of itself, at first."""
        state: dict[str, Any] = next(data["state"] for kind, data, _ in self.said if kind == "comm_open")
        return state

    def say(self, content: object) -> None:
        """Send a custom message to the kernel."""
        self.handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})

    def hang_up(self) -> None:
        """Close it from the browser."""
        self.handle_close({"content": {"data": {}}})


class Display:
    """One display of a widget: a socket for :class:`Page`."""

    def __init__(self, of: Comm, name: str) -> None:
        self.comm = of
        self.name = name
        self.heard: queue.Queue[tuple[dict[str, Any], list[bytes]]] = queue.Queue()
        of.displays[name] = self

    def open(self) -> dict[str, Any]:
        """Connect; the answer."""
        self.comm.say({"kind": "open", "link": self.name})
        return self.heard.get(timeout=PATIENCE)[0]

    def send(self, message: str) -> None:
        self.comm.say({"kind": "text", "link": self.name, "text": message})

    def recv(self, timeout: float | None = PATIENCE) -> str | bytes:
        content, buffers = self.heard.get(timeout=timeout)
        if content["kind"] == "binary":
            return buffers[0]
        assert content["kind"] == "text", content
        text: str = content["text"]
        return text

    def close(self) -> None:
        self.comm.say({"kind": "close", "link": self.name})


@contextmanager
def installed() -> Iterator[None]:
    """Widgets that are made in the body have a :class:`Comm`."""
    before, comm.create_comm = comm.create_comm, Comm
    try:
        yield
    finally:
        comm.create_comm = before


def looking(widget: Any, name: str = "one") -> Page:
    """A page in a display of a widget, which was let in."""
    display = Display(widget.comm, name)
    assert display.open() == {"kind": "opened", "link": name}
    made = Page(display)
    assert made.greet()["type"] == "welcome"
    return made


def opened(page: Page, widget: Any, stream: int = 1, **fields: Any) -> View:
    """Open what the widget is about."""
    target = {name: value for name, value in widget.comm.state["_target"].items() if name != "title"}
    page.views[stream] = View()
    page.send(type="open", stream=stream, **{"first": 0, "count": 10, **target, **fields})
    return page.views[stream]
