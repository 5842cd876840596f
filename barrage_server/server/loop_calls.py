"""Calls on an event loop from other threads, with few wake-ups of the loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVarTuple

__all__ = ["LoopCalls"]

Arguments = TypeVarTuple("Arguments")


class LoopCalls:
    """Calls functions on an event loop, in the order of each calling thread.

    A wake-up writes to a pipe of the loop. That costs more than most calls, and makes the threads compete for the
    interpreter lock. So calls that arrive while the loop still runs earlier ones cause no wake-up. May be used on any
    thread.

    Args:
        loop: the event loop.

    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Callable[..., object], tuple[Any, ...], contextvars.Context]] = deque()
        self._is_awake = False  # whether the loop will look at the waiting calls

    def soon(self, function: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call ``function(*arguments)`` on the loop soon, in the caller's context.

        The context has the facts of the call for the log.

        Raises:
            RuntimeError: the loop is closed.

        """
        if asyncio._get_running_loop() is self._loop:  # this is the loop's thread
            self._loop.call_soon(function, *arguments)
            return
        self._waiting.append((function, arguments, contextvars.copy_context()))
        if self._is_awake and not self._loop.is_closed():
            return
        self._is_awake = True
        try:
            self._loop.call_soon_threadsafe(self._pass_on)
        except RuntimeError:
            self._is_awake = False
            self._waiting.clear()
            raise

    def _pass_on(self) -> None:
        if self._waiting:
            for _ in range(len(self._waiting)):
                function, arguments, context = self._waiting.popleft()
                self._loop.call_soon(function, *arguments, context=context)
            self._loop.call_soon(self._pass_on)  # look again after these
            return
        self._is_awake = False
        if self._waiting and not self._is_awake:  # passed by a thread that found the loop awake just before
            self._is_awake = True
            self._loop.call_soon(self._pass_on)
