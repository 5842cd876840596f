"""An event loop on a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from barrage_server.process import start_thread

__all__ = ["EventLoop"]

Result = TypeVar("Result")

_JOIN_SECONDS: Final = 5.0


class EventLoop:
    """Runs coroutines on one daemon thread, from its making to :meth:`stop`.

    Args:
        name: of the thread.

    Attributes:
        loop: the event loop.

    Raises:
        LimitError: the process can start no further thread.

    """

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._called: set[concurrent.futures.Future[Any]] = set()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            start_thread(self._thread)
        except BaseException:
            self.loop.close()
            raise

    @property
    def is_stopped(self) -> bool:
        """Whether it runs no more."""
        return self.loop.is_closed()

    def call(self, coroutine: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Run ``coroutine`` on the loop. For other threads than the loop's. Cancelled when the loop has ended."""
        found: concurrent.futures.Future[Result]
        try:
            found = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError:  # it is closed
            coroutine.close()
            found = concurrent.futures.Future()
            found.cancel()
            return found
        self._called.add(found)
        found.add_done_callback(self._called.discard)
        if self.loop.is_closed():  # since then: it may not have begun
            found.cancel()
        return found

    def stop(self) -> None:
        """End the loop and its thread. May be called again."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()
            for found in tuple(self._called):
                found.cancel()
