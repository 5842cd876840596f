"""An event loop on a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from types import CoroutineType
from typing import Any, Final, TypeVar

from barrage_server.process import start_thread

__all__ = ["EventLoop", "end_other_tasks"]

Result = TypeVar("Result")

_JOIN_SECONDS: Final = 5.0
_REST_SECONDS: Final = 1.0
"""Seconds for running tasks to end: those that :meth:`EventLoop.stop` has cancelled, and those of gRPC's calls."""


class EventLoop:
    """Runs coroutines on one daemon thread, from its construction to :meth:`stop`.

    Args:
        name: the name of the thread.

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
        """Whether it has ended."""
        return self.loop.is_closed()

    def call(self, coroutine: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Run ``coroutine`` on the loop, from another thread.

        The future is cancelled when the loop ends first.
        """
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
        if self.loop.is_closed():  # meanwhile: the coroutine may not have begun
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
            rest = asyncio.all_tasks(self.loop)
            for task in rest:
                task.cancel()
            if rest:
                self.loop.run_until_complete(asyncio.wait(rest, timeout=_REST_SECONDS))
            self.loop.close()
            for found in tuple(self._called):
                found.cancel()


async def end_other_tasks() -> None:
    """Cancel all other tasks of the running loop, and wait until they have ended.

    Those of gRPC's calls end by themselves when their server has stopped, and are cancelled a moment later: one that is
    cancelled before it has begun prints a traceback.
    """
    current = asyncio.current_task()
    rest = asyncio.all_tasks() - {current}
    for task in rest:
        if isinstance(task.get_coro(), CoroutineType):  # gRPC's are those of Cython
            task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=_REST_SECONDS)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
