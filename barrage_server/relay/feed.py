"""The thread of a followed table: it subscribes upstream and serves the updates."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from barrage_server.client import Client, LiveTable, RetryPolicy, TableInfo, Update
from barrage_server.client.failures import refusal_in
from barrage_server.engine import ReplicaTable, Table, TableTraits, UpdateGraph
from barrage_server.errors import AuthenticationError, BarrageError, InternalError, InvalidRequestError
from barrage_server.log import count
from barrage_server.process import start_thread
from barrage_server.relay.attributes import ROUTE, forwarded, on_route
from barrage_server.relay.blink import BlinkSink, FollowedBlinkTable
from barrage_server.relay.progress import Progress
from barrage_server.relay.source import Source
from barrage_server.relay.state import FollowedState
from barrage_server.relay.table_catalog import TableCatalog

__all__ = ["UpstreamFeed"]

logger = logging.getLogger("barrage_server.relay")


class UpstreamFeed:
    """Follows a table of another server until :meth:`stop`.

    It reconnects whenever the connection is lost.

    Args:
        catalog: serves the table. The name must be reserved there.
        source: the upstream table.
        route: the entry that this server adds to the route of the table.
        max_delay: longest delay between two attempts to reach the upstream, in seconds.
        progress: the state to update.
    """

    def __init__(
        self, catalog: TableCatalog, source: Source, *, route: str, max_delay: float, progress: Progress
    ) -> None:
        self.name = progress.name
        self._catalog = catalog
        self._source = source
        self._route = route
        self._progress = progress
        self._retry = RetryPolicy(first_delay=min(0.1, max_delay), max_delay=max_delay, deadline=None)
        self._client: Client | None = None
        self._live: LiveTable | None = None
        self._fault: BarrageError | None = None
        self._over = threading.Event()  # the present subscription has ended
        self._live_since: float | None = None
        self._had = 0  # number of rows when the last connection was lost
        self._step = -1
        self._thread = threading.Thread(target=self._run, name=f"barrage-follow-{self.name}", daemon=True)

    @property
    def uri(self) -> str:
        """The URI of the upstream table."""
        return self._source.uri

    @property
    def step(self) -> int:
        """The upstream's cycle of the last update; -1 before the first."""
        live = self._live
        return self._step if live is None else live.step

    def start(self) -> None:
        """Start the thread.

        Raises:
            LimitError: the process cannot start a thread.
        """
        start_thread(self._thread)

    def stop(self) -> None:
        """Signal the thread to end, without waiting for it. The table stays."""
        with self._progress.changed:
            self._progress.close()
            client = self._client
        if client is not None:
            client.close()

    def join(self, timeout: float) -> None:
        """Wait for the thread to end, at most ``timeout`` seconds."""
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        progress, delays = self._progress, self._retry.delays()
        while not progress.closing.is_set():
            try:
                error = self._follow_once()
            except BarrageError as failure:
                error = failure
            except Exception as failure:  # the last handler on this thread; following must go on
                logger.exception("following %s failed", self.uri, extra={"table": self.name})
                error = InternalError(f"Following '{self.name}' failed: {type(failure).__name__}: {failure}")
            if self._live_since is not None and time.monotonic() - self._live_since > self._retry.max_delay:
                delays = self._retry.delays()
            delay = next(delays)
            with progress.changed:
                if progress.closing.is_set():
                    return
                if isinstance(error, AuthenticationError):
                    # the first one says why, as that of a stream whose credentials have expired
                    error = refusal_in(progress.error) or error
                again = str(error) == str(progress.error)
                progress.enter(FollowedState.after(error), error)
            if not progress.closing.wait(delay):
                level, about = logging.DEBUG if again else logging.WARNING, {"table": self.name}
                logger.log(
                    level, "table %s cannot follow %s, trying again: %s", self.name, self.uri, error, extra=about
                )

    def _follow_once(self) -> BarrageError:
        """Subscribe upstream, and serve the table until the stream ends.

        Returns:
            The reason of the end.
        """
        self._over.clear()
        self._had = 0 if self._progress.table is None else self._progress.table.size
        self._fault = self._live_since = None
        with self._connected(self._catalog.graph) as client:
            info = client.table(self._source.address.name)
            if self._route in on_route(info.attributes):
                raise InvalidRequestError(
                    f"{self.uri} comes from '{self.name}' of this server, through other relays: following it "
                    f"would be a cycle."
                )
            fits = self._fits(info)
            if not info.attributes.get("BlinkTable"):
                table = self._progress.table if fits else None
                return self._follow_rows(client, info, table if isinstance(table, ReplicaTable) else None)
        with self._connected(None) as client:  # a graph of its own: the replica only feeds the blink table
            return self._follow_blinks(client, info, self._progress.table if fits else None)

    def _follow_rows(self, client: Client, info: TableInfo, onto: ReplicaTable | None) -> BarrageError:
        with self._subscribed(client, self._count, onto) as live:
            table = live.table
            self._progress.resumed += live.resumed
            self._serve(table, info, table.attributes if table is onto else info.attributes)
            return self._end_of(live)

    def _follow_blinks(self, client: Client, info: TableInfo, before: Table | None) -> BarrageError:
        sink = BlinkSink(self._catalog.graph, self.name, before if isinstance(before, FollowedBlinkTable) else None)
        sink.clear()  # rows may have been lost meanwhile, so the rows in view are not the last ones

        def updated(update: Update) -> None:
            self._count(update)
            try:
                sink.feed(update.added_values())
            except BarrageError as error:  # rows would be missing: subscribe again instead
                self._fault = error
                self._over.set()

        with self._subscribed(client, updated, None) as live:
            self._serve(sink.table(live.schema), info, info.attributes)
            return self._end_of(live)

    @contextmanager
    def _connected(self, graph: UpdateGraph | None) -> Iterator[Client]:
        client = self._source.connect(graph)
        with self._progress.changed:
            self._client = client
        try:
            self._progress.check_open()  # a close after this point closes the client
            yield client
        finally:
            with self._progress.changed:
                self._client = None
            client.close()

    @contextmanager
    def _subscribed(
        self, client: Client, updated: Callable[[Update], None], onto: ReplicaTable | None
    ) -> Iterator[LiveTable]:
        source = self._source
        with client.subscribe(
            source.address.name, source.columns, interval_ms=source.interval_ms, onto=onto, on_update=updated
        ) as live:
            self._live = live
            try:
                yield live
            finally:
                self._step, self._live = live.step, None

    def _fits(self, info: TableInfo) -> bool:
        """Whether the served table can take the upstream's content, judged by ``info``."""
        table, before = self._progress.table, self._progress.info
        if table is None or before is None:
            return False
        try:
            table.check_usable()
        except InternalError:
            return False
        names = table.schema.names
        return (
            before.schema.equals(info.schema)
            and before.key_columns == info.key_columns
            and forwarded(before.attributes, names) == forwarded(info.attributes, names)
        )

    def _serve(
        self, table: ReplicaTable | FollowedBlinkTable, info: TableInfo, attributes: Mapping[str, object]
    ) -> None:
        """Put the table into the catalog, in place of the previous one."""
        route = ",".join([*on_route(info.attributes), self._route])
        table.restate(TableTraits.of({**forwarded(attributes, table.schema.names), ROUTE: route}))
        had, self._had = self._had, 0
        with self._progress.changed:
            self._progress.check_open()
            if self._progress.table is None:
                self._catalog.add(table, self.name, reserved=True)
            elif self._progress.table is not table:
                self._catalog.replace(self._progress.table, table)
            self._progress.table, self._progress.info = table, info
            self._progress.connections += 1
            self._live_since = time.monotonic()
            self._progress.enter(FollowedState.LIVE)
        logger.info(
            "table %s follows %s, %s", self.name, self.uri, count(table.size, "rows"), extra={"table": self.name}
        )
        if had and not table.size and not table.traits.is_blink:
            lost = count(had, "rows")
            logger.warning(
                "table %s: %s came back empty; what was here, %s, is gone",
                self.name,
                self.uri,
                lost,
                extra={"table": self.name},
            )

    def _end_of(self, live: LiveTable) -> BarrageError:
        """Wait until the subscription ends; returns the reason."""
        live.on_state(lambda state: self._over.set() if state.is_final else None)
        if not live.state.is_final:
            self._over.wait()
        error = self._fault or live.error or self._progress.closed()
        cause = error.__cause__  # the text of the error itself only says that there was no retry
        return cause if isinstance(cause, BarrageError) else error

    def _count(self, _update: Update) -> None:
        self._progress.updates += 1
