"""A live table: the content of a subscription, and its updates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn, Self, overload

import pyarrow as pa

from barrage_server.arguments import callback as checked_callback
from barrage_server.arguments import integer, seconds
from barrage_server.client.iteration import AsyncUpdates, Updates
from barrage_server.client.page_source import PageSource
from barrage_server.client.state import LiveState
from barrage_server.client.subscription_worker import SubscriptionWorker
from barrage_server.client.update import Update
from barrage_server.client.view_change import KEEP, Keep, changed_view
from barrage_server.client.window import Viewport
from barrage_server.engine import ReplicaTable, TableVersion
from barrage_server.engine.html import grid_html, table_html
from barrage_server.engine.readable import Readable
from barrage_server.engine.table import column_numbers
from barrage_server.errors import (
    BarrageError,
    InvalidRequestError,
    UnsupportedOperationError,
)
from barrage_server.public import public
from barrage_server.rowset import RowSet
from barrage_server.showing import shown_in_notebook

__all__ = ["LiveTable"]


@public
class LiveTable(Readable):
    """A table of a server, or a window of it, that follows every change.

    Made by :meth:`Client.subscribe`. Use it as a context manager, or :meth:`close` it. It shows one consistent version,
    in the order of the row keys; reading never waits for the network. When the connection is lost, the content stays,
    :attr:`state` changes, and the subscription reconnects by itself.

    ``live["price"]`` is a column, ``len(live)`` the number of rows in view; ``for update in live.updates()`` and, in
    coroutines, ``async for update in live`` iterate over the updates; and any library that reads Arrow streams accepts
    a live table: ``polars.from_arrow(live)``.

    All methods may be called from any thread.
    """

    index_example: ClassVar[str] = "live['price']"
    rows_example: ClassVar[str] = "live.head(10), or live.to_arrow().slice(start, length)"

    def __init__(self, worker: SubscriptionWorker, timeout: float) -> None:
        self._worker = worker
        self._timeout = timeout

    # What is in view.

    @property
    def name(self) -> str:
        """The table's name on the server."""
        return self._worker.name

    @property
    def has_content(self) -> bool:
        """Whether the first content is complete."""
        return self._worker.content.is_complete

    @property
    def version(self) -> TableVersion:
        """The version in view: an immutable snapshot."""
        return self._worker.content.version

    @property
    def table(self) -> ReplicaTable:
        """The replica: an engine table, to listen to, derive tables from, or serve.

        It belongs to the update graph of the client. It is replaced when the columns in view change, and when a window
        becomes the whole table or the reverse.
        """
        return self._worker.content.table

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns in view."""
        return self.version.schema

    @property
    def size(self) -> int:
        """Rows in view."""
        return self.version.size

    @property
    def table_size(self) -> int:
        """Rows of the whole table on the server, as of the last message."""
        return self._worker.content.table_size

    @property
    def row_set(self) -> RowSet:
        """Row keys of the rows in view.

        In the flattened dialect the rows of a viewport have the keys 0, 1, 2 and so on.
        """
        return self.version.row_set

    @property
    def viewport(self) -> RowSet | None:
        """The positions of the last request; None for the whole table."""
        return self._worker.view.positions

    @property
    def is_reverse(self) -> bool:
        """Whether the viewport counts from the end of the table."""
        return self._worker.view.reverse

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns in view whose values identify a row; empty when there are none."""
        return self.table.key_columns

    @property
    def attributes(self) -> dict[str, object]:
        """A copy of the attributes of the server's table, such as ``AppendOnly``."""
        return self.table.attributes

    @property
    def step(self) -> int:
        """The server's step of the last message; -1 when it does not say."""
        return self._worker.content.step

    @property
    def resumed(self) -> int:
        """How often the subscription resumed with an update instead of a snapshot."""
        return self._worker.content.resumed

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns in view."""
        return tuple(self.schema.names)

    def head(self, rows: int = 5) -> pa.Table:
        """Read the first ``rows`` rows in view.

        Raises:
            InvalidRequestError: ``rows`` is negative.
        """
        version = self.version
        return version.to_table(rows=version.row_set.slice(0, integer(rows, "rows")))

    def tail(self, rows: int = 5) -> pa.Table:
        """Read the last ``rows`` rows in view.

        Raises:
            InvalidRequestError: ``rows`` is negative.
        """
        version = self.version
        return version.to_table(rows=version.row_set.slice(max(0, version.size - integer(rows, "rows")), version.size))

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the rows in view, of all columns or of ``columns`` only.

        Raises:
            UnknownColumnError: a column that is not in view.
        """
        version = self.version
        return version.to_table(None if columns is None else column_numbers(version.schema, columns, self.name))

    def __repr__(self) -> str:
        worker = self._worker
        if not worker.content.is_complete:
            return f"<LiveTable {self.name!r} {worker.status.state}>"
        view = "" if self.viewport is None else f" of {self.table_size:,}"
        return f"<LiveTable {self.name!r} {worker.status.state} rows={self.size:,}{view} columns={self.schema.names}>"

    def _repr_html_(self) -> str:
        """The first rows in view, for notebooks."""
        worker = self._worker
        title = f"{self.name}, {worker.status.state}"
        if worker.status.error is not None:
            title = f"{title} ({worker.status.error})"
        if not worker.content.is_complete:
            return grid_html(f"{title}: nothing has come yet", (), ())
        notes = () if self.viewport is None else (f"of {self.table_size:,} rows in the table",)
        return table_html(title, self.version, key_columns=self.key_columns, notes=notes)

    @property
    def page_source(self) -> PageSource:
        """The table, as the source of a page."""
        return self._worker.page_source

    def widget(self, *, height: int = 400, theme: str = "auto", plot: object = None) -> Any:
        """Show the whole table in a notebook, as :func:`barrage_server.show` does.

        Args:
            height: height of the widget, in CSS pixels.
            theme: ``auto``, ``light`` or ``dark``.
            plot: a plot in place of the grid, as for :func:`barrage_server.show`.

        Raises what :func:`barrage_server.show` does.
        """
        return shown_in_notebook(self.page_source, height=height, theme=theme, plot=plot)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows in view for any library that reads Arrow streams."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    # Changes.

    def updates(self, timeout: float | None = None) -> Updates:
        """Iterate over the updates, waiting for each.

        The iteration ends after ``timeout`` seconds without an update (None: no limit), when the live table is closed,
        and when the main thread of the process has ended. Updates that come while the loop's body runs, or between two
        iterations, are coalesced to one.

        Each iterator has its own position and sees all updates; threads that share an iterator get different updates.
        The first iterator begins after the first content, unless the changes since then outweigh the table. A later one
        begins where the last finished iterator stopped, or, beside an iterator that still runs, with the next update.

        Raises:
            BarrageError: the error of the subscription, after the last update.
        """
        self._check_process()
        return Updates(self._worker, None if timeout is None else seconds(timeout, "timeout"))

    def __iter__(self) -> NoReturn:
        """Raise InvalidRequestError.

        Readers of iterables, such as ``pandas.DataFrame(live)``, would wait for updates without end.
        """
        raise InvalidRequestError(
            "A live table is not iterated over itself: live.updates() are its updates, live.to_pandas(), "
            "live.to_arrow() and live['column'] its content."
        )

    def __aiter__(self) -> AsyncUpdates:
        """Iterate over the updates in a coroutine, until the live table is closed.

        Iterators have their own positions, as with :meth:`updates`. A cancelled task ends at once.
        """
        self._check_process()
        return AsyncUpdates(self._worker)

    def on_update(self, callback: Callable[[Update], object]) -> Callable[[], None]:
        """Call ``callback(update)`` for every change of the rows in view.

        The callback runs on the subscription's thread, so it must not wait for this live table. Its errors are logged.
        A slow callback gets fewer and larger updates: updates that arrive while it runs are coalesced. Updates of a
        blink table are never coalesced, because rows would be lost; no update is applied while the callback runs.

        Returns:
            A function that detaches the callback.
        """
        return self._worker.callbacks.add(checked_callback(callback, "callback"))

    def wait_until(self, predicate: Callable[[LiveTable], bool], timeout: float | None = None) -> None:
        """Wait until ``predicate(live)`` holds.

        Args:
            predicate: called now, and after every message. It must be fast: nothing is received while it runs.
            timeout: seconds; the client's timeout when None.

        Raises:
            DeadlineError: it did not hold in time.
            BarrageError: the subscription has ended, and it does not hold.
        """
        checked_callback(predicate, "predicate")
        wait = self._limit(timeout)
        self._wait(lambda: predicate(self), wait, f"The condition on '{self.name}' did not come true in {wait:g} s.")

    def wait_for_update(self, timeout: float | None = None) -> None:
        """Wait for the next message, whether or not it changes what is in view.

        Args:
            timeout: seconds; the client's timeout when None.

        Raises:
            DeadlineError: no message came in time.
            BarrageError: the subscription has ended.
        """
        seen = self._worker.status.messages
        wait = self._limit(timeout)
        self._wait(
            lambda: self._worker.status.messages > seen, wait, f"There was no update of '{self.name}' in {wait:g} s."
        )

    def wait_for_content(self, timeout: float) -> None:
        """Wait until the first content is complete.

        Args:
            timeout: most seconds without a message.

        Raises:
            InvalidRequestError: ``timeout`` is no number of seconds.
            DeadlineError: nothing came for that time.
            BarrageError: the subscription has ended.
        """
        worker, wait = self._worker, seconds(timeout, "timeout")
        text = f"The first content of '{self.name}' did not come: nothing for {wait:g} s."

        def has_come(seen: int) -> bool:
            return worker.content.is_complete or worker.status.messages > seen

        while not worker.content.is_complete:
            self._wait(partial(has_come, worker.status.messages), wait, text)

    # The window.

    @overload
    def set_viewport(
        self,
        viewport: Viewport | Keep = KEEP,
        *,
        columns: Sequence[str] | Keep | None = KEEP,
        reverse: bool | Keep = KEEP,
        timeout: float | None = None,
        wait: bool = True,
    ) -> None: ...

    @overload
    def set_viewport(
        self,
        viewport: Viewport | Keep,
        columns: Sequence[str] | Keep | None,
        /,
        *,
        reverse: bool | Keep = KEEP,
        timeout: float | None = None,
        wait: bool = True,
    ) -> None: ...

    @overload
    def set_viewport(
        self,
        viewport: int,
        stop: int,
        columns: Sequence[str] | Keep | None = KEEP,
        *,
        reverse: bool | Keep = KEEP,
        timeout: float | None = None,
        wait: bool = True,
    ) -> None: ...

    def set_viewport(
        self,
        viewport: Viewport | Keep | int = KEEP,
        stop: int | Sequence[str] | Keep | None = KEEP,
        columns: Sequence[str] | Keep | None = KEEP,
        *,
        reverse: bool | Keep = KEEP,
        timeout: float | None = None,
        wait: bool = True,
    ) -> None:
        """Change the rows or columns in view; returns when they are in view.

        Omitted arguments keep their value. ``set_viewport(0, 50)``, ``set_viewport(range(0, 50))`` and
        ``set_viewport(slice(0, 50))`` mean the same.

        Moving a window costs the rows that are new in it. A change between a window and the whole table opens a new
        stream; the previous content stays in view until the new one is complete.

        Args:
            viewport: row positions, such as ``range(100, 200)``; may reach beyond the table. None for the whole table.
            stop: the position after the last one, where ``viewport`` is the first one.
            columns: names of the columns; None for all.
            reverse: count positions from the end of the table: ``range(0, 10)`` are the last ten rows.
            timeout: seconds to wait; the client's timeout when None.
            wait: False returns at once, as a callback must.

        Raises:
            UnknownColumnError: the table has no such column; nothing changes.
            InvalidRequestError: the positions are invalid; nothing changes.
            UnsupportedOperationError: a callback waits for its own subscription, or the process was forked.
            DeadlineError: the rows did not come in time; they may still come.
            BarrageError: the subscription has ended.
        """
        self._check_process()
        self._worker.status.check_open()
        worker = self._worker
        if wait and worker.is_on_own_thread:
            raise UnsupportedOperationError(
                "A callback must not wait for its own subscription; use set_viewport(..., wait=False)."
            )
        limit = self._limit(timeout)
        with worker.status.changed:  # reads and changes the view as one step
            worker.show(changed_view(worker.view, viewport, stop, columns, reverse))
        if wait:
            self._wait(
                lambda: worker.content.is_settled, limit, f"the new view of '{self.name}' did not come in {limit:g} s"
            )

    # State and end.

    @property
    def state(self) -> LiveState:
        """Whether updates flow."""
        return self._worker.status.state

    @property
    def error(self) -> BarrageError | None:
        """Why the subscription has ended; None unless :attr:`state` is ``FAILED``."""
        return self._worker.status.error

    def on_state(self, callback: Callable[[LiveState], object]) -> Callable[[], None]:
        """Call ``callback(state)`` for every change of :attr:`state`.

        Returns:
            A function that detaches the callback.
        """
        return self._worker.status.callbacks.add(checked_callback(callback, "callback"))

    def close(self) -> None:
        """End the subscription; the content stays readable.

        May be called repeatedly, and from callbacks.
        """
        self._worker.close(self._timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.to_thread(self.close)
        except RuntimeError:  # the process can start no further thread
            self.close()

    def _limit(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else seconds(timeout, "timeout")

    def _wait(self, done: Callable[[], bool], timeout: float, text: str) -> None:
        self._check_process()
        if self._worker.is_on_own_thread:
            raise UnsupportedOperationError("A callback must not wait for its own subscription.")
        self._worker.status.wait(done, timeout, text)

    def _check_process(self) -> None:
        if not self._worker.is_of_this_process:
            raise UnsupportedOperationError(
                f"The subscription to '{self.name}' belongs to the process that forked this one; subscribe again here."
            )
