"""The tables that a session has given numbers to.

A client may use a number before its upload has ended, or before the call that defines it has arrived, because calls of
one connection overtake each other. A call that uses a number therefore waits for its table.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from barrage_server.engine import Table
from barrage_server.errors import BarrageError, InvalidRequestError, LimitError, NotFoundError, UnavailableError
from barrage_server.server.export_counts import ExportCounts
from barrage_server.server.recent import RecentMap

__all__ = ["Exports"]

_RELEASED_KEPT: Final = 256
"""Released or failed numbers that are remembered, so that no call waits for them."""
_NO_LIMIT: Final = 1 << 32
"""The count of possible numbers."""


class Exports:
    """The exports of one session. Used on the endpoint's event loop.

    Args:
        limit: most exports at a time.
        counts: counts the exports of all sessions. Exports made while :attr:`may_come` is unset are not counted.

    Attributes:
        may_come: whether another call may define a number; False for a call without a session, which does not wait.
        wait_seconds: seconds to wait for an undefined number.
        listeners: called when an export is settled.
    """

    wait_seconds: float = 5.0

    def __init__(self, limit: int = _NO_LIMIT, *, may_come: bool = True, counts: ExportCounts | None = None) -> None:
        self.may_come = may_come
        self._limit = limit
        self._counts = counts or ExportCounts()
        self._owner = ""
        self._counted: set[int] = set()
        self._defined: dict[int, asyncio.Future[Table]] = {}
        self._awaited: dict[int, set[asyncio.Future[asyncio.Future[Table]]]] = {}  # one future per waiting call
        self._released: deque[int] = deque(maxlen=_RELEASED_KEPT)
        self._failed: RecentMap[int, tuple[type[BarrageError], str]] = RecentMap(_RELEASED_KEPT)
        self._waits: dict[int, set[int]] = {}  # by pending export: the exports that it waits for
        self.listeners: set[Callable[[], None]] = set()

    def __len__(self) -> int:
        return len(self._defined)

    def __contains__(self, number: int) -> bool:
        return number in self._defined

    def keep(self, owner: str) -> None:
        """Count these exports for a session of ``owner`` from now on."""
        self._owner = owner
        self.may_come = True

    @property
    def awaited(self) -> int:
        """The number of undefined numbers that calls wait for."""
        return len(self._awaited)

    def tables(self) -> dict[int, Table]:
        """The complete exports, by number."""
        return {
            number: future.result()
            for number, future in self._defined.items()
            if future.done() and not future.cancelled() and future.exception() is None
        }

    def reserve(self, number: int) -> asyncio.Future[Table]:
        """Reserve an export, and return the future of its table.

        The caller sets the table or the error.

        Raises:
            InvalidRequestError: the number is in use.
            LimitError: the limit is reached.
        """
        if number in self._defined:
            raise InvalidRequestError(f"Export {number} is in use; release it first, or use another number.")
        if len(self._defined) >= self._limit:
            raise LimitError(
                f"This session has {self._limit:,} exports (exports), as many as it may have. Release those that are "
                f"not used: close their tables."
            )
        if self.may_come:  # exports of a call without a session end with the call
            self._counts.add(self._owner)
            self._counted.add(number)
        self._failed.pop(number, None)
        future: asyncio.Future[Table] = asyncio.get_running_loop().create_future()
        future.add_done_callback(self._settled)
        self._defined[number] = future
        for awaited in self._awaited.pop(number, ()):
            if not awaited.done():
                awaited.set_result(future)
        return future

    def define(self, number: int, table: Table) -> None:
        """Export an existing table. Raises the errors of :meth:`reserve`."""
        self.reserve(number).set_result(table)

    async def make(self, number: int, making: Callable[[], Awaitable[Table]]) -> Table:
        """Make a table as the export of ``number``; other calls wait for it meanwhile.

        Raises the errors of :meth:`reserve` and of ``making()``.
        """
        reserved = self.reserve(number)
        try:
            table = await making()
        except BaseException as error:
            self.fail(number, reserved, error)
            raise
        if not reserved.done():  # otherwise it was released meanwhile
            reserved.set_result(table)
        return table

    def fail(self, number: int, reserved: asyncio.Future[Table], error: BaseException) -> None:
        """End the reservation of ``number`` without a table.

        The number is no export any more, and calls that use it get an error that says why.
        """
        if self._defined.get(number) is not reserved:  # it was released, and its number perhaps used again
            return
        told = _of_failed(number, error)  # a new error: the traceback of the old one keeps tables alive
        self._failed.put(number, (type(told), str(told)))
        if not reserved.done():
            reserved.set_exception(told)
        self.release(number)

    async def resolve(self, number: int, awaiting: int | None = None) -> Table:
        """The table of that number, when it is defined.

        Args:
            number: number of the export.
            awaiting: number of the export that is made from it, if any.

        Raises:
            InvalidRequestError: the export was not defined, or would be made from itself.
            BarrageError: the error of the export.
        """
        if awaiting is None or self._is_there(number):
            return await self._resolved(number)
        if self._leads(number, awaiting):
            raise InvalidRequestError(f"Export {awaiting} would be made from itself, by way of export {number}.")
        waits = self._waits.setdefault(awaiting, set())
        waits.add(number)
        try:
            return await self._resolved(number)
        finally:
            waits.discard(number)
            if not waits:
                self._waits.pop(awaiting, None)

    def _is_there(self, number: int) -> bool:
        future = self._defined.get(number)
        return future is not None and future.done()

    def _leads(self, number: int, target: int) -> bool:
        """Whether an export waits for ``target``, directly or through others."""
        seen: set[int] = set()
        below = [number]
        while below:
            one = below.pop()
            if one == target:
                return True
            if one not in seen:
                seen.add(one)
                below.extend(self._waits.get(one, ()))
        return False

    async def _resolved(self, number: int) -> Table:
        future = self._defined.get(number)
        if future is None:
            if number in self._failed:
                kind, text = self._failed[number]
                raise kind(text)
            if number in self._released:
                raise InvalidRequestError(f"Export {number} of this session was released: its table was closed.")
            if not self.may_come:
                raise InvalidRequestError(
                    f"There is no export {number}: this call belongs to no session. Log in first."
                )
            future = await self._defined_soon(number)
        try:
            return await asyncio.shield(future)
        except BarrageError as error:
            raise copy.copy(error) from error

    async def _defined_soon(self, number: int) -> asyncio.Future[Table]:
        """Wait for a call to define the export."""
        awaited: asyncio.Future[asyncio.Future[Table]] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(number, set()).add(awaited)
        try:
            return await asyncio.wait_for(awaited, self.wait_seconds)
        except TimeoutError:
            raise InvalidRequestError(f"There is no export {number} in this session: no call has defined it.") from None
        finally:
            waiting = self._awaited.get(number)
            if waiting is not None:
                waiting.discard(awaited)
                if not waiting:
                    del self._awaited[number]

    def release(self, number: int) -> None:
        """Release an export, if there is one."""
        future = self._defined.pop(number, None)
        if number in self._counted:
            self._counted.remove(number)
            self._counts.remove(self._owner)
        if future is not None:
            self._released.append(number)
        if future is not None and not future.done():
            future.set_exception(UnavailableError(f"Export {number} was released before it was complete."))

    def close(self) -> None:
        """Release all exports. Later exports of a running call end with that call."""
        self.may_come = False
        for number in tuple(self._defined):
            self.release(number)

    def _settled(self, future: asyncio.Future[Table]) -> None:
        if not future.cancelled():
            future.exception()  # marked as seen: perhaps no call uses the export
        for listener in tuple(self.listeners):
            listener()


def _of_failed(number: int, error: BaseException) -> BarrageError:
    """The error for callers that use an export which could not be made."""
    if not isinstance(error, BarrageError):
        return UnavailableError(f"Export {number} was not made: the call that makes it broke off.")
    text = f"Export {number} was not made: {error}"
    return NotFoundError(text) if isinstance(error, NotFoundError) else InvalidRequestError(text)
