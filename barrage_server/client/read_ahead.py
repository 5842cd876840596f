"""Reading a stream ahead of slow callbacks, which then get messages together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from barrage_server.errors import LimitError
from barrage_server.process import start_thread
from barrage_server.wire.reader import IncomingMessage

__all__ = ["ReadAhead"]

MOST_BYTES: Final = 64 << 20
MESSAGE_BYTES: Final = 4096
"""Bytes that a message weighs beside its values."""
_JOIN_SECONDS: Final = 5.0


class ReadAhead:
    """The messages of a stream, in turns.

    A turn is the next message or, after :meth:`start`, all messages that have come. Without reading ahead, a slow
    client gets thousands of small messages one by one out of gRPC's buffers. At most ``MOST_BYTES`` are read ahead;
    then the server notices that the client is behind, and sends fewer messages.

    Args:
        messages: the messages of the stream, which ends by raising.
        name: the name of the thread.
        cancel: makes ``messages`` raise.

    """

    def __init__(self, messages: Iterator[IncomingMessage], name: str, cancel: Callable[[], None]) -> None:
        self._messages = messages
        self._name = name
        self._cancel = cancel
        self._changed = threading.Condition()
        self._queue: deque[IncomingMessage] = deque()
        self._size = 0
        self._error: BaseException | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Read ahead on a thread from now on, if the process can start one."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                start_thread(thread)
            except LimitError:
                return
            self._thread = thread

    def turn(self) -> list[IncomingMessage]:
        """Wait for a message, and return it with all that have followed.

        Raises the error that ends the stream, after its last message.
        """
        if self._thread is None:
            return [next(self._messages)]
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or self._error is not None)
            if not self._queue:
                assert self._error is not None
                raise self._error
            found = list(self._queue)
            self._queue.clear()
            self._size = 0
            self._changed.notify_all()
        return found

    def close(self) -> None:
        """Cancel the stream, and wait for the thread to leave it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._cancel()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            for message in self._messages:
                size = _weight(message)
                with self._changed:
                    self._changed.wait_for(lambda: self._size < MOST_BYTES or self._closed)
                    if self._closed:
                        return
                    self._queue.append(message)
                    self._size += size
                    self._changed.notify_all()
        except BaseException as error:  # turn() raises it
            with self._changed:
                self._error = error
                self._changed.notify_all()


def _weight(message: IncomingMessage) -> int:
    columns = (*message.add_columns, *message.mod_columns)
    return MESSAGE_BYTES + sum(int(column.get_total_buffer_size()) for column in columns)
