"""Relays the messages of a notebook's pages to a server, and its frames back.

The module knows of no notebook. Each display of a widget has a link of its own, which the page in the browser names. A
link has two threads: one opens the link and reads, one writes, so that neither the kernel nor another link waits for a
server.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from barrage_server.errors import BarrageError, LimitError
from barrage_server.process import start_thread

__all__ = ["PageEnd", "Relay", "Send"]

logger = logging.getLogger("barrage_server.client")

_MOST_LINKS: Final = 64
_MOST_NAME: Final = 100
"""Most characters of the name of a link."""
_MOST_TEXT: Final = 64 << 10
"""Most characters of a message, as on the server."""
_MOST_WAITING: Final = 1_000
"""Most messages that the server has not taken yet."""
_IDLE_SECONDS: Final = 60.0

Send = Callable[[dict[str, Any], list[bytes]], object]
"""Sends a message with its buffers to the browser. May be called from any thread."""


class PageEnd(Protocol):
    """The server's end of a link."""

    def send(self, text: str) -> None:
        """Send a message of the page. Raises BarrageError when the link has ended."""

    def frames(self) -> Iterator[str | bytes]:
        """Yield the frames as they come. Raises BarrageError with the reason of the end."""

    def cancel(self) -> None:
        """End the link, without waiting; :meth:`frames` and :meth:`send` return soon.

        May be called repeatedly, from any thread, also while an object is freed.
        """

    def close(self) -> None:
        """Release the link, after :meth:`cancel`. May wait."""


class Relay:
    """The links of one widget. Methods may be called from any thread.

    Args:
        open_end: opens the server's end of a link; may take long.
        send: sends a message to the browser.
        clock: seconds, monotonic.
        settled: calls a function when the kernel should have received the messages that the browser has sent by now. A
            kernel that computes receives none.

    """

    def __init__(
        self,
        open_end: Callable[[], PageEnd],
        send: Send,
        clock: Callable[[], float] = time.monotonic,
        settled: Callable[[Callable[[], object]], object] = lambda check: check(),
    ) -> None:
        self._open_end = open_end
        self._send = send
        self._clock = clock
        self._settled = settled
        self._lock = threading.RLock()  # freeing a widget closes its relay, on any thread, within any call
        self._links: dict[str, _Link] = {}
        self._is_closed = False

    @property
    def links(self) -> int:
        """The number of links that are open or being opened."""
        return len(self._links)

    def receive(self, message: object) -> None:
        """Handle a message of the browser; an invalid one is dropped."""
        if not isinstance(message, Mapping):
            return
        kind, name, text = message.get("kind"), message.get("link"), message.get("text")
        if not isinstance(name, str) or not 0 < len(name) <= _MOST_NAME:
            return
        if kind == "open":
            self._open(name)
            return
        link = self._links.get(name)
        if link is None:
            return
        if kind == "close":
            link.end(None)
        elif kind == "text" and isinstance(text, str) and len(text) <= _MOST_TEXT:
            link.put(text)

    def close(self) -> None:
        """End all links, without waiting, and open no more. May be called repeatedly."""
        with self._lock:
            self._is_closed = True
            links = list(self._links.values())
        for link in links:
            link.end(None)

    def _open(self, name: str) -> None:
        with self._lock:
            if name in self._links:
                return
            if self._is_closed:
                refusal = "The widget is closed."
            elif len(self._links) >= _MOST_LINKS:
                refusal = f"A widget has {_MOST_LINKS} displays at most; close some."
            else:
                refusal = ""
                link = self._links[name] = _Link(
                    name, self._open_end, self._send, self._forget, self._clock, self._settled
                )
        if refusal:
            self._send({"kind": "closed", "link": name, "text": refusal}, [])
        else:
            link.start()

    def _forget(self, name: str) -> None:
        with self._lock:
            self._links.pop(name, None)


class _Link:
    """One display of a widget."""

    def __init__(
        self,
        name: str,
        open_end: Callable[[], PageEnd],
        send: Send,
        forget: Callable[[str], None],
        clock: Callable[[], float],
        settled: Callable[[Callable[[], object]], object],
    ) -> None:
        self._name = name
        self._open_end = open_end
        self._send = send
        self._forget = forget
        self._clock = clock
        self._settled = settled
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._over = threading.Event()
        self._end: PageEnd | None = None
        self._heard = clock()
        self._asked = False

    def start(self) -> None:
        """Open the link on a thread of its own."""
        try:
            start_thread(threading.Thread(target=self._read, name="barrage-widget", daemon=True))
        except LimitError as error:
            self.end(str(error))

    def put(self, text: str) -> None:
        """Send a message of the page."""
        self._heard = self._clock()
        with self._changed:
            is_full = len(self._waiting) >= _MOST_WAITING
            if not is_full:
                self._waiting.append(text)
                self._changed.notify()
        if is_full:
            self.end("The server does not take the messages of this display.")

    def end(self, reason: str | None) -> None:
        """End the link; its threads do the rest. The browser gets a ``reason``, if any."""
        with self._changed:
            if self._over.is_set():
                return
            self._over.set()
            self._waiting.clear()
            self._changed.notify()
            end = self._end
        self._forget(self._name)
        if end is not None:
            end.cancel()
        if reason is not None:
            self._send({"kind": "closed", "link": self._name, "text": reason}, [])

    def _read(self) -> None:
        try:
            end = self._open_end()
            with self._changed:
                self._end = end
            try:
                start_thread(threading.Thread(target=self._write, args=(end,), name="barrage-widget", daemon=True))
            except BaseException:
                end.cancel()
                end.close()
                raise
            if self._over.is_set():
                return
            self._send({"kind": "opened", "link": self._name}, [])
            for frame in end.frames():
                if self._over.is_set():
                    return
                if isinstance(frame, str):
                    self._send({"kind": "text", "link": self._name, "text": frame}, [])
                else:
                    self._send({"kind": "binary", "link": self._name}, [frame])
                self._look_idle()
            self.end("The server has ended the page.")
        except BarrageError as error:
            self.end(str(error))
        except Exception:  # the boundary: the browser is told
            logger.exception("a display of a widget failed")
            self.end("The kernel failed to show this; its log says why.")

    def _write(self, end: PageEnd) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._over.is_set() or bool(self._waiting))
                    if self._over.is_set():
                        return
                    text = self._waiting.popleft()
                try:
                    end.send(text)
                except BarrageError as error:  # the reading thread reports the end
                    logger.debug("a display of a widget has ended: %s", error)
        finally:
            end.cancel()
            end.close()

    def _look_idle(self) -> None:
        """Check about once a second, with each beat, whether the browser has vanished."""
        if not self._asked and self._clock() - self._heard > _IDLE_SECONDS:
            self._asked = True
            self._settled(self._end_if_idle)

    def _end_if_idle(self) -> None:
        self._asked = False
        if self._clock() - self._heard > _IDLE_SECONDS:
            self.end(f"The page has said nothing for {_IDLE_SECONDS:g} s.")
