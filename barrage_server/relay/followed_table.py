"""A table of another server, followed on a thread of its own and served here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Self

from barrage_server.engine import Table
from barrage_server.errors import BarrageError, UnknownTableError
from barrage_server.process import Ending, end_with_process
from barrage_server.public import public
from barrage_server.relay.feed import UpstreamFeed
from barrage_server.relay.progress import Progress
from barrage_server.relay.source import Source
from barrage_server.relay.state import FollowedState
from barrage_server.relay.statistics import FollowedStatistics
from barrage_server.relay.table_catalog import TableCatalog

__all__ = ["FollowedTable"]

# Seconds that closing waits for a thread inside a call that cannot be interrupted; the thread ends by itself later.
_JOIN_SECONDS: Final = 5.0


@public
class FollowedTable:
    """A table of another server that is served here. Made by :meth:`Server.follow`.

    Use it as a context manager, or :meth:`close` it; closing the server does so too. All methods may be called from any
    thread; in a listener of this table, :meth:`close` waits some seconds for the thread that runs it.

    Args:
        catalog: serves the table. The name must be reserved there.
        name: the table's name there.
        source: the upstream table.
        route: the entry that this server adds to the route of the table.
        max_delay: longest delay between two attempts to reach the upstream, in seconds.
        ended: called once on closing.
    """

    def __init__(
        self,
        catalog: TableCatalog,
        name: str,
        source: Source,
        *,
        route: str,
        max_delay: float,
        ended: Callable[[FollowedTable], None],
    ) -> None:
        self.name = name
        self._catalog = catalog
        self._ended = ended
        self._progress = Progress(name)
        self._feed = UpstreamFeed(catalog, source, route=route, max_delay=max_delay, progress=self._progress)

    def start(self) -> None:
        """Start the thread.

        Raises:
            LimitError: the process cannot start a thread.
        """
        self._feed.start()
        end_with_process(self, Ending.RELAY)

    # Public state.

    @property
    def uri(self) -> str:
        """The URI of the upstream table."""
        return self._feed.uri

    @property
    def state(self) -> FollowedState:
        """Whether updates flow."""
        return self._progress.state

    @property
    def error(self) -> BarrageError | None:
        """Why updates do not flow; ``None`` when they do."""
        return self._progress.error

    @property
    def table(self) -> Table:
        """The served table: a new object when the upstream came back with other columns.

        Raises:
            UnknownTableError: the first content has not come yet, or the followed table is closed.
        """
        table = self._progress.table
        if table is None:
            raise UnknownTableError(f"Table '{self.name}' is not served: it is {self.state}.")
        return table

    def statistics(self) -> FollowedStatistics:
        """The current statistics."""
        progress = self._progress
        table, error = progress.table, progress.error
        return FollowedStatistics(
            name=self.name,
            uri=self.uri,
            state=progress.state,
            state_seconds=time.monotonic() - progress.since,
            error=None if error is None else str(error),
            rows=0 if table is None else table.size,
            upstream_step=self._feed.step,
            updates=progress.updates,
            connections=progress.connections,
            resumed=progress.resumed,
        )

    def wait_live(self, timeout: float | None = None) -> None:
        """Wait until updates flow.

        Args:
            timeout: seconds; ``None`` has no limit.

        Raises:
            DeadlineError: they did not within ``timeout``; the text has the last error.
            UnavailableError: the followed table was closed.
        """
        self.wait_for(FollowedState.LIVE, timeout)

    def wait_for(self, state: FollowedState | str, timeout: float | None = None) -> None:
        """Wait for a state. Raises the same errors as :meth:`wait_live`."""
        self._progress.wait_for(state, timeout)

    def wait_first(self, wait: float) -> None:
        """Wait until the table is served.

        Transient errors are retried for ``wait`` seconds.

        Raises:
            BarrageError: the reason why the table is not served.
        """
        self._progress.wait_first(wait)

    def __repr__(self) -> str:
        table = self._progress.table
        rows = "" if table is None else f" rows={table.size:,}"
        return f"<FollowedTable {self.name!r} from {self.uri} {self.state}{rows}>"

    # Closing.

    def close(self) -> None:
        """Stop following, and drop the table, whose subscribers get an error.

        May be called repeatedly.
        """
        self.stop()
        self.join()
        with self._progress.changed:
            table, self._progress.table = self._progress.table, None
        if table is not None and self._catalog.find(self.name) is table:
            self._catalog.drop(self.name)
        self._ended(self)

    def stop(self) -> None:
        """Signal the thread to end, without waiting for it. The table stays."""
        self._feed.stop()

    def join(self, timeout: float = _JOIN_SECONDS) -> None:
        """Wait for the thread to end, at most ``timeout`` seconds."""
        self._feed.join(timeout)

    def end_with_process(self, timeout: float) -> None:
        """Stop following, because the interpreter ends."""
        self.stop()
        self.join(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
