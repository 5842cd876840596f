"""Publication of a ticking table: its changes are updates of a server's table."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from typing import Final, Self

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.arguments import seconds
from barrage_server.client.channel import Channel
from barrage_server.client.failures import translated
from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.errors import AuthenticationError, BarrageError, DeadlineError, InternalError, UnavailableError
from barrage_server.process import Ending, end_with_process, start_thread
from barrage_server.public import public
from barrage_server.subscription import Dialect, Subscription, SubscriptionLimits, TableFeed
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import PublicationRequest, SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.protocol import FLUSH, PublicationResult
from barrage_server.wire.tickets import path_of_name, scope_ticket

__all__ = ["Publication"]

logger = logging.getLogger("barrage_server.client")

# Seconds that close() waits for the server's confirmation, after the time for sending.
_FINISH_SECONDS: Final = 5.0
# Seconds for the question whether the server has cut the connection because of the credentials.
_CHECK_SECONDS: Final = 2.0


@public
class Publication:
    """Keeps a table on the server equal to a local table.

    Made by :meth:`Client.publish_live`. It runs on a thread of its own. Changes that come faster than they can be sent,
    or than ``interval_ms``, are coalesced, so a slow connection costs staleness and not memory. The table is on the
    server when the constructor returns. Use it as a context manager, or :meth:`close` it; the table stays on the server
    with its last content.
    """

    def __init__(self, channel: Channel, name: str, table: Table, *, interval_ms: int, timeout: float) -> None:
        self.name = name
        self.table = table
        self._channel = channel
        self._timeout = timeout
        self._changed = threading.Condition()
        self._closing = False
        self._ended = False
        self._answered = False
        self._confirmed = False
        self._error: BarrageError | None = None
        self._damage: BarrageError | None = None
        self._sent_step = -1
        self._messages = 0
        # Flushes: the step that flush() waits for, the last step whose confirmation was requested, the last confirmed
        # step, and the pending confirmations as (messages sent before, step).
        self._wanted_step = -1
        self._asked_step = -1
        self._applied_step = -1
        self._asked: deque[tuple[int, int]] = deque()
        self._pid = os.getpid()
        # The first content is one message: readers on the server see all of it or nothing.
        limits = SubscriptionLimits(
            default_interval_ms=max(1, interval_ms), min_interval_ms=1, snapshot_part_cells=1 << 62
        )
        options = SubscriptionOptions(columns_as_list=True)
        self._subscription = Subscription(
            TableFeed(table, limits),
            SubscriptionRequest(scope_ticket(name), options=options),
            dialect=Dialect.KEY_SPACE,
            lengths=LengthMode.PADDED,
        )
        with translated(channel.address):
            descriptor = flight.FlightDescriptor.for_path(*path_of_name(name))
            self._writer, self._answers = channel.client().do_put(
                descriptor, self._subscription.wire_schema, channel.options()
            )
            self._writer.write_metadata(PublicationRequest(scope_ticket(name)).encode())
        self._forget = table.add_listener(self._on_change)
        self._sender = threading.Thread(target=self._run, name=f"barrage-publish-{name}", daemon=True)
        self._listener = threading.Thread(target=self._listen, name=f"barrage-publish-{name}-answers", daemon=True)
        try:
            start_thread(self._listener)  # first: a sender that the server refuses at once waits for it
            start_thread(self._sender)
        except BaseException:
            self._abandon()
            raise
        end_with_process(self, Ending.PUBLICATION)
        self._wait_for_table()

    @property
    def error(self) -> BarrageError | None:
        """Why it has ended; None while it runs, and after a normal end."""
        return self._error

    @property
    def is_open(self) -> bool:
        """Whether changes are still being sent."""
        return not self._ended

    @property
    def messages(self) -> int:
        """Updates sent so far."""
        return self._messages

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the server's table has the present content of the local one.

        Sends at once, and not after ``interval_ms``.

        Args:
            timeout: seconds; the client's timeout when None.

        Raises:
            DeadlineError: it took longer.
            BarrageError: the publication has ended.
        """
        step = self.table.version.step
        limit = self._timeout if timeout is None else seconds(timeout, "timeout")
        with self._changed:
            self._wanted_step = max(self._wanted_step, step)
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: self._applied_step >= step or self._ended, limit)
            if self._error is not None:
                raise self._error
            if not done:
                raise DeadlineError(f"The server did not apply the content of '{self.name}' in {limit:g} s.")
            if self._applied_step < step:
                raise UnavailableError(f"The publication of '{self.name}' is closed.")

    def close(self) -> None:
        """Send the outstanding changes, and end. May be called repeatedly.

        Raises:
            DeadlineError: it did not end within the client's timeout.
            BarrageError: the error of the server, unless it was raised before.
        """
        if self._pid != os.getpid():
            return
        with self._changed:
            raised = self._ended and self._closing
            self._closing = True
            self._changed.notify_all()
        if threading.current_thread() is not self._sender:
            self._sender.join(self._timeout)
            if self._sender.is_alive():
                raise DeadlineError(f"The publication of '{self.name}' did not end in {self._timeout:g} s.")
        if self._error is not None and not raised:
            raise self._error

    def end_with_process(self, timeout: float) -> None:
        """Send the outstanding changes, and end, because the interpreter ends."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._sender.join(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            self.close()
        except BarrageError:
            if error is None:
                raise
            logger.warning("publication of %r ended with %s", self.name, self._error)

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed" if self._error is None else "failed"
        return f"<Publication {self.name!r} {state} messages={self._messages}>"

    def _wait_for_table(self) -> None:
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._confirmed or self._ended, self._timeout)
                if self._confirmed:
                    return
            self.close()
            raise DeadlineError(f"The server did not take '{self.name}' in {self._timeout:g} s.")
        except BaseException:
            with self._changed:
                self._closing = True
                self._changed.notify_all()
            raise

    def _abandon(self) -> None:
        """Undo the constructor when the threads cannot be started."""
        self._forget()
        self._subscription.close()
        try:
            with translated(self._channel.address):
                self._writer.done_writing()
                if self._listener.is_alive():
                    self._listener.join(_FINISH_SECONDS)
                self._writer.close()
        except BarrageError as error:
            logger.debug("publication of %r: %s", self.name, error)

    def _on_change(self, _update: TableUpdate, _before: TableVersion, _after: TableVersion) -> None:
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        error: BarrageError | None = None
        try:
            with self._channel.kept_alive():
                self._send()
        except BarrageError as reason:
            error = reason
        except Exception as reason:  # nothing above this thread would report it
            logger.exception("publishing %r failed", self.name)
            error = InternalError(f"Publishing '{self.name}' failed: {type(reason).__name__}: {reason}")
        finally:
            self._forget()
            self._subscription.close()
        try:
            self._finish()
        except BarrageError as reason:
            error = error or reason
        if isinstance(error, UnavailableError):
            error = self._refusal_after(error) or error
        with self._changed:
            self._error = error
            self._ended = True
            self._changed.notify_all()

    def _refusal_after(self, error: UnavailableError) -> AuthenticationError | None:
        """The error if the server has cut the connection because of the credentials."""
        try:
            self._channel.check_credentials(_CHECK_SECONDS)
        except AuthenticationError as refusal:
            found = AuthenticationError(
                f"The server has cut off the publication of '{self.name}', because it accepts its credentials no more: "
                f"{refusal}"
            )
            found.__cause__ = error
            return found
        except BarrageError as reason:
            logger.debug("publication of %r: the credentials could not be checked: %s", self.name, reason)
        return None

    def _send(self) -> None:
        while True:
            with self._changed:
                closing = self._closing
                at_once = closing or self._sent_step < self._wanted_step
            poll = self._subscription.poll(time.monotonic(), at_once=at_once)
            for message in poll.messages:
                with translated(self._channel.address):
                    for batch, metadata in message.batches():
                        if metadata is None:
                            self._writer.write_batch(batch)
                        else:
                            self._writer.write_with_metadata(batch, metadata)
                self._messages += 1
            self._sent_step = self._subscription.statistics().sent_step
            self._ask()
            with self._changed:
                if self._damage is not None:
                    raise self._damage
                is_behind = self._sent_step < self.table.version.step
                if self._answered or (closing and not is_behind):
                    return
                if poll.messages or self._closing or self._asked_step < self._wanted_step:
                    continue
                if poll.wake_at is not None:
                    self._changed.wait(max(0.0, poll.wake_at - time.monotonic()))
                elif not is_behind:  # behind: a change since the poll has notified before this wait
                    self._changed.wait()

    def _ask(self) -> None:
        """Request the confirmation of the sent updates, if a flush waits for it."""
        with self._changed:
            if not self._asked_step < self._wanted_step <= self._sent_step:
                return
            self._asked_step = self._sent_step
            self._asked.append((self._messages, self._sent_step))
        with translated(self._channel.address):
            self._writer.write_metadata(FLUSH)

    def _finish(self) -> None:
        """Half-close, and wait for the server's end of the call."""
        try:
            with translated(self._channel.address):
                self._writer.done_writing()
        finally:
            self._listener.join(_FINISH_SECONDS)
        if self._listener.is_alive():
            raise DeadlineError(f"The server did not confirm the end of '{self.name}' in {_FINISH_SECONDS:g} s.")
        with translated(self._channel.address):
            self._writer.close()

    def _listen(self) -> None:
        """Read the server's answers until it ends the call."""
        try:
            while (answer := self._answers.read()) is not None:
                self._hear(answer.to_pybytes())
        except BarrageError as error:
            self._damage = error
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            logger.debug("publication of %r: %s", self.name, error)  # closing the writer raises the same
        with self._changed:
            self._answered = True
            self._changed.notify_all()

    def _hear(self, answer: bytes) -> None:
        updates = PublicationResult.from_json(answer).updates
        with self._changed:
            self._confirmed = True  # the first answer confirms the table
            while self._asked and self._asked[0][0] <= updates:
                self._applied_step = self._asked.popleft()[1]
            if updates >= self._messages:  # the last answer comes unasked
                self._applied_step = self._sent_step
            self._changed.notify_all()
