"""The state that all pages of a server share.

It has an event loop, threads, the list of tables, and the server's health.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import math
import weakref
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import barrage_server
from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.plan.operation import Operation
from barrage_server.server.authentication import Credentials
from barrage_server.server.event_loop import EventLoop, end_other_tasks
from barrage_server.server.figures import shown_to
from barrage_server.server.log_ins import LogIns
from barrage_server.server.loop_calls import LoopCalls
from barrage_server.server.plans import compute_from, computed_table
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.server.web.health import ProcessFigures, health_message
from barrage_server.server.web.session import PageLimits
from barrage_server.server.web.tables import ListedTables
from barrage_server.server.workers import Workers
from barrage_server.wire.browser_types import form_of
from barrage_server.wire.tickets import PlanTicket, ResultTicket

if TYPE_CHECKING:
    from barrage_server.server.web.page import Page
    from barrage_server.server.web.stream import PageStream

__all__ = ["PageService"]

logger = logging.getLogger("barrage_server.server")

Result = TypeVar("Result")

_WORKERS: Final = 8
"""Threads for calls that would block the event loop."""
_PLAN_THREADS: Final = 8
"""Threads that compute tables for pages."""
_LIGHT_COLUMNS: Final = 256
"""Most columns of a table whose windows the event loop may convert."""
_BEAT_SECONDS: Final = 1.0
_FRESH_SECONDS: Final = 0.9 * _BEAT_SECONDS
_RESTS: Final = 10.0
"""Least pause between two updates of the list of tables, in multiples of the time that an update takes."""
_CLOSE_SECONDS: Final = 5.0


class PageService:
    """Serves all pages, from its creation to :meth:`close`.

    Args:
        server_state: the server's state.
        loop: the event loop to run on, which the caller stops; ``None``: one of its own.

    Attributes:
        server_state: the server's state.
        page_limits: the limits of one page.
        server_name: the name of this program for pages.
        tables: the list of tables.
        calls: schedules calls on the event loop.
        workers: threads for calls that would block the event loop.

    Raises:
        LimitError: the process can start no further thread.
    """

    def __init__(self, server_state: ServerState, loop: EventLoop | None = None) -> None:
        self.server_state: Final = server_state
        self.page_limits: Final = PageLimits.of(server_state.limits)
        self.server_name: Final = f"barrage-server {barrage_server.__version__}"
        self.tables: Final = ListedTables(server_state.access, server_state.clock)
        self._log_ins = LogIns(server_state.limits.failed_log_ins, server_state.clock)
        self.workers: Final = Workers(_WORKERS, "barrage-page-work")
        self._plans = Workers(_PLAN_THREADS, "barrage-page-plans")
        self._light: weakref.WeakKeyDictionary[Table, bool] = weakref.WeakKeyDictionary()
        self._health: dict[object, tuple[float, str]] = {}  # by callers' rights: time and text of the last message
        self._process: ProcessFigures | None = None
        self._pages: set[Page] = set()
        self._beating: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._is_alone = loop is None
        self._loop = EventLoop("barrage-pages") if loop is None else loop
        self.calls: Final = LoopCalls(self._loop.loop)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""
        return self._loop.loop

    # For other threads than the event loop's.

    def call(self, coroutine: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Run ``coroutine`` on the event loop."""
        return self._loop.call(coroutine)

    def close(self) -> None:
        """End all pages and threads, in bounded time. May be called again."""
        if not self._loop.is_stopped:
            try:
                self._loop.call(self._close()).result(_CLOSE_SECONDS)
            except concurrent.futures.TimeoutError:
                logger.error("the pages do not end")
        self.workers.shutdown()
        self._plans.shutdown()
        if self._is_alone:
            self._loop.stop()

    # For pages, on the event loop.

    def enter(self, page: Page) -> None:
        """Send a page the news once a second, from now on."""
        self._pages.add(page)
        if self._beating is None or self._beating.done():
            self._beating = asyncio.get_running_loop().create_task(self._beat())

    def leave(self, page: Page) -> None:
        """Stop sending news to a page."""
        self._pages.discard(page)

    async def computed_from(self, principal: Principal, table: Table, operations: Sequence[Operation]) -> Table:
        """Compute operations on a table, on a thread, until the caller disconnects.

        Raises:
            BarrageError: the error of the operation that failed.
        """
        return await self._plans.run_while_wanted(
            lambda is_gone: compute_from(self.server_state, principal, table, operations, is_gone)
        )

    async def computed(self, principal: Principal, ticket: ResultTicket | PlanTicket) -> Table:
        """The table of the ticket of a result or plan.

        A plan is computed until the caller disconnects. Raises the errors of
        :func:`~barrage_server.server.plans.computed_table`.
        """
        return await self._plans.run_while_wanted(
            lambda is_gone: computed_table(self.server_state, principal, ticket, is_gone)
        )

    def is_light(self, table: Table) -> bool:
        """Whether a window converts quickly: few columns, and no nested ones."""
        known = self._light.get(table)
        if known is None:
            forms = (form_of(data_type)["form"] for data_type in table.schema.types)
            known = len(table.schema) <= _LIGHT_COLUMNS and "nested" not in forms
            self._light[table] = known
        return known

    def leave_aside(self, stream: PageStream) -> None:
        """Let a stream leave, on a thread, when its turn has ended."""
        try:
            self.workers.submit(stream.leave)
        except BarrageError:  # the service is closed, and nothing else runs on its loop
            stream.leave()

    async def principal(self, credentials: Credentials, peer: str) -> Principal:
        """The caller at ``peer`` with these credentials.

        Raises:
            AuthenticationError: they are missing or wrong.
            LimitError: the address has shown too many wrong ones.
        """
        authentication = self.server_state.authentication
        with self._log_ins.attempt(credentials, peer):
            quick = authentication.quick(credentials)
            return quick if quick is not None else await self.workers.run(authentication.principal, credentials)

    async def refresh_tables(self) -> None:
        """Update the lists of tables of all callers with a page. Calls share one update."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
        await asyncio.shield(self._refreshing)

    async def health(self, principal: Principal) -> str:
        """The message about the health of the server for one caller.

        It is written about once a second at most.

        Raises:
            ForbiddenError: the caller may not know.
        """
        key, now = self.tables.key(principal), asyncio.get_running_loop().time()
        made_at, known = self._health.get(key, (-math.inf, ""))
        if now - made_at < _FRESH_SECONDS:
            return known
        found = await self.workers.run(self._make_health, principal)
        self._health = {other: made for other, made in self._health.items() if now - made[0] < _FRESH_SECONDS}
        self._health[key] = (now, found)
        return found

    def _make_health(self, principal: Principal) -> str:
        figures = shown_to(self.server_state, principal)
        before, self._process = self._process, ProcessFigures.now()
        return health_message(figures, self.server_state.limits, self._process, before)

    async def _refresh(self) -> None:
        principals = [page.principal for page in self._pages if page.is_known]
        await self.workers.run(self.tables.refresh, principals)

    async def _beat(self) -> None:
        """Tell all pages the news once a second, until there are no pages."""
        loop = asyncio.get_running_loop()
        rested = 0.0
        while self._pages:
            await asyncio.sleep(_BEAT_SECONDS)
            pages = [page for page in self._pages if page.is_known]
            began = loop.time()
            if began >= rested or not self._pages:  # without pages, the update stops counting rows of tables
                try:
                    await self.refresh_tables()
                except Exception:  # the boundary: pages keep the list that they have
                    logger.exception("the list of tables could not be made")
                rested = loop.time() + _RESTS * (loop.time() - began)
            for page in pages:
                page.start_beat()

    async def _close(self) -> None:
        self.tables.close()
        if not self._is_alone:
            return  # the owner of the loop ends its tasks
        await end_other_tasks()
