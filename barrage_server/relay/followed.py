"""A table of another server, followed on a thread of its own and served here."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from barrage_server.arguments import seconds, shown
from barrage_server.client import Client, LiveTable, RetryPolicy, TableInfo, Update
from barrage_server.engine import ReplicaTable, Table, TableTraits, UpdateGraph
from barrage_server.errors import (
    BarrageError,
    DeadlineError,
    InternalError,
    InvalidRequestError,
    UnavailableError,
    UnknownTableError,
)
from barrage_server.log import count
from barrage_server.process import Ending, end_with_process, start_thread
from barrage_server.public import public
from barrage_server.relay.attributes import ROUTE, forwarded, on_route
from barrage_server.relay.blink import BlinkSink, FollowedBlinkTable
from barrage_server.relay.source import Source
from barrage_server.relay.state import FollowedState
from barrage_server.relay.statistics import FollowedStatistics
from barrage_server.server.catalog import Catalog

__all__ = ["Followed"]

logger = logging.getLogger("barrage_server.relay")

# Seconds that closing waits for a thread inside a call that cannot be interrupted; the thread ends by itself later.
_JOIN_SECONDS: Final = 5.0


@public
class Followed:
    """A table of another server that is served here. Made by :meth:`Server.follow`.

    Use it as a context manager, or :meth:`close` it; closing the server does so too. All methods may be called from any
    thread, but :meth:`close` not by a listener of a table: listeners run inside of cycles.

    Args:
        catalog: where the table is served. The name must be reserved there.
        name: what it is called there.
        source: the upstream table.
        route: the entry that this server adds to the route of the table.
        max_delay: longest delay between two attempts to reach the upstream, in seconds.
        ended: called once on closing.
    """

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        source: Source,
        *,
        route: str,
        max_delay: float,
        ended: Callable[[Followed], None],
    ) -> None:
        self.name = name
        self._catalog = catalog
        self._source = source
        self._route = route
        self._retry = RetryPolicy(first_delay=min(0.1, max_delay), max_delay=max_delay, deadline=None)
        self._ended = ended
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._state = FollowedState.CONNECTING
        self._since = time.monotonic()
        self._error: BarrageError | None = None
        self._client: Client | None = None
        self._live: LiveTable | None = None
        self._table: Table | None = None
        self._info: TableInfo | None = None  # the upstream's description of the served table
        self._fault: BarrageError | None = None
        self._over = threading.Event()  # the present subscription has ended
        self._live_since: float | None = None
        self._connections = 0
        self._updates = 0
        self._had = 0  # number of rows when the last connection was lost
        self._step = -1
        self._thread = threading.Thread(target=self._run, name=f"barrage-follow-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread.

        Raises:
            LimitError: the process cannot start a thread.
        """
        start_thread(self._thread)
        end_with_process(self, Ending.RELAY)

    # Public state.

    @property
    def uri(self) -> str:
        """The URI of the upstream table."""
        return self._source.uri

    @property
    def state(self) -> FollowedState:
        """Whether updates flow."""
        return self._state

    @property
    def error(self) -> BarrageError | None:
        """Why updates do not flow; ``None`` when they do."""
        return self._error

    @property
    def table(self) -> Table:
        """The served table. It is a new object after the upstream table came back with other columns.

        Raises:
            UnknownTableError: the first content has not come yet, or this is closed.
        """
        table = self._table
        if table is None:
            raise UnknownTableError(f"Table '{self.name}' is not served: it is {self._state}.")
        return table

    def statistics(self) -> FollowedStatistics:
        """The current figures."""
        table, live, error = self._table, self._live, self._error
        return FollowedStatistics(
            name=self.name,
            uri=self.uri,
            state=self._state,
            state_seconds=time.monotonic() - self._since,
            error=None if error is None else str(error),
            rows=0 if table is None else table.size,
            upstream_step=self._step if live is None else live.step,
            updates=self._updates,
            connections=self._connections,
        )

    def wait_live(self, timeout: float | None = None) -> None:
        """Wait until updates flow; ``timeout`` is in seconds; ``None`` has no limit.

        Raises:
            DeadlineError: they did not within ``timeout``; the text has the last error.
            UnavailableError: this was closed.
        """
        self.wait_for(FollowedState.LIVE, timeout)

    def wait_for(self, state: FollowedState | str, timeout: float | None = None) -> None:
        """Wait for a state. Raises the same errors as :meth:`wait_live`."""
        wanted = _state_of(state)
        limit = None if timeout is None else seconds(timeout, "timeout")
        with self._changed:
            self._changed.wait_for(lambda: self._state in (wanted, FollowedState.CLOSED), limit)
            if self._state is wanted:
                return
            if self._state is FollowedState.CLOSED:
                raise self._closed()
            why = "" if self._error is None else f": {self._error}"
            raise DeadlineError(f"'{self.name}' was not {wanted} within {limit:g} s, but {self._state}{why}")

    def wait_first(self, patience: float) -> None:
        """Wait until the table is served. Transient errors are retried for ``patience`` seconds.

        Raises:
            BarrageError: the reason why it is not served.
        """
        deadline = time.monotonic() + patience
        with self._changed:
            while self._table is None:
                self._check_open()
                error = self._error
                if error is not None:
                    passing = FollowedState.after(error) is not FollowedState.REFUSED
                    if not passing or time.monotonic() >= deadline:
                        raise error
                self._changed.wait()

    def __repr__(self) -> str:
        rows = "" if self._table is None else f" rows={self._table.size:,}"
        return f"<Followed {self.name!r} from {self.uri} {self._state}{rows}>"

    # Closing.

    def close(self) -> None:
        """Stop following, and drop the table; its subscribers get an error. May be called repeatedly."""
        self.stop()
        self.join()
        with self._changed:
            table, self._table = self._table, None
        if table is not None and self._catalog.find(self.name) is table:
            self._catalog.drop(self.name)
        self._ended(self)

    def stop(self) -> None:
        """Signal the thread to end, without waiting for it. The table stays."""
        with self._changed:
            self._closing.set()
            self._enter(FollowedState.CLOSED, None)
            client = self._client
        if client is not None:
            client.close()

    def join(self, timeout: float = _JOIN_SECONDS) -> None:
        """Wait for the thread to end, at most ``timeout`` seconds."""
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def end_with_process(self, timeout: float) -> None:
        """Stop following, because the interpreter ends."""
        self.stop()
        self.join(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # On the thread of this object.

    def _run(self) -> None:
        delays: Iterator[float] = self._retry.delays()
        while not self._closing.is_set():
            try:
                error = self._follow_once()
            except BarrageError as failure:
                error = failure
            except Exception as failure:  # the last handler on this thread; following must go on
                logger.exception("following %s failed", self.uri)
                error = InternalError(f"Following '{self.name}' failed: {type(failure).__name__}: {failure}")
            if self._live_since is not None and time.monotonic() - self._live_since > self._retry.max_delay:
                delays = self._retry.delays()
            delay = next(delays)
            with self._changed:
                if self._closing.is_set():
                    return
                again = str(error) == str(self._error)
                self._enter(FollowedState.after(error), error)
            if not self._closing.wait(delay):
                level = logging.DEBUG if again else logging.WARNING
                logger.log(level, "table %s cannot follow %s, trying again: %s", self.name, self.uri, error)

    def _follow_once(self) -> BarrageError:
        """Subscribe to the upstream table, and serve it until the stream ends; returns the reason of the end."""
        self._over.clear()
        self._had = 0 if self._table is None else self._table.size
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
                table = self._table if fits else None
                return self._follow_rows(client, info, table if isinstance(table, ReplicaTable) else None)
        with self._connected(
            None
        ) as client:  # the replica is only an input of the blink table: it has a graph of its own
            return self._follow_blinks(client, info, self._table if fits else None)

    def _follow_rows(self, client: Client, info: TableInfo, onto: ReplicaTable | None) -> BarrageError:
        with self._subscribed(client, self._count, onto) as live:
            table = live.table
            self._serve(table, info, table.attributes if table is onto else info.attributes)
            return self._end_of(live)

    def _follow_blinks(self, client: Client, info: TableInfo, before: Table | None) -> BarrageError:
        sink = BlinkSink(self._catalog.graph, self.name, before if isinstance(before, FollowedBlinkTable) else None)
        sink.clear()  # rows may have been lost meanwhile: those in view are not the last ones

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
        with self._changed:
            self._client = client
        try:
            self._check_open()  # a close after this point closes the client
            yield client
        finally:
            with self._changed:
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
        """Whether the served table can take the upstream's present content, judged by ``info``."""
        table, before = self._table, self._info
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
        """Put the table into the catalog, in place of the previous one, and become live."""
        route = ",".join([*on_route(info.attributes), self._route])
        table.restate(TableTraits.of({**forwarded(attributes, table.schema.names), ROUTE: route}))
        had, self._had = self._had, 0
        with self._changed:
            self._check_open()
            if self._table is None:
                self._catalog.add(table, self.name, reserved=True)
            elif self._table is not table:
                self._catalog.replace(self._table, table)
            self._table, self._info = table, info
            self._connections += 1
            self._live_since = time.monotonic()
            self._enter(FollowedState.LIVE, None)
        logger.info("table %s follows %s, %s", self.name, self.uri, count(table.size, "rows"))
        if had and not table.size and not table.traits.is_blink:
            lost = count(had, "rows")
            logger.warning("table %s: %s came back empty; what was here, %s, is gone", self.name, self.uri, lost)

    def _end_of(self, live: LiveTable) -> BarrageError:
        """Wait until the subscription ends; returns the reason."""
        live.on_state(lambda state: self._over.set() if state.is_final else None)
        if not live.state.is_final:
            self._over.wait()
        error = self._fault or live.error or self._closed()
        cause = error.__cause__  # its own text only says that there was no retry
        return cause if isinstance(cause, BarrageError) else error

    def _count(self, _update: Update) -> None:
        self._updates += 1

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise self._closed()

    def _closed(self) -> UnavailableError:
        return UnavailableError(f"Following '{self.name}' is closed.")

    def _enter(self, state: FollowedState, error: BarrageError | None) -> None:
        """Enter a state. The lock is held."""
        if state is not self._state:
            logger.debug("table %s: %s -> %s", self.name, self._state, state)
            self._state, self._since = state, time.monotonic()
        self._error = error
        self._changed.notify_all()


def _state_of(state: FollowedState | str) -> FollowedState:
    try:
        return FollowedState(state)
    except ValueError:
        raise InvalidRequestError(f"A state is one of {', '.join(FollowedState)}, not {shown(state)}.") from None
