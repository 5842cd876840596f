"""The thread of a live table: keeps a stream open, and applies its messages."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from barrage_server.client.annotations import user_schema
from barrage_server.client.channel import Channel
from barrage_server.client.content import Content
from barrage_server.client.failures import is_passing, refusal_in
from barrage_server.client.names import FlightAddress
from barrage_server.client.page_source import PageSource
from barrage_server.client.positions import Positions
from barrage_server.client.read_ahead import ReadAhead
from barrage_server.client.server_kind import ServerKind
from barrage_server.client.state import LiveState
from barrage_server.client.status import Status, UserCallbacks
from barrage_server.client.stream import SubscriptionStream
from barrage_server.client.update import Update, together
from barrage_server.client.view import View, tell_left_out, unreadable
from barrage_server.errors import AuthenticationError, BarrageError, InternalError, UnavailableError, UnknownTableError
from barrage_server.flight.retry import RetryPolicy
from barrage_server.process import Ending, end_with_process, is_ending, start_thread, wake_at_end
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Window
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.resume import ResumePoint, lineage_of
from barrage_server.wire.schema import key_columns, table_attributes

__all__ = ["SubscriptionWorker"]

# Seconds after which a callback counts as slow: updates that come while it runs are coalesced.
SLOW_SECONDS = 0.005

logger = logging.getLogger("barrage_server.client")


class SubscriptionWorker:
    """Follows one table on a thread of its own, until it is closed or fails.

    With ``on_update``, all updates are passed to it, and none is kept for iterators.

    Attributes:
        status: the present state; its lock guards all attributes.
        content: the content in view.
        positions: the positions of the iterators over the updates.
        callbacks: called with each update.
    """

    def __init__(
        self,
        channel: Channel,
        address: FlightAddress,
        view: View,
        content: Content,
        *,
        options: SubscriptionOptions,
        dialect: Dialect | None,
        retry: RetryPolicy,
        on_update: Callable[[Update], object] | None = None,
    ) -> None:
        self.name = name = address.name
        self.status = Status(name)
        self.content = content
        self.positions = Positions(collects=on_update is None)
        self._coalesces = on_update is None
        self.view = view
        self.schema: pa.Schema | None = None
        self.callbacks: UserCallbacks[Update] = UserCallbacks(name)
        if on_update is not None:
            self.callbacks.add(on_update)
        self._channel = channel
        self._address = address
        self._ticket = b""  # of the present stream
        self._options = options
        self._dialect = dialect
        self._retry = retry
        self._stream: SubscriptionStream | None = None
        self._reopen = False
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name=f"barrage-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread. It ends with the interpreter at the latest.

        Raises:
            LimitError: this process can start no further thread.
        """
        self._address.use()
        try:
            start_thread(self._thread)
        except BaseException:
            self._address.leave()
            raise
        wake_at_end(self)
        end_with_process(self, Ending.SUBSCRIPTION)

    @property
    def page_source(self) -> PageSource:
        """The whole table, as the source of a page."""
        return PageSource(self._channel, self._address)

    @property
    def is_on_own_thread(self) -> bool:
        """Whether the caller is a callback, which must not wait for its own thread."""
        return threading.current_thread() is self._thread

    @property
    def is_of_this_process(self) -> bool:
        """Whether the thread belongs to this process; False in a forked child."""
        return self._pid == os.getpid()

    def show(self, view: View) -> None:
        """Request another view; ``content.is_settled`` tells when it is in view.

        Raises:
            UnknownColumnError: the table lacks a column of the view; nothing changes.
        """
        with self.status.changed:
            before, schema, old = self.view, self.schema, self.content.wanted
            if schema is None or old is None:
                self.view = view
                return
            window = view.moved(before, old) or view.window(schema, self.name)
            self.view = view
            self.content.wanted = window
            if window.is_full != old.is_full or (window.is_full and window.columns != old.columns):
                self._reopen = True  # a stream cannot change between these, nor the columns of a whole table
                if self._stream is not None:
                    self._stream.cancel()
            elif self._stream is not None and not self._reopen:
                self._send(self._stream, window)
            self.status.changed.notify_all()

    def close(self, timeout: float) -> None:
        """Stop following, and join the thread for at most ``timeout`` seconds."""
        if not self.is_of_this_process:
            self.status.state = LiveState.CLOSED
            return
        with self.status.changed:
            if not self.status.state.is_final:
                self._enter(LiveState.CLOSED)
            stream = self._stream
        if stream is not None:
            stream.cancel()
        if self._thread.is_alive() and not self.is_on_own_thread:
            self._thread.join(timeout)
        self.status.tell()

    @property
    def brings_no_more(self) -> bool:
        """Whether no update can follow, or the main thread has ended."""
        return self.status.state.is_final or is_ending()

    def wake(self) -> None:
        """Wake threads that wait for updates, unless the lock is held for a second."""
        if self.status.changed.acquire(timeout=1.0):
            try:
                self.status.changed.notify_all()
            finally:
                self.status.changed.release()
        self.positions.wake()

    def end_with_process(self, timeout: float) -> None:
        """Stop following, because the interpreter ends."""
        self.close(timeout)

    # On the thread.

    def _run(self) -> None:
        try:
            self._follow()
        except BarrageError as error:
            self._fail(error)
        except Exception as error:  # nothing above this thread would report it
            logger.exception("following table %r failed", self.name)
            self._fail(InternalError(f"Following table '{self.name}' failed: {type(error).__name__}: {error}"))
        finally:
            self._address.leave()
        self.status.tell()

    def _follow(self) -> None:
        lost_at = 0.0
        delays: Iterator[float] = iter(())
        is_first, is_renewed = True, False
        refusal: AuthenticationError | None = None  # of the credentials of a stream, since its last message
        while not self.status.state.is_final:
            seen = self.status.messages
            try:
                self._follow_stream()
            except BarrageError as error:
                with self.status.changed:
                    if self.status.is_over:
                        return
                    is_renewed = is_renewed and self.status.messages == seen
                    refusal = refusal if self.status.messages == seen else None
                    if self._reopen:
                        self._reopen = False
                        continue
                    if self._address.lost() and isinstance(error, UnknownTableError) and not is_renewed:
                        is_renewed = True  # the server has dropped the result of a plan
                        continue
                    if self.status.state is LiveState.CONNECTING and is_first and isinstance(error, UnavailableError):
                        is_first = False  # the server has closed an idle connection
                        continue
                    if refusal is not None and isinstance(error, AuthenticationError):
                        raise refusal from error  # it says why, and the later one that nothing is accepted any more
                    if self.status.state is LiveState.CONNECTING or not self._comes_back(error, seen):
                        raise
                    if refusal is None and self._channel.server_kind is ServerKind.BARRAGE:
                        refusal = refusal_in(error)
                    if self.status.state is LiveState.LIVE:
                        lost_at, delays = time.monotonic(), self._retry.delays()
                        self._enter(LiveState.RECONNECTING)
                self.status.tell()
                self._pause(delays, lost_at, error)

    def _comes_back(self, error: BarrageError, seen: int) -> bool:
        """Whether to reopen a stream that ended with ``error``."""
        # A restarted server may not have all its tables yet.
        status = self.status
        is_back = status.state is LiveState.RECONNECTING and status.messages == seen
        missing = isinstance(error, UnknownTableError) and is_back
        # Credentials that were accepted may be so again: their entry at the server has changed, in roles or expiry.
        refused = isinstance(error, AuthenticationError) and status.messages > seen
        return missing or refused or is_passing(error)

    def _pause(self, delays: Iterator[float], lost_at: float, error: BarrageError) -> None:
        delay = next(delays, None)
        away = time.monotonic() - lost_at
        if delay is None or (self._retry.deadline is not None and away > self._retry.deadline):
            if isinstance(error, AuthenticationError):
                raise error
            raise UnavailableError(
                f"Table '{self.name}' was lost, and could not be reached again within {away:.0f} s: {error}"
            ) from error
        logger.info("table %r: %s; trying again in %.1f s", self.name, error, delay)
        with self.status.changed:
            self.status.changed.wait_for(lambda: self.status.state.is_final or self._reopen, delay)
            self._reopen = False

    def _follow_stream(self) -> None:
        view = self.view
        columns = None
        if view.columns is not None or self._channel.server_kind is ServerKind.DEEPHAVEN:
            # Requests name columns by number. A Deephaven server may have columns of types that cannot be read here.
            schema = self._channel.schema(self._address)
            columns = view.window(schema, self.name).columns
            if view.columns is None:
                tell_left_out(schema, self.name)
                columns = columns if len(columns) < len(schema) else None
        dialect = self._dialect or self._channel.server_kind.dialect
        point = self._resume_point(view, dialect)

        def opened() -> tuple[SubscriptionStream, pa.Schema]:
            self._ticket = self._address.ticket(self._channel.server_kind)  # each session may have another
            return self._open(self._request(columns, view.positions, reverse=view.reverse), dialect, point)

        stream, wire_schema = self._channel.logged_in(opened)
        try:
            reader = MessageReader(wire_schema, left_out=unreadable)
            lineage = "" if point is None else lineage_of(wire_schema)
            self._begin(reader.schema, view, dialect, lineage, is_back=point is not None and bool(point.lineage))
            ahead = ReadAhead(stream.messages(reader), f"barrage-{self.name}-reader", stream.cancel)
            try:
                with self._channel.kept_alive():
                    while True:
                        self._take_turn(ahead)
            finally:
                ahead.close()
        finally:
            with self.status.changed:
                self._stream = None
            stream.close()

    def _take_turn(self, ahead: ReadAhead) -> None:
        """Apply the messages that have come, and make one callback for all of them."""
        updates = [update for message in ahead.turn() if (update := self._take(message)) is not None]
        if not updates or not self.callbacks:
            return
        # A row of a blink table is added in one update and removed in the next: coalesced, it would be lost.
        is_blink = self.content.table.traits.is_blink
        began = time.monotonic()
        for update in updates if is_blink else [together(updates)]:
            self.callbacks.tell(update)
        if self._coalesces and not is_blink and time.monotonic() - began >= SLOW_SECONDS:
            ahead.start()

    def _take(self, message: IncomingMessage) -> Update | None:
        with self.status.changed:
            if self.status.state.is_final or self._reopen:
                raise UnavailableError("The stream is not wanted any more.")
            update = self.content.apply(message)
            self.status.messages += 1
            if update is not None:
                self.positions.offer(update)
            if self.status.state is not LiveState.LIVE and self.content.is_settled:
                self._enter(LiveState.LIVE)
            self.status.changed.notify_all()
        self.positions.wake()
        self.status.tell()
        return update

    def _resume_point(self, view: View, dialect: Dialect) -> ResumePoint | None:
        """Return the point to resume ``view`` from; None if the server cannot resume."""
        if self._channel.server_kind is not ServerKind.BARRAGE:
            return None
        with self.status.changed:
            return self.content.resume_point(view, dialect)

    def _open(
        self, request: SubscriptionRequest, dialect: Dialect, point: ResumePoint | None
    ) -> tuple[SubscriptionStream, pa.Schema]:
        stream = SubscriptionStream(self._channel, request, dialect, point)
        try:
            with self.status.changed:
                self._stream = stream
                if self.status.state.is_final:
                    stream.cancel()
            return stream, stream.schema()
        except BaseException:
            with self.status.changed:
                self._stream = None
            stream.close()
            raise

    def _begin(self, annotated: pa.Schema, view: View, dialect: Dialect, lineage: str, *, is_back: bool) -> None:
        schema = user_schema(annotated)
        with self.status.changed:
            window = view.window(schema, self.name)
            attributes = table_attributes(annotated)
            keys = key_columns(annotated)
            self.content.begin(
                schema, window, dialect, attributes=attributes, key_columns=keys, lineage=lineage, resumes=is_back
            )
            self.schema = schema
            if self.view != view:  # set_viewport was called while the stream was opened
                later, self.view = self.view, view
                self.show(later)
            self.status.changed.notify_all()

    def _request(
        self, columns: tuple[int, ...] | None, positions: RowSet | None, *, reverse: bool
    ) -> SubscriptionRequest:
        return SubscriptionRequest(self._ticket, columns, positions, self._options, reverse and positions is not None)

    def _send(self, stream: SubscriptionStream, window: Window) -> None:
        try:
            stream.send(self._request(window.columns, window.positions, reverse=window.reverse))
        except BarrageError as error:
            # The stream is ending; its reader finds out why, and the next stream begins with this view.
            logger.debug("table %r: a request was not sent: %s", self.name, error)

    def _enter(self, state: LiveState) -> None:
        self.status.enter(state)
        if state.is_final:
            self.positions.wake()

    def _fail(self, error: BarrageError) -> None:
        if self.status.fail(error):
            self.positions.wake()
