"""The thread behind a live table: keeps a stream open, and applies what comes."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.client.annotations import user_schema
from barrage_server.client.channel import Channel
from barrage_server.client.content import Content
from barrage_server.client.cursor import Cursor
from barrage_server.client.failures import is_passing, translated
from barrage_server.client.retry import RetryPolicy
from barrage_server.client.state import LiveState
from barrage_server.client.stream import SubscriptionStream
from barrage_server.client.update import Update
from barrage_server.errors import BarrageError, InternalError, UnavailableError, UnknownColumnError, UnknownTableError
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Window
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.reader import MessageReader
from barrage_server.wire.schema import key_columns, table_attributes
from barrage_server.wire.tickets import path_of_name, scope_ticket

__all__ = ["Follower", "View"]

T = TypeVar("T")

logger = logging.getLogger("barrage_server.client")


@dataclass(frozen=True, slots=True)
class View:
    """What a user wants to see, with columns by name; None is all of them."""

    positions: RowSet | None
    reverse: bool
    columns: tuple[str, ...] | None

    def window(self, schema: pa.Schema, table: str) -> Window:
        """The view with column numbers.

        Raises:
            UnknownColumnError: a column that the schema lacks.
        """
        numbers = {name: number for number, name in enumerate(schema.names)}
        wanted = schema.names if self.columns is None else self.columns
        missing = [name for name in wanted if name not in numbers]
        if missing:
            raise UnknownColumnError(
                f"table '{table}' has no column {', '.join(map(repr, missing))}; it has: {', '.join(schema.names)}"
            )
        columns = tuple(sorted({numbers[name] for name in wanted}))
        return Window(columns, self.positions, self.reverse and self.positions is not None)


class Follower:
    """Follows one table on a thread of its own until it is closed or fails for good.

    With ``on_update`` the updates are handed over there, from the first one on, and not kept for anybody.

    Attributes:
        changed: notified after every change of anything here; its lock guards all of it.
        content: what is in view.
        cursor: the updates that nobody has taken yet.
        state: where things stand.
        error: why it failed; None unless the state is FAILED.
    """

    def __init__(
        self,
        channel: Channel,
        name: str,
        view: View,
        content: Content,
        *,
        options: SubscriptionOptions,
        dialect: Dialect,
        retry: RetryPolicy,
        on_update: Callable[[Update], None] | None = None,
    ) -> None:
        self.name = name
        self.changed = threading.Condition(threading.RLock())
        self.content = content
        self.cursor = Cursor()
        self.state = LiveState.CONNECTING
        self.error: BarrageError | None = None
        self.view = view
        self.schema: pa.Schema | None = None
        self.messages = 0
        self.update_callbacks: tuple[Callable[[Update], None], ...] = () if on_update is None else (on_update,)
        self.state_callbacks: tuple[Callable[[LiveState], None], ...] = ()
        self._collects = on_update is None
        self._channel = channel
        self._options = options
        self._dialect = dialect
        self._retry = retry
        self._stream: SubscriptionStream | None = None
        self._reopen = False
        self._states: list[LiveState] = []
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name=f"barrage-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_on_own_thread(self) -> bool:
        """Whether the caller is a callback, which must not wait for what its own thread has yet to do."""
        return threading.current_thread() is self._thread

    @property
    def is_of_this_process(self) -> bool:
        """False in a forked child, which has no thread that follows anything."""
        return self._pid == os.getpid()

    def show(self, view: View) -> None:
        """Ask for another view; ``content.is_settled`` tells when it is there.

        Raises:
            UnknownColumnError: it names a column that the table lacks; nothing changes.
        """
        with self.changed:
            before, schema = self.view, self.schema
            if schema is None:
                self.view = view
                return
            old, window = before.window(schema, self.name), view.window(schema, self.name)
            self.view = view
            self.content.wanted = window
            if window.is_full != old.is_full or (window.is_full and window.columns != old.columns):
                self._reopen = True  # a stream cannot change between these
                if self._stream is not None:
                    self._stream.cancel()
            elif self._stream is not None and not self._reopen:
                self._send(self._stream, window)
            self.changed.notify_all()

    def close(self, timeout: float) -> None:
        """Stop following. The thread is joined, for at most ``timeout`` seconds."""
        if not self.is_of_this_process:
            self.state = LiveState.CLOSED
            return
        with self.changed:
            if not self.state.is_final:
                self._enter(LiveState.CLOSED)
            stream = self._stream
        if stream is not None:
            stream.cancel()
        if self._thread.is_alive() and not self.is_on_own_thread:
            self._thread.join(timeout)
        self._tell_states()

    # On the thread.

    def _run(self) -> None:
        try:
            self._follow()
        except BarrageError as error:
            self._fail(error)
        except Exception as error:  # the thread is the last to see it: it must reach the user, and the log
            logger.exception("following table %r failed", self.name)
            self._fail(InternalError(f"following table '{self.name}' failed: {type(error).__name__}: {error}"))
        self._tell_states()

    def _follow(self) -> None:
        lost_at = 0.0
        delays: Iterator[float] = iter(())
        while not self.state.is_final:
            seen = self.messages
            try:
                self._follow_stream()
            except BarrageError as error:
                with self.changed:
                    if self._is_over():
                        return
                    if self._reopen:
                        self._reopen = False
                        continue
                    if self.state is LiveState.CONNECTING or not self._comes_back(error, seen):
                        raise
                    if self.state is LiveState.LIVE:
                        lost_at, delays = time.monotonic(), self._retry.delays()
                        self._enter(LiveState.RECONNECTING)
                self._tell_states()
                self._pause(delays, lost_at, error)

    def _is_over(self) -> bool:
        return self.state.is_final

    def _comes_back(self, error: BarrageError, seen: int) -> bool:
        """Whether a stream that ended with ``error`` is worth opening again."""
        # A server that has only just come back may not have its tables yet.
        missing = (
            isinstance(error, UnknownTableError) and self.state is LiveState.RECONNECTING and self.messages == seen
        )
        return missing or is_passing(error)

    def _pause(self, delays: Iterator[float], lost_at: float, error: BarrageError) -> None:
        delay = next(delays, None)
        away = time.monotonic() - lost_at
        if delay is None or (self._retry.deadline is not None and away > self._retry.deadline):
            raise UnavailableError(
                f"table '{self.name}' was lost and did not come back in {away:.0f} s: {error}"
            ) from error
        logger.info("table %r: %s; trying again in %.1f s", self.name, error, delay)
        with self.changed:
            self.changed.wait_for(lambda: self.state.is_final or self._reopen, delay)
            self._reopen = False

    def _follow_stream(self) -> None:
        view = self.view
        columns = None
        if view.columns is not None:
            columns = view.window(self._fetch_schema(), self.name).columns
        request = SubscriptionRequest(
            scope_ticket(self.name), columns, view.positions, self._options, view.reverse and view.positions is not None
        )
        stream = SubscriptionStream(self._channel, request, self._dialect)
        try:
            with self.changed:
                if self.state.is_final:
                    return
                self._stream = stream
            wire_schema = stream.schema()
            reader = MessageReader(wire_schema)
            self._begin(reader.schema, view)
            for message in stream.messages(reader):
                with self.changed:
                    if self.state.is_final or self._reopen:
                        raise UnavailableError("the stream is not wanted any more")
                    update = self.content.apply(message)
                    self.messages += 1
                    if update is not None and self._collects:
                        self.cursor.offer(update)
                    if self.state is not LiveState.LIVE and self.content.is_settled:
                        self._enter(LiveState.LIVE)
                    self.changed.notify_all()
                self._tell_states()
                if update is not None:
                    self._tell(self.update_callbacks, update)
        finally:
            with self.changed:
                self._stream = None
            stream.close()

    def _begin(self, annotated: pa.Schema, view: View) -> None:
        schema = user_schema(annotated)
        with self.changed:
            window = view.window(schema, self.name)
            attributes = table_attributes(annotated)
            self.content.begin(schema, window, self._dialect, attributes=attributes, key_columns=key_columns(annotated))
            self.schema = schema
            if self.view != view:  # the user has moved on while the stream was opened
                later, self.view = self.view, view
                self.show(later)
            self.changed.notify_all()

    def _fetch_schema(self) -> pa.Schema:
        descriptor = flight.FlightDescriptor.for_path(*path_of_name(self.name))
        with translated(self._channel.address):
            return self._channel.client().get_schema(descriptor, self._channel.short()).schema

    def _send(self, stream: SubscriptionStream, window: Window) -> None:
        request = SubscriptionRequest(
            scope_ticket(self.name), window.columns, window.positions, self._options, window.reverse
        )
        try:
            stream.send(request)
        except BarrageError as error:
            # The stream is ending; its reader finds out why, and the next stream begins with this view.
            logger.debug("table %r: a request was not sent: %s", self.name, error)

    def _enter(self, state: LiveState) -> None:
        with self.changed:
            logger.debug("table %r: %s -> %s", self.name, self.state, state)
            self.state = state
            self._states.append(state)
            self.changed.notify_all()

    def _fail(self, error: BarrageError) -> None:
        with self.changed:
            if not self.state.is_final:
                self.error = error
                self._enter(LiveState.FAILED)

    def _tell_states(self) -> None:
        """Call back about states entered since; never with the lock held, because callbacks may wait."""
        with self.changed:
            states, self._states = self._states, []
        for state in states:
            self._tell(self.state_callbacks, state)

    def _tell(self, callbacks: tuple[Callable[[T], None], ...], value: T) -> None:
        for callback in callbacks:
            try:
                callback(value)
            except Exception:  # the callback is the user's: its fault must not end the subscription
                logger.exception("a callback of table %r failed; it stays attached", self.name)
