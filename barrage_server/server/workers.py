"""A pool of daemon threads."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, Generic, ParamSpec, TypeVar

from barrage_server.errors import LimitError, UnavailableError
from barrage_server.process import start_thread

__all__ = ["Workers"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_IDLE_SECONDS: Final = 5.0
"""Seconds without work after which a thread ends."""


class Workers(Executor):
    """A pool of daemon threads, started as needed.

    When the interpreter ends, it waits for the threads of ``ThreadPoolExecutor``, which may wait for a silent client;
    and that pool then takes no work, although the server still runs.

    Args:
        most: most threads at a time; further calls wait in a queue.
        name: the name of the threads.

    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._changed = threading.Condition()
        self._queue: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._idle = 0
        self._closed = False

    @property
    def threads(self) -> int:
        """Number of threads that exist now."""
        return self._threads

    def submit(self, function: Callable[..., Result], /, *args: Any, **keywords: Any) -> Future[Result]:
        """Call ``function(*args, **keywords)`` on a thread.

        Raises:
            UnavailableError: the pool is shut down.
            LimitError: there is no thread, and the process can start none.

        """
        future: Future[Result] = Future()
        with self._changed:
            if self._closed:
                raise UnavailableError("The server is shutting down.")
            self._add(_Step(future, lambda: function(*args, **keywords)))
        return future

    def submit_if_free(self, function: Callable[[], Result]) -> Future[Result] | None:
        """Call ``function()`` on a thread at once; ``None`` if no thread is free.

        The future can be cancelled until the thread has begun.
        """
        future: Future[Result] = Future()
        with self._changed:
            is_free = self._idle > len(self._queue) or self._threads < self._most
            if self._closed or not is_free:
                return None
            try:
                self._add(_Step(future, function))
            except LimitError:
                return None
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:  # noqa: ARG002  (as Executor has it)
        """Take no more calls, and drop those that have not begun.

        Running calls continue to their end.
        """
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **keywords: Arguments.kwargs
    ) -> Result:
        """Call a function on a thread, and await its result.

        Raises the errors of :meth:`submit`.
        """
        return await asyncio.wrap_future(self.submit(function, *args, **keywords))

    async def run_while_wanted(self, work: Callable[[Callable[[], bool]], Result]) -> Result:
        """Call ``work(is_gone)`` on a thread, and await its result.

        Raises the errors of :meth:`submit`.

        Args:
            work: its argument tells whether the caller was cancelled, so that the rest need not be done.

        """
        gone = threading.Event()
        try:
            return await self.run(work, gone.is_set)
        except asyncio.CancelledError:
            gone.set()
            raise

    def _add(self, step: Callable[[], None]) -> None:
        self._queue.append(step)
        if self._idle >= len(self._queue):
            self._changed.notify()
        elif self._threads < self._most:
            self._start()

    def _start(self) -> None:
        self._threads += 1
        try:
            start_thread(threading.Thread(target=self._work, name=self._name, daemon=True))
        except LimitError:
            self._threads -= 1
            if not self._threads:
                self._queue.pop()
                raise

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                try:
                    self._changed.wait_for(lambda: bool(self._queue) or self._closed, _IDLE_SECONDS)
                finally:
                    self._idle -= 1
                if not self._queue:
                    self._threads -= 1
                    return
                call = self._queue.popleft()
            call()
            del call  # frees the objects of the call while this thread waits


class _Step(Generic[Result]):
    """A call that sets the result of a future; made once."""

    def __init__(self, future: Future[Result], function: Callable[[], Result]) -> None:
        self._future = future
        self._function = function
        self._context = contextvars.copy_context()  # for the facts of the call in the log

    def __call__(self) -> None:
        future = self._future
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = self._context.run(self._function)
        except BaseException as error:  # raised by ``future.result()``
            future.set_exception(error)
            # The error's traceback holds this frame, and the future the error: a cycle for the garbage collector.
            del self, future
        else:
            future.set_result(result)
