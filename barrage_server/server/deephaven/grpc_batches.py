"""Frees the memory of gRPC's operations when a call is cancelled or fails.

``grpc.aio`` sends and receives in batches of operations, and frees a batch when the coroutine that awaits it goes on.
When that coroutine is cancelled before, or the batch fails, the memory is lost: some 300 bytes for each call whose
client disconnects, spread over the heap (https://github.com/grpc/grpc/issues/43360, open with grpcio 1.85).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import grpc

__all__ = ["free_all_batches"]

logger = logging.getLogger("barrage_server")

_REPAIRED: Final = "1.85."
"""The releases whose ``execute_batch`` is known: it creates one future with the loop given, and awaits it."""
_cygrpc: Final[Any] = import_module("grpc._cython.cygrpc")
_execute_batch: Final[Any] = getattr(_cygrpc, "execute_batch", None)


def free_all_batches() -> None:
    """Let ``grpc.aio`` free each batch, in the whole process.

    Other releases than the known one stay as they are.
    """
    if not grpc.__version__.startswith(_REPAIRED):
        logger.debug("gRPC %s stays as it is: how it runs a batch is not known", grpc.__version__)
        return
    _cygrpc.execute_batch = _freed_batch


async def _freed_batch(call: Any, operations: tuple[Any, ...], loop: asyncio.AbstractEventLoop) -> None:
    """Run a batch as ``cygrpc.execute_batch`` does, and free it in any case.

    gRPC's coroutine is run by hand, since cancelling it would leak its batch. If the awaiter is cancelled, gRPC's news
    of the end of the batch lets the coroutine go on.
    """
    batch = _Batch(loop)
    batch.run(_execute_batch(call, operations, batch))
    try:
        await batch.end
    except asyncio.CancelledError:
        if not batch.end.cancelled():  # the batch has ended as well
            batch.free()
        raise
    batch.free()
    if batch.error is not None:
        raise batch.error


class _Batch:
    """A batch, as the loop and the future that gRPC's coroutine is given.

    Attributes:
        end: done when the batch has ended; cancelled when its awaiter is.
        error: why the batch failed.
    """

    __slots__ = ("_coroutine", "_loop", "end", "error")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.end: asyncio.Future[None] = loop.create_future()
        self.error: BaseException | None = None
        self._loop = loop
        self._coroutine: Coroutine[Any, Any, None] | None = None

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start the batch: run gRPC's coroutine until it awaits the future."""
        coroutine.send(None)
        self._coroutine = coroutine

    def free(self) -> None:
        """Free the operations: let gRPC's coroutine go on after its future, to its end."""
        coroutine, self._coroutine = self._coroutine, None
        if coroutine is not None:
            with suppress(StopIteration):
                coroutine.send(None)

    # what gRPC uses of the loop

    def create_future(self) -> _Batch:
        return self

    def call_soon_threadsafe(self, *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(*arguments)

    def __eq__(self, other: object) -> bool:
        return other is self._loop

    # what gRPC uses of the future

    def __await__(self) -> Generator[_Batch, None, None]:
        yield self

    def cancelled(self) -> bool:
        return False

    def set_result(self, _: object) -> None:
        if self.end.cancelled():
            self.free()
        else:
            self.end.set_result(None)

    def set_exception(self, error: BaseException) -> None:
        self.error = error
        self.set_result(None)
