"""Calls on an event loop from other threads, with one wake-up of the loop for calls that come close together."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVarTuple

__all__ = ["LoopCalls"]

Arguments = TypeVarTuple("Arguments")


class LoopCalls:
    """Calls functions on an event loop, in the order in which each thread has passed them. May be used on any thread.

    A wake-up writes to a pipe of the loop. That costs more than most calls, and makes the threads compete for the
    interpreter, so calls that come while the loop is still busy with those before need none.

    Args:
        loop: the event loop.

    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Callable[..., object], tuple[Any, ...], contextvars.Context]] = deque()
        self._is_awake = False  # the loop will look at what waits

    def soon(self, function: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call ``function(*arguments)`` on the loop, in the context of the caller, which says what is logged there.

        RuntimeError when the loop is closed.
        """
        if asyncio._get_running_loop() is self._loop:  # it is awake
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
        if self._waiting and not self._is_awake:  # passed since the look, on a thread that found the loop awake
            self._is_awake = True
            self._loop.call_soon(self._pass_on)
