"""A full-screen terminal view, which one thread draws from lines.

Keys call functions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from barrage_server.cli.watch_screen import Line

__all__ = ["Terminal"]

_STYLE: Final = Style.from_dict(
    {
        "title": "bold ansicyan",
        "live": "ansigreen",
        "lost": "bold ansired",
        "header": "bold",
        "key": "bold",
        "added": "bold ansigreen",
        "modified": "bold ansiyellow",
        "dim": "ansibrightblack",
    }
)
_REDRAW_SECONDS: Final = 0.5
"""Seconds between two draws without a refresh, so that a lost connection shows."""
_FRAME_SECONDS: Final = 0.05
_SECONDS_TO_END: Final = 5.0
_ENDS: Final = ("q", "Q", "escape", "c-c", "c-d")


class Terminal:
    """Occupies the terminal while :meth:`running`. A thread of its own draws.

    The caller may therefore wait for updates.

    Args:
        draw: the lines for a size in columns and lines; called on the terminal's thread.
        keys: functions by prompt_toolkit's names of keys; called on that thread too.
        source: input of keys; the terminal when None.
        sink: output; the terminal when None.
    """

    def __init__(
        self,
        draw: Callable[[int, int], list[Line]],
        keys: Mapping[str, Callable[[], None]],
        *,
        source: Input | None = None,
        sink: Output | None = None,
    ) -> None:
        self._draw = draw
        self._ended = threading.Event()
        self._begun = threading.Event()
        self._failure: BaseException | None = None
        self.interrupted = False
        bindings = KeyBindings()
        for name, call in keys.items():
            bindings.add(name)(self._binding(call))
        for name in _ENDS:
            bindings.add(name)(self._end)
        body = Window(FormattedTextControl(self._lines, show_cursor=False), wrap_lines=False, always_hide_cursor=True)
        self._app: Application[None] = Application(
            layout=Layout(body),
            key_bindings=bindings,
            style=_STYLE,
            full_screen=True,
            min_redraw_interval=_FRAME_SECONDS,
            refresh_interval=_REDRAW_SECONDS,
            input=source,
            output=sink,
        )
        # In seconds. Esc ends the view almost at once, because no other key begins with it.
        self._app.timeoutlen = self._app.ttimeoutlen = 0.1

    @property
    def has_ended(self) -> bool:
        """Whether a key has ended the view, or drawing has failed."""
        return self._ended.is_set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show the view during the body. Raises the error of drawing, if any."""
        thread = threading.Thread(target=self._run, name="barrage-terminal", daemon=True)
        thread.start()
        try:
            self._begun.wait()
            yield
        finally:
            loop = self._app.loop
            if loop is not None and not self._ended.is_set():
                loop.call_soon_threadsafe(self._leave)
            thread.join(_SECONDS_TO_END)
        if self._failure is not None:
            raise self._failure
        if self.interrupted:
            raise KeyboardInterrupt

    def refresh(self) -> None:
        """Schedule a redraw. May be called from any thread."""
        self._app.invalidate()

    def _run(self) -> None:
        try:
            self._app.run(pre_run=self._begun.set, handle_sigint=False, set_exception_handler=False)
        except BaseException as error:  # raised on the thread that waits for this one
            self._failure = error
        finally:
            self._ended.set()
            self._begun.set()

    def _lines(self) -> StyleAndTextTuples:
        size = self._app.output.get_size()
        try:
            lines = self._draw(size.columns, size.rows)
        except Exception as error:  # prompt_toolkit would show a traceback and wait for a key
            self._failure = error
            self._leave()
            return []
        found: StyleAndTextTuples = []
        for number, line in enumerate(lines):
            if number:
                found.append(("", "\n"))
            found.extend((f"class:{style}" if style else "", text) for style, text in line)
        return found

    def _binding(self, call: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
        def pressed(_event: KeyPressEvent) -> None:
            call()
            self._app.invalidate()

        return pressed

    def _end(self, event: KeyPressEvent) -> None:
        self.interrupted = event.key_sequence[0].key == "c-c"
        self._leave()

    def _leave(self) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit()
