"""A stream of rows from a publisher, at any endpoint.

An endpoint provides an :class:`UploadSource`; :mod:`barrage_server.server.put` applies the rows.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import pyarrow as pa

from barrage_server.errors import BarrageError, DeadlineError, LimitError, UnavailableError, WireFormatError
from barrage_server.publish.delta import CheckNew
from barrage_server.server.access import Right
from barrage_server.server.checks import checked
from barrage_server.server.open_stream import OpenStream
from barrage_server.server.principal import Principal
from barrage_server.server.private_tables import Need
from barrage_server.server.server_state import ServerState
from barrage_server.server.stall import Awaited, StallWatch
from barrage_server.wire.intake import Intake
from barrage_server.wire.raw import Descriptor

__all__ = ["Message", "RawMessage", "UploadSource", "UploadStream"]

logger = logging.getLogger("barrage_server.server")

RawMessage = tuple[pa.RecordBatch | None, memoryview | None]
"""A batch and app_metadata as the endpoint has read them, both unchecked."""
Message = tuple[pa.RecordBatch | None, bytes | None]
"""A batch with unchecked cells, and app_metadata of bounded length, not empty."""


class UploadSource(Protocol):
    """The source of the rows of one ``DoPut``.

    Its methods are called on one thread, and may block.
    """

    @property
    def peer(self) -> str:
        """The publisher's address, as ``127.0.0.1:50000``."""

    @property
    def principal(self) -> Principal:
        """The caller."""

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor of the call."""

    def schema(self) -> pa.Schema:
        """The schema with which the stream begins, checked.

        Raises:
            WireFormatError: there is none, or it is damaged.

        """

    def messages(self) -> Iterator[RawMessage]:
        """The messages until the publisher half-closes or disconnects.

        Raises:
            WireFormatError: a message is damaged.

        """

    def is_cancelled(self) -> bool:
        """Whether the publisher has disconnected or was cut off before it finished."""

    def reply(self, app_metadata: bytes) -> None:
        """Send a result; UnavailableError when the publisher has disconnected."""

    def cut(self, error: BarrageError) -> bool:
        """End the call with that error; return whether the endpoint can do that.

        May be called on any thread.
        """


class UploadStream(OpenStream):
    """An open stream of rows.

    The call of a publisher that dies is cancelled, and its rows are dropped; a publisher that finishes half-closes.

    Args:
        server_state: the server's state.
        source: the source of the rows.

    """

    kind = "upload"

    def __init__(self, server_state: ServerState, source: UploadSource) -> None:
        super().__init__(server_state, source.principal, source.peer, StallWatch(server_state.clock))
        self.source = source
        self._idle_seconds = server_state.limits.idle_upload_seconds
        self._ending: BarrageError | None = None
        self._target: str | None = None

    def aims_at(self, table: str) -> None:
        """Set the table that gets the rows.

        Raises:
            UnknownTableError: the publisher has no right on a table of that name.
            ForbiddenError: the publisher lacks the right to publish, or to make the table when there is none.

        """
        self.server_state.access.check_publish(self.principal, table)
        self._target = table

    def making(self) -> AbstractContextManager[CheckNew]:
        """:meth:`ServerState.making` for the publisher."""
        return self.server_state.making(self.principal)

    def needs(self) -> Sequence[Need]:
        """The right to publish to the table that gets the rows, once it is known."""
        return () if self._target is None else (Need(self._target, Right.PUBLISH),)

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Be one of the server's open streams while the ``with`` body runs.

        Raises:
            LimitError: the server has the most uploads that it allows.
            UnavailableError: the server is shutting down.

        """
        self.server_state.streams.admit(self)
        self.stall.expect(Awaited.SEND, self._idle_seconds)
        try:
            yield
        finally:
            self.server_state.streams.release(self)

    def overdue(self, now: float) -> str | None:
        """The reason to end the connection now; ``None`` without one."""
        return super().overdue(now) if self._ending is None else str(self._ending)

    def end(self, error: BarrageError) -> None:
        """Let the watchdog cut the stream: a reading thread cannot be interrupted."""
        self._ending = error

    def cut(self) -> bool:
        """End the call; return whether the endpoint can do that."""
        late = DeadlineError(
            "Nothing was sent for too long (idle_upload_seconds): the upload ends, and is not applied."
        )
        return self.source.cut(late if self._ending is None else self._ending)

    def let_idle(self) -> None:
        """Allow the publisher to be silent for any time from now on."""
        self._idle_seconds = math.inf
        self.stall.rest()

    def messages(self) -> Iterator[Message]:
        """The messages until the publisher half-closes.

        Raises:
            WireFormatError: a message is damaged.
            LimitError: a message has too much app_metadata.
            BarrageError: the stream was ended meanwhile.

        """
        most = self.server_state.limits.request_bytes
        try:
            for batch, metadata in self.source.messages():
                self.stall.expect(Awaited.SEND, self._idle_seconds)
                if metadata is not None and len(metadata) > most:
                    raise LimitError(f"A message has more than {most:,} bytes of app_metadata (request_bytes).")
                if batch is not None:
                    self.count(1, batch.get_total_buffer_size())  # reads no offsets, which are not checked yet
                yield batch, bytes(metadata) if metadata else None
        except WireFormatError:
            self.check_complete()
            raise

    def check_complete(self) -> None:
        """Raise the error for the publisher if its stream is incomplete."""
        if self._ending is not None:
            raise self._ending
        if self.source.is_cancelled():
            raise UnavailableError("The publisher broke off; nothing of what it sent is applied.")

    def collect(self, schema: pa.Schema, messages: Iterable[Message]) -> list[pa.RecordBatch]:
        """All rows of the stream in plain form, after its proper end.

        Raises:
            WireFormatError: rows are damaged.
            LimitError: the rows have more bytes than one ``DoPut`` may carry.
            BarrageError: the stream was ended, or the publisher disconnected.

        """
        limit = self.server_state.limits.put_bytes
        refusal = f"One DoPut may carry {limit:,} bytes (put_bytes), and this one has more. Send it in parts."
        received = (batch for batch, _ in messages if batch is not None and batch.num_rows)
        batches = [plain for plain, _ in checked(received, Intake(schema, limit, refusal), self.server_state.checks)]
        self.check_complete()
        return batches

    def reply(self, app_metadata: bytes) -> None:
        """Send a result, if the publisher is still there."""
        try:
            self.source.reply(app_metadata)
        except UnavailableError:
            logger.info("%s disconnected before it got the answer to its upload", self.peer)
